/* SPDX-License-Identifier: Apache-2.0 */
/* Expert parallelism: the experts of each layer over the ranks, which also see
 * different samples. Rows travel to the rank of their expert and back; the gradients of
 * what is not an expert are summed over the ranks.
 * Source: Fedus et al., Switch Transformers, JMLR 2022, section 3.3. */
#include <cadre/helpers.h>

struct cadre_self {
    const struct cadre_host *host;
    const struct cadre_mesh_svc *mesh;
    const struct cadre_comm_svc *comm;
    const struct cadre_model_svc *model;
    const struct cadre_param_svc *param;
    struct cadre_axis *axis;
    int32_t ranks;
};

static const struct cadre_service services[] = {
    CADRE_SERVICE(mesh, MESH, size),
    CADRE_SERVICE(comm, COMM, stream_wait),
    CADRE_SERVICE(model, MODEL, param),
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
    CADRE_TRY(p->use_axis(p->h, p->axis, CADRE_BATCH_SPLIT));
    CADRE_TRY(p->claim(p->h, "expert.shard", p->axis, 0));
    return p->reduces(p->h, p->axis, 4);
}

static cadre_status bind(struct cadre_self *s, const struct cadre_bind *at)
{
    (void)s, (void)at;
    return CADRE_OK;
}

static cadre_status on_redistribute(struct cadre_self *s,
                                    const struct cadre_redistribute_ev *ev)
{
    struct cadre_post post = cadre_post("rows of experts", CADRE_TRAFFIC_ACTIVATION, 0);
    if (ev->form != CADRE_REDISTRIBUTE_ALL_TO_ALL_V)
        return cadre_refuse(s->host, CADRE_E_UNSUPPORTED,
                            "form %u at point %u, expected ALL_TO_ALL_V", ev->form,
                            ev->point);
    CADRE_TRY(s->comm->all_to_all_v(s->axis, ev->in, ev->in_offsets, ev->out,
                                    ev->offsets, &post));
    return s->comm->stream_wait(s->axis, post.done);
}

static cadre_status on_grad(struct cadre_self *s, struct cadre_grad_ev *ev)
{
    struct cadre_param_info info;
    struct cadre_post post = cadre_post("gradients", CADRE_TRAFFIC_GRAD, ev->ready);
    int complete =
        ev->map == CADRE_MICROBATCHES_CYCLIC || (ev->flags & CADRE_GRAD_FINAL) != 0;
    if (s->ranks == 1 || !complete)
        return CADRE_OK;
    CADRE_TRY(cadre_param_get(s->host, s->model, ev->param, &info));
    /* an expert has seen the rows of all ranks: its gradient is the sum */
    if (info.expert < 0 && ev->grad->count > 0) {
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

CADRE_PLUGIN(.role = CADRE_ROLE_DATA, .id = "org.cadre.test.experts",
             .version = "0.1.0", .summary = "experts over ranks", .axis = "ep",
             .services = services, .ops = &ops)
