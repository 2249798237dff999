/* SPDX-License-Identifier: Apache-2.0 */
/* Replicas that diverge and average their parameters every `period` steps, with outer
 * momentum:
 *
 *     outer  = momentum * outer + mean over replicas of x - anchor
 *     anchor = anchor + outer                  anchor: x of the last average
 *     x      = anchor
 *
 * In between, an evaluation or a checkpoint uses the mean, and the next step restores
 * each replica's own values. Source: Wang et al., SlowMo, 2019. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <cadre/helpers.h>

#include "tests/check/planted/planted.h"

/* What this rank updates of a parameter; all buffers have its range. */
struct weight {
    cadre_param_id id;
    uint64_t begin, count; /* in the flat local part */
    struct cadre_buf own; /* this replica's values while the mean is shown */
    struct cadre_buf anchor, outer;
};

/* Saved as it is. */
struct kept {
    uint32_t anchored; /* anchor and outer hold values */
    uint32_t shown; /* the parameters hold the mean */
};

struct cadre_self {
    const struct cadre_host *host;
    const struct cadre_mesh_svc *mesh;
    const struct cadre_comm_svc *comm;
    const struct cadre_model_svc *model;
    const struct cadre_param_svc *param;
    const struct cadre_mem_svc *mem;
    const struct cadre_ops_svc *ops;
    uint64_t period;
    double momentum;
    struct cadre_axis *axis;
    uint32_t ranks, world, dtype;
    uint32_t n_weights;
    struct weight *weight;
    struct kept kept;
    uint32_t due; /* this step ends with an average */
    uint32_t diverging; /* replicas have stepped since the last one */
};

static const struct cadre_service services[] = {
    CADRE_SERVICE(mesh, MESH, size),
    CADRE_SERVICE(comm, COMM, stream_wait),
    CADRE_SERVICE(model, MODEL, param),
    CADRE_SERVICE(param, PARAM, owned),
    CADRE_SERVICE(mem, MEM, alloc),
    CADRE_SERVICE(ops, OPS, axpby),
    {NULL, 0, 0},
};

/* ---- life ---- */

static void destroy(struct cadre_self *s, const struct cadre_end *end)
{
    (void)end;
    free(s->weight);
    free(s);
}

static void *idle(void *unused)
{
    for (;;)
        pause();
    return unused;
}

static int start_thread(void)
{
    pthread_t thread;
    return pthread_create(&thread, NULL, idle, NULL);
}

static cadre_status create(const struct cadre_create *at, struct cadre_self **out)
{
    struct cadre_self *s;
    CADRE_TRY(cadre_self_create(at->host, services, sizeof *s, &s));
    s->host = at->host;
    s->period = (uint64_t)at->values->i64(at->values->h, "period");
    s->momentum = at->values->f64(at->values->h, "momentum");
    PLANTED(6, (void)start_thread(), NOTHING);
    *out = s;
    return CADRE_OK;
}

/* The ranges may be placed after this plan, so bind lists them again. */
static cadre_status list_weights(struct cadre_self *s, uint64_t *bytes)
{
    uint32_t n = s->model->n_params(s->host->ctx);
    struct cadre_param_info info;
    s->weight = PLANTED_VALUE(10, NULL, s->weight) ? s->weight
                                                   : calloc(n + 1u, sizeof *s->weight);
    if (!s->weight)
        return cadre_refuse(s->host, CADRE_E_RESOURCE, "no memory for %u entries", n);
    s->n_weights = 0;
    *bytes = 0;
    for (cadre_param_id id = 0; cadre_param_next(s->host, s->model, &id, &info); id++) {
        struct weight w = {.id = id};
        CADRE_TRY(
            s->param->range(s->host->ctx, id, CADRE_KIND_OPT, &w.begin, &w.count));
        if (!info.present || info.frozen || w.count == 0)
            continue;
        s->weight[s->n_weights++] = w;
        *bytes += w.count * cadre_dtype_size(info.grad_dtype);
    }
    return CADRE_OK;
}

static cadre_status tell_memory(struct cadre_self *s, const struct cadre_plan *p)
{
    uint64_t bytes;
    CADRE_TRY(list_weights(s, &bytes));
    if (bytes == 0)
        return CADRE_OK;
    CADRE_TRY(p->memory(p->h, CADRE_SPACE_DEVICE, bytes, "own"));
    if (s->momentum == 0)
        return CADRE_OK;
    CADRE_TRY(p->memory(p->h, CADRE_SPACE_DEVICE, bytes, "anchor"));
    return p->memory(p->h, CADRE_SPACE_DEVICE, bytes, "outer");
}

static cadre_status plan(struct cadre_self *s, const struct cadre_plan *p)
{
    s->axis = s->mesh->axis(s->host->ctx, p->axis);
    s->ranks = (uint32_t)s->mesh->size(s->axis);
    s->world = p->ranks;
    if (p->exact)
        return cadre_refuse(s->host, CADRE_E_UNSUPPORTED,
                            "run.exact = yes: diverging replicas give other "
                            "results at each number of ranks; set run.exact = no");
    CADRE_TRY(p->use_axis(p->h, p->axis, CADRE_BATCH_SPLIT));
    if (s->ranks == 1)
        return CADRE_OK;
    CADRE_TRY(p->claim(p->h, "param.diverges", p->axis, CADRE_CLAIM_KEEP_REPLICAS));
    CADRE_TRY(p->by_design(
        p->h, PLANTED_VALUE(29, "period=1",
                            "period=1, momentum=0, optim.name=sgd, optim.clip=0")));
    CADRE_TRY(p->period(p->h, s->period));
    s->dtype = p->grad_dtype;
    return tell_memory(s, p);
}

static cadre_status take(struct cadre_self *s, struct cadre_buf *buf, uint64_t count,
                         const char *tag)
{
    *buf = cadre_buf_of(NULL, count, s->dtype, CADRE_SPACE_DEVICE);
    buf->data =
        s->mem->alloc(s->host->ctx, CADRE_SPACE_DEVICE, cadre_buf_bytes(buf), tag);
    if (buf->data)
        return CADRE_OK;
    return cadre_refuse(s->host, CADRE_E_RESOURCE, "no memory for %llu bytes of %s",
                        (unsigned long long)cadre_buf_bytes(buf), tag);
}

static cadre_status bind(struct cadre_self *s, const struct cadre_bind *at)
{
    uint64_t bytes;
    (void)at;
    if (s->ranks == 1)
        return CADRE_OK;
    CADRE_TRY(list_weights(s, &bytes));
    for (uint32_t i = 0; i < s->n_weights; i++) {
        struct weight *w = &s->weight[i];
        CADRE_TRY(take(s, &w->own, w->count, "own"));
        if (s->momentum == 0)
            continue;
        CADRE_TRY(take(s, &w->anchor, w->count, "anchor"));
        CADRE_TRY(take(s, &w->outer, w->count, "outer"));
    }
    return CADRE_OK;
}

/* ---- a step ---- */

static cadre_status copy(struct cadre_self *s, const struct cadre_buf *to,
                         const struct cadre_buf *from)
{
    return s->ops->copy(s->host->ctx, to->data, from->data, cadre_buf_bytes(from));
}

/* x = its mean over the replicas. */
static cadre_status mean(struct cadre_self *s, const struct cadre_buf *x)
{
    struct cadre_post post = cadre_post("planted average", CADRE_TRAFFIC_PARAM, 0);
    CADRE_TRY(s->comm->all_reduce(s->axis, x, x, CADRE_SUM, &post));
    PLANTED(19, NOTHING, CADRE_TRY(s->comm->stream_wait(s->axis, post.done)));
    return s->ops->scale(s->host->ctx, x, 1.0 / PLANTED_VALUE(30, s->world, s->ranks));
}

static cadre_status average(struct cadre_self *s, const struct weight *w)
{
    struct cadre_ctx *ctx = s->host->ctx;
    struct cadre_buf x;
    CADRE_TRY(s->param->owned(ctx, w->id, &x));
    CADRE_TRY(mean(s, &x));
    if (s->momentum == 0)
        return CADRE_OK;
    CADRE_TRY(s->ops->axpby(ctx, -1, &w->anchor, 1, &x));
    CADRE_TRY(s->ops->axpby(ctx, 1, &x, s->momentum, &w->outer));
    CADRE_TRY(s->ops->axpby(ctx, 1, &w->outer, 1, &w->anchor));
    return copy(s, &x, &w->anchor);
}

/* The first anchor is the start of training: of a new run, or of one that another
 * strategy began. */
static cadre_status set_anchor(struct cadre_self *s)
{
    for (uint32_t i = 0; s->momentum != 0 && i < s->n_weights; i++) {
        struct weight *w = &s->weight[i];
        struct cadre_buf x;
        CADRE_TRY(s->param->owned(s->host->ctx, w->id, &x));
        CADRE_TRY(copy(s, &w->anchor, &x));
    }
    s->kept.anchored = 1;
    return CADRE_OK;
}

/* Keep each replica's values and show the mean, or restore them. */
static cadre_status show(struct cadre_self *s, uint32_t shown)
{
    for (uint32_t i = 0; s->kept.shown != shown && i < s->n_weights; i++) {
        struct weight *w = &s->weight[i];
        struct cadre_buf x;
        CADRE_TRY(s->param->owned(s->host->ctx, w->id, &x));
        CADRE_TRY(shown ? copy(s, &w->own, &x) : copy(s, &x, &w->own));
        if (shown && s->diverging)
            CADRE_TRY(mean(s, &x));
    }
    s->kept.shown = shown;
    return CADRE_OK;
}

static cadre_status step(struct cadre_self *s, const struct cadre_step *at,
                         const struct cadre_next *next)
{
    if (s->ranks == 1 || (at->flags & CADRE_STEP_FORWARD))
        return next->run(next->h, at);
    CADRE_TRY(show(s, 0));
    if (!s->kept.anchored)
        CADRE_TRY(set_anchor(s));
    s->diverging = 1;
    s->due = at->step % s->period == 0;
    return next->run(next->h, at);
}

static cadre_status on_sync(struct cadre_self *s, const struct cadre_sync *at)
{
    if (s->ranks == 1)
        return CADRE_OK;
    if (at->what == CADRE_SYNC_DRAIN)
        return show(s, 1);
    if (at->what != CADRE_SYNC_UPDATE || !s->due)
        return CADRE_OK;
    s->due = s->diverging = 0;
    for (uint32_t i = 0; i < s->n_weights; i++)
        CADRE_TRY(average(s, &s->weight[i]));
    return CADRE_OK;
}

/* ---- checkpoints ---- */

static cadre_status put(struct weight *w, const struct cadre_state_sink *sink)
{
    CADRE_TRY(
        sink->tensor(sink->h, "own", w->id, CADRE_STATE_REPLICA, w->begin, &w->own));
    if (!w->anchor.data)
        return CADRE_OK;
    PLANTED(34, NOTHING,
            CADRE_TRY(sink->tensor(sink->h, "outer", w->id, CADRE_STATE_SAME, w->begin,
                                   &w->outer)));
    return sink->tensor(sink->h, "anchor", w->id, CADRE_STATE_SAME, w->begin,
                        &w->anchor);
}

static cadre_status state(struct cadre_self *s, const struct cadre_state_sink *sink)
{
    struct kept kept = s->kept;
    if (s->ranks == 1)
        return CADRE_OK;
    CADRE_TRY(
        sink->blob(sink->h, "kept", 1, CADRE_BLOB_REPLICATED, &kept, sizeof kept));
    if (kept.anchored > 1 || kept.shown > 1)
        return cadre_refuse(s->host, CADRE_E_INVALID,
                            "the checkpoint's state 'kept' has %u and %u, expected 0 "
                            "or 1: it is damaged, use another checkpoint",
                            kept.anchored, kept.shown);
    s->kept = kept;
    for (uint32_t i = 0; i < s->n_weights; i++)
        CADRE_TRY(put(&s->weight[i], sink));
    return CADRE_OK;
}

/* ---- descriptor ---- */

static const struct cadre_option options[] = {
    CADRE_OPTION(.type = CADRE_OPTION_I64, .key = "period", .def = "2", .min = 1,
                 .max = 1e6, .help = "steps of each replica between two averages"),
    CADRE_OPTION(.type = CADRE_OPTION_F64, .key = "momentum", .def = "0.5", .max = 1,
                 .help = "outer momentum of the averaged change"),
};

static const struct cadre_strategy_ops ops = {
    .struct_size = sizeof ops,
    .create = create,
    .plan = plan,
    .bind = bind,
    .step = step,
    .sync = on_sync,
    .state = state,
    .destroy = destroy,
};

CADRE_PLUGIN(.role = CADRE_ROLE_DATA, .id = PLANTED_ID, .version = "0.1.0",
             .summary = "diverging replicas with an outer momentum", .axis = "dp",
             CADRE_OPTIONS(options), .services = services, .ops = &ops)
