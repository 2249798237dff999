/* SPDX-License-Identifier: Apache-2.0 */
/* Initial values as a function of (seed, name, logical element), so that every cut of a
 * parameter holds the same bits. Scales: GPT-2's (Radford et al. 2019, section 2.3). */
#include "core/model/model.h"

#include "core/base/rng.h"

/* Index along the split dimension, local to logical. Packed q, k, v: each third is cut.
 */
static uint64_t logical_column(const struct cadre_param *param, int tp_rank,
                               int tp_size, uint64_t column)
{
    uint64_t local = param->local.dim[param->split_dim];
    if (param->split == CADRE_SPLIT_QKV) {
        uint64_t third = local / 3;
        uint64_t whole = third * (uint64_t)tp_size;
        return column / third * whole + (uint64_t)tp_rank * third + column % third;
    }
    return (uint64_t)tp_rank * local + column;
}

uint64_t cadre_param_logical(const struct cadre_param *param, int tp_rank, int tp_size,
                             uint64_t element)
{
    if (param->split == CADRE_SPLIT_NONE)
        return element;
    if (param->split_dim == 0 && param->shape.ndim == 1)
        return logical_column(param, tp_rank, tp_size, element);
    uint64_t width = param->local.dim[1];
    uint64_t row = element / width, column = element % width;
    if (param->split_dim == 0)
        row = logical_column(param, tp_rank, tp_size, row);
    else
        column = logical_column(param, tp_rank, tp_size, column);
    return row * param->shape.dim[1] + column;
}

static double initial_value(const struct cadre_param *param, uint64_t key,
                            uint64_t logical)
{
    switch (param->init) {
    case CADRE_INIT_ONE:
        return 1.0;
    case CADRE_INIT_NORMAL:
        return param->init_std * cadre_rng_normal(key, logical);
    case CADRE_INIT_ZERO:
        break;
    }
    return 0.0;
}

void cadre_model_init_range(const struct cadre_model *model, uint32_t index,
                            uint64_t seed, uint64_t begin, uint64_t count, void *out)
{
    const struct cadre_param *param = &model->params[index];
    if (param->tied_to >= 0)
        param = &model->params[param->tied_to];
    uint64_t key = cadre_rng_key(seed, param->name);
    bool wide = model->config.dtype == CADRE_F64;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t logical =
            cadre_param_logical(param, model->tp_rank, model->tp_size, begin + i);
        double value = initial_value(param, key, logical);
        if (wide)
            ((double *)out)[i] = value;
        else
            ((float *)out)[i] = (float)value;
    }
}
