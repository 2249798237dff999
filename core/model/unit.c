/* SPDX-License-Identifier: Apache-2.0 */
/* Dispatch from (model, unit index) to the kind of unit; allocation inside pass
 * buffers. */
#include "core/model/unit_private.h"

#include "core/base/log.h"

#define ALIGNMENT 64

/* Start of a buffer of the pass. */
static unsigned char *base_of(const struct cadre_carver *carver,
                              enum cadre_unit_buffer from)
{
    const struct cadre_pass *pass = carver->unit->pass;
    unsigned char *saved = pass ? pass->saved : NULL;
    if (!pass)
        return NULL;
    switch (from) {
    case CADRE_UNIT_SAVED:
        return saved;
    case CADRE_UNIT_SAVED_FOR_INPUT:
        if (pass->saved_for_input)
            return pass->saved_for_input;
        return saved ? saved + carver->used[CADRE_UNIT_SAVED] : NULL;
    case CADRE_UNIT_GRAD_OUTPUTS:
        return pass->grad_outputs;
    case CADRE_UNIT_SCRATCH:
        return pass->scratch;
    case CADRE_UNIT_BUFFERS:
        break;
    }
    return NULL;
}

static void *carve(struct cadre_carver *carver, enum cadre_unit_buffer from,
                   size_t bytes)
{
    unsigned char *base = base_of(carver, from);
    void *part = base ? base + carver->used[from] : NULL;
    carver->used[from] += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return part;
}

void *cadre_carve(struct cadre_carver *carver, enum cadre_unit_buffer from,
                  int64_t count)
{
    return carve(carver, from, (size_t)count * carver->unit->element);
}

void *cadre_carve_wide(struct cadre_carver *carver, enum cadre_unit_buffer from,
                       int64_t count)
{
    return carve(carver, from, (size_t)count * carver->unit->wide);
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
        .K = T * model->time_ranks,
        .position = T * model->time_rank,
        .C = config->channels,
        .D = model->head_size,
        .H = model->heads,
        .G = model->kv_heads,
        .F = model->hidden,
    };
    unit.index = index;
    if (pass && pass->kv_cache) {
        unit.position = pass->kv_cache->n;
        unit.K = unit.position + T;
    }
    unit.M = unit.N;
    if (pass && pass->most_rows > unit.N && model->ep_size > 1)
        unit.M = pass->most_rows;
    unit.M *= model->ep_size;
    unit.begin = 0;
    unit.R = cadre_model_rows(model, unit.N);
    if (model->rows_sharded && pass)
        unit.begin = cadre_model_row(model, unit.N, model->tp_rank);
    else if (model->rows_sharded)
        unit.R = (unit.N + model->tp_size - 1) / model->tp_size;
    unit.A = unit.H * unit.D;
    unit.Q = (unit.H + 2 * unit.G) * unit.D;
    unit.first = cadre_model_first_param(model, index);
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
        return model->config.image.patch > 0 ? &cadre_image_unit : &cadre_embed_unit;
    if (unit == model->n_units - 1)
        return cadre_head_is_chunked(model) ? &cadre_head_chunked_unit
                                            : &cadre_head_unit;
    return model->config.arch == CADRE_ARCH_GPT2 ? &cadre_gpt2_unit : &cadre_llama_unit;
}

static size_t buffer_bytes(const struct cadre_model *model, uint32_t unit, int64_t B,
                           int64_t T, enum cadre_unit_buffer buffer)
{
    struct cadre_unit u = cadre_unit_of(model, unit, B, T, NULL);
    struct cadre_carver carver = {.unit = &u};
    kind_of(&u, unit)->carve(&carver);
    return carver.used[buffer];
}

size_t cadre_unit_saved_bytes(const struct cadre_model *model, uint32_t unit, int64_t B,
                              int64_t T)
{
    return buffer_bytes(model, unit, B, T, CADRE_UNIT_SAVED) +
           buffer_bytes(model, unit, B, T, CADRE_UNIT_SAVED_FOR_INPUT);
}

size_t cadre_unit_saved_for_input_bytes(const struct cadre_model *model, uint32_t unit,
                                        int64_t B, int64_t T)
{
    return buffer_bytes(model, unit, B, T, CADRE_UNIT_SAVED_FOR_INPUT);
}

size_t cadre_unit_grad_outputs_bytes(const struct cadre_model *model, uint32_t unit,
                                     int64_t B, int64_t T)
{
    return buffer_bytes(model, unit, B, T, CADRE_UNIT_GRAD_OUTPUTS);
}

size_t cadre_unit_scratch_bytes(const struct cadre_model *model, uint32_t unit,
                                int64_t B, int64_t T)
{
    return buffer_bytes(model, unit, B, T, CADRE_UNIT_SCRATCH);
}

static cadre_status check(const struct cadre_model *model, uint32_t unit,
                          const struct cadre_pass *pass, bool backward)
{
    if (unit >= model->n_units) {
        cadre_log(CADRE_LOG_ERROR, "model", "unit %u does not exist, the model has %u",
                  unit, model->n_units);
        return CADRE_E_INVALID;
    }
    const struct cadre_kv_cache *cache = pass->kv_cache;
    int64_t time = pass->time * model->time_ranks + (cache ? cache->n : 0);
    if (cache && (backward || model->time_ranks > 1 || cache->batch != pass->batch ||
                  time > cache->room)) {
        cadre_log(CADRE_LOG_ERROR, "model",
                  "a cache of %lld sequences of %lld tokens with %s of %lld of %lld "
                  "tokens, expected forward of no more than it holds",
                  (long long)cache->batch, (long long)cache->room,
                  backward ? "backward" : "forward", (long long)pass->batch,
                  (long long)time);
        return CADRE_E_INVALID;
    }
    if (pass->batch < 1 || pass->time < 1 || time > model->config.context) {
        cadre_log(CADRE_LOG_ERROR, "model",
                  "micro-batch of %lld sequences of %lld tokens, expected at least one "
                  "and at most model.context = %lld tokens",
                  (long long)pass->batch, (long long)time,
                  (long long)model->config.context);
        return CADRE_E_INVALID;
    }
    return CADRE_OK;
}

cadre_status cadre_unit_forward(const struct cadre_model *model, uint32_t unit,
                                const struct cadre_pass *pass, const void *x, void *y)
{
    CADRE_TRY(check(model, unit, pass, false));
    struct cadre_unit u = cadre_unit_of(model, unit, pass->batch, pass->time, pass);
    return kind_of(&u, unit)->forward(&u, x, y);
}

cadre_status cadre_unit_backward_input(const struct cadre_model *model, uint32_t unit,
                                       const struct cadre_pass *pass, const void *x,
                                       const void *dy, void *dx)
{
    CADRE_TRY(check(model, unit, pass, true));
    struct cadre_unit u = cadre_unit_of(model, unit, pass->batch, pass->time, pass);
    return kind_of(&u, unit)->backward_input(&u, x, dy, dx);
}

cadre_status cadre_unit_backward_weight(const struct cadre_model *model, uint32_t unit,
                                        const struct cadre_pass *pass, const void *x)
{
    CADRE_TRY(check(model, unit, pass, true));
    struct cadre_unit u = cadre_unit_of(model, unit, pass->batch, pass->time, pass);
    return kind_of(&u, unit)->backward_weight(&u, x);
}
