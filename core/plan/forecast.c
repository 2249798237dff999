/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/forecast.h"

#include <math.h>

#include "core/plan/block_cost.h"
#include "core/plan/footprint.h"
#include "core/plan/links.h"

const char *cadre_plan_cause_name(enum cadre_plan_cause cause)
{
    static const char *const names[] = {
        [CADRE_PLAN_COMPUTE] = "compute",   [CADRE_PLAN_AGAIN] = "recompute",
        [CADRE_PLAN_TENSOR] = "tensor",     [CADRE_PLAN_CONTEXT] = "context",
        [CADRE_PLAN_PIPELINE] = "pipeline", [CADRE_PLAN_DATA] = "data",
        [CADRE_PLAN_BUBBLE] = "bubble",     [CADRE_PLAN_OPTIMIZER] = "optimizer",
        [CADRE_PLAN_STRAGGLE] = "straggle",
    };
    return names[cause];
}

enum cadre_plan_cause cadre_forecast_limit(const struct cadre_forecast *forecast)
{
    int most = 0;
    for (int i = 1; i < CADRE_PLAN_CAUSES; i++)
        if (forecast->cause[i] > forecast->cause[most])
            most = i;
    return (enum cadre_plan_cause)most;
}

struct plan {
    const struct cadre_transformer *t;
    const struct cadre_candidate *c;
    const struct cadre_hardware *hw;
    double tokens; /* of a micro-batch, on a rank */
    double micro; /* micro-batches of a data rank */
    double layers; /* of the largest stage */
    struct cadre_block_cost block, head;
    double parameters; /* of a rank, before data parallelism */
    double trained; /* of them, and of adapters */
};

/* Bytes of a value that ranks send each other: a parameter, a part of an activation or
 * of its gradient. fp8 is a type of operands alone. */
static double sent_bytes(const struct plan *p)
{
    return p->c->dtype == CADRE_PLAN_FP64 ? 8 : p->c->dtype == CADRE_PLAN_FP32 ? 4 : 2;
}

/* Gradients that are summed: in fp32 and fp64 the type's own. */
static double gradient_bytes(const struct plan *p)
{
    return fmax(p->hw->software.gradient_bytes, sent_bytes(p));
}

static bool again(const struct plan *p)
{
    return p->c->recompute == CADRE_PLAN_RECOMPUTE_FULL;
}

/* Of one block and micro-batch: two sums forward, two backward, two more where all is
 * computed again. Sequence parallel: each is a gather and a scatter of the same bytes,
 * and backward gathers the inputs of two weights' gradients once more. */
static double tensor_block(const struct plan *p)
{
    const struct cadre_plan_group group = {p->c->tensor, 1};
    const double bytes = sent_bytes(p) * p->tokens * (double)p->t->channels;
    const double sums = again(p) ? 6 : 4;
    const double more =
        p->c->sequence_parallel ? 2 * cadre_links_gather(p->hw, group, bytes) : 0;
    return (sums * cadre_links_reduce(p->hw, group, bytes) + more) *
           (1 - p->hw->software.overlap_tensor);
}

/* Keys and values travel around the context ranks while scores are computed; backward
 * twice, with their gradients. What takes longer than the scores is exposed. */
static double context_block(const struct plan *p)
{
    const struct cadre_plan_group group = {p->c->context, p->c->tensor};
    const double bytes = 2 * sent_bytes(p) * p->tokens * cadre_transformer_kv(p->t) /
                         (double)p->c->tensor * (double)p->c->context;
    const double once = cadre_links_gather(p->hw, group, bytes);
    const double hidden = p->block.core_forward;
    return fmax(0, once - hidden) + fmax(0, 2 * once - 2 * hidden);
}

/* From one chunk to the next: tensor ranks send a part each and gather it inside their
 * node. */
static double message(const struct plan *p)
{
    if (p->c->pipeline == 1)
        return 0;
    const double bytes = sent_bytes(p) * p->tokens * (double)p->t->channels;
    const int64_t stride = p->c->tensor * p->c->context * p->c->data;
    const struct cadre_plan_group group = {p->c->tensor, 1};
    const double send = cadre_links_send(p->hw, stride, bytes / (double)p->c->tensor);
    const double gather =
        p->c->sequence_parallel ? 0 : cadre_links_gather(p->hw, group, bytes);
    return (send + gather) * (1 - p->hw->software.overlap_pipeline);
}

/* Seconds of a stage of `layers` blocks for one micro-batch: computing, computing
 * again, tensor, context. */
static void add_stage(const struct plan *p, double layers, bool head, double out[4])
{
    const struct cadre_block_cost *b = &p->block;
    out[0] = layers * (b->forward + b->backward) +
             (head ? p->head.forward + p->head.backward : 0);
    out[1] =
        layers * (again(p) ? b->forward * (cadre_candidate_splits(p->c) ? 2 : 1)
                  : p->c->recompute == CADRE_PLAN_RECOMPUTE_SELECTIVE ? b->core_forward
                                                                      : 0);
    out[2] = layers * tensor_block(p);
    out[3] = layers * context_block(p);
}

static double sum4(const double v[4])
{
    return v[0] + v[1] + v[2] + v[3];
}

/* Seconds that a rank idles, of a stage that takes out[] for a micro-batch: what
 * plugins/pipeline/README.md says of each schedule, with F its forward, W the part of
 * backward that is gradients of weights, I the rest. */
static double bubble_seconds(const struct plan *p, const double inner[4], double send)
{
    const double stages = (double)p->c->pipeline, v = (double)p->c->chunks;
    const double all = sum4(inner) + send;
    const double weight = p->layers * p->block.weight;
    const double forward = p->layers * p->block.forward + (inner[2] + inner[3]) / 3;
    if (p->c->schedule == CADRE_PLAN_ZB_H1)
        return (stages - 1) * fmax(0, all - 2 * weight);
    if (cadre_candidate_turns_back(p->c))
        return (stages - 1) * (forward + send / 2) / v;
    return (stages - 1) / v * all;
}

/* Micro-batches that are on their way at a time. */
static double in_flight(const struct plan *p)
{
    const double stages = (double)p->c->pipeline, v = (double)p->c->chunks;
    switch (cadre_candidate_schedule(p->c)) {
    case CADRE_PLAN_GPIPE:
    case CADRE_PLAN_BREADTH_FIRST:
        return p->micro;
    case CADRE_PLAN_INTERLEAVED:
        return fmin(p->micro, (2 * (stages - 1) + (v - 1) * stages + 1) / v);
    default:
        return fmin(p->micro, stages);
    }
}

/* Messages that travel while a stage computes: first and last micro-batch cross all
 * stages; one that goes round all chunks and back takes computing and messages, and so
 * many as are in flight share that; and what a link carries for one of them. Gradients
 * of weights are not on the way round but where backward is one, and with zb-h1 once.
 */
static double messages_beside(const struct plan *p, double all, double each)
{
    const double stages = (double)p->c->pipeline, v = (double)p->c->chunks;
    const bool turns = cadre_candidate_turns_back(p->c);
    const double weight =
        cadre_candidate_splits(p->c) ? p->layers * p->block.weight : 0;
    const double hops = 2 * (v * stages - 1) - (turns ? 2 * (v - 1) : 0);
    const double round = stages * (all - weight) + (turns ? 0 : weight) + hops * each;
    const double slowest = fmax(round / in_flight(p), v * each);
    return 2 * (stages - 1) * each + p->micro * fmax(0, slowest - all);
}

/* Where first and last stage both have a tied embedding: its gradient one way, its
 * values back, once a step. What other programs do is not known. */
static double tied_seconds(const struct plan *p)
{
    if (p->c->pipeline == 1 || !p->t->tied || p->t->n_adapters > 0 ||
        cadre_candidate_turns_back(p->c) || p->hw->accounting != CADRE_ACCOUNTING_CADRE)
        return 0;
    const double n = cadre_transformer_head_weights(p->t) / (double)p->c->tensor;
    const int64_t stride =
        p->c->tensor * p->c->context * p->c->data * (p->c->pipeline - 1);
    return cadre_links_send(p->hw, stride, n * gradient_bytes(p)) +
           cadre_links_send(p->hw, stride, n * sent_bytes(p));
}

/* Each micro-batch enters and leaves each chunk forward and backward. */
static double messages_seconds(const struct plan *p, double all, double each)
{
    if (p->c->pipeline == 1)
        return 0;
    return p->hw->software.pipeline_beside ? messages_beside(p, all, each)
                                           : p->micro * 2 * (double)p->c->chunks * each;
}

/* The sum over groups that hold the same shards (hsdp), after that inside a group. */
static double replicas_seconds(const struct plan *p)
{
    const struct cadre_candidate *c = p->c;
    const int64_t shards = cadre_candidate_shards(c);
    const struct cadre_plan_group group = {c->replicas, c->tensor * shards};
    if (c->replicas <= 1)
        return 0;
    return cadre_links_reduce(p->hw, group,
                              gradient_bytes(p) * p->trained / (double)shards);
}

/* The gradients' sum over data and context ranks, and with ZeRO the parameters' return;
 * all but the first and last micro-batch can hide the part that the software overlaps.
 */
static double data_seconds(const struct plan *p, double micro_seconds)
{
    const struct cadre_candidate *c = p->c;
    const struct cadre_plan_group group = {cadre_candidate_shards(c), c->tensor};
    const double width = gradient_bytes(p);
    double seconds;
    if (c->zero == 0)
        seconds = cadre_links_reduce(p->hw, group, width * p->trained);
    else
        seconds =
            cadre_links_gather(p->hw, group, (width + sent_bytes(p)) * p->trained);
    seconds += replicas_seconds(p);
    const double hidden = fmin(seconds * p->hw->software.overlap_data, micro_seconds);
    return seconds - hidden;
}

/* How many operations those are: one for each block, the embedding and the head. */
static double gathers_of(const struct plan *p, bool once)
{
    const double units = p->layers + 2;
    return units * (2 * p->micro + (once ? 1 : p->micro));
}

/* ZeRO-3: parameters are gathered for forward and for backward of each micro-batch, and
 * gradients scattered, by Cadre (zero.reduce = step) once a step, by others as often;
 * beside computing. */
static double gathers_seconds(const struct plan *p, double compute)
{
    const struct cadre_plan_group group = {cadre_candidate_shards(p->c), p->c->tensor};
    const double width = gradient_bytes(p);
    const bool once = p->hw->accounting == CADRE_ACCOUNTING_CADRE;
    const double adapters = p->t->n_adapters > 0 ? p->trained : 0;
    const double bytes = p->micro * 2 * sent_bytes(p) * (p->parameters + adapters) +
                         (once ? 1 : p->micro) * width * p->trained;
    double seconds = cadre_links_gather(p->hw, group, bytes);
    if (p->hw->software.gather_gb_s > 0)
        seconds = fmax(seconds, bytes / (p->hw->software.gather_gb_s * 1e9));
    else /* gather_gb_s has them */
        seconds += (gathers_of(p, once) - 1) * cadre_links_turns(p->hw, group);
    seconds += replicas_seconds(p);
    return fmax(0, seconds - p->hw->software.overlap_gather * compute);
}

/* Master values and two moments read and written, the gradient read, the parameter
 * written. */
static double optimizer_seconds(const struct plan *p)
{
    const double n = p->c->zero ? (double)cadre_candidate_shards(p->c) : 1;
    const double given = p->hw->device.update_gb_s;
    const double memory = p->hw->device.memory_gb_s * p->hw->device.memory_efficiency;
    return p->trained / n * 30 / ((given > 0 ? given : memory) * 1e9);
}

static double nodes_doublings(const struct plan *p)
{
    const double nodes =
        (double)cadre_candidate_ranks(p->c) / (double)p->hw->node_devices;
    return nodes > 1 ? log2(nodes) : 0;
}

static void prepare(struct plan *p)
{
    const struct cadre_transformer *t = p->t;
    p->tokens = (double)(p->c->micro_batch * t->context) / (double)p->c->context;
    p->micro = (double)cadre_candidate_micro_batches(p->c);
    p->layers = (double)cadre_candidate_stage_layers(p->c, t);
    p->block = cadre_block_cost(t, p->c, p->hw);
    p->head = cadre_head_cost(t, p->c, p->hw);
    p->parameters =
        (p->layers * cadre_transformer_block_weights(t) +
         cadre_transformer_head_weights(t) *
             ((p->c->pipeline == 1 || cadre_candidate_turns_back(p->c)) && !t->tied
                  ? 2
                  : 1)) /
        (double)p->c->tensor;
    p->trained = t->n_adapters > 0
                     ? p->layers * cadre_transformer_adapters(t, p->c->tensor)
                     : p->parameters;
}

/* The slowest stage sets the pace: the last one, which has the head besides and of
 * uneven ones the fewer blocks, or one before it. */
struct cadre_forecast cadre_forecast(const struct cadre_transformer *t,
                                     const struct cadre_candidate *c,
                                     const struct cadre_hardware *hw)
{
    struct cadre_hardware alone;
    struct plan p = {.t = t, .c = c, .hw = hw};
    struct cadre_forecast f = {0};
    if (cadre_candidate_ranks(c) == 1) {
        alone = cadre_hardware_alone(hw);
        p.hw = &alone;
    }
    double inner[4], last[4];
    prepare(&p);
    const double stages = (double)c->pipeline;
    add_stage(&p, p.layers, false, inner);
    add_stage(&p, floor((double)t->layers / stages), true, last);
    const double *slow = sum4(last) > sum4(inner) || c->pipeline == 1 ? last : inner;
    const double each = message(&p);
    const double send =
        p.hw->software.pipeline_beside ? 0 : 2 * (double)c->chunks * each;
    f.cause[CADRE_PLAN_COMPUTE] = p.micro * slow[0];
    f.cause[CADRE_PLAN_AGAIN] = p.micro * slow[1];
    f.cause[CADRE_PLAN_TENSOR] = p.micro * slow[2];
    f.cause[CADRE_PLAN_CONTEXT] = p.micro * slow[3];
    f.cause[CADRE_PLAN_PIPELINE] =
        messages_seconds(&p, sum4(slow), each) + tied_seconds(&p);
    f.cause[CADRE_PLAN_BUBBLE] = bubble_seconds(&p, inner, send);
    f.cause[CADRE_PLAN_DATA] = c->zero >= 3 ? gathers_seconds(&p, p.micro * sum4(slow))
                                            : data_seconds(&p, sum4(slow));
    f.cause[CADRE_PLAN_OPTIMIZER] = optimizer_seconds(&p);
    for (int i = 0; i < CADRE_PLAN_STRAGGLE; i++)
        f.step += f.cause[i];
    f.cause[CADRE_PLAN_STRAGGLE] =
        f.step * p.hw->software.straggle * nodes_doublings(&p);
    f.step += f.cause[CADRE_PLAN_STRAGGLE];
    return f;
}
