/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/strategy/reduction.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/engine/strategy/host_private.h"
#include "core/tensor/dtype.h"

#define REDUCED "reduced of cadre.param"

cadre_status cadre_reduction_init(struct cadre_reduction *reduction, uint32_t n_params,
                                  struct cadre_error *err)
{
    size_t n = (size_t)reduction->n * n_params;
    reduction->n_params = n_params;
    reduction->raised = cadre_calloc(n ? n : 1, sizeof *reduction->raised);
    reduction->reported = cadre_calloc(n ? n : 1, sizeof *reduction->reported);
    return reduction->raised && reduction->reported
               ? CADRE_OK
               : cadre_no_memory(err, "the reductions of %u gradients", n_params);
}

void cadre_reduction_fini(struct cadre_reduction *reduction)
{
    free(reduction->raised);
    free(reduction->reported);
    *reduction = (struct cadre_reduction){0};
}

void cadre_reduction_begin_step(struct cadre_reduction *reduction)
{
    size_t bytes =
        (size_t)reduction->n * reduction->n_params * sizeof *reduction->raised;
    memset(reduction->raised, 0, bytes);
    memset(reduction->reported, 0, bytes);
}

static int level_of(const struct cadre_reduction *reduction,
                    const struct cadre_ctx *ctx)
{
    for (int i = 0; i < reduction->n; i++)
        if (reduction->level[i] == ctx)
            return i;
    return -1;
}

bool cadre_reduction_has(const struct cadre_reduction *reduction,
                         const struct cadre_ctx *ctx)
{
    return level_of(reduction, ctx) >= 0;
}

static uint32_t *count_of(const struct cadre_reduction *reduction, uint32_t *counts,
                          int level, uint32_t param)
{
    return &counts[(size_t)level * reduction->n_params + param];
}

/* Does the event end a sum that must be reported? */
static bool ends_a_sum(const struct cadre_services *s, const struct cadre_grad_ev *ev)
{
    return s->plan->cyclic || (ev->flags & CADRE_GRAD_FINAL);
}

static cadre_status raise_on(struct cadre_services *s, int level,
                             struct cadre_grad_ev *ev)
{
    struct cadre_ctx *ctx = s->reduction->level[level];
    if (ends_a_sum(s, ev))
        ++*count_of(s->reduction, s->reduction->raised, level, ev->param);
    struct cadre_call call = cadre_call_begin(ctx, CADRE_IN_ON_GRAD);
    return cadre_call_end(&call, ctx->plugin->ops.on_grad(ctx->self, ev));
}

cadre_status cadre_reduction_grad(struct cadre_services *services,
                                  struct cadre_grad_ev *ev)
{
    if (services->reduction->n > 0)
        return raise_on(services, 0, ev);
    if (!services->plan->cyclic)
        return CADRE_OK;
    return services->passes.accumulate(services->passes.h, ev->param, ev->grad->data);
}

/* Where the core keeps the gradient: the range that was placed, or the whole. */
static struct cadre_buf storage_of(const struct cadre_services *s, uint32_t param)
{
    struct cadre_share share = cadre_store_share(s->store, param, CADRE_KIND_GRAD);
    const struct cadre_store_param *p = &s->store->param[param];
    return (struct cadre_buf){
        .data = share.placed ? p->grad_shard : p->grad,
        .count = share.count,
        .dtype = s->store->wide,
    };
}

/* BLOCK and RANGES: a part of the core's storage. CYCLIC: as long as this rank's
 * range. */
static cadre_status check_sum(struct cadre_ctx *ctx, uint32_t param,
                              const struct cadre_buf *sum)
{
    const struct cadre_services *s = ctx->services;
    const struct cadre_buf own = storage_of(s, param);
    const char *name = s->model->params[param].name;
    const char *data = sum->data, *begin = own.data;
    if (sum->dtype != own.dtype)
        return cadre_guard_refuse(
            ctx, CADRE_E_INVALID, REDUCED, "the sum of '%s' is of %s, expected %s",
            name, cadre_dtype_name(sum->dtype), cadre_dtype_name(own.dtype));
    if (s->plan->cyclic && sum->count != own.count)
        return cadre_guard_refuse(
            ctx, CADRE_E_INVALID, REDUCED,
            "the sum of '%s' has %llu elements, expected the %llu of this rank's range",
            name, (unsigned long long)sum->count, (unsigned long long)own.count);
    if (s->plan->cyclic || sum->count == 0)
        return CADRE_OK;
    size_t size = cadre_dtype_bytes(own.dtype);
    if (begin && data >= begin && data + sum->count * size <= begin + own.count * size)
        return CADRE_OK;
    if (cadre_store_share(s->store, param, CADRE_KIND_GRAD).placed &&
        s->reduction->n > 1)
        return cadre_guard_refuse(
            ctx, CADRE_E_INVALID, REDUCED,
            "the sum of '%s' lies outside of the core's storage of the gradient, which "
            "is sharded; give the strategy that shards it the lowest level",
            name);
    return cadre_guard_refuse(ctx, CADRE_E_INVALID, REDUCED,
                              "the sum of '%s' lies outside of the core's storage of "
                              "the gradient; reduce in place, or copy the sum there",
                              name);
}

/* The highest level has reduced it. */
static cadre_status take(struct cadre_services *s, uint32_t param,
                         const struct cadre_buf *sum, cadre_event ready)
{
    if (!s->plan->cyclic)
        return CADRE_OK; /* who made it waits in sync(GRADS) */
    CADRE_TRY(cadre_services_await(s, ready, "gradients"));
    return s->passes.accumulate(s->passes.h, param, sum->data);
}

cadre_status cadre_reduction_report(struct cadre_ctx *ctx, uint32_t param,
                                    const struct cadre_buf *sum, cadre_event ready)
{
    struct cadre_services *s = ctx->services;
    struct cadre_reduction *r = s->reduction;
    int level = level_of(r, ctx);
    if (level < 0)
        return cadre_guard_refuse(ctx, CADRE_E_INVALID, REDUCED,
                                  "this plugin does not reduce over an axis of several "
                                  "ranks; call plan->reduces");
    const char *name = s->model->params[param].name;
    uint32_t raised = *count_of(r, r->raised, level, param);
    uint32_t *reported = count_of(r, r->reported, level, param);
    if (*reported == raised)
        return cadre_guard_refuse(ctx, CADRE_E_INVALID, REDUCED,
                                  "'%s' is reported %u times, but on_grad has passed "
                                  "%u sums of it in this step",
                                  name, *reported + 1, raised);
    CADRE_TRY(check_sum(ctx, param, sum));
    ++*reported;
    if (level + 1 == r->n)
        return take(s, param, sum, ready);
    struct cadre_buf grad = *sum;
    struct cadre_grad_ev ev = {
        .struct_size = sizeof ev,
        .flags = CADRE_GRAD_REDUCED |
                 (*reported == (uint32_t)s->plan->n_microbatches || !s->plan->cyclic
                      ? CADRE_GRAD_FINAL
                      : 0),
        .param = param,
        .microbatch = *reported - 1,
        .ready = ready,
        .grad = &grad,
        .map = s->plan->map,
    };
    return raise_on(s, level + 1, &ev);
}

cadre_status cadre_reduction_check(struct cadre_services *services)
{
    const struct cadre_reduction *r = services->reduction;
    for (int level = 0; level < r->n; level++)
        for (uint32_t i = 0; i < r->n_params; i++) {
            uint32_t raised = *count_of(r, r->raised, level, i);
            uint32_t reported = *count_of(r, r->reported, level, i);
            if (raised != reported)
                return cadre_fail(
                    services->failure, CADRE_E_INTERNAL,
                    "plugin '%s' has reduced %u of %u sums of the gradient of '%s'%s "
                    "by the end of sync(GRADS); report each through reduced of "
                    "cadre.param",
                    r->level[level]->name, reported, raised,
                    services->model->params[i].name,
                    cadre_services_step_text(services));
        }
    return CADRE_OK;
}
