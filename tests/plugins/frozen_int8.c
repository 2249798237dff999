/* SPDX-License-Identifier: Apache-2.0 */
/* Freezes the parameters whose names contain a text, and stores them in int8. */
#include <cadre/helpers.h>

struct cadre_self {
    const struct cadre_host *host;
    const struct cadre_model_svc *model;
    const char *names;
    uint32_t form;
};

static const struct cadre_service services[] = {
    CADRE_SERVICE(model, MODEL, param),
    {NULL, 0, 0},
};

static cadre_status create(const struct cadre_create *c, struct cadre_self **out)
{
    CADRE_TRY(cadre_self_create(c->host, services, sizeof **out, out));
    (*out)->host = c->host;
    (*out)->names = c->values->str(c->values->h, "names");
    (*out)->form = c->values->i64(c->values->h, "nf4")    ? CADRE_FORM_NF4
                   : c->values->i64(c->values->h, "int8") ? CADRE_FORM_INT8
                                                          : CADRE_FORM_PLAIN;
    return CADRE_OK;
}

static cadre_status plan(struct cadre_self *s, const struct cadre_plan *p)
{
    struct cadre_param_info info;
    uint32_t n = 0;
    if (strcmp(s->names, "none") == 0)
        return CADRE_OK;
    for (cadre_param_id id = 0; id < s->model->n_params(s->host->ctx); id++) {
        CADRE_TRY(cadre_param_get(s->host, s->model, id, &info));
        if (!strstr(info.name, s->names) || info.tied_to >= 0)
            continue;
        n++;
        CADRE_TRY(p->train(p->h, id, 0));
        if (s->form != CADRE_FORM_PLAIN)
            CADRE_TRY(p->store(p->h, id, s->form));
    }
    if (n == 0)
        return cadre_refuse(s->host, CADRE_E_INVALID,
                            "frozen_int8.names = %s: no parameter has that in its name",
                            s->names);
    return p->by_design(p->h, "names=none");
}

static cadre_status bind(struct cadre_self *s, const struct cadre_bind *at)
{
    (void)s, (void)at;
    return CADRE_OK;
}

static cadre_status sync(struct cadre_self *s, const struct cadre_sync *at)
{
    (void)s, (void)at;
    return CADRE_OK;
}

/* No gradient of a frozen parameter is raised. */
static cadre_status on_grad(struct cadre_self *s, struct cadre_grad_ev *ev)
{
    struct cadre_param_info info;
    CADRE_TRY(cadre_param_get(s->host, s->model, ev->param, &info));
    if (!info.frozen)
        return CADRE_OK;
    return cadre_refuse(s->host, CADRE_E_INTERNAL,
                        "a gradient of '%s' was raised, which is frozen", info.name);
}

static void destroy(struct cadre_self *s, const struct cadre_end *end)
{
    (void)end;
    free(s);
}

static const struct cadre_option options[] = {
    CADRE_OPTION(.type = CADRE_OPTION_STR, .key = "names", .def = "attn.",
                 .help = "part of the names of what is frozen; none: nothing is"),
    CADRE_OPTION(.type = CADRE_OPTION_BOOL, .key = "int8", .def = "yes",
                 .help = "store it in int8"),
    CADRE_OPTION(.type = CADRE_OPTION_BOOL, .key = "nf4", .def = "no",
                 .help = "store it in nf4"),
};

static const struct cadre_strategy_ops ops = {
    .struct_size = sizeof ops,
    .create = create,
    .plan = plan,
    .bind = bind,
    .sync = sync,
    .on_grad = on_grad,
    .destroy = destroy,
};

CADRE_PLUGIN(.role = CADRE_ROLE_OBSERVER, .id = "org.cadre.test.frozen_int8",
             .version = "0.1.0",
             .summary = "freezes parameters and stores them in int8", .axis = "frozen",
             CADRE_OPTIONS(options), .services = services, .ops = &ops)
