/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/footprint.h"

#include <math.h>

void cadre_accounting_bytes(enum cadre_accounting accounting,
                            enum cadre_plan_dtype dtype, double out[3])
{
    const bool full = dtype == CADRE_PLAN_FP32;
    out[0] = full ? 4 : 2;
    out[1] = full || accounting != CADRE_ACCOUNTING_ZERO2019 ? 4 : 2;
    out[2] = full ? 8 : 12;
    if (dtype == CADRE_PLAN_FP64)
        out[0] = out[1] = 8, out[2] = 16;
}

struct cadre_footprint cadre_footprint_states(double parameters, int64_t zero,
                                              int64_t ranks, const double each[3])
{
    const double n = (double)ranks;
    struct cadre_footprint f = {
        .weights = parameters * each[0] / (zero >= 3 ? n : 1),
        .gradients = parameters * each[1] / (zero >= 2 ? n : 1),
        .states = parameters * each[2] / (zero >= 1 ? n : 1),
    };
    f.total = f.weights + f.gradients + f.states;
    return f;
}

/* What a program keeps of activations, beside the model. */
static struct cadre_kept kept_by(const struct cadre_hardware *hw)
{
    return (struct cadre_kept){.scores = !hw->device.attention_fused,
                               .masks = hw->accounting != CADRE_ACCOUNTING_CADRE};
}

/* Of one token and block, with h = channels, t = tensor ranks, a = heads:
 *   repeated on tensor ranks unless sequence parallel: two norms' inputs 4h, the inputs
 *     of QKV and of the MLP 4h: 8h; two dropout masks, where they are kept: 2h;
 *   divided: Q 2h, K and V, the input of the projection 2h, and of the MLP's parts;
 *   scores, unfused and kept: 5 a s;
 *   of experts: rows in their order and what comes back 4h, probabilities, the one that
 *     was taken, its probability and place 4 each. */
double cadre_footprint_block(const struct cadre_transformer *t,
                             const struct cadre_candidate *c, struct cadre_kept keeps)
{
    const double tokens = (double)(c->micro_batch * t->context) / (double)c->context;
    const double h = (double)t->channels, ranks = (double)c->tensor;
    const double repeated =
        (keeps.masks ? 10 : 8) * h / (c->sequence_parallel ? ranks : 1);
    const double mlp = (t->gated ? 6 : 4) * (double)t->hidden;
    const double divided = (4 * h + 4 * cadre_transformer_kv(t) + mlp) / ranks;
    const bool scores = keeps.scores && c->recompute == CADRE_PLAN_RECOMPUTE_NONE;
    const double core = scores ? 5 * (double)t->heads * (double)t->context / ranks : 0;
    if (c->recompute == CADRE_PLAN_RECOMPUTE_FULL)
        return tokens * 2 * h / (c->sequence_parallel ? ranks : 1);
    const double experts = t->experts > 0 ? 4 * h + 4 * (double)t->experts + 12 : 0;
    return tokens * (repeated + divided + core + experts);
}

/* Micro-batches of a whole stage that are kept at most. */
static double kept(const struct cadre_candidate *c)
{
    const double p = (double)c->pipeline, v = (double)c->chunks;
    const double m = (double)cadre_candidate_micro_batches(c);
    switch (cadre_candidate_schedule(c)) {
    case CADRE_PLAN_GPIPE:
    case CADRE_PLAN_BREADTH_FIRST:
        return m;
    case CADRE_PLAN_ZB_V:
        return fmin(p, m);
    case CADRE_PLAN_DUALPIPEV:
        return p + 0.5;
    default:
        return fmin(m, p + (v > 1 ? (p - 1) / v : 0));
    }
}

double cadre_footprint_activations(const struct cadre_transformer *t,
                                   const struct cadre_candidate *c,
                                   struct cadre_kept keeps)
{
    return cadre_footprint_block(t, c, keeps) *
           (kept(c) * (double)cadre_candidate_stage_layers(c, t) +
            (cadre_candidate_splits(c) ? 0.5 : 0));
}

/* Of adapters alone where there are some: the frozen parameters beside them have no
 * gradient and no states. 64 weights in nf4 are 32 bytes of codes and one of scale. */
#define NF4_BYTES (33 / 64.0)
static struct cadre_footprint states_of(const struct cadre_transformer *t,
                                        const struct cadre_candidate *c, double blocks,
                                        double ends, const double each[3])
{
    const int64_t shards = cadre_candidate_shards(c);
    if (t->n_adapters == 0)
        return cadre_footprint_states(blocks + ends, c->zero, shards, each);
    const double trained = (double)cadre_candidate_stage_layers(c, t) *
                           cadre_transformer_adapters(t, c->tensor);
    const double stored = t->nf4 ? NF4_BYTES : each[0];
    const double frozen = blocks * stored + ends * each[0];
    struct cadre_footprint f = cadre_footprint_states(trained, c->zero, shards, each);
    f.weights += frozen / (c->zero >= 3 ? (double)shards : 1);
    if (t->nf4 && c->zero < 3) /* the block that is computed, decoded */
        f.weights += cadre_transformer_block_weights(t) * each[0] / (double)c->tensor;
    return f;
}

/* The head's logits in fp32 and their 16-bit copy; one block's activations where blocks
 * are computed again; the embedding is on the first stage, the head on the last. */
struct cadre_footprint cadre_footprint(const struct cadre_transformer *t,
                                       const struct cadre_candidate *c,
                                       const struct cadre_hardware *hw)
{
    double each[3];
    cadre_accounting_bytes(hw->accounting, c->dtype, each);
    const struct cadre_kept keeps = kept_by(hw);
    const double blocks =
        (double)cadre_candidate_stage_layers(c, t) * cadre_transformer_block_weights(t);
    const double ends =
        cadre_transformer_head_weights(t) *
        ((c->pipeline == 1 || cadre_candidate_turns_back(c)) && !t->tied ? 2 : 1);
    struct cadre_footprint f =
        states_of(t, c, blocks / (double)c->tensor, ends / (double)c->tensor, each);
    const bool kept_whole = hw->accounting == CADRE_ACCOUNTING_CADRE && c->zero >= 2 &&
                            cadre_candidate_micro_batches(c) > 1;
    if (kept_whole) /* zero.reduce = step keeps whole gradients until the last one */
        f.gradients *= (double)cadre_candidate_shards(c);
    f.activations = cadre_footprint_activations(t, c, keeps);
    if (c->recompute == CADRE_PLAN_RECOMPUTE_FULL) {
        struct cadre_candidate kept = *c;
        kept.recompute = CADRE_PLAN_RECOMPUTE_NONE;
        f.activations += cadre_footprint_block(t, &kept, keeps);
    }
    if (c->pipeline == 1)
        f.activations += 6 * (double)(c->micro_batch * t->context) * (double)t->vocab /
                         (double)(c->tensor * c->context);
    if (c->zero >= 3) /* two gathered units: the one at work and the next */
        f.weights +=
            2 * cadre_transformer_block_weights(t) * each[0] / (double)c->tensor;
    f.total = f.weights + f.gradients + f.states + f.activations;
    return f;
}

bool cadre_footprint_fits(const struct cadre_footprint *f,
                          const struct cadre_hardware *hw)
{
    return f->total <= (hw->device.memory_gib - hw->device.reserve_gib) * 1073741824.0;
}
