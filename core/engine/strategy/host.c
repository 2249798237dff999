/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/strategy/host_private.h"

#include <string.h>

#include "core/base/log.h"
#include "core/base/rng.h"
#include "core/tensor/dtype.h"

/* ---- cadre.mesh/1 ---- */

static struct cadre_axis *mesh_axis(struct cadre_ctx *ctx, const char *name)
{
    return cadre_mesh_axis(ctx->services->mesh, name);
}

static int32_t axis_rank(const struct cadre_axis *axis)
{
    return axis ? axis->index : 0;
}

static int32_t axis_size(const struct cadre_axis *axis)
{
    return axis ? axis->size : 1;
}

static const struct cadre_mesh_svc mesh_service = {
    .struct_size = sizeof mesh_service,
    .axis = mesh_axis,
    .rank = axis_rank,
    .size = axis_size,
};

/* ---- cadre.model/1 ---- */

static uint32_t n_params(struct cadre_ctx *ctx)
{
    return ctx->services->model->n_params;
}

/* Another stage owns the values and an entry tied to them is here. Not cached: plugins
 * ask before the plan is complete. */
static bool is_copied(const struct cadre_services *s, cadre_param_id id)
{
    const struct cadre_param *all = s->model->params;
    if (!s->plan->param || cadre_rank_plan_runs(s->plan, all[id].unit))
        return false;
    for (uint32_t i = 0; i < s->model->n_params; i++)
        if (all[i].tied_to == (int32_t)id && cadre_rank_plan_runs(s->plan, all[i].unit))
            return true;
    return false;
}

static cadre_status param_info(struct cadre_ctx *ctx, cadre_param_id id,
                               struct cadre_param_info *out)
{
    const struct cadre_services *s = ctx->services;
    const struct cadre_model *model = s->model;
    if (id >= model->n_params)
        return CADRE_E_INVALID;
    const struct cadre_param *p = &model->params[id];
    struct cadre_param_info info = {
        .struct_size = out->struct_size,
        .ndim = p->shape.ndim,
        .name = p->name,
        .count = cadre_shape_count(&p->local),
        .dtype = model->config.dtype,
        .grad_dtype = cadre_dtype_wide(model->config.dtype),
        .unit = p->unit,
        .tied_to = p->tied_to,
        .split = (uint32_t)p->split,
        .split_dim = p->split_dim,
        .present = s->plan->param && cadre_rank_plan_runs(s->plan, p->unit),
        .partial = model->rows_sharded && p->norm,
        .copied = is_copied(s, id),
    };
    for (uint32_t d = 0; d < p->shape.ndim; d++) {
        info.shape[d] = p->shape.dim[d];
        info.local[d] = p->local.dim[d];
    }
    size_t size = out->struct_size < sizeof info ? out->struct_size : sizeof info;
    memcpy(out, &info, size);
    return CADRE_OK;
}

static double unit_cost(struct cadre_ctx *ctx, uint32_t unit)
{
    const struct cadre_services *s = ctx->services;
    const struct cadre_model_config *c = &s->model->config;
    double rows = (double)s->spec->micro_batch * (double)s->spec->time;
    double weights = 0;
    for (uint32_t i = 0; i < s->model->n_params; i++)
        if (s->model->params[i].unit == unit && s->model->params[i].local.ndim > 1)
            weights += (double)cadre_shape_count(&s->model->params[i].local);
    if (unit == 0)
        return rows * (double)c->channels; /* a copy of rows, no product */
    bool block = unit + 1 < s->model->n_units;
    double attention = block ? (double)c->channels * (double)s->spec->time : 0;
    return rows * (weights + attention);
}

static double unit_seconds(struct cadre_ctx *ctx, uint32_t unit)
{
    struct cadre_services *s = ctx->services;
    s->asked_seconds = true;
    if (!s->spec->unit_seconds || unit >= s->model->n_units)
        return 0;
    return s->spec->unit_seconds[unit];
}

static cadre_status model_forward(struct cadre_ctx *ctx,
                                  const struct cadre_pass_args *args)
{
    struct cadre_services *s = ctx->services;
    return s->passes.forward(s->passes.h, args, s->failure);
}

static cadre_status model_backward(struct cadre_ctx *ctx,
                                   const struct cadre_pass_args *args)
{
    struct cadre_services *s = ctx->services;
    return s->passes.backward(s->passes.h, args, s->failure);
}

static uint64_t boundary_count(struct cadre_ctx *ctx)
{
    const struct cadre_run_spec *spec = ctx->services->spec;
    return cadre_model_activation_count(ctx->services->model,
                                        spec->micro_batch * spec->time);
}

static const struct cadre_model_svc model_service = {
    .struct_size = sizeof model_service,
    .n_params = n_params,
    .param = param_info,
    .unit_cost = unit_cost,
    .forward = model_forward,
    .backward = model_backward,
    .unit_seconds = unit_seconds,
    .boundary_count = boundary_count,
};

/* ---- cadre.param/1 ---- */

/* Dtype of what is kept of a kind. */
static uint32_t kind_dtype(const struct cadre_services *s, uint32_t kind)
{
    uint32_t dtype = s->model->config.dtype;
    return kind == CADRE_KIND_PARAM ? dtype : cadre_dtype_wide(dtype);
}

static cadre_status give(struct cadre_ctx *ctx, uint32_t kind, void *data,
                         uint64_t count, struct cadre_buf *out)
{
    *out = (struct cadre_buf){
        .struct_size = sizeof *out,
        .dtype = kind_dtype(ctx->services, kind),
        .data = data,
        .count = count,
    };
    return CADRE_OK;
}

static struct cadre_store_param *stored(struct cadre_ctx *ctx, cadre_param_id id)
{
    struct cadre_store *store = ctx->services->store;
    return store->param && id < store->model->n_params ? &store->param[id] : NULL;
}

static cadre_status param_data(struct cadre_ctx *ctx, cadre_param_id id,
                               struct cadre_buf *out)
{
    const struct cadre_store_param *p = stored(ctx, id);
    return p ? give(ctx, CADRE_KIND_PARAM, p->data, p->count, out) : CADRE_E_INVALID;
}

static cadre_status param_grad(struct cadre_ctx *ctx, cadre_param_id id,
                               struct cadre_buf *out)
{
    const struct cadre_store_param *p = stored(ctx, id);
    return p ? give(ctx, CADRE_KIND_GRAD, p->grad, p->count, out) : CADRE_E_INVALID;
}

/* A buffer for parameter `id`'s full local part, or NULL to detach. */
static cadre_status check_attach(struct cadre_ctx *ctx, cadre_param_id id,
                                 uint32_t kind, const struct cadre_buf *buf)
{
    const struct cadre_services *s = ctx->services;
    const struct cadre_store_param *p = stored(ctx, id);
    if (!p)
        return CADRE_E_INVALID;
    if (!s->plan->param[id].share[kind].placed)
        return cadre_fail(
            ctx->services->failure, CADRE_E_INVALID,
            "plugin '%s' attaches storage to '%s', which it did not place",
            ctx->plugin->name, s->model->params[id].name);
    uint32_t dtype = kind_dtype(s, kind);
    if (buf && (buf->count != p->count || buf->dtype != dtype))
        return cadre_fail(ctx->services->failure, CADRE_E_INVALID,
                          "plugin '%s' attaches %llu %s to '%s', expected %llu %s",
                          ctx->plugin->name, (unsigned long long)buf->count,
                          cadre_dtype_name(buf->dtype), s->model->params[id].name,
                          (unsigned long long)p->count, cadre_dtype_name(dtype));
    return CADRE_OK;
}

static cadre_status param_attach(struct cadre_ctx *ctx, cadre_param_id id,
                                 const struct cadre_buf *buf)
{
    cadre_status rc = check_attach(ctx, id, CADRE_KIND_PARAM, buf);
    if (rc == CADRE_OK)
        cadre_store_attach(ctx->services->store, id, buf ? buf->data : NULL);
    return rc;
}

static cadre_status param_attach_grad(struct cadre_ctx *ctx, cadre_param_id id,
                                      const struct cadre_buf *buf)
{
    CADRE_TRY(check_attach(ctx, id, CADRE_KIND_GRAD, buf));
    struct cadre_store_param *p = stored(ctx, id);
    p->grad = buf ? buf->data : NULL;
    p->grad_fresh = true;
    return CADRE_OK;
}

static cadre_status param_grad_span(struct cadre_ctx *ctx, cadre_param_id first,
                                    cadre_param_id last, struct cadre_buf *out)
{
    const struct cadre_store *store = ctx->services->store;
    if (!stored(ctx, first) || !stored(ctx, last) || last < first)
        return CADRE_E_INVALID;
    for (uint32_t i = first; i <= last; i++)
        if (store->grad_offset[i] == SIZE_MAX)
            return CADRE_E_UNSUPPORTED;
    size_t begin = store->grad_offset[first];
    size_t end =
        store->grad_offset[last] + store->param[last].count * store->wide_bytes;
    return give(ctx, CADRE_KIND_GRAD, store->grad_base + begin,
                (end - begin) / store->wide_bytes, out);
}

static cadre_status param_shard(struct cadre_ctx *ctx, cadre_param_id id, uint32_t kind,
                                struct cadre_buf *out)
{
    const struct cadre_store_param *p = stored(ctx, id);
    if (!p || kind < CADRE_KIND_PARAM || kind > CADRE_KIND_OPT)
        return CADRE_E_INVALID;
    struct cadre_share share = cadre_store_share(ctx->services->store, id, kind);
    void *data = kind == CADRE_KIND_PARAM  ? p->data_shard
                 : kind == CADRE_KIND_GRAD ? p->grad_shard
                                           : p->exp_avg;
    return give(ctx, kind, data, share.count, out);
}

static cadre_status param_accumulate(struct cadre_ctx *ctx, cadre_param_id id,
                                     const struct cadre_buf *part)
{
    const struct cadre_services *s = ctx->services;
    if (!stored(ctx, id))
        return CADRE_E_INVALID;
    struct cadre_share own = cadre_store_share(s->store, id, CADRE_KIND_GRAD);
    if (part->count != own.count || part->dtype != s->store->wide)
        return cadre_fail(ctx->services->failure, CADRE_E_INVALID,
                          "plugin '%s' adds %llu elements to the gradient of '%s', "
                          "expected the %llu of its range",
                          ctx->plugin->name, (unsigned long long)part->count,
                          s->model->params[id].name, (unsigned long long)own.count);
    cadre_status rc = s->passes.accumulate(s->passes.h, id, part->data);
    if (rc == CADRE_E_INTERNAL)
        cadre_fail(
            ctx->services->failure, rc,
            "plugin '%s' accumulates a micro-batch of '%s' that it was not "
            "given; only the CYCLIC map has micro-batches to accumulate, each once",
            ctx->plugin->name, s->model->params[id].name);
    return rc;
}

static const struct cadre_param_svc param_service = {
    .struct_size = sizeof param_service,
    .data = param_data,
    .attach = param_attach,
    .grad = param_grad,
    .attach_grad = param_attach_grad,
    .grad_span = param_grad_span,
    .shard = param_shard,
    .accumulate = param_accumulate,
};

/* ---- cadre.mem/1 ---- */

static void *mem_alloc(struct cadre_ctx *ctx, uint32_t space, uint64_t bytes,
                       const char *tag)
{
    char name[48];
    snprintf(name, sizeof name, "%.20s: %.24s", ctx->plugin->name, tag);
    return cadre_ledger_alloc(ctx->services->ledger, space, bytes, name);
}

/* After a failed step an operation may still use a buffer that a plugin frees in
 * destroy; the ledger frees it after the communicators are destroyed. */
static void mem_free(struct cadre_ctx *ctx, void *pointer)
{
    if (strcmp(ctx->phase, "destroy") == 0)
        return;
    cadre_ledger_free(ctx->services->ledger, pointer);
}

static const struct cadre_mem_svc mem_service = {
    .struct_size = sizeof mem_service,
    .alloc = mem_alloc,
    .free = mem_free,
};

/* ---- cadre.rng/1 ---- */

static double rng_uniform(struct cadre_ctx *ctx, const char *name, uint64_t element)
{
    return cadre_rng_uniform(cadre_rng_key(ctx->services->spec->seed, name), element);
}

static double rng_normal(struct cadre_ctx *ctx, const char *name, uint64_t element)
{
    return cadre_rng_normal(cadre_rng_key(ctx->services->spec->seed, name), element);
}

static const struct cadre_rng_svc rng_service = {
    .struct_size = sizeof rng_service,
    .uniform = rng_uniform,
    .normal = rng_normal,
};

/* ---- the host table ---- */

static cadre_status host_fail(struct cadre_ctx *ctx, cadre_status status,
                              const char *msg)
{
    struct cadre_error *failure = ctx->services->failure;
    if (failure->code == CADRE_OK)
        cadre_fail(failure, status, "plugin '%s' in %s: %s", ctx->plugin->name,
                   ctx->phase, msg);
    return status;
}

static void host_log(struct cadre_ctx *ctx, int32_t level, const char *msg)
{
    if (level < CADRE_LOG_ERROR || level > CADRE_LOG_TRACE)
        level = CADRE_LOG_INFO;
    cadre_log((enum cadre_log_level)level, ctx->plugin->name, "%s", msg);
}

static const struct {
    const char *id;
    const void *table;
} services[] = {
    {CADRE_SERVICE_MESH, &mesh_service},
    {CADRE_SERVICE_COMM, &cadre_comm_service},
    {CADRE_SERVICE_MODEL, &model_service},
    {CADRE_SERVICE_PARAM, &param_service},
    {CADRE_SERVICE_MEM, &mem_service},
    {CADRE_SERVICE_STREAM, &cadre_stream_service},
    {CADRE_SERVICE_OPS, &cadre_ops_service},
    {CADRE_SERVICE_RNG, &rng_service},
};

static const void *host_service(struct cadre_ctx *ctx, const char *id)
{
    (void)ctx;
    for (size_t i = 0; i < sizeof services / sizeof services[0]; i++)
        if (strcmp(services[i].id, id) == 0)
            return services[i].table;
    return NULL;
}

void cadre_host_init(struct cadre_host *host, struct cadre_ctx *ctx)
{
    *host = (struct cadre_host){
        .struct_size = sizeof *host,
        .abi_major = CADRE_ABI_MAJOR,
        .abi_minor = CADRE_ABI_MINOR,
        .ctx = ctx,
        .service = host_service,
        .fail = host_fail,
        .log = host_log,
    };
}
