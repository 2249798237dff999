/* SPDX-License-Identifier: Apache-2.0 */
/* cadre.param/1 */
#include <string.h>

#include "core/engine/strategy/host_private.h"
#include "core/engine/strategy/param_marks.h"
#include "core/engine/strategy/reduction.h"
#include "core/tensor/dtype.h"

#define AT (CADRE_AT_BIND | CADRE_AT_RUN)

/* The entry, after the checks of every function; NULL: refused. */
static struct cadre_store_param *enter(struct cadre_ctx *ctx, const char *function,
                                       cadre_param_id id, const void *out)
{
    if (cadre_guard(ctx, AT, function) != CADRE_OK)
        return NULL;
    struct cadre_services *s = ctx->services;
    if (id < s->model->n_params && out)
        return &s->store->param[id];
    if (out)
        cadre_guard_refuse(ctx, CADRE_E_INVALID, function,
                           "there is no entry %u, expected less than %u", id,
                           s->model->n_params);
    else
        cadre_guard_refuse(ctx, CADRE_E_INVALID, function, "an argument is NULL");
    return NULL;
}

/* Dtype of what is kept of a kind. */
static uint32_t kind_dtype(const struct cadre_services *s, cadre_param_id id,
                           uint32_t kind)
{
    uint32_t dtype = s->model->config.dtype;
    if (kind != CADRE_KIND_PARAM)
        return cadre_dtype_wide(dtype);
    return s->plan->param[id].form == CADRE_FORM_PLAIN ? dtype : CADRE_U8;
}

/* The whole local part of a kind: elements, or bytes of values stored in blocks. */
static uint64_t kind_count(const struct cadre_services *s, cadre_param_id id,
                           uint32_t kind)
{
    return kind == CADRE_KIND_PARAM ? cadre_rank_plan_stored(s->plan, id)
                                    : s->store->param[id].count;
}

static cadre_status give(struct cadre_ctx *ctx, cadre_param_id id, uint32_t kind,
                         void *data, uint64_t count, struct cadre_buf *out)
{
    *out = (struct cadre_buf){
        .dtype = kind_dtype(ctx->services, id, kind),
        .data = data,
        .count = count,
    };
    return CADRE_OK;
}

static cadre_status param_data(struct cadre_ctx *ctx, cadre_param_id id,
                               struct cadre_buf *out)
{
    static const char function[] = "data of cadre.param";
    const struct cadre_store_param *p = enter(ctx, function, id, out);
    if (!p)
        return CADRE_E_INVALID;
    CADRE_TRY(cadre_guard_result(ctx, function,
                                 cadre_param_marks_await(ctx->services, id, ctx)));
    return give(ctx, id, CADRE_KIND_PARAM, p->data,
                kind_count(ctx->services, id, CADRE_KIND_PARAM), out);
}

static cadre_status param_grad(struct cadre_ctx *ctx, cadre_param_id id,
                               struct cadre_buf *out)
{
    const struct cadre_store_param *p = enter(ctx, "grad of cadre.param", id, out);
    return p ? give(ctx, id, CADRE_KIND_GRAD, p->grad, p->count, out) : CADRE_E_INVALID;
}

/* A buffer for parameter `id`'s full local part, or NULL to detach. */
static cadre_status check_attach(struct cadre_ctx *ctx, const char *function,
                                 cadre_param_id id, uint32_t kind,
                                 const struct cadre_buf *buf)
{
    const struct cadre_services *s = ctx->services;
    const char *name = s->model->params[id].name;
    if (!s->plan->param[id].share[kind].placed)
        return cadre_guard_refuse(ctx, CADRE_E_INVALID, function,
                                  "'%s' keeps its own storage; place a range of it in "
                                  "plan first",
                                  name);
    if (!buf)
        return CADRE_OK;
    uint32_t dtype = kind_dtype(s, id, kind);
    uint64_t count = kind_count(s, id, kind);
    if (buf->count != count || buf->dtype != dtype)
        return cadre_guard_refuse(
            ctx, CADRE_E_INVALID, function, "%llu %s for '%s', expected %llu %s",
            (unsigned long long)buf->count, cadre_dtype_name(buf->dtype), name,
            (unsigned long long)count, cadre_dtype_name(dtype));
    return cadre_guard_buf(ctx, function, "buf", buf);
}

static cadre_status param_attach(struct cadre_ctx *ctx, cadre_param_id id,
                                 const struct cadre_buf *buf)
{
    static const char function[] = "attach of cadre.param";
    if (!enter(ctx, function, id, ctx))
        return CADRE_E_INVALID;
    CADRE_TRY(check_attach(ctx, function, id, CADRE_KIND_PARAM, buf));
    cadre_store_attach(ctx->services->store, id, buf ? buf->data : NULL);
    return CADRE_OK;
}

static cadre_status param_attach_grad(struct cadre_ctx *ctx, cadre_param_id id,
                                      const struct cadre_buf *buf)
{
    static const char function[] = "attach_grad of cadre.param";
    struct cadre_store_param *p = enter(ctx, function, id, ctx);
    if (!p)
        return CADRE_E_INVALID;
    CADRE_TRY(check_attach(ctx, function, id, CADRE_KIND_GRAD, buf));
    p->grad = buf ? buf->data : NULL;
    p->grad_fresh = true;
    return CADRE_OK;
}

static cadre_status param_grad_span(struct cadre_ctx *ctx, cadre_param_id first,
                                    cadre_param_id last, struct cadre_buf *out)
{
    static const char function[] = "grad_span of cadre.param";
    if (!enter(ctx, function, first, out) || !enter(ctx, function, last, out))
        return CADRE_E_INVALID;
    const struct cadre_store *store = ctx->services->store;
    if (last < first)
        return cadre_guard_refuse(ctx, CADRE_E_INVALID, function,
                                  "entries %u to %u do not ascend", first, last);
    for (uint32_t i = first; i <= last; i++) {
        bool skipped = i > first && i < last && ctx->services->plan->param[i].frozen;
        if (store->grad_offset[i] == SIZE_MAX && !skipped)
            return CADRE_E_UNSUPPORTED;
    }
    size_t begin = store->grad_offset[first];
    size_t end =
        store->grad_offset[last] + store->param[last].count * store->wide_bytes;
    return give(ctx, first, CADRE_KIND_GRAD, store->grad_base + begin,
                (end - begin) / store->wide_bytes, out);
}

static cadre_status check_kind(struct cadre_ctx *ctx, const char *function,
                               uint32_t kind)
{
    if (kind >= CADRE_KIND_PARAM && kind <= CADRE_KIND_OPT)
        return CADRE_OK;
    return cadre_guard_refuse(ctx, CADRE_E_INVALID, function,
                              "there is no kind %u, expected one of CADRE_KIND_*",
                              kind);
}

static cadre_status param_shard(struct cadre_ctx *ctx, cadre_param_id id, uint32_t kind,
                                struct cadre_buf *out)
{
    static const char function[] = "shard of cadre.param";
    const struct cadre_store_param *p = enter(ctx, function, id, out);
    if (!p)
        return CADRE_E_INVALID;
    CADRE_TRY(check_kind(ctx, function, kind));
    struct cadre_share share = cadre_store_share(ctx->services->store, id, kind);
    void *data = kind == CADRE_KIND_PARAM  ? p->data_shard
                 : kind == CADRE_KIND_GRAD ? p->grad_shard
                                           : p->exp_avg;
    return give(ctx, id, kind, data, share.count, out);
}

static cadre_status param_range(struct cadre_ctx *ctx, cadre_param_id id, uint32_t kind,
                                uint64_t *begin, uint64_t *count)
{
    static const char function[] = "range of cadre.param";
    CADRE_TRY(cadre_guard(ctx, AT | CADRE_AT_PLAN, function));
    const struct cadre_services *s = ctx->services;
    if (id >= s->model->n_params || !begin || !count)
        return cadre_guard_refuse(ctx, CADRE_E_INVALID, function,
                                  "there is no entry %u, or an argument is NULL", id);
    CADRE_TRY(check_kind(ctx, function, kind));
    struct cadre_share share =
        ctx->in == CADRE_IN_PLAN
            ? cadre_rank_plan_share_to(s->plan, id, kind, ctx->name)
            : cadre_store_share(s->store, id, kind);
    *begin = share.begin;
    *count = share.count;
    return CADRE_OK;
}

/* Owned values change in UPDATE; those of a diverging replica also where it shows the
 * mean of all, and before a step in which it goes on from its own. */
static bool may_change(const struct cadre_services *s, const struct cadre_ctx *ctx)
{
    const char *diverges = cadre_rank_plan_claimed(s->plan, "param.diverges");
    return s->sync == CADRE_SYNC_UPDATE ||
           (diverges && strcmp(diverges, ctx->name) == 0 &&
            (s->sync == CADRE_SYNC_DRAIN || ctx->in == CADRE_IN_STEP));
}

static cadre_status param_owned(struct cadre_ctx *ctx, cadre_param_id id,
                                struct cadre_buf *out)
{
    if (!enter(ctx, "owned of cadre.param", id, out))
        return CADRE_E_INVALID;
    struct cadre_services *s = ctx->services;
    struct cadre_share own = cadre_store_share(s->store, id, CADRE_KIND_OPT);
    void *data = cadre_store_opt_data(s->store, id);
    if (data && may_change(s, ctx))
        cadre_param_marks_change(s->marks, id);
    CADRE_TRY(give(ctx, id, CADRE_KIND_OPT, data, own.count, out));
    if (s->store->param[id].master) /* else they are the parameter's own */
        out->space = own.space;
    return CADRE_OK;
}

static cadre_status param_pending(struct cadre_ctx *ctx, cadre_param_id id,
                                  cadre_event event)
{
    if (!enter(ctx, "pending of cadre.param", id, ctx))
        return CADRE_E_INVALID;
    cadre_param_marks_pend(ctx->services, ctx, id, event);
    return CADRE_OK;
}

static cadre_status param_reduced(struct cadre_ctx *ctx, cadre_param_id id,
                                  const struct cadre_buf *sum, cadre_event ready)
{
    static const char function[] = "reduced of cadre.param";
    CADRE_TRY(cadre_guard(ctx, CADRE_AT_STEP | CADRE_AT(CADRE_IN_SYNC), function));
    if (!enter(ctx, function, id, sum))
        return CADRE_E_INVALID;
    CADRE_TRY(cadre_guard_buf(ctx, function, "sum", sum));
    return cadre_guard_result(ctx, function,
                              cadre_reduction_report(ctx, id, sum, ready));
}

static cadre_status param_moments(struct cadre_ctx *ctx, uint64_t held, double *decay)
{
    static const char function[] = "moments of cadre.param";
    const uint32_t at = held ? CADRE_AT(CADRE_IN_STEP) : AT | CADRE_AT_PLAN;
    CADRE_TRY(cadre_guard(ctx, at, function));
    struct cadre_services *s = ctx->services;
    if (!decay)
        return cadre_guard_refuse(ctx, CADRE_E_INVALID, function, "decay is NULL");
    if (s->spec->optim.kind != CADRE_OPTIMIZER_ADAMW)
        return cadre_guard_refuse(ctx, CADRE_E_UNSUPPORTED, function,
                                  "the optimizer keeps no moments of AdamW; set "
                                  "optim.name = adamw");
    if (held >= s->step && held)
        return cadre_guard_refuse(ctx, CADRE_E_INVALID, function,
                                  "the second moments after %llu updates, expected "
                                  "some before step %llu",
                                  (unsigned long long)held,
                                  (unsigned long long)s->step);
    *decay = s->spec->optim.beta1;
    s->held_moments = held ? held : s->held_moments;
    return CADRE_OK;
}

const struct cadre_param_svc cadre_param_service = {
    .struct_size = sizeof cadre_param_service,
    .data = param_data,
    .attach = param_attach,
    .grad = param_grad,
    .attach_grad = param_attach_grad,
    .grad_span = param_grad_span,
    .shard = param_shard,
    .range = param_range,
    .owned = param_owned,
    .pending = param_pending,
    .reduced = param_reduced,
    .moments = param_moments,
};
