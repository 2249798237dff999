/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/layout/forms.h"

#include "core/base/log.h"
#include "core/model/init.h"
#include "core/tensor/nf4.h"

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

/* Under tensor parallelism the local part is runs of the whole, of whole blocks. */
static cadre_status decode_nf4(const struct cadre_store *store, uint32_t param,
                               const char *from, uint64_t begin, uint64_t count,
                               uint32_t dtype, char *to)
{
    const struct cadre_model *model = store->model;
    const struct cadre_param *p = &model->params[param];
    const uint32_t owner = p->tied_to < 0 ? param : (uint32_t)p->tied_to;
    struct cadre_device *device = store->ledger->device;
    for (uint64_t done = 0, n, whole; done < count; done += n) {
        n = cadre_param_run(p, model->tp_rank, model->tp_size, begin + done, &whole);
        n = n < count - done ? n : count - done;
        CADRE_TRY(device->ops->nf4_decode(
            device, from + done / CADRE_NF4_BLOCK * CADRE_NF4_BYTES,
            store->param[owner].scales, (int64_t)(whole / CADRE_NF4_BLOCK), dtype,
            to + done * cadre_dtype_bytes(dtype), (int64_t)n));
    }
    return CADRE_OK;
}

cadre_status cadre_forms_decode_range(const struct cadre_store *store, uint32_t param,
                                      const void *from, uint64_t begin, uint64_t count,
                                      uint32_t dtype, void *to)
{
    struct cadre_device *device = store->ledger->device;
    if (store->plan->param[param].form == CADRE_FORM_NF4)
        return decode_nf4(store, param, from, begin, count, dtype, to);
    return device->ops->int8_decode(device, from, dtype, to, (int64_t)count);
}

cadre_status cadre_forms_decode(struct cadre_store *store, uint32_t unit)
{
    struct cadre_model *model = store->model;
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
        CADRE_TRY(cadre_forms_decode_range(store, i, store->param[i].data, 0,
                                           cadre_shape_count(&model->params[i].local),
                                           model->config.dtype, at));
        model->params[i].data = at;
        at += decoded_bytes(model, i);
    }
    return CADRE_OK;
}
