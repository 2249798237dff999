/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/strategy/param_marks.h"

#include <stdlib.h>

#include "core/base/memory.h"

cadre_status cadre_param_marks_init(struct cadre_param_marks *marks, uint32_t n,
                                    struct cadre_error *err)
{
    *marks = (struct cadre_param_marks){.n = n,
                                        .mark = cadre_calloc(n, sizeof *marks->mark)};
    return marks->mark ? CADRE_OK : cadre_no_memory(err, "the marks of parameters");
}

void cadre_param_marks_fini(struct cadre_param_marks *marks)
{
    free(marks->mark);
    *marks = (struct cadre_param_marks){0};
}

static uint32_t owner_of(const struct cadre_services *s, uint32_t param)
{
    int32_t owner = s->model->params[param].tied_to;
    return owner >= 0 ? (uint32_t)owner : param;
}

void cadre_param_marks_pend(struct cadre_services *services, const struct cadre_ctx *by,
                            uint32_t param, cadre_event event)
{
    struct cadre_param_mark *mark = &services->marks->mark[owner_of(services, param)];
    services->marks->n_pending -= mark->event != 0;
    mark->event = event;
    mark->by = by;
    services->marks->n_pending += event != 0;
}

cadre_status cadre_param_marks_await(struct cadre_services *services, uint32_t param,
                                     const struct cadre_ctx *reader)
{
    struct cadre_param_mark *mark = &services->marks->mark[owner_of(services, param)];
    cadre_event event = mark->event;
    if (event == 0 || (reader && mark->by == reader))
        return CADRE_OK;
    mark->event = 0;
    services->marks->n_pending--;
    return cadre_services_await(services, event, "parameters");
}

cadre_status cadre_param_marks_await_unit(struct cadre_services *services,
                                          uint32_t unit)
{
    const struct cadre_model *model = services->model;
    for (uint32_t i = 0; services->marks->n_pending > 0 && i < model->n_params; i++)
        if (model->params[i].unit == unit)
            CADRE_TRY(cadre_param_marks_await(services, i, NULL));
    return CADRE_OK;
}

cadre_status cadre_param_marks_await_all(struct cadre_services *services)
{
    for (uint32_t i = 0; services->marks->n_pending > 0 && i < services->marks->n; i++)
        CADRE_TRY(cadre_param_marks_await(services, i, NULL));
    return CADRE_OK;
}

/* Where parameters are as wide as owned values, these are the same memory. */
static cadre_status round_one(struct cadre_services *services, uint32_t param)
{
    struct cadre_store *store = services->store;
    struct cadre_device *device = services->device;
    struct cadre_share own = cadre_store_share(store, param, CADRE_KIND_OPT);
    void *rounded = cadre_store_opt_rounded(store, param);
    if (!rounded || own.count == 0)
        return CADRE_OK;
    return device->ops->cast(device, services->model->config.dtype, rounded,
                             store->wide, cadre_store_opt_data(store, param),
                             (int64_t)own.count);
}

void cadre_param_marks_change(struct cadre_param_marks *marks, uint32_t param)
{
    marks->n_changed += !marks->mark[param].changed;
    marks->mark[param].changed = true;
}

cadre_status cadre_param_marks_round(struct cadre_services *services)
{
    for (uint32_t i = 0; services->marks->n_changed > 0 && i < services->marks->n;
         i++) {
        if (!services->marks->mark[i].changed)
            continue;
        services->marks->mark[i].changed = false;
        services->marks->n_changed--;
        CADRE_TRY(round_one(services, i));
    }
    return CADRE_OK;
}
