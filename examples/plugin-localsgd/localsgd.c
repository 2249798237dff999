/* SPDX-License-Identifier: Apache-2.0 */
/* localsgd: local SGD with an optional outer momentum.
 *
 * Every rank along the axis trains a replica of its own on its own shard of each batch,
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
 * x are the values that this rank owns, as the optimizer keeps them. The core rounds
 * what is written there into the parameters, sends it to whoever holds copies, and so
 * the plugin works under any precision and over ranks that shard the states.
 *
 * Between averages an evaluation or a checkpoint uses the replicas' mean: DRAIN writes
 * it to x, and the next step restores each replica's own values. */
#include <stdlib.h>

#include <cadre/helpers.h>

/* A parameter of which this rank owns values. */
struct weight {
    cadre_param_id id;
    uint64_t begin; /* of the values in the parameter */
    struct cadre_buf own, anchor, outer;
    cadre_event done; /* while an average is in flight */
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
    uint32_t dtype; /* of x */
    uint32_t n_weights;
    struct weight *weights;
    uint32_t keeps_anchor;
    uint8_t anchored; /* anchor and outer hold values; goes into checkpoints */
    uint32_t due; /* the step that runs ends with an average */
    uint32_t diverging; /* replicas have stepped since the last average */
    uint32_t shown; /* x is the mean, `own` the replica's values */
};

/* A host without one of these refuses the plugin before `create`. */
static const struct cadre_service services[] = {
    CADRE_SERVICE(mesh, MESH, size),
    CADRE_SERVICE(comm, COMM, stream_wait),
    CADRE_SERVICE(model, MODEL, param),
    CADRE_SERVICE(param, PARAM, owned),
    CADRE_SERVICE(mem, MEM, alloc),
    CADRE_SERVICE(ops, OPS, axpby),
    {NULL, 0, 0},
};

static cadre_status create(const struct cadre_create *in, struct cadre_self **out)
{
    const struct cadre_values *values = in->values;
    struct cadre_self *s;
    CADRE_TRY(cadre_self_create(in->host, services, sizeof *s, &s));
    s->host = in->host;
    s->period = (uint64_t)values->i64(values->h, "period");
    s->momentum = values->f64(values->h, "momentum");
    s->lr = values->f64(values->h, "lr");
    s->keeps_anchor = s->momentum != 0 || s->lr != 1;
    *out = s;
    return CADRE_OK;
}

static int trains(const struct cadre_param_info *info)
{
    return info->present && !info->frozen;
}

static cadre_status announce_memory(struct cadre_self *s, const struct cadre_plan *p)
{
    struct cadre_param_info info;
    uint64_t bytes = 0;
    for (cadre_param_id id = 0; cadre_param_next(s->host, s->model, &id, &info); id++)
        bytes += trains(&info) ? info.count * cadre_dtype_size(p->grad_dtype) : 0;
    if (s->period > 1)
        CADRE_TRY(p->memory(p->h, CADRE_SPACE_DEVICE, bytes, "own"));
    if (!s->keeps_anchor)
        return CADRE_OK;
    CADRE_TRY(p->memory(p->h, CADRE_SPACE_DEVICE, bytes, "anchor"));
    return p->memory(p->h, CADRE_SPACE_DEVICE, bytes, "outer");
}

static cadre_status plan(struct cadre_self *s, const struct cadre_plan *p)
{
    if (p->exact)
        return cadre_refuse(s->host, CADRE_E_UNSUPPORTED,
                            "run.exact = yes: local SGD gives other results at each "
                            "number of ranks; set run.exact = no");
    CADRE_TRY(p->use_axis(p->h, p->axis, CADRE_BATCH_SPLIT));
    s->axis = s->mesh->axis(s->host->ctx, NULL);
    s->ranks = s->mesh->size(s->axis);
    s->dtype = p->grad_dtype;
    if (s->ranks == 1)
        return CADRE_OK;
    /* In place of `reduces`: gradients are not summed over the axis. Each replica's is
     * the mean over its own samples. */
    CADRE_TRY(p->claim(p->h, "param.diverges", p->axis, 0));
    CADRE_TRY(p->by_design(p->h, "period=1, momentum=0, lr=1, optim.name=sgd, "
                                 "optim.momentum=0, optim.clip=0"));
    CADRE_TRY(p->period(p->h, s->period));
    return announce_memory(s, p);
}

static cadre_status value_of(const struct cadre_self *s, const struct weight *w,
                             struct cadre_buf *x)
{
    return s->param->owned(s->host->ctx, w->id, x);
}

/* Memory for `count` values, as the buffer of that name. */
static cadre_status take(struct cadre_self *s, uint64_t count, const char *name,
                         struct cadre_buf *out)
{
    uint64_t bytes = count * cadre_dtype_size(s->dtype);
    void *data = s->mem->alloc(s->host->ctx, CADRE_SPACE_DEVICE, bytes, name);
    if (!data)
        return cadre_refuse(s->host, CADRE_E_RESOURCE, "no memory for %s, %llu bytes",
                            name, (unsigned long long)bytes);
    *out = cadre_buf_of(data, count, s->dtype, CADRE_SPACE_DEVICE);
    return CADRE_OK;
}

static cadre_status add_weight(struct cadre_self *s, cadre_param_id id)
{
    struct weight *w = &s->weights[s->n_weights];
    struct cadre_buf x;
    uint64_t count;
    w->id = id;
    CADRE_TRY(value_of(s, w, &x));
    if (x.count == 0) /* all of it is another rank's */
        return CADRE_OK;
    CADRE_TRY(s->param->range(s->host->ctx, id, CADRE_KIND_OPT, &w->begin, &count));
    if (s->period > 1)
        CADRE_TRY(take(s, x.count, "own", &w->own));
    if (s->keeps_anchor) {
        CADRE_TRY(take(s, x.count, "anchor", &w->anchor));
        CADRE_TRY(take(s, x.count, "outer", &w->outer));
    }
    s->n_weights++;
    return CADRE_OK;
}

static cadre_status bind(struct cadre_self *s, const struct cadre_bind *in)
{
    struct cadre_param_info info;
    (void)in;
    if (s->ranks == 1)
        return CADRE_OK;
    s->weights = calloc(s->model->n_params(s->host->ctx), sizeof *s->weights);
    if (!s->weights)
        return cadre_refuse(s->host, CADRE_E_RESOURCE, "no memory for the weights");
    for (cadre_param_id id = 0; cadre_param_next(s->host, s->model, &id, &info); id++)
        if (trains(&info))
            CADRE_TRY(add_weight(s, id));
    return CADRE_OK;
}

static cadre_status copy(const struct cadre_self *s, const struct cadre_buf *to,
                         const struct cadre_buf *from)
{
    return s->ops->copy(s->host->ctx, to->data, from->data, cadre_buf_bytes(from));
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
        CADRE_TRY(s->ops->zero(s->host->ctx, w->outer.data, cadre_buf_bytes(&x)));
    }
    s->anchored = 1;
    return CADRE_OK;
}

/* Average every x over the replicas; all all-reduces are in flight at once. */
static cadre_status average(struct cadre_self *s)
{
    for (uint32_t i = 0; i < s->n_weights; i++) {
        struct cadre_post post = cadre_post("localsgd.average", CADRE_TRAFFIC_PARAM, 0);
        struct cadre_buf x;
        CADRE_TRY(value_of(s, &s->weights[i], &x));
        CADRE_TRY(s->comm->all_reduce(s->axis, &x, &x, CADRE_SUM, &post));
        s->weights[i].done = post.done;
    }
    for (uint32_t i = 0; i < s->n_weights; i++) {
        struct cadre_buf x;
        CADRE_TRY(s->comm->stream_wait(s->axis, s->weights[i].done));
        CADRE_TRY(value_of(s, &s->weights[i], &x));
        CADRE_TRY(s->ops->scale(s->host->ctx, &x, 1.0 / s->ranks));
    }
    return CADRE_OK;
}

/* x is the mean: u = momentum * u + x - anchor; anchor = x = anchor + lr * u */
static cadre_status outer_step(const struct cadre_self *s, const struct weight *w)
{
    struct cadre_ctx *ctx = s->host->ctx;
    struct cadre_buf x;
    CADRE_TRY(value_of(s, w, &x));
    CADRE_TRY(s->ops->axpby(ctx, -1, &w->anchor, 1, &x));
    CADRE_TRY(s->ops->axpby(ctx, 1, &x, s->momentum, &w->outer));
    CADRE_TRY(s->ops->axpby(ctx, s->lr, &w->outer, 1, &w->anchor));
    return copy(s, &x, &w->anchor);
}

/* The optimizer has updated x, and nobody else has seen it. */
static cadre_status end_period(struct cadre_self *s)
{
    if (!s->due)
        return CADRE_OK;
    s->due = s->diverging = 0;
    CADRE_TRY(average(s));
    for (uint32_t i = 0; s->keeps_anchor && i < s->n_weights; i++)
        CADRE_TRY(outer_step(s, &s->weights[i]));
    return CADRE_OK;
}

/* For an evaluation or a checkpoint: x is the mean until the next step. */
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
    if (s->ranks == 1 || (at->flags & CADRE_STEP_FORWARD))
        return next->run(next->h, at);
    if (s->shown)
        CADRE_TRY(keep_own(s, 1));
    else if (s->keeps_anchor && !s->anchored)
        CADRE_TRY(set_anchor(s));
    s->shown = 0;
    s->diverging = 1;
    s->due = at->step % s->period == 0;
    return next->run(next->h, at);
}

static cadre_status sync(struct cadre_self *s, const struct cadre_sync *in)
{
    if (s->ranks == 1)
        return CADRE_OK;
    if (in->what == CADRE_SYNC_UPDATE)
        return end_period(s);
    if (in->what == CADRE_SYNC_DRAIN)
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
        CADRE_TRY(sink->tensor(sink->h, "anchor", w->id, CADRE_STATE_SAME, w->begin,
                               &w->anchor));
        CADRE_TRY(sink->tensor(sink->h, "outer", w->id, CADRE_STATE_SAME, w->begin,
                               &w->outer));
    }
    return CADRE_OK;
}

/* The host frees the memory that came from it. */
static void destroy(struct cadre_self *s, const struct cadre_end *end)
{
    (void)end;
    free(s->weights);
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
