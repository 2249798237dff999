/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/candidate.h"

#include <stdio.h>

const char *cadre_plan_recompute_name(enum cadre_plan_recompute recompute)
{
    static const char *const names[] = {"none", "selective", "full"};
    return names[recompute];
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
    if (c->pipeline > t->layers)
        return refuse(err, "pipeline", c->pipeline, "is more than layers", t->layers);
    if (t->context % c->context != 0)
        return refuse(err, "context ranks", c->context, "do not divide", t->context);
    if (c->global_batch % (c->data * c->micro_batch) != 0)
        return refuse(err, "data ranks x micro-batch", c->data * c->micro_batch,
                      "do not divide global batch", c->global_batch);
    const int64_t micro = cadre_candidate_micro_batches(c);
    if (c->chunks > 1 && c->pipeline == 1)
        return refuse(err, "chunks", c->chunks, "need a pipeline, it is", c->pipeline);
    if (c->chunks > cadre_candidate_stage_layers(c, t))
        return refuse(err, "chunks", c->chunks, "are more than layers of a stage,",
                      cadre_candidate_stage_layers(c, t));
    if (c->chunks > 1 && micro % c->pipeline != 0)
        return refuse(err, "interleaved: pipeline", c->pipeline,
                      "does not divide micro-batches", micro);
    return CADRE_OK;
}

void cadre_candidate_stack(const struct cadre_candidate *c, char *out, size_t bytes)
{
    size_t used = 0;
    const struct {
        const char *name;
        int64_t ranks;
    } axes[] = {
        {"pipeline", c->pipeline},
        {c->zero ? "zero" : "ddp", c->data},
        {"context", c->context},
        {"tensor", c->tensor},
    };
    snprintf(out, bytes, "single");
    for (int i = 0; i < 4; i++)
        if (axes[i].ranks > 1 && used < bytes)
            used += (size_t)snprintf(out + used, bytes - used, "%s%s:%lld",
                                     used ? ", " : "", axes[i].name,
                                     (long long)axes[i].ranks);
}
