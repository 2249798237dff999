/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/candidate.h"

#include <stdio.h>

const char *cadre_plan_recompute_name(enum cadre_plan_recompute recompute)
{
    static const char *const names[] = {"none", "selective", "full"};
    return names[recompute];
}

const char *cadre_plan_schedule_name(enum cadre_plan_schedule schedule)
{
    static const char *const names[] = {
        "1f1b", "interleaved", "gpipe", "zb-h1", "breadth-first", "zb-v", "dualpipev"};
    return names[schedule];
}

int64_t cadre_candidate_shards(const struct cadre_candidate *c)
{
    return c->data / (c->replicas > 1 ? c->replicas : 1) * c->context;
}

enum cadre_plan_schedule cadre_candidate_schedule(const struct cadre_candidate *c)
{
    return c->schedule == CADRE_PLAN_1F1B && c->chunks > 1 ? CADRE_PLAN_INTERLEAVED
                                                           : c->schedule;
}

bool cadre_candidate_splits(const struct cadre_candidate *c)
{
    return c->schedule == CADRE_PLAN_ZB_H1 || cadre_candidate_turns_back(c);
}

bool cadre_candidate_turns_back(const struct cadre_candidate *c)
{
    return c->schedule == CADRE_PLAN_ZB_V || c->schedule == CADRE_PLAN_DUALPIPEV;
}

bool cadre_candidate_equal(const struct cadre_candidate *a,
                           const struct cadre_candidate *b)
{
    return a->tensor == b->tensor && a->pipeline == b->pipeline && a->data == b->data &&
           a->context == b->context && a->zero == b->zero && a->chunks == b->chunks &&
           a->schedule == b->schedule && a->replicas == b->replicas &&
           a->micro_batch == b->micro_batch && a->global_batch == b->global_batch &&
           a->recompute == b->recompute && a->dtype == b->dtype &&
           a->sequence_parallel == b->sequence_parallel;
}

int64_t cadre_candidate_ranks(const struct cadre_candidate *c)
{
    return c->tensor * c->pipeline * c->context * c->data;
}

int64_t cadre_candidate_micro_batches(const struct cadre_candidate *c)
{
    return c->global_batch / (c->data * c->micro_batch);
}

int64_t cadre_candidate_stage_layers(const struct cadre_candidate *c,
                                     const struct cadre_transformer *t)
{
    return (t->layers + c->pipeline - 1) / c->pipeline;
}

static cadre_status refuse(struct cadre_error *err, const char *what, int64_t a,
                           const char *why, int64_t b)
{
    return cadre_fail(err, CADRE_E_INVALID, "%s %lld %s %lld", what, (long long)a, why,
                      (long long)b);
}

/* Chunks of a stage, and micro-batches that keep them busy. Megatron wants whole groups
 * of an interleaved pipeline's micro-batches; Cadre's own takes any, and the formula of
 * its bubble holds where there are as many as stages. */
static cadre_status check_chunks(const struct cadre_candidate *c,
                                 const struct cadre_transformer *t,
                                 const struct cadre_hardware *hw,
                                 struct cadre_error *err)
{
    const int64_t micro = cadre_candidate_micro_batches(c);
    const enum cadre_plan_schedule schedule = cadre_candidate_schedule(c);
    if (c->chunks > 1 && c->pipeline == 1)
        return refuse(err, "chunks", c->chunks, "need a pipeline, it is", c->pipeline);
    if (c->chunks > cadre_candidate_stage_layers(c, t))
        return refuse(err, "chunks", c->chunks, "are more than layers of a stage,",
                      cadre_candidate_stage_layers(c, t));
    if (schedule == CADRE_PLAN_INTERLEAVED &&
        hw->accounting != CADRE_ACCOUNTING_CADRE && micro % c->pipeline != 0)
        return refuse(err, "interleaved: pipeline", c->pipeline,
                      "does not divide micro-batches", micro);
    if (c->pipeline == 1)
        return CADRE_OK;
    if (schedule == CADRE_PLAN_DUALPIPEV && micro < 2 * c->pipeline)
        return refuse(err, "dualpipev: two for each of stages", c->pipeline,
                      "are more than micro-batches", micro);
    if (schedule != CADRE_PLAN_1F1B && schedule != CADRE_PLAN_GPIPE &&
        micro < c->pipeline)
        return refuse(err, "stages", c->pipeline, "are more than micro-batches", micro);
    return CADRE_OK;
}

cadre_status cadre_candidate_check(const struct cadre_candidate *c,
                                   const struct cadre_transformer *t,
                                   const struct cadre_hardware *hw,
                                   struct cadre_error *err)
{
    if (hw->device.peak_tflops[c->dtype] == 0)
        return cadre_fail(err, CADRE_E_UNSUPPORTED, "%s has no peak for %s", hw->name,
                          cadre_plan_dtype_name(c->dtype));
    if (t->heads % c->tensor != 0)
        return refuse(err, "tensor", c->tensor, "does not divide heads", t->heads);
    if (t->kv_heads % c->tensor != 0)
        return refuse(err, "tensor", c->tensor, "does not divide KV heads",
                      t->kv_heads);
    if (t->hidden % c->tensor != 0)
        return refuse(err, "tensor", c->tensor, "does not divide MLP width", t->hidden);
    if (t->experts > 0 && c->tensor > 1)
        return refuse(err, "tensor", c->tensor, "does not divide experts, there are",
                      t->experts);
    if (c->pipeline > t->layers)
        return refuse(err, "pipeline", c->pipeline, "is more than layers", t->layers);
    if (t->context % c->context != 0)
        return refuse(err, "context ranks", c->context, "do not divide", t->context);
    if (c->global_batch % (c->data * c->micro_batch) != 0)
        return refuse(err, "data ranks x micro-batch", c->data * c->micro_batch,
                      "do not divide global batch", c->global_batch);
    return check_chunks(c, t, hw, err);
}

void cadre_candidate_stack(const struct cadre_candidate *c, char *out, size_t bytes)
{
    size_t used = 0;
    const int64_t replicas = c->replicas > 1 ? c->replicas : 1;
    const struct {
        const char *name;
        int64_t ranks;
    } axes[] = {
        {"pipeline", c->pipeline},
        {"hsdp", replicas},
        {c->zero ? "zero" : "ddp", c->data / replicas},
        {"context", c->context},
        {"tensor", c->tensor},
    };
    snprintf(out, bytes, "single");
    for (size_t i = 0; i < sizeof axes / sizeof axes[0]; i++)
        if (axes[i].ranks > 1 && used < bytes)
            used += (size_t)snprintf(out + used, bytes - used, "%s%s:%lld",
                                     used ? ", " : "", axes[i].name,
                                     (long long)axes[i].ranks);
}

void cadre_candidate_form(const struct cadre_candidate *c, char *out, size_t bytes)
{
    char stage[24] = "", schedule[48] = "";
    if (c->zero)
        snprintf(stage, sizeof stage, "stage %lld, ", (long long)c->zero);
    if (c->pipeline > 1)
        snprintf(schedule, sizeof schedule, "%s of %lld chunk%s, ",
                 cadre_plan_schedule_name(cadre_candidate_schedule(c)),
                 (long long)c->chunks, c->chunks > 1 ? "s" : "");
    snprintf(out, bytes, "%smicro-batch %lld, %srecompute %s, %s", stage,
             (long long)c->micro_batch, schedule,
             cadre_plan_recompute_name(c->recompute), cadre_plan_dtype_name(c->dtype));
}
