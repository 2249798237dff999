/* SPDX-License-Identifier: Apache-2.0 */
/* gold_dat: a data-parallel strategy.
 *
 * It is complete as it stands: every rank holds the whole model and trains on samples
 * of its own, and the gradients are summed over the ranks while backward runs. Comments
 * with FILL IN mark where yours becomes another strategy. docs/abi.md of Cadre says
 * which service may be called in which callback; <cadre/strategy.h> is the reference.
 */
#include <stdlib.h>

#include <cadre/helpers.h>

struct cadre_self {
    const struct cadre_host *host;
    /* services: cadre_self_create sets them by the table below */
    const struct cadre_mesh_svc *mesh;
    const struct cadre_comm_svc *comm;
    const struct cadre_model_svc *model;
    const struct cadre_param_svc *param;
    struct cadre_axis *axis; /* this rank and those that hold the other replicas */
    int32_t ranks; /* along the axis */
    uint32_t overlap; /* the option */
    uint32_t n_params;
    cadre_event *done; /* by entry: of the sum that is in flight; 0: there is none */
};

/* Member, service, the last of its functions that is called. A host that lacks one
 * refuses the plugin before `create`. FILL IN: what you use besides, such as
 *     CADRE_SERVICE(mem, MEM, free),
 *     CADRE_SERVICE(ops, OPS, scale), */
static const struct cadre_service services[] = {
    CADRE_SERVICE(mesh, MESH, size),
    CADRE_SERVICE(comm, COMM, stream_wait),
    CADRE_SERVICE(model, MODEL, n_params),
    CADRE_SERVICE(param, PARAM, reduced),
    {NULL, 0, 0},
};

static cadre_status create(const struct cadre_create *made, struct cadre_self **out)
{
    struct cadre_self *s;
    CADRE_TRY(cadre_self_create(made->host, services, sizeof *s, &s));
    s->host = made->host;
    s->overlap = made->values->i64(made->values->h, "overlap") != 0;
    *out = s;
    return CADRE_OK;
}

/* Says what the strategy does, before anything exists. Pure: it runs often, and with
 * equal results on all ranks but for what depends on the rank's coordinates.
 * FILL IN: refuse what yours cannot do, for example
 *     if (p->exact)
 *         return cadre_refuse(s->host, CADRE_E_UNSUPPORTED,
 *                             "run.exact = yes: gold_dat rounds; set run.exact = no");
 * and announce memory (p->memory), ranges (p->place_range), or that the training
 * differs by design and from what it does not (p->by_design). */
static cadre_status plan(struct cadre_self *s, const struct cadre_plan *p)
{
    (void)s;
    CADRE_TRY(p->use_axis(p->h, p->axis, CADRE_BATCH_SPLIT));
    return p->reduces(p->h, p->axis, CADRE_REDUCE_INNER);
}

/* Once, when ranks are connected and parameters have storage. */
static cadre_status on_bind(struct cadre_self *s, const struct cadre_bind *at)
{
    (void)at;
    s->axis = s->mesh->axis(s->host->ctx, NULL); /* NULL: the plugin's own */
    s->ranks = s->mesh->size(s->axis);
    s->n_params = s->model->n_params(s->host->ctx);
    s->done = calloc((size_t)s->n_params + 1, sizeof *s->done);
    if (!s->done)
        return cadre_refuse(s->host, CADRE_E_RESOURCE, "no memory for %u entries",
                            s->n_params);
    return CADRE_OK;
}

/* Wait for the sum of one entry, if one is in flight. */
static cadre_status wait_for(struct cadre_self *s, cadre_param_id id)
{
    cadre_event done = s->done[id];
    s->done[id] = 0;
    return done ? s->comm->stream_wait(s->axis, done) : CADRE_OK;
}

/* A gradient has got a contribution; with FINAL it is this rank's sum of the step, to
 * be read after ev->ready. FILL IN: send it otherwise, in fewer bits or by other ways.
 * What is reported as reduced must be the sum over the axis: the core has divided the
 * loss by the tokens of all ranks, so nothing is scaled here. */
static cadre_status on_grad(struct cadre_self *s, struct cadre_grad_ev *ev)
{
    struct cadre_post post =
        cadre_post("gold_dat gradient", CADRE_TRAFFIC_GRAD, ev->ready);
    if (s->ranks == 1 || !(ev->flags & CADRE_GRAD_FINAL))
        return CADRE_OK;
    CADRE_TRY(s->comm->all_reduce(s->axis, ev->grad, ev->grad, CADRE_SUM, &post));
    s->done[ev->param] = ev->ready = post.done;
    if (!s->overlap)
        CADRE_TRY(wait_for(s, ev->param));
    return s->param->reduced(s->host->ctx, ev->param, ev->grad, post.done);
}

/* GRADS: after it the sums of the step are complete. FILL IN: what yours does at UPDATE
 * (values that the optimizer has just changed), PARAMS (values are distributed) and
 * DRAIN (an evaluation or a checkpoint follows). It may come several times. */
static cadre_status on_sync(struct cadre_self *s, const struct cadre_sync *at)
{
    if (at->what != CADRE_SYNC_GRADS)
        return CADRE_OK;
    for (cadre_param_id id = 0; id < s->n_params; id++)
        CADRE_TRY(wait_for(s, id));
    return CADRE_OK;
}

/* Memory of cadre.mem that is left is the host's to free. */
static void destroy(struct cadre_self *s, const struct cadre_end *end)
{
    (void)end;
    free(s->done);
    free(s);
}

/* Read as section [gold_dat] of an ini. FILL IN: your options. */
static const struct cadre_option options[] = {
    CADRE_OPTION(.type = CADRE_OPTION_BOOL, .key = "overlap", .def = "yes",
                 .help = "sum gradients while backward runs"),
};

static const struct cadre_strategy_ops ops = {
    .struct_size = sizeof ops,
    .create = create,
    .plan = plan,
    .bind = on_bind,
    .sync = on_sync,
    .on_grad = on_grad,
    .destroy = destroy,
};

CADRE_PLUGIN(.role = CADRE_ROLE_DATA, .id = "org.example.gold_dat", .version = "0.1.0",
             .summary = "replicas whose gradients are summed during backward",
             .axis = "dp", CADRE_OPTIONS(options), .services = services, .ops = &ops)
