/* SPDX-License-Identifier: Apache-2.0 */
/* Context parallelism by gathering: each rank has a part of the time of every sample,
 * and gathers keys and values of the whole before attention. Gradients of all
 * parameters are sums over the ranks, after those over all samples.
 * Source: Llama 3 team, The Llama 3 Herd of Models, 2024, section 3.3.2. */
#include <cadre/helpers.h>

struct cadre_self {
    const struct cadre_host *host;
    const struct cadre_mesh_svc *mesh;
    const struct cadre_comm_svc *comm;
    const struct cadre_param_svc *param;
    struct cadre_axis *axis;
    int32_t ranks;
};

static const struct cadre_service services[] = {
    CADRE_SERVICE(mesh, MESH, size),
    CADRE_SERVICE(comm, COMM, stream_wait),
    CADRE_SERVICE(param, PARAM, reduced),
    {NULL, 0, 0},
};

static cadre_status create(const struct cadre_create *c, struct cadre_self **out)
{
    CADRE_TRY(cadre_self_create(c->host, services, sizeof **out, out));
    (*out)->host = c->host;
    return CADRE_OK;
}

static cadre_status plan(struct cadre_self *s, const struct cadre_plan *p)
{
    s->axis = s->mesh->axis(s->host->ctx, NULL);
    s->ranks = s->mesh->size(s->axis);
    CADRE_TRY(p->use_axis(p->h, p->axis, CADRE_BATCH_TIME));
    CADRE_TRY(p->claim(p->h, "time.shard", p->axis, 0));
    return p->reduces(p->h, p->axis, 2 * CADRE_REDUCE_OUTER);
}

static cadre_status bind(struct cadre_self *s, const struct cadre_bind *at)
{
    (void)s, (void)at;
    return CADRE_OK;
}

static cadre_status on_redistribute(struct cadre_self *s,
                                    const struct cadre_redistribute_ev *ev)
{
    struct cadre_post post = cadre_post("keys and values", CADRE_TRAFFIC_ACTIVATION, 0);
    if (ev->point != CADRE_POINT_ATTN_KV)
        return cadre_refuse(s->host, CADRE_E_UNSUPPORTED,
                            "point %u, expected ATTN_KV alone", ev->point);
    if (ev->form == CADRE_REDISTRIBUTE_ALL_GATHER)
        CADRE_TRY(s->comm->all_gather(s->axis, ev->in, ev->out, ev->offsets, &post));
    else
        CADRE_TRY(s->comm->reduce_scatter(s->axis, ev->in, ev->out, ev->offsets,
                                          CADRE_SUM, &post));
    return s->comm->stream_wait(s->axis, post.done);
}

static cadre_status on_grad(struct cadre_self *s, struct cadre_grad_ev *ev)
{
    struct cadre_post post =
        cadre_post("gradients over time", CADRE_TRAFFIC_GRAD, ev->ready);
    int complete =
        ev->map == CADRE_MICROBATCHES_CYCLIC || (ev->flags & CADRE_GRAD_FINAL) != 0;
    if (s->ranks == 1 || !complete)
        return CADRE_OK;
    if (ev->grad->count > 0) {
        CADRE_TRY(s->comm->all_reduce(s->axis, ev->grad, ev->grad, CADRE_SUM, &post));
        CADRE_TRY(s->comm->stream_wait(s->axis, post.done));
        ev->ready = post.done;
    }
    return s->param->reduced(s->host->ctx, ev->param, ev->grad, ev->ready);
}

static cadre_status sync(struct cadre_self *s, const struct cadre_sync *at)
{
    (void)s, (void)at;
    return CADRE_OK;
}

static void destroy(struct cadre_self *s, const struct cadre_end *end)
{
    (void)end;
    free(s);
}

static const struct cadre_strategy_ops ops = {
    .struct_size = sizeof ops,
    .create = create,
    .plan = plan,
    .bind = bind,
    .sync = sync,
    .on_grad = on_grad,
    .on_redistribute = on_redistribute,
    .destroy = destroy,
};

CADRE_PLUGIN(.role = CADRE_ROLE_DATA, .id = "org.cadre.test.context",
             .version = "0.1.0", .summary = "the time of samples over ranks",
             .axis = "cp", .services = services, .ops = &ops)
