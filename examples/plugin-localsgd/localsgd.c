/* SPDX-License-Identifier: Apache-2.0 */
/* localsgd: local SGD with an optional outer momentum.
 *
 * Every rank along "dp" trains a replica of its own on its own shard of each batch,
 * without communication. Every `period` steps the replicas' parameters are averaged
 * over the ranks and all continue from the same point:
 *
 *     delta = mean over replicas of x - anchor        anchor: x of the last average
 *     u     = momentum * u + delta
 *     x     = anchor + lr * u                         and the new anchor
 *
 * With momentum 0 and lr 1 x is the mean, and neither anchor nor u is kept.
 * Stich, Local SGD Converges Fast and Communicates Little, 2018; the outer momentum:
 * Wang et al., SlowMo, 2019; Douillard et al., DiLoCo, 2023.
 *
 * Between averages an evaluation or a checkpoint uses the replicas' mean: DRAIN writes
 * it to the parameters, and the next step restores each replica's own values. */
#include <stdlib.h>

#include <cadre/helpers.h>

/* A parameter whose values this rank holds. */
struct weight {
    cadre_param_id id;
    uint64_t begin; /* of its elements in the flat buffers below */
    struct cadre_buf own, anchor, outer;
};

struct cadre_self {
    const struct cadre_host *host;
    const struct cadre_mesh_svc *mesh;
    const struct cadre_comm_svc *comm;
    const struct cadre_model_svc *model;
    const struct cadre_param_svc *param;
    const struct cadre_mem_svc *mem;
    const struct cadre_ops_svc *ops;
    struct cadre_axis *axis;
    uint64_t period;
    double momentum, lr;
    int32_t ranks;
    uint32_t dtype;
    uint32_t n_weights;
    struct weight *weights; /* without tied entries, with copies */
    uint64_t count; /* elements of all of them */
    uint32_t n_grads;
    cadre_param_id *grads; /* gradient entries of this rank, tied ones too */
    cadre_event *done; /* one per weight, while averages are in flight */
    void *own, *anchor, *outer; /* buffers of `count` elements */
    uint32_t keeps_anchor;
    uint8_t anchored; /* anchor and outer hold values; goes into checkpoints */
    uint32_t unscaled; /* this step's gradients are still shares of the global mean */
    uint32_t due; /* the step that runs ends with an average */
    uint32_t diverging; /* replicas have stepped since the last average */
    uint32_t shown; /* parameters hold the mean, `own` the replica's values */
};

/* A host without one of these refuses the plugin before `create`. */
static const struct cadre_service services[] = {
    CADRE_SERVICE(mesh, MESH, size),
    CADRE_SERVICE(comm, COMM, stream_wait),
    CADRE_SERVICE(model, MODEL, param),
    CADRE_SERVICE(param, PARAM, grad),
    CADRE_SERVICE(mem, MEM, free),
    CADRE_SERVICE(ops, OPS, scale),
    {NULL, 0, 0},
};

static cadre_status create(const struct cadre_host *host,
                           const struct cadre_values *values, struct cadre_self **out)
{
    struct cadre_self *s;
    CADRE_TRY(cadre_self_create(host, services, sizeof *s, &s));
    s->host = host;
    s->period = (uint64_t)values->i64(values->h, "period");
    s->momentum = values->f64(values->h, "momentum");
    s->lr = values->f64(values->h, "lr");
    s->keeps_anchor = s->momentum != 0 || s->lr != 1;
    *out = s;
    return CADRE_OK;
}

/* Lists the entries of this rank; pure, so plan may run often. */
static cadre_status list_entries(struct cadre_self *s)
{
    uint32_t n = s->model->n_params(s->host->ctx);
    if (!s->weights)
        s->weights = calloc(n, sizeof *s->weights);
    if (!s->grads)
        s->grads = calloc(n, sizeof *s->grads);
    if (!s->done)
        s->done = calloc(n, sizeof *s->done);
    if (!s->weights || !s->grads || !s->done)
        return cadre_refuse(s->host, CADRE_E_RESOURCE, "no memory for %u entries", n);
    s->n_weights = s->n_grads = 0;
    s->count = 0;
    for (cadre_param_id id = 0; id < n; id++) {
        struct cadre_param_info info = {.struct_size = sizeof info};
        CADRE_TRY(s->model->param(s->host->ctx, id, &info));
        if (info.present)
            s->grads[s->n_grads++] = id;
        if ((!info.present && !info.copied) || info.tied_to >= 0)
            continue;
        s->weights[s->n_weights++] = (struct weight){.id = id, .begin = s->count};
        s->count += info.count;
    }
    return CADRE_OK;
}

static cadre_status plan(struct cadre_self *s, const struct cadre_plan *p)
{
    s->axis = s->mesh->axis(s->host->ctx, "dp");
    s->ranks = s->mesh->size(s->axis);
    if (p->exact)
        return cadre_refuse(s->host, CADRE_E_UNSUPPORTED,
                            "run.exact = yes: local SGD gives other results at each "
                            "number of ranks; set run.exact = no");
    if (p->dtype != p->grad_dtype)
        return cadre_refuse(s->host, CADRE_E_UNSUPPORTED,
                            "train.precision = bf16 or fp16: local SGD averages "
                            "parameters, not their master values; set "
                            "train.precision = fp32");
    CADRE_TRY(p->use_axis(p->h, "dp", CADRE_BATCH_SPLIT));
    if (s->ranks == 1)
        return CADRE_OK;
    /* This plugin sums over "dp": parameters, not gradients. Another plugin that sums
     * gradients there would conflict with it. */
    CADRE_TRY(p->claim(p->h, "grad.reduce", "dp", 0));
    CADRE_TRY(p->claim(p->h, "param.diverges", "dp", 0));
    CADRE_TRY(p->claim(p->h, "train.changed", NULL, CADRE_CLAIM_SHARED));
    CADRE_TRY(list_entries(s));
    s->dtype = p->dtype;
    uint64_t bytes = s->count * cadre_dtype_size(p->dtype);
    if (s->period > 1)
        CADRE_TRY(p->memory(p->h, CADRE_SPACE_DEVICE, bytes, "own"));
    if (!s->keeps_anchor)
        return CADRE_OK;
    CADRE_TRY(p->memory(p->h, CADRE_SPACE_DEVICE, bytes, "anchor"));
    return p->memory(p->h, CADRE_SPACE_DEVICE, bytes, "outer");
}

static cadre_status take(struct cadre_self *s, void **out, const char *tag)
{
    uint64_t bytes = s->count * cadre_dtype_size(s->dtype);
    *out = s->mem->alloc(s->host->ctx, CADRE_SPACE_DEVICE, bytes, tag);
    if (*out)
        return CADRE_OK;
    return cadre_refuse(s->host, CADRE_E_RESOURCE, "no memory for %s, %llu bytes", tag,
                        (unsigned long long)bytes);
}

/* The part of a flat buffer that belongs to a weight; data is NULL without a buffer. */
static struct cadre_buf part_of(const struct cadre_self *s, void *flat,
                                const struct weight *w, uint64_t count)
{
    struct cadre_buf whole = {.struct_size = sizeof whole,
                              .dtype = s->dtype,
                              .data = flat,
                              .count = s->count,
                              .space = CADRE_SPACE_DEVICE};
    if (!flat)
        return whole;
    return cadre_buf_slice(&whole, w->begin, count);
}

static cadre_status bind(struct cadre_self *s)
{
    if (s->ranks == 1)
        return CADRE_OK;
    if (s->period > 1)
        CADRE_TRY(take(s, &s->own, "own"));
    if (s->keeps_anchor) {
        CADRE_TRY(take(s, &s->anchor, "anchor"));
        CADRE_TRY(take(s, &s->outer, "outer"));
    }
    for (uint32_t i = 0; i < s->n_weights; i++) {
        struct weight *w = &s->weights[i];
        struct cadre_param_info info = {.struct_size = sizeof info};
        CADRE_TRY(s->model->param(s->host->ctx, w->id, &info));
        w->own = part_of(s, s->own, w, info.count);
        w->anchor = part_of(s, s->anchor, w, info.count);
        w->outer = part_of(s, s->outer, w, info.count);
    }
    return CADRE_OK;
}

static cadre_status copy(const struct cadre_self *s, const struct cadre_buf *to,
                         const struct cadre_buf *from)
{
    return s->ops->copy(s->host->ctx, to->data, from->data,
                        from->count * cadre_dtype_size(from->dtype));
}

static cadre_status value_of(const struct cadre_self *s, const struct weight *w,
                             struct cadre_buf *out)
{
    *out = (struct cadre_buf){.struct_size = sizeof *out};
    return s->param->data(s->host->ctx, w->id, out);
}

/* Save each replica's values to `own`, or restore them. */
static cadre_status keep_own(struct cadre_self *s, uint32_t back)
{
    for (uint32_t i = 0; i < s->n_weights; i++) {
        struct weight *w = &s->weights[i];
        struct cadre_buf x;
        CADRE_TRY(value_of(s, w, &x));
        CADRE_TRY(back ? copy(s, &x, &w->own) : copy(s, &w->own, &x));
    }
    return CADRE_OK;
}

/* The first anchor is the start of training: a new run, or a checkpoint of another
 * strategy. */
static cadre_status set_anchor(struct cadre_self *s)
{
    for (uint32_t i = 0; i < s->n_weights; i++) {
        struct weight *w = &s->weights[i];
        struct cadre_buf x;
        CADRE_TRY(value_of(s, w, &x));
        CADRE_TRY(copy(s, &w->anchor, &x));
        CADRE_TRY(s->ops->zero(s->host->ctx, w->outer.data,
                               x.count * cadre_dtype_size(x.dtype)));
    }
    s->anchored = 1;
    return CADRE_OK;
}

/* Average every parameter over the replicas; all all-reduces are in flight at once. */
static cadre_status average(struct cadre_self *s)
{
    for (uint32_t i = 0; i < s->n_weights; i++) {
        struct cadre_buf x;
        CADRE_TRY(value_of(s, &s->weights[i], &x));
        CADRE_TRY(s->comm->all_reduce(s->axis, "localsgd.average", &x, &x, CADRE_SUM, 0,
                                      &s->done[i]));
    }
    for (uint32_t i = 0; i < s->n_weights; i++) {
        struct cadre_buf x;
        CADRE_TRY(s->comm->stream_wait(s->axis, s->done[i]));
        CADRE_TRY(value_of(s, &s->weights[i], &x));
        CADRE_TRY(s->ops->scale(s->host->ctx, &x, 1.0 / s->ranks));
    }
    return CADRE_OK;
}

/* x holds the mean: x = anchor + lr * (u = momentum * u + x - anchor). cadre.ops has no
 * subtraction and no axpy, so the anchor is negated and restored. */
static cadre_status outer_step(const struct cadre_self *s, const struct weight *w)
{
    struct cadre_ctx *ctx = s->host->ctx;
    struct cadre_buf x;
    CADRE_TRY(value_of(s, w, &x));
    CADRE_TRY(s->ops->scale(ctx, &w->anchor, -1));
    CADRE_TRY(s->ops->add(ctx, &x, &x, &w->anchor));
    CADRE_TRY(s->ops->scale(ctx, &w->outer, s->momentum));
    CADRE_TRY(s->ops->add(ctx, &w->outer, &w->outer, &x));
    CADRE_TRY(copy(s, &x, &w->outer));
    CADRE_TRY(s->ops->scale(ctx, &x, s->lr));
    CADRE_TRY(s->ops->scale(ctx, &w->anchor, -1));
    CADRE_TRY(s->ops->add(ctx, &x, &x, &w->anchor));
    return copy(s, &w->anchor, &x);
}

static cadre_status sync_params(struct cadre_self *s)
{
    if (!s->due)
        return CADRE_OK;
    s->due = s->diverging = 0;
    CADRE_TRY(average(s));
    for (uint32_t i = 0; s->keeps_anchor && i < s->n_weights; i++)
        CADRE_TRY(outer_step(s, &s->weights[i]));
    return CADRE_OK;
}

/* The core divides the loss by the tokens of all ranks; a replica needs the mean over
 * its own tokens, 1/ranks of them. */
static cadre_status scale_grads(struct cadre_self *s)
{
    if (!s->unscaled)
        return CADRE_OK;
    s->unscaled = 0;
    for (uint32_t i = 0; i < s->n_grads; i++) {
        struct cadre_buf g = {.struct_size = sizeof g};
        CADRE_TRY(s->param->grad(s->host->ctx, s->grads[i], &g));
        CADRE_TRY(s->ops->scale(s->host->ctx, &g, s->ranks));
    }
    return CADRE_OK;
}

/* For an evaluation or a checkpoint: parameters hold the mean until the next step. */
static cadre_status show_mean(struct cadre_self *s)
{
    if (!s->diverging || s->shown)
        return CADRE_OK;
    CADRE_TRY(keep_own(s, 0));
    s->shown = 1;
    return average(s);
}

static cadre_status step(struct cadre_self *s, const struct cadre_step *at,
                         const struct cadre_next *next)
{
    if (s->ranks == 1)
        return next->run(next->h, at);
    if (s->shown)
        CADRE_TRY(keep_own(s, 1));
    else if (s->keeps_anchor && !s->anchored)
        CADRE_TRY(set_anchor(s));
    s->shown = 0;
    s->unscaled = s->diverging = 1;
    s->due = at->step % s->period == 0;
    return next->run(next->h, at);
}

static cadre_status sync(struct cadre_self *s, uint32_t what)
{
    if (s->ranks == 1)
        return CADRE_OK;
    if (what == CADRE_SYNC_GRADS)
        return scale_grads(s);
    if (what == CADRE_SYNC_PARAMS)
        return sync_params(s);
    if (what == CADRE_SYNC_DRAIN)
        return show_mean(s);
    return CADRE_OK;
}

/* Anchor and outer momentum are the same on all replicas. The parameters are the
 * core's, and hold the mean by now. */
static cadre_status state(struct cadre_self *s, const struct cadre_state_sink *sink)
{
    if (s->ranks == 1 || !s->keeps_anchor)
        return CADRE_OK;
    CADRE_TRY(
        sink->blob(sink->h, "anchored", 1, CADRE_BLOB_REPLICATED, &s->anchored, 1));
    for (uint32_t i = 0; i < s->n_weights; i++) {
        struct weight *w = &s->weights[i];
        CADRE_TRY(
            sink->tensor(sink->h, "anchor", w->id, CADRE_STATE_SAME, 0, &w->anchor));
        CADRE_TRY(
            sink->tensor(sink->h, "outer", w->id, CADRE_STATE_SAME, 0, &w->outer));
    }
    return CADRE_OK;
}

static void destroy(struct cadre_self *s)
{
    s->mem->free(s->host->ctx, s->own);
    s->mem->free(s->host->ctx, s->anchor);
    s->mem->free(s->host->ctx, s->outer);
    free(s->weights);
    free(s->grads);
    free(s->done);
    free(s);
}

static const struct cadre_option options[] = {
    CADRE_OPTION(.type = CADRE_OPTION_I64, .key = "period", .def = "8", .min = 1,
                 .max = 1e9,
                 .help = "optimizer steps of each replica between two averages"),
    CADRE_OPTION(.type = CADRE_OPTION_F64, .key = "momentum", .def = "0", .max = 1,
                 .help = "outer momentum of the averaged change"),
    CADRE_OPTION(.type = CADRE_OPTION_F64, .key = "lr", .def = "1", .max = 1000,
                 .help = "outer learning rate"),
};

static const struct cadre_strategy_ops strategy = {
    .struct_size = sizeof strategy,
    .create = create,
    .plan = plan,
    .bind = bind,
    .step = step,
    .sync = sync,
    .state = state,
    .destroy = destroy,
};

CADRE_PLUGIN(.role = CADRE_ROLE_DATA, .id = "org.example.localsgd", .version = "0.1.0",
             .summary = "diverging replicas, parameters averaged every `period` steps",
             .axis = "dp", CADRE_OPTIONS(options), .services = services,
             .ops = &strategy)
