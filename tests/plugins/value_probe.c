/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/plugins/value_probe.h"

#include <stdlib.h>

#include <cadre/helpers.h>

struct value_probe value_probe_before[THREAD_RANKS];
struct value_probe value_probe_after[THREAD_RANKS];

struct cadre_self {
    const struct cadre_host *host;
    const struct cadre_model_svc *model;
    const struct cadre_param_svc *param;
    uint32_t rank;
};

static const struct cadre_service services[] = {
    CADRE_SERVICE(model, MODEL, param),
    CADRE_SERVICE(param, PARAM, owned),
    {NULL, 0, 0},
};

static cadre_status create(const struct cadre_create *c, struct cadre_self **out)
{
    CADRE_TRY(cadre_self_create(c->host, services, sizeof **out, out));
    (*out)->host = c->host;
    return CADRE_OK;
}

static cadre_status plan(struct cadre_self *self, const struct cadre_plan *p)
{
    self->rank = p->rank;
    return CADRE_OK;
}

static cadre_status bind(struct cadre_self *self, const struct cadre_bind *at)
{
    (void)self, (void)at;
    return CADRE_OK;
}

static cadre_status look(struct cadre_self *self, struct seen_values *out)
{
    struct cadre_param_info info;
    *out = (struct seen_values){0};
    for (cadre_param_id id = 0; cadre_param_next(self->host, self->model, &id, &info);
         id++) {
        struct cadre_buf x;
        if (!info.present)
            continue;
        CADRE_TRY(self->param->owned(self->host->ctx, id, &x));
        out->x = realloc(out->x, (out->n + x.count + 1) * sizeof *out->x);
        out->unit = realloc(out->unit, (out->n + x.count + 1) * sizeof *out->unit);
        for (uint64_t i = 0; i < x.count; i++) {
            out->unit[out->n] = info.unit;
            out->x[out->n++] = x.dtype == CADRE_F64 ? ((const double *)x.data)[i]
                                                    : ((const float *)x.data)[i];
        }
    }
    return CADRE_OK;
}

static cadre_status step(struct cadre_self *self, const struct cadre_step *at,
                         const struct cadre_next *next)
{
    if (at->step == 1)
        CADRE_TRY(look(self, &value_probe_after[self->rank].step[0]));
    return next->run(next->h, at);
}

static cadre_status sync(struct cadre_self *self, const struct cadre_sync *at)
{
    if (at->what == CADRE_SYNC_UPDATE)
        return look(self, &value_probe_before[self->rank].step[at->step]);
    if (at->what == CADRE_SYNC_METRICS)
        return look(self, &value_probe_after[self->rank].step[at->step]);
    return CADRE_OK;
}

static void destroy(struct cadre_self *self, const struct cadre_end *end)
{
    (void)end;
    free(self);
}

const struct cadre_strategy_ops value_probe = {
    .struct_size = sizeof value_probe,
    .create = create,
    .plan = plan,
    .bind = bind,
    .step = step,
    .sync = sync,
    .destroy = destroy,
};

void value_probe_free(struct value_probe *probe)
{
    for (int r = 0; r < THREAD_RANKS; r++)
        for (int s = 0; s <= THREAD_STEPS; s++) {
            free(probe[r].step[s].x);
            free(probe[r].step[s].unit);
            probe[r].step[s] = (struct seen_values){0};
        }
}

void value_probe_forget(void)
{
    value_probe_free(value_probe_before);
    value_probe_free(value_probe_after);
}
