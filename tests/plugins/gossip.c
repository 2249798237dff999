/* SPDX-License-Identifier: Apache-2.0 */
/* D-PSGD: after each update a replica mixes its values with both neighbours' on a ring,
 * x = (1 - 2 w) x + w (left + right): w = 1/3, or 1/4 on two ranks, where both are the
 * same one. Up to three ranks that is the mean; `mean = yes` takes that of any
 * number. Source: Lian et al., NeurIPS 2017. */
#include <cadre/helpers.h>

#define MAX_WEIGHTS 256
enum { LEFT, RIGHT, OWN, BUFFERS };

struct cadre_self {
    const struct cadre_host *host;
    const struct cadre_mesh_svc *mesh;
    const struct cadre_comm_svc *comm;
    const struct cadre_model_svc *model;
    const struct cadre_param_svc *param;
    const struct cadre_mem_svc *mem;
    const struct cadre_ops_svc *ops;
    struct cadre_axis *axis;
    int32_t rank, ranks;
    int mean;
    uint32_t n; /* weights that this rank updates */
    cadre_param_id id[MAX_WEIGHTS];
    uint64_t begin[MAX_WEIGHTS], at[MAX_WEIGHTS + 1];
    struct cadre_buf flat; /* LEFT, RIGHT and OWN of all weights */
    uint8_t shown; /* parameters hold the mean, OWN this replica's values */
};

static const struct cadre_service services[] = {
    CADRE_SERVICE(mesh, MESH, size),
    CADRE_SERVICE(comm, COMM, stream_wait),
    CADRE_SERVICE(model, MODEL, param),
    CADRE_SERVICE(param, PARAM, owned),
    CADRE_SERVICE(mem, MEM, free),
    CADRE_SERVICE(ops, OPS, axpby),
    {NULL, 0, 0},
};

static cadre_status create(const struct cadre_create *c, struct cadre_self **out)
{
    CADRE_TRY(cadre_self_create(c->host, services, sizeof **out, out));
    (*out)->host = c->host;
    (*out)->mean = (int)c->values->i64(c->values->h, "mean");
    return CADRE_OK;
}

static cadre_status list(struct cadre_self *s, uint32_t dtype)
{
    struct cadre_param_info info;
    s->n = 0;
    for (cadre_param_id id = 0; cadre_param_next(s->host, s->model, &id, &info); id++) {
        uint64_t begin, count;
        CADRE_TRY(s->param->range(s->host->ctx, id, CADRE_KIND_OPT, &begin, &count));
        if (!info.present || info.frozen || count == 0 || s->n == MAX_WEIGHTS)
            continue;
        s->id[s->n] = id;
        s->begin[s->n] = begin;
        s->at[s->n + 1] = s->at[s->n] + count;
        s->n++;
    }
    s->flat = cadre_buf_of(NULL, BUFFERS * s->at[s->n], dtype, CADRE_SPACE_DEVICE);
    return CADRE_OK;
}

static cadre_status plan(struct cadre_self *s, const struct cadre_plan *p)
{
    s->axis = s->mesh->axis(s->host->ctx, NULL);
    s->rank = s->mesh->rank(s->axis);
    s->ranks = s->mesh->size(s->axis);
    CADRE_TRY(p->use_axis(p->h, p->axis, CADRE_BATCH_SPLIT));
    CADRE_TRY(p->claim(p->h, "param.diverges", p->axis, CADRE_CLAIM_KEEP_REPLICAS));
    CADRE_TRY(
        p->by_design(p->h, "mean=yes, optim.name=sgd, optim.momentum=0, optim.clip=0"));
    CADRE_TRY(list(s, p->grad_dtype));
    return p->memory(p->h, CADRE_SPACE_DEVICE, cadre_buf_bytes(&s->flat), "replicas");
}

static cadre_status bind(struct cadre_self *s, const struct cadre_bind *at)
{
    (void)at;
    CADRE_TRY(list(s, s->flat.dtype)); /* ranges are final now */
    s->flat.data = s->mem->alloc(s->host->ctx, CADRE_SPACE_DEVICE,
                                 cadre_buf_bytes(&s->flat), "replicas");
    return s->flat.data ? CADRE_OK
                        : cadre_refuse(s->host, CADRE_E_RESOURCE, "no memory");
}

/* Weight i in one of the buffers. */
static struct cadre_buf part(const struct cadre_self *s, uint64_t which, uint32_t i)
{
    return cadre_buf_slice(&s->flat, which * s->at[s->n] + s->at[i],
                           s->at[i + 1] - s->at[i]);
}

static cadre_status mix(struct cadre_self *s, uint32_t i)
{
    const int32_t peer[] = {(s->rank + s->ranks - 1) % s->ranks,
                            (s->rank + 1) % s->ranks};
    double w = s->ranks == 2 ? 0.25 : 1.0 / 3;
    struct cadre_post post[4];
    struct cadre_buf x, theirs[] = {part(s, LEFT, i), part(s, RIGHT, i)};
    CADRE_TRY(s->param->owned(s->host->ctx, s->id[i], &x));
    if (s->mean)
        return cadre_mean(s->host, s->comm, s->ops, s->axis, s->ranks, &x, "mean");
    for (int k = 0; k < 4; k++) {
        post[k] = cadre_post("gossip", CADRE_TRAFFIC_PARAM, 0);
        CADRE_TRY(k % 2 ? s->comm->recv(s->axis, &theirs[k / 2], peer[k / 2], &post[k])
                        : s->comm->send(s->axis, &x, peer[k / 2], &post[k]));
    }
    for (int k = 0; k < 4; k++)
        CADRE_TRY(s->comm->stream_wait(s->axis, post[k].done));
    CADRE_TRY(s->ops->axpby(s->host->ctx, w, &theirs[0], 1 - 2 * w, &x));
    return s->ops->axpby(s->host->ctx, w, &theirs[1], 1, &x);
}

/* show: keep this replica's values and show the mean; else restore them. */
static cadre_status swap(struct cadre_self *s, uint8_t show)
{
    for (uint32_t i = 0; s->shown != show && i < s->n; i++) {
        struct cadre_buf x, own = part(s, OWN, i);
        CADRE_TRY(s->param->owned(s->host->ctx, s->id[i], &x));
        CADRE_TRY(s->ops->copy(s->host->ctx, show ? own.data : x.data,
                               show ? x.data : own.data, cadre_buf_bytes(&x)));
        if (show)
            CADRE_TRY(
                cadre_mean(s->host, s->comm, s->ops, s->axis, s->ranks, &x, "mean"));
    }
    s->shown = show;
    return CADRE_OK;
}

static cadre_status step(struct cadre_self *s, const struct cadre_step *at,
                         const struct cadre_next *next)
{
    CADRE_TRY(swap(s, 0));
    return next->run(next->h, at);
}

static cadre_status sync(struct cadre_self *s, const struct cadre_sync *at)
{
    for (uint32_t i = 0; at->what == CADRE_SYNC_UPDATE && s->ranks > 1 && i < s->n; i++)
        CADRE_TRY(mix(s, i));
    return at->what == CADRE_SYNC_DRAIN ? swap(s, 1) : CADRE_OK;
}

static cadre_status state(struct cadre_self *s, const struct cadre_state_sink *sink)
{
    for (uint32_t i = 0; i < s->n; i++) {
        struct cadre_buf own = part(s, OWN, i);
        CADRE_TRY(sink->tensor(sink->h, "own", s->id[i], CADRE_STATE_REPLICA,
                               s->begin[i], &own));
    }
    return sink->blob(sink->h, "shown", 1, CADRE_BLOB_REPLICATED, &s->shown, 1);
}

static void destroy(struct cadre_self *s, const struct cadre_end *end)
{
    (void)end;
    free(s);
}

static const struct cadre_option options[] = {
    CADRE_OPTION(.type = CADRE_OPTION_BOOL, .key = "mean", .def = "no",
                 .help = "the mean of all replicas in place of neighbours'"),
};

static const struct cadre_strategy_ops ops = {.struct_size = sizeof ops,
                                              .create = create,
                                              .plan = plan,
                                              .bind = bind,
                                              .step = step,
                                              .sync = sync,
                                              .state = state,
                                              .destroy = destroy};

CADRE_PLUGIN(.role = CADRE_ROLE_DATA, .id = "org.cadre.test.gossip", .version = "0.1.0",
             .summary = "replicas that mix with their neighbours on a ring",
             .axis = "ring", CADRE_OPTIONS(options), .services = services, .ops = &ops)
