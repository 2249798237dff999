/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/layout/scales.h"

#include <stdlib.h>

#include "core/base/memory.h"
#include "core/model/init.h"
#include "core/tensor/dtype.h"
#include "core/tensor/nf4.h"

#define SCALES "scales of nf4"
#define CHUNK (UINT64_C(1) << 18) /* elements read or encoded at a time: whole blocks */

uint64_t cadre_scales_count(const struct cadre_model *model,
                            const struct cadre_rank_plan *plan, uint32_t param)
{
    const struct cadre_plan_param *at = &plan->param[param];
    const struct cadre_param *p = &model->params[param];
    if (at->form != CADRE_FORM_NF4 || p->tied_to >= 0 || (!at->present && !at->copied))
        return 0;
    return cadre_nf4_scales(cadre_shape_count(&p->shape));
}

static size_t all_bytes(const struct cadre_model *model,
                        const struct cadre_rank_plan *plan)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < model->n_params; i++)
        bytes += cadre_scales_count(model, plan, i) * sizeof(float);
    return bytes;
}

void cadre_scales_note(const struct cadre_model *model,
                       const struct cadre_rank_plan *plan, struct cadre_ledger *ledger)
{
    const size_t bytes = all_bytes(model, plan);
    if (bytes > 0)
        cadre_ledger_note(ledger, CADRE_SPACE_DEVICE, bytes, SCALES);
}

cadre_status cadre_scales_init(struct cadre_store *store, struct cadre_error *err)
{
    const size_t bytes = all_bytes(store->model, store->plan);
    if (bytes == 0)
        return CADRE_OK;
    char *at = cadre_ledger_alloc(store->ledger, CADRE_SPACE_DEVICE, bytes, SCALES);
    if (!at)
        return cadre_no_memory(err, SCALES);
    for (uint32_t i = 0; i < store->model->n_params; i++) {
        const uint64_t count = cadre_scales_count(store->model, store->plan, i);
        if (count > 0)
            store->param[i].scales = (float *)(void *)at;
        at += count * sizeof(float);
    }
    return CADRE_OK;
}

/* ---- between host and device ---- */

/* wide numbers (count) as floats */
static void to_floats(const struct cadre_store *store, const void *wide, uint64_t count,
                      float *out)
{
    for (uint64_t i = 0; i < count; i++)
        out[i] = store->wide == CADRE_F64 ? (float)((const double *)wide)[i]
                                          : ((const float *)wide)[i];
}

static cadre_status put(struct cadre_store *store, uint32_t param, const float *scales)
{
    struct cadre_device *device = store->ledger->device;
    return device->ops->to_device(device, store->param[param].scales, scales,
                                  cadre_scales_count(store->model, store->plan, param) *
                                      sizeof *scales);
}

/* A copy on the host; the caller frees it. NULL: it cannot be had. */
static float *fetch(const struct cadre_store *store, uint32_t param)
{
    struct cadre_device *device = store->ledger->device;
    const uint64_t count = cadre_scales_count(store->model, store->plan, param);
    float *scales = cadre_calloc(count, sizeof *scales);
    if (scales && device->ops->to_host(device, scales, store->param[param].scales,
                                       count * sizeof *scales) != CADRE_OK) {
        free(scales);
        return NULL;
    }
    return scales;
}

cadre_status cadre_scales_set(struct cadre_store *store, uint32_t param,
                              const void *wide)
{
    const uint64_t count = cadre_scales_count(store->model, store->plan, param);
    float *scales = cadre_calloc(count, sizeof *scales);
    if (!scales)
        return CADRE_E_RESOURCE;
    to_floats(store, wide, count, scales);
    cadre_status rc = put(store, param, scales);
    free(scales);
    store->param[param].decoded = true;
    return rc;
}

cadre_status cadre_scales_get(const struct cadre_store *store, uint32_t param,
                              void *wide)
{
    const uint64_t count = cadre_scales_count(store->model, store->plan, param);
    float *scales = fetch(store, param);
    if (!scales)
        return CADRE_E_RESOURCE;
    for (uint64_t i = 0; i < count; i++)
        if (store->wide == CADRE_F64)
            ((double *)wide)[i] = (double)scales[i];
        else
            ((float *)wide)[i] = scales[i];
    free(scales);
    return CADRE_OK;
}

/* ---- from values ---- */

/* absmax (blocks) of a whole parameter, chunk by chunk. */
static cadre_status find_absmax(const struct cadre_store *store, uint32_t param,
                                cadre_scales_read read, void *arg, float *absmax,
                                struct cadre_error *err)
{
    const uint64_t all = cadre_shape_count(&store->model->params[param].shape);
    const uint64_t most = all < CHUNK ? all : CHUNK;
    void *wide = cadre_calloc(most, store->wide_bytes);
    float *x = cadre_calloc(most, sizeof *x);
    cadre_status rc = wide && x ? CADRE_OK : cadre_no_memory(err, SCALES);
    for (uint64_t at = 0, n; rc == CADRE_OK && at < all; at += n) {
        n = all - at < most ? all - at : most;
        rc = read(arg, param, at, n, wide, err);
        if (rc != CADRE_OK)
            break;
        to_floats(store, wide, n, x);
        cadre_nf4_absmax(x, n, absmax + at / CADRE_NF4_BLOCK);
    }
    free(wide);
    free(x);
    return rc;
}

cadre_status cadre_scales_find(struct cadre_store *store, uint32_t param,
                               cadre_scales_read read, void *arg,
                               struct cadre_error *err)
{
    const struct cadre_param *p = &store->model->params[param];
    const uint64_t count = cadre_scales_count(store->model, store->plan, param);
    const uint64_t blocks = cadre_nf4_blocks(cadre_shape_count(&p->shape));
    if (count == 0)
        return CADRE_OK;
    float *absmax = cadre_calloc(blocks, sizeof *absmax);
    float *scales = cadre_calloc(count, sizeof *scales);
    cadre_status rc = absmax && scales
                          ? find_absmax(store, param, read, arg, absmax, err)
                          : cadre_no_memory(err, SCALES);
    if (rc == CADRE_OK &&
        !cadre_nf4_scale(absmax, blocks, cadre_nf4_offset(absmax, blocks), scales))
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "'%s' has a value that is not finite in fp32, which nf4 cannot "
                        "store; use another model, or set tune.base = full",
                        p->name);
    if (rc == CADRE_OK && put(store, param, scales) != CADRE_OK)
        rc = cadre_fail(err, CADRE_E_DEVICE, "cannot copy the scales of '%s'", p->name);
    store->param[param].decoded = false;
    free(absmax);
    free(scales);
    return rc;
}

/* ---- values ---- */

/* Elements of a chunk, in runs of the whole parameter. */
static void encode_chunk(const struct cadre_store *store, uint32_t param,
                         const float *scales, uint64_t begin, const float *x,
                         uint64_t count, uint8_t *out)
{
    const struct cadre_model *model = store->model;
    for (uint64_t done = 0, n, whole; done < count; done += n) {
        n = cadre_param_run(&model->params[param], model->tp_rank, model->tp_size,
                            begin + done, &whole);
        n = n < count - done ? n : count - done;
        uint8_t *to = out + done / CADRE_NF4_BLOCK * CADRE_NF4_BYTES;
        if (store->param[param].decoded)
            cadre_nf4_encode_again(scales, whole / CADRE_NF4_BLOCK, x + done, n, to);
        else
            cadre_nf4_encode(scales, whole / CADRE_NF4_BLOCK, x + done, n, to);
    }
}

cadre_status cadre_scales_encode(struct cadre_store *store, uint32_t param,
                                 char *target, const void *host)
{
    const struct cadre_share values = cadre_store_elements(store, param);
    struct cadre_device *device = store->ledger->device;
    const uint64_t most = values.count < CHUNK ? values.count : CHUNK;
    float *scales = fetch(store, param), *x = cadre_calloc(most, sizeof *x);
    uint8_t *out = cadre_calloc(cadre_nf4_blocks(most), CADRE_NF4_BYTES);
    cadre_status rc = scales && x && out ? CADRE_OK : CADRE_E_RESOURCE;
    for (uint64_t at = 0, n; rc == CADRE_OK && at < values.count; at += n) {
        n = values.count - at < most ? values.count - at : most;
        to_floats(store, (const char *)host + at * store->wide_bytes, n, x);
        encode_chunk(store, param, scales, values.begin + at, x, n, out);
        rc = device->ops->to_device(device,
                                    target + at / CADRE_NF4_BLOCK * CADRE_NF4_BYTES,
                                    out, cadre_nf4_blocks(n) * CADRE_NF4_BYTES);
    }
    if (rc == CADRE_OK)
        rc = device->ops->synchronize(device);
    free(scales);
    free(x);
    free(out);
    return rc;
}
