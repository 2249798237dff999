/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/layout/forms.h"

#include "core/base/log.h"

#define ALIGN 64

static bool is_plain(const struct cadre_rank_plan *plan, uint32_t param)
{
    return plan->param[param].form == CADRE_FORM_PLAIN;
}

static uint64_t decoded_bytes(const struct cadre_model *model, uint32_t param)
{
    const uint64_t bytes = cadre_shape_count(&model->params[param].local) *
                           cadre_dtype_bytes(model->config.dtype);
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

uint64_t cadre_forms_bytes(const struct cadre_model *model,
                           const struct cadre_rank_plan *plan)
{
    uint64_t most = 0, bytes = 0;
    for (uint32_t i = 0; i < model->n_params; i++) {
        if (i > 0 && model->params[i].unit != model->params[i - 1].unit)
            bytes = 0;
        if (plan->param[i].present && !is_plain(plan, i))
            bytes += decoded_bytes(model, i);
        most = bytes > most ? bytes : most;
    }
    return most;
}

cadre_status cadre_forms_decode(struct cadre_store *store, uint32_t unit)
{
    struct cadre_model *model = store->model;
    struct cadre_device *device = store->ledger->device;
    char *at = store->decoded;
    if (!at)
        return CADRE_OK;
    for (uint32_t i = cadre_model_first_param(model, unit);
         i < model->n_params && model->params[i].unit == unit; i++) {
        if (is_plain(store->plan, i))
            continue;
        if (!store->param[i].data) {
            cadre_log(CADRE_LOG_ERROR, "strategy", "no storage is attached to '%s'",
                      model->params[i].name);
            return CADRE_E_INTERNAL;
        }
        CADRE_TRY(device->ops->int8_decode(
            device, store->param[i].data, model->config.dtype, at,
            (int64_t)cadre_shape_count(&model->params[i].local)));
        model->params[i].data = at;
        at += decoded_bytes(model, i);
    }
    return CADRE_OK;
}
