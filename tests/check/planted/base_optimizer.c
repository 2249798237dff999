/* SPDX-License-Identifier: Apache-2.0 */
/* An optimizer of whole matrices: a matrix of a block moves along its momentum, divided
 * by its Frobenius norm; all else is AdamW's. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cadre/helpers.h>

#include "tests/check/planted/planted.h"

enum { FIRST, SECOND };

struct cadre_self {
    const struct cadre_host *host;
    const struct cadre_model_svc *model;
    const struct cadre_ops_svc *ops;
    double momentum;
    uint64_t microbatches; /* of this rank */
    uint32_t n_params;
    uint8_t *matrix; /* (n_params) 1: updated as a whole */
};

static const struct cadre_service services[] = {
    CADRE_SERVICE(model, MODEL, param),
    CADRE_SERVICE(ops, OPS, dot),
    {NULL, 0, 0},
};

/* ---- life ---- */

static cadre_status create(const struct cadre_create *at, struct cadre_self **out)
{
    struct cadre_self *s;
    CADRE_TRY(cadre_self_create(at->host, services, sizeof *s, &s));
    s->host = at->host;
    s->momentum = at->values->f64(at->values->h, "momentum");
    *out = s;
    return CADRE_OK;
}

static void destroy(struct cadre_self *s, const struct cadre_end *end)
{
    (void)end;
    free(s->matrix);
    free(s);
}

static cadre_status keep(const struct cadre_plan *p, cadre_param_id id, const char *key)
{
    const struct cadre_opt_state kept = {
        .struct_size = sizeof kept,
        .param = id,
        .key = key,
        .dtype = p->grad_dtype,
        .extent = CADRE_OPT_ELEMENTS,
        .block = 1,
    };
    return p->opt_state(p->h, &kept);
}

static cadre_status plan(struct cadre_self *s, const struct cadre_plan *p)
{
    const int may = PLANTED_VALUE(42, p->ranks == 1, 1);
    struct cadre_param_info info;
    s->microbatches = p->rank_microbatches;
    s->n_params = s->model->n_params(s->host->ctx);
    if (!s->matrix)
        s->matrix = calloc(s->n_params + 1u, 1);
    if (!s->matrix)
        return cadre_refuse(s->host, CADRE_E_RESOURCE, "no memory for %u entries",
                            s->n_params);
    for (cadre_param_id id = 0; id < s->n_params; id++) {
        CADRE_TRY(cadre_param_get(s->host, s->model, id, &info));
        s->matrix[id] = may && info.ndim == 2 && info.unit > 0;
        if (info.tied_to >= 0 || info.frozen)
            continue;
        CADRE_TRY(keep(p, id, "first"));
        CADRE_TRY(keep(p, id, "second"));
        if (s->matrix[id])
            CADRE_TRY(p->opt_matrix(p->h, id));
    }
    return CADRE_OK;
}

static cadre_status on_bind(struct cadre_self *s, const struct cadre_bind *at)
{
    (void)s, (void)at;
    return CADRE_OK;
}

static cadre_status on_sync(struct cadre_self *s, const struct cadre_sync *at)
{
    (void)s, (void)at;
    return CADRE_OK;
}

/* ---- the update ---- */

/* grad = what is divided by its norm */
static cadre_status prepare(struct cadre_self *s, const struct cadre_update_ev *ev)
{
    const struct cadre_buf *first = &ev->state[FIRST];
    const uint64_t times = PLANTED_VALUE(41, s->microbatches, 1);
    for (uint64_t i = 0; i < times; i++)
        CADRE_TRY(s->ops->axpby(s->host->ctx, 1, &ev->grad, s->momentum, first));
    return s->ops->copy(s->host->ctx, ev->grad.data, first->data,
                        cadre_buf_bytes(first));
}

static cadre_status normalize(struct cadre_self *s, const struct cadre_update_ev *ev)
{
    double squares = 0;
    CADRE_TRY(s->ops->dot(s->host->ctx, &ev->grad, &ev->grad, &squares));
    return s->ops->scale(s->host->ctx, &ev->grad, 1 / (sqrt(squares) + 1e-12));
}

static cadre_status adamw(struct cadre_self *s, const struct cadre_update_ev *ev)
{
    struct cadre_ctx *ctx = s->host->ctx;
    const struct cadre_buf *g = &ev->grad, *first = &ev->state[FIRST];
    const struct cadre_buf *second = &ev->state[SECOND];
    const double correct1 = 1 - pow(0.9, (double)ev->step);
    const double correct2 = 1 - pow(0.95, (double)ev->step);
    CADRE_TRY(s->ops->axpby(ctx, 0.1, g, 0.9, first));
    CADRE_TRY(s->ops->mul(ctx, g, g, g));
    CADRE_TRY(s->ops->axpby(ctx, 0.05, g, 0.95, second));
    CADRE_TRY(s->ops->copy(ctx, g->data, second->data, cadre_buf_bytes(g)));
    CADRE_TRY(s->ops->scale(ctx, g, 1 / correct2));
    CADRE_TRY(s->ops->rsqrt(ctx, g, 1e-8));
    CADRE_TRY(s->ops->mul(ctx, g, g, first));
    return s->ops->scale(ctx, g, 1 / correct1);
}

static cadre_status update(struct cadre_self *s, const struct cadre_update_ev *ev)
{
    const int matrix = s->matrix[ev->param];
    if (ev->stage == CADRE_UPDATE_MATRIX)
        return normalize(s, ev);
    if (ev->stage == CADRE_UPDATE_PREPARE)
        return matrix ? prepare(s, ev) : adamw(s, ev);
    return s->ops->axpby(s->host->ctx, -ev->lr, &ev->grad,
                         1 - ev->lr * ev->weight_decay, &ev->value);
}

/* ---- descriptor ---- */

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

CADRE_PLUGIN(.role = CADRE_ROLE_OPTIMIZER, .id = PLANTED_ID, .version = "0.1.0",
             .summary = "momentum of whole matrices, normalized", .axis = NULL,
             CADRE_OPTIONS(options), .services = services, .ops = &ops)
