/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/plugins/fake_host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAD 16u

struct cadre_ctx {
    struct fake_host *fake;
};
struct cadre_axis {
    struct fake_host *fake;
};

/* One allocation; ctx is first, so the host's tables are found from it. */
struct fake_objects {
    struct cadre_ctx ctx;
    struct cadre_axis axis;
    struct cadre_mesh_svc mesh;
    struct cadre_comm_svc comm;
    struct cadre_model_svc model;
    struct cadre_param_svc param;
};

static struct fake_objects *objects_of(struct cadre_ctx *ctx)
{
    return (struct fake_objects *)(void *)ctx;
}

static bool nth(int *calls, int fail)
{
    ++*calls;
    return *calls == fail;
}

static cadre_status host_fail(struct cadre_ctx *ctx, cadre_status status,
                              const char *text)
{
    snprintf(ctx->fake->failure, sizeof ctx->fake->failure, "%s", text);
    return status;
}

static void host_log(struct cadre_ctx *ctx, int32_t level, const char *text)
{
}

static const void *host_service(struct cadre_ctx *ctx, const char *id)
{
    struct fake_objects *objects = objects_of(ctx);
    if (nth(&ctx->fake->services, ctx->fake->fail_service))
        return NULL;
    return !strcmp(id, CADRE_SERVICE_MESH)    ? (const void *)&objects->mesh
           : !strcmp(id, CADRE_SERVICE_COMM)  ? (const void *)&objects->comm
           : !strcmp(id, CADRE_SERVICE_MODEL) ? (const void *)&objects->model
           : !strcmp(id, CADRE_SERVICE_PARAM) ? (const void *)&objects->param
                                              : NULL;
}

/* ---- mesh and comm ---- */

static struct cadre_axis *mesh_axis(struct cadre_ctx *ctx, const char *name)
{
    bool has = ctx->fake->ranks > 0 && !strcmp(name, ctx->fake->axis);
    return has ? &objects_of(ctx)->axis : NULL;
}

static int32_t mesh_size(const struct cadre_axis *axis)
{
    return axis ? axis->fake->ranks : 1;
}

static int32_t mesh_rank(const struct cadre_axis *axis)
{
    return axis ? axis->fake->index : 0;
}

static cadre_status comm_all_reduce(struct cadre_axis *axis, const char *label,
                                    const struct cadre_buf *in,
                                    const struct cadre_buf *out, uint32_t red,
                                    cadre_event after, cadre_event *done)
{
    struct fake_host *fake = axis->fake;
    if (fake->posts + 1 == fake->fail_post)
        return CADRE_E_COMM;
    if (in->data != out->data || in->count != out->count || red != CADRE_SUM ||
        in->dtype != CADRE_F32 || fake->posts == FAKE_POSTS)
        return CADRE_E_INTERNAL;
    for (uint32_t i = 0; i < fake->n_entries; i++) {
        const float *at = fake->grad + fake->offset[i], *begin = in->data;
        fake->early += fake->to_come[i] && at >= begin && at < begin + in->count;
    }
    fake->post[fake->posts++] =
        (struct fake_post){label, in->data, in->count, after, false};
    *done = 1000u + (cadre_event)fake->posts;
    return CADRE_OK;
}

static cadre_status comm_join(struct cadre_axis *axis, cadre_event event)
{
    struct fake_host *fake = axis->fake;
    if (nth(&fake->joins, fake->fail_join))
        return CADRE_E_ABORTED;
    if (event <= 1000 || event > 1000u + (cadre_event)fake->posts)
        return CADRE_E_INTERNAL;
    struct fake_post *post = &fake->post[event - 1001];
    for (uint64_t i = 0; i < post->count && !post->joined; i++)
        post->data[i] *= (float)fake->ranks;
    post->joined = true;
    return CADRE_OK;
}

/* ---- model and param ---- */

static uint32_t model_n_params(struct cadre_ctx *ctx)
{
    return ctx->fake->n_entries;
}

static cadre_status model_param(struct cadre_ctx *ctx, cadre_param_id id,
                                struct cadre_param_info *info)
{
    if (nth(&ctx->fake->params, ctx->fake->fail_param) || id >= ctx->fake->n_entries)
        return CADRE_E_INTERNAL;
    *info = (struct cadre_param_info){
        .struct_size = sizeof *info,
        .name = "w",
        .ndim = 1,
        .count = ctx->fake->count[id],
        .dtype = CADRE_F32,
        .grad_dtype = CADRE_F32,
        .tied_to = -1,
        .present = !ctx->fake->absent[id],
    };
    return CADRE_OK;
}

static cadre_status give(struct fake_host *fake, uint64_t begin, uint64_t end,
                         struct cadre_buf *out)
{
    *out = (struct cadre_buf){
        .struct_size = sizeof *out,
        .dtype = CADRE_F32,
        .data = fake->grad + begin,
        .count = end - begin,
    };
    return CADRE_OK;
}

static cadre_status param_grad(struct cadre_ctx *ctx, cadre_param_id id,
                               struct cadre_buf *out)
{
    struct fake_host *fake = ctx->fake;
    give(fake, fake->offset[id], fake->offset[id] + fake->count[id], out);
    if (fake->detached[id])
        out->data = NULL;
    return CADRE_OK;
}

static cadre_status param_grad_span(struct cadre_ctx *ctx, cadre_param_id first,
                                    cadre_param_id last, struct cadre_buf *out)
{
    struct fake_host *fake = ctx->fake;
    for (cadre_param_id i = first; i <= last; i++)
        if (fake->apart[i] || fake->detached[i])
            return CADRE_E_UNSUPPORTED;
    return give(fake, fake->offset[first], fake->offset[last] + fake->count[last], out);
}

/* ---- values, plan, step ---- */

/* NULL: not given. */
static const char *find_option(const struct fake_host *fake, const char *key)
{
    for (const char *const *o = fake->option; o && *o; o += 2)
        if (!strcmp(o[0], key))
            return o[1];
    return NULL;
}

static int64_t value_i64(const void *h, const char *key)
{
    const struct fake_host *fake = h;
    const char *given = find_option(fake, key);
    if (given)
        return !strcmp(given, "yes");
    return !strcmp(key, "overlap") && fake->overlap;
}

static double value_f64(const void *h, const char *key)
{
    const struct fake_host *fake = h;
    return !strcmp(key, "bucket_mb") ? fake->bucket_mb : 0;
}

static const char *value_str(const void *h, const char *key)
{
    const struct fake_host *fake = h;
    const char *given = find_option(fake, key);
    return given ? given : !strcmp(key, "compress") ? fake->compress : "";
}

static cadre_status plan_use_axis(void *h, const char *axis, uint32_t batch)
{
    struct fake_host *fake = h;
    bool bad = strcmp(axis, fake->axis) != 0 || batch == CADRE_BATCH_SAME;
    fake->batch = batch;
    return nth(&fake->plans, fake->fail_plan) || bad ? CADRE_E_UNSUPPORTED : CADRE_OK;
}

static cadre_status plan_claim(void *h, const char *effect, const char *axis,
                               uint32_t flags)
{
    struct fake_host *fake = h;
    snprintf(fake->claim, sizeof fake->claim, "%s@%s/%u", effect, axis, flags);
    return nth(&fake->plans, fake->fail_plan) ? CADRE_E_UNSUPPORTED : CADRE_OK;
}

static cadre_status plan_leaves(void *h, uint32_t map)
{
    struct fake_host *fake = h;
    bool bad = map != CADRE_LEAVES_BLOCK;
    return nth(&fake->plans, fake->fail_plan) || bad ? CADRE_E_UNSUPPORTED : CADRE_OK;
}

static cadre_status run_backward(void *h, const struct cadre_step *step)
{
    struct fake_host *fake = h;
    cadre_event ready = 1;
    for (uint32_t mb = 0; mb < step->n_microbatches; mb++) {
        bool final = mb + 1 == step->n_microbatches;
        if (final)
            fake->posts_at_final = fake->posts;
        for (uint32_t i = 0; i < fake->n_entries; i++, ready++) {
            cadre_param_id id = fake->order[i];
            struct cadre_buf grad;
            give(fake, fake->offset[id], fake->offset[id] + fake->count[id], &grad);
            struct cadre_grad_ev ev = {
                .struct_size = sizeof ev,
                .flags = final ? CADRE_GRAD_FINAL : 0,
                .param = id,
                .microbatch = mb,
                .ready = ready,
                .grad = &grad,
            };
            fake->ready[id] = ready;
            if (fake->absent[id] || fake->silent[id])
                continue;
            fake->to_come[id] = !final;
            cadre_status rc = fake->ops->on_grad(fake->self, &ev);
            fake->posts_at_grad[id] = fake->posts;
            fake->ready_after[id] = ev.ready;
            if (rc)
                return rc;
        }
    }
    return CADRE_OK;
}

/* ---- set-up ---- */

static void init_tables(struct fake_host *fake, struct fake_objects *objects)
{
    *objects = (struct fake_objects){
        .ctx = {fake},
        .axis = {fake},
        .mesh = {sizeof objects->mesh, 0, mesh_axis, mesh_rank, mesh_size},
        .comm = {.struct_size = sizeof objects->comm,
                 .all_reduce = comm_all_reduce,
                 .join = comm_join},
        .model = {.struct_size = sizeof objects->model,
                  .n_params = model_n_params,
                  .param = model_param},
        .param = {.struct_size = sizeof objects->param,
                  .grad = param_grad,
                  .grad_span = param_grad_span},
    };
    fake->host = (struct cadre_host){
        .struct_size = sizeof fake->host,
        .abi_minor = CADRE_ABI_MINOR,
        .ctx = &objects->ctx,
        .service = host_service,
        .fail = host_fail,
        .log = host_log,
    };
    fake->values = (struct cadre_values){
        .struct_size = sizeof fake->values,
        .h = fake,
        .i64 = value_i64,
        .f64 = value_f64,
        .str = value_str,
    };
    fake->plan = (struct cadre_plan){
        .struct_size = sizeof fake->plan,
        .ranks = 2,
        .h = fake,
        .use_axis = plan_use_axis,
        .claim = plan_claim,
        .leaves = plan_leaves,
    };
    fake->next = (struct cadre_next){sizeof fake->next, 0, fake, run_backward};
}

void fake_init(struct fake_host *fake, const struct cadre_strategy_ops *ops,
               uint32_t n_entries)
{
    memset(fake, 0, sizeof *fake);
    init_tables(fake, calloc(1, sizeof(struct fake_objects)));
    fake->ops = ops;
    fake->ranks = 2;
    fake->axis = "dp";
    fake->bucket_mb = 0.004;
    fake->overlap = true;
    fake->compress = "none";
    fake->micro_batches = 1;
    fake->n_entries = n_entries;
    for (uint32_t i = 0; i < n_entries; i++) {
        fake->count[i] = 1 + i * 97 % 401;
        fake->order[i] = n_entries - 1 - i;
        fake->offset[i + 1] = fake->offset[i] + (fake->count[i] + PAD - 1) / PAD * PAD;
    }
    fake->grad = calloc(fake->offset[n_entries] + 1, sizeof *fake->grad);
}

void fake_fini(struct fake_host *fake)
{
    free(fake->grad);
    free(objects_of(fake->host.ctx));
}

cadre_status fake_start(struct fake_host *fake)
{
    cadre_status rc = fake->ops->create(&fake->host, &fake->values, &fake->self);
    if (rc)
        return rc;
    rc = fake->ops->plan(fake->self, &fake->plan);
    if (!rc)
        rc = fake->ops->bind(fake->self);
    if (rc)
        fake->ops->destroy(fake->self);
    return rc;
}

cadre_status fake_step(struct fake_host *fake)
{
    struct cadre_step step = {.struct_size = sizeof step,
                              .n_microbatches = fake->micro_batches};
    memset(fake->grad, 0, fake->offset[fake->n_entries] * sizeof *fake->grad);
    for (uint32_t i = 0; i < fake->n_entries; i++)
        fake->to_come[i] = !fake->absent[i] && !fake->silent[i];
    for (uint32_t i = 0; i < fake->n_entries; i++)
        for (uint64_t k = 0; k < fake->count[i]; k++)
            fake->grad[fake->offset[i] + k] = 1;
    return fake->ops->step(fake->self, &step, &fake->next);
}

uint64_t fake_wrong(const struct fake_host *fake, cadre_param_id id, float value)
{
    uint64_t wrong = 0;
    for (uint64_t i = fake->offset[id]; i < fake->offset[id + 1]; i++) {
        float want = i < fake->offset[id] + fake->count[id] ? value : 0;
        wrong += fake->grad[i] != want;
    }
    return wrong;
}
