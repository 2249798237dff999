/* SPDX-License-Identifier: Apache-2.0 */
/* From (model, unit index) to the kind of unit, and the carving of pass buffers. */
#include "core/model/unit.h"

#include "core/base/log.h"

#define ALIGNMENT 64

static void *carve(struct cadre_carver *carver, size_t bytes)
{
    void *piece = carver->base ? carver->base + carver->used : NULL;
    carver->used += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return piece;
}

void *cadre_carve(struct cadre_carver *carver, int64_t count)
{
    return carve(carver, (size_t)count * carver->element);
}

void *cadre_carve_wide(struct cadre_carver *carver, int64_t count)
{
    return carve(carver, (size_t)count * carver->wide);
}

struct cadre_carver cadre_carver_of(const struct cadre_unit *unit,
                                    enum cadre_unit_buffer buffer)
{
    struct cadre_carver carver = {.element = unit->element, .wide = unit->wide};
    const struct cadre_pass *pass = unit->pass;
    if (pass && buffer == CADRE_UNIT_SAVED)
        carver.base = pass->saved;
    if (pass && buffer == CADRE_UNIT_DOUTS)
        carver.base = pass->douts;
    if (pass && buffer == CADRE_UNIT_SCRATCH)
        carver.base = pass->scratch;
    return carver;
}

struct cadre_carver cadre_carver_early(const struct cadre_unit *unit,
                                       const struct cadre_carver *saved)
{
    struct cadre_carver carver = {.element = unit->element, .wide = unit->wide};
    if (unit->pass && unit->pass->early)
        carver.base = unit->pass->early;
    else if (saved->base)
        carver.base = saved->base + saved->used;
    return carver;
}

struct cadre_unit cadre_unit_of(const struct cadre_model *model, uint32_t index,
                                int64_t B, int64_t T, const struct cadre_pass *pass)
{
    const struct cadre_model_config *config = &model->config;
    struct cadre_unit unit = {
        .model = model,
        .pass = pass,
        .dtype = config->dtype,
        .element = cadre_dtype_bytes(config->dtype),
        .wide = cadre_dtype_bytes(cadre_dtype_wide(config->dtype)),
        .B = B,
        .T = T,
        .N = B * T,
        .C = config->channels,
        .D = config->channels / config->heads,
        .H = model->heads,
        .G = model->kv_heads,
        .F = model->hidden,
    };
    unit.begin = 0;
    unit.R = cadre_model_rows(model, unit.N);
    if (model->rows_cut && pass)
        unit.begin = cadre_model_row(model, unit.N, model->tp_rank);
    else if (model->rows_cut)
        unit.R = (unit.N + model->tp_size - 1) / model->tp_size;
    unit.A = unit.H * unit.D;
    unit.Q = (unit.H + 2 * unit.G) * unit.D;
    unit.first = cadre_table_first(model, index);
    if (pass) {
        unit.device = pass->device;
        unit.ops = pass->device->ops;
    }
    return unit;
}

static const struct cadre_unit_kind *kind_of(const struct cadre_unit *u, uint32_t unit)
{
    const struct cadre_model *model = u->model;
    if (unit == 0)
        return &cadre_embed_unit;
    if (unit == model->n_units - 1)
        return cadre_head_is_chunked(model) ? &cadre_head_chunked_unit
                                            : &cadre_head_unit;
    return model->config.arch == CADRE_ARCH_GPT2 ? &cadre_gpt2_unit : &cadre_llama_unit;
}

static size_t buffer_bytes(const struct cadre_model *model, uint32_t unit, int64_t B,
                           int64_t T, enum cadre_unit_buffer buffer)
{
    struct cadre_unit u = cadre_unit_of(model, unit, B, T, NULL);
    size_t bytes[CADRE_UNIT_BUFFERS];
    kind_of(&u, unit)->sizes(&u, bytes);
    return bytes[buffer];
}

size_t cadre_unit_saved_bytes(const struct cadre_model *model, uint32_t unit, int64_t B,
                              int64_t T)
{
    return buffer_bytes(model, unit, B, T, CADRE_UNIT_SAVED);
}

size_t cadre_unit_early_bytes(const struct cadre_model *model, uint32_t unit, int64_t B,
                              int64_t T)
{
    return buffer_bytes(model, unit, B, T, CADRE_UNIT_EARLY);
}

size_t cadre_unit_douts_bytes(const struct cadre_model *model, uint32_t unit, int64_t B,
                              int64_t T)
{
    return buffer_bytes(model, unit, B, T, CADRE_UNIT_DOUTS);
}

size_t cadre_unit_scratch_bytes(const struct cadre_model *model, uint32_t unit,
                                int64_t B, int64_t T)
{
    return buffer_bytes(model, unit, B, T, CADRE_UNIT_SCRATCH);
}

static cadre_status check(const struct cadre_model *model, uint32_t unit,
                          const struct cadre_pass *pass)
{
    if (unit >= model->n_units) {
        cadre_log(CADRE_LOG_ERROR, "model", "unit %u does not exist, the model has %u",
                  unit, model->n_units);
        return CADRE_E_INVALID;
    }
    if (pass->batch < 1 || pass->time < 1 || pass->time > model->config.context) {
        cadre_log(CADRE_LOG_ERROR, "model",
                  "micro-batch of %lld sequences of %lld tokens, expected at least one "
                  "and at most model.context = %lld tokens",
                  (long long)pass->batch, (long long)pass->time,
                  (long long)model->config.context);
        return CADRE_E_INVALID;
    }
    return CADRE_OK;
}

cadre_status cadre_unit_forward(const struct cadre_model *model, uint32_t unit,
                                const struct cadre_pass *pass, const void *x, void *y)
{
    cadre_status rc = check(model, unit, pass);
    if (rc != CADRE_OK)
        return rc;
    struct cadre_unit u = cadre_unit_of(model, unit, pass->batch, pass->time, pass);
    return kind_of(&u, unit)->forward(&u, x, y);
}

cadre_status cadre_unit_backward_input(const struct cadre_model *model, uint32_t unit,
                                       const struct cadre_pass *pass, const void *x,
                                       const void *dy, void *dx)
{
    cadre_status rc = check(model, unit, pass);
    if (rc != CADRE_OK)
        return rc;
    struct cadre_unit u = cadre_unit_of(model, unit, pass->batch, pass->time, pass);
    return kind_of(&u, unit)->backward_input(&u, x, dy, dx);
}

cadre_status cadre_unit_backward_weight(const struct cadre_model *model, uint32_t unit,
                                        const struct cadre_pass *pass, const void *x)
{
    cadre_status rc = check(model, unit, pass);
    if (rc != CADRE_OK)
        return rc;
    struct cadre_unit u = cadre_unit_of(model, unit, pass->batch, pass->time, pass);
    return kind_of(&u, unit)->backward_weight(&u, x);
}
