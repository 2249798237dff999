/* SPDX-License-Identifier: Apache-2.0 */
/* gold_opt: an optimizer.
 *
 * It is complete as it stands: SGD with momentum and weight decay, on whatever
 * ranges of the parameters a rank owns, so it runs under every strategy.
 * Comments with FILL IN mark where yours becomes another one. docs/abi.md of Cadre says
 * which service may be called in which callback; <cadre/strategy.h> is the reference.
 */
#include <stdlib.h>

#include <cadre/helpers.h>

struct cadre_self {
    const struct cadre_host *host;
    /* services: cadre_self_create sets them by the table below */
    const struct cadre_model_svc *model;
    const struct cadre_ops_svc *ops;
    double momentum; /* the option */
};

/* Member, service, the last of its functions that is called. A host that lacks one
 * refuses the plugin before `create`. */
static const struct cadre_service services[] = {
    CADRE_SERVICE(model, MODEL, param),
    CADRE_SERVICE(ops, OPS, axpby),
    {NULL, 0, 0},
};

static cadre_status create(const struct cadre_create *made, struct cadre_self **out)
{
    struct cadre_self *s;
    CADRE_TRY(cadre_self_create(made->host, services, sizeof *s, &s));
    s->host = made->host;
    s->momentum = made->values->f64(made->values->h, "momentum");
    *out = s;
    return CADRE_OK;
}

static cadre_status keep_momentum(const struct cadre_plan *p, cadre_param_id id)
{
    const struct cadre_opt_state momentum = {
        .struct_size = sizeof momentum,
        .param = id,
        .key = "momentum",
        .dtype = p->grad_dtype,
        .extent = CADRE_OPT_ELEMENTS,
        .block = 1,
    };
    return p->opt_state(p->h, &momentum);
}

/* The states that are kept of each parameter: of all that are trained, whichever rank
 * has them. They are zero at the start, go into checkpoints as <parameter>.<key>, and
 * come back at any number of ranks. FILL IN: your states, in the order in which
 * `update` shall get them, and p->opt_matrix(p->h, id) for a parameter that is updated
 * as a whole matrix. */
static cadre_status plan(struct cadre_self *s, const struct cadre_plan *p)
{
    struct cadre_param_info info;
    uint32_t n = s->model->n_params(s->host->ctx);
    for (cadre_param_id id = 0; id < n; id++) {
        CADRE_TRY(cadre_param_get(s->host, s->model, id, &info));
        if (info.tied_to < 0 && !info.frozen)
            CADRE_TRY(keep_momentum(p, id));
    }
    return CADRE_OK;
}

static cadre_status on_bind(struct cadre_self *s, const struct cadre_bind *at)
{
    (void)s, (void)at;
    return CADRE_OK;
}

/* One range of a parameter. `grad` is final: summed, unscaled and clipped. FILL IN: the
 * update. All four buffers have the dtype of the gradient and equal counts. */
static cadre_status update(struct cadre_self *s, const struct cadre_update_ev *ev)
{
    struct cadre_ctx *ctx = s->host->ctx;
    if (ev->stage != CADRE_UPDATE_APPLY)
        return CADRE_OK;
    /* g += decay * x; m = momentum * m + g; x -= lr * m */
    CADRE_TRY(s->ops->axpby(ctx, ev->weight_decay, &ev->value, 1, &ev->grad));
    CADRE_TRY(s->ops->axpby(ctx, 1, &ev->grad, s->momentum, &ev->state[0]));
    return s->ops->axpby(ctx, -ev->lr, &ev->state[0], 1, &ev->value);
}

static cadre_status on_sync(struct cadre_self *s, const struct cadre_sync *at)
{
    (void)s, (void)at; /* an optimizer takes no part in events */
    return CADRE_OK;
}

static void destroy(struct cadre_self *s, const struct cadre_end *end)
{
    (void)end;
    free(s);
}

/* Read as section [gold_opt] of an ini. FILL IN: your options; optim.lr, its schedule,
 * optim.weight_decay and optim.clip are the core's. */
static const struct cadre_option options[] = {
    CADRE_OPTION(.type = CADRE_OPTION_F64, .key = "momentum", .def = "0.9", .max = 1,
                 .help = "share of the last step that is kept"),
};

static const struct cadre_strategy_ops ops = {
    .struct_size = sizeof ops,
    .create = create,
    .plan = plan,
    .bind = on_bind,
    .sync = on_sync,
    .destroy = destroy,
    .update = update,
};

CADRE_PLUGIN(.role = CADRE_ROLE_OPTIMIZER, .id = "org.example.gold_opt",
             .version = "0.1.0", .summary = "SGD with momentum", .axis = NULL,
             CADRE_OPTIONS(options), .services = services, .ops = &ops)
