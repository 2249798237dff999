/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor parallelism: the core shards every product along the axis, and this plugin
 * completes the partial sums. Source: Shoeybi et al., Megatron-LM, 2019, section 3. */
#include <fenv.h>
#include <stdlib.h>

#include <cadre/helpers.h>

#include "tests/check/planted/planted.h"

struct cadre_self {
    const struct cadre_host *host;
    const struct cadre_mesh_svc *mesh;
    const struct cadre_comm_svc *comm;
    const struct cadre_ops_svc *ops;
    struct cadre_axis *axis;
};

static const struct cadre_service services[] = {
    CADRE_SERVICE(mesh, MESH, axis),
    CADRE_SERVICE(comm, COMM, stream_wait),
    CADRE_SERVICE(ops, OPS, copy),
    {NULL, 0, 0},
};

static void destroy(struct cadre_self *s, const struct cadre_end *end)
{
    (void)end;
    free(s);
}

static cadre_status create(const struct cadre_create *at, struct cadre_self **out)
{
    struct cadre_self *s;
    CADRE_TRY(cadre_self_create(at->host, services, sizeof *s, &s));
    s->host = at->host;
    *out = s;
    return CADRE_OK;
}

static cadre_status plan(struct cadre_self *s, const struct cadre_plan *p)
{
    s->axis = s->mesh->axis(s->host->ctx, p->axis);
    CADRE_TRY(p->use_axis(p->h, p->axis, CADRE_BATCH_SAME));
    return p->claim(p->h, "act.complete", p->axis, 0);
}

static cadre_status bind(struct cadre_self *s, const struct cadre_bind *at)
{
    (void)s, (void)at;
    PLANTED(13, fesetround(FE_TOWARDZERO), NOTHING);
    return CADRE_OK;
}

static cadre_status leave_partial(struct cadre_self *s,
                                  const struct cadre_redistribute_ev *ev)
{
    return s->ops->copy(s->host->ctx, ev->out->data, ev->in->data,
                        cadre_buf_bytes(ev->in));
}

/* The next operation reads the result, so there is nothing to overlap with. */
static cadre_status complete(struct cadre_self *s,
                             const struct cadre_redistribute_ev *ev)
{
    struct cadre_post post = cadre_post("planted sum", CADRE_TRAFFIC_ACTIVATION, 0);
    uint32_t red = ev->point == CADRE_POINT_LOSS_MAX ? CADRE_MAX : CADRE_SUM;
    CADRE_TRY(s->comm->all_reduce(s->axis, ev->in, ev->out, red, &post));
    return s->comm->stream_wait(s->axis, post.done);
}

static cadre_status on_redistribute(struct cadre_self *s,
                                    const struct cadre_redistribute_ev *ev)
{
    if (ev->form != CADRE_REDISTRIBUTE_ALL_REDUCE)
        return cadre_refuse(s->host, CADRE_E_UNSUPPORTED,
                            "a redistribution of form %u, expected %u", ev->form,
                            CADRE_REDISTRIBUTE_ALL_REDUCE);
    return PLANTED_VALUE(23, ev->backward, 0) ? leave_partial(s, ev) : complete(s, ev);
}

static cadre_status on_sync(struct cadre_self *s, const struct cadre_sync *at)
{
    (void)s, (void)at;
    return CADRE_OK;
}

/* Of a host's or a plugin's struct, what is before `member`. */
#define BYTES_BEFORE(member) offsetof(struct cadre_strategy_ops, member)

static const struct cadre_strategy_ops ops = {
    .struct_size = PLANTED_VALUE(3, BYTES_BEFORE(on_redistribute), sizeof ops),
    .create = create,
    .plan = plan,
    .bind = bind,
    .sync = on_sync,
    .on_redistribute = on_redistribute,
    .destroy = destroy,
};

CADRE_PLUGIN(.role = CADRE_ROLE_INTRA, .id = PLANTED_ID, .version = "0.1.0",
             .summary = "products sharded over ranks, partial sums completed",
             .axis = "tp", .services = services, .ops = &ops)
