/* SPDX-License-Identifier: Apache-2.0 */
#include "core/model/qat.h"

#include <assert.h>

/* Products whose inputs tensor ranks share out: a group of a weight's inputs is whole
 * on one of them. */
static cadre_status check_groups(const struct cadre_model_config *config, int tp_size,
                                 struct cadre_error *err)
{
    const int64_t size =
        config->head_size > 0 ? config->head_size : config->channels / config->heads;
    const int64_t inputs[] = {config->heads * size, config->hidden};
    const int64_t group = config->qat.group;
    for (int i = 0; i < 2 && tp_size > 1 && !config->qat.stored; i++)
        if (inputs[i] / tp_size % group != 0)
            return cadre_fail(
                err, CADRE_E_INVALID,
                "tune.group = %lld over %d tensor ranks, expected a divisor of %lld, "
                "which is a rank's part of the %lld inputs of %s: no group of them may "
                "be cut; change tune.group, or the tensor ranks in strategy.stack",
                (long long)group, tp_size, (long long)(inputs[i] / tp_size),
                (long long)inputs[i],
                i == 0 ? "attention's output projection" : "the MLP's last product");
    return CADRE_OK;
}

cadre_status cadre_qat_check(const struct cadre_model_config *config, int tp_size,
                             struct cadre_error *err)
{
    const char *key = config->experts > 0     ? "model.experts"
                      : config->lora.rank > 0 ? "adapters"
                                              : NULL;
    if (config->qat.group == 0)
        return CADRE_OK;
    if (config->qat.group < 0)
        return cadre_fail(err, CADRE_E_INVALID, "tune.group = %lld, expected 1 or more",
                          (long long)config->qat.group);
    if (key)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "tune.method = qat with %s, expected a plain MLP and no "
                          "adapters: only those products are quantised",
                          key);
    return check_groups(config, tp_size, err);
}

struct buffers {
    void *input, *weight; /* scratch */
    /* Over tensor ranks: (N, 2) of a row-split product's tokens, on this rank (scratch)
     * and of all: attention's, then the MLP's. Saved, so that backward asks nobody. */
    void *own_range, *range[2];
};

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Elements of the weights that one product reads: in parts, all that share an input. */
static int64_t weights_at_once(const struct cadre_unit *u)
{
    const bool gated = u->model->config.arch == CADRE_ARCH_LLAMA;
    const int64_t mlp = gated && u->model->parts > 0 ? 2 * u->F : u->F;
    return larger(larger(u->Q, u->A), mlp) * u->C;
}

static struct buffers carve(struct cadre_carver *carver)
{
    const struct cadre_unit *u = carver->unit;
    const int64_t in = larger(larger(u->C, u->A), u->F);
    struct buffers b = {0};
    b.input = cadre_carve(carver, CADRE_UNIT_SCRATCH, u->N * in);
    b.weight = cadre_carve(carver, CADRE_UNIT_SCRATCH, weights_at_once(u));
    if (u->model->tp_size == 1)
        return b;
    b.own_range = cadre_carve_wide(carver, CADRE_UNIT_SCRATCH, u->N * 2);
    for (int i = 0; i < 2; i++)
        b.range[i] = cadre_carve_wide(carver, CADRE_UNIT_SAVED, u->N * 2);
    return b;
}

bool cadre_qat_quantises(const struct cadre_unit *unit)
{
    return unit->model->config.qat.group > 0 && unit->index > 0 &&
           unit->index + 1 < unit->model->n_units;
}

void cadre_qat_carve(struct cadre_carver *carver)
{
    if (cadre_qat_quantises(carver->unit))
        carve(carver);
}

static struct buffers buffers_of(const struct cadre_unit *unit)
{
    struct cadre_carver carver = {.unit = unit};
    return carve(&carver);
}

static struct cadre_fake_quantize of_weight(const struct cadre_unit *unit,
                                            const struct cadre_linear *linear)
{
    return (struct cadre_fake_quantize){
        .dtype = unit->dtype,
        .rows = linear->conv1d ? linear->in : linear->out,
        .columns = linear->conv1d ? linear->out : linear->in,
        .group = unit->model->config.qat.group,
        .down = linear->conv1d,
        .x = cadre_unit_param(unit, linear->weight),
        .wide = true,
    };
}

/* The ranges of a product's tokens, where ranks have parts of them; else NULL. */
static void *range_of(const struct cadre_unit *unit, const struct cadre_linear *linear)
{
    const struct cadre_model_config *config = &unit->model->config;
    const uint32_t first = config->arch == CADRE_ARCH_GPT2
                               ? GPT2_PROJ_W
                               : cadre_llama_place(config, LLAMA_O_W);
    if (unit->model->tp_size == 1 || !cadre_linear_is_row_split(unit, linear))
        return NULL;
    return buffers_of(unit).range[linear->weight != first];
}

static struct cadre_fake_quantize of_input(const struct cadre_unit *unit,
                                           const struct cadre_linear *linear,
                                           const void *x)
{
    assert(linear->ldx == linear->in);
    return (struct cadre_fake_quantize){
        .dtype = unit->dtype,
        .rows = linear->rows,
        .columns = linear->in,
        .x = x,
        .range = range_of(unit, linear),
    };
}

cadre_status cadre_qat_weight(const struct cadre_unit *unit,
                              const struct cadre_linear *linear, int64_t at,
                              const void **out)
{
    *out = cadre_unit_param(unit, linear->weight);
    if (!cadre_qat_quantises(unit) || unit->model->config.qat.stored)
        return CADRE_OK;
    struct cadre_fake_quantize fake = of_weight(unit, linear);
    assert(at + fake.rows * fake.columns <= weights_at_once(unit));
    fake.y = cadre_unit_at(unit, buffers_of(unit).weight, at);
    *out = fake.y;
    return unit->ops->fake_quantize(unit->device, &fake);
}

cadre_status cadre_qat_range(const struct cadre_unit *unit,
                             const struct cadre_linear *linear, const void *x)
{
    const struct cadre_pass *pass = unit->pass;
    void *range = cadre_qat_quantises(unit) ? range_of(unit, linear) : NULL;
    if (!range)
        return CADRE_OK;
    struct cadre_fake_quantize fake = of_input(unit, linear, x);
    fake.range = NULL;
    fake.found = buffers_of(unit).own_range;
    CADRE_TRY(unit->ops->fake_quantize(unit->device, &fake));
    return pass->redistribute(pass->hook_arg, CADRE_POINT_LOSS_MAX, false,
                              CADRE_REDISTRIBUTE_ALL_REDUCE, fake.found, range,
                              linear->rows, 2);
}

cadre_status cadre_qat_input(const struct cadre_unit *unit,
                             const struct cadre_linear *linear, const void *x,
                             const void **out)
{
    *out = x;
    if (!cadre_qat_quantises(unit))
        return CADRE_OK;
    struct cadre_fake_quantize fake = of_input(unit, linear, x);
    fake.y = buffers_of(unit).input;
    *out = fake.y;
    return unit->ops->fake_quantize(unit->device, &fake);
}

cadre_status cadre_qat_clip_input(const struct cadre_unit *unit,
                                  const struct cadre_linear *linear, void *dx)
{
    if (!cadre_qat_quantises(unit))
        return CADRE_OK;
    struct cadre_fake_quantize fake = of_input(unit, linear, linear->x);
    fake.grad = dx;
    return unit->ops->fake_quantize(unit->device, &fake);
}

cadre_status cadre_qat_clip_rows(const struct cadre_unit *unit, const void *x, void *dx)
{
    if (!cadre_qat_quantises(unit))
        return CADRE_OK;
    const struct cadre_fake_quantize fake = {
        .dtype = unit->dtype, .rows = unit->R, .columns = unit->C, .x = x, .grad = dx};
    return unit->ops->fake_quantize(unit->device, &fake);
}

cadre_status cadre_qat_clip_weight(const struct cadre_unit *unit,
                                   const struct cadre_linear *linear, void *dw)
{
    if (!cadre_qat_quantises(unit) || unit->model->config.qat.stored)
        return CADRE_OK;
    struct cadre_fake_quantize fake = of_weight(unit, linear);
    fake.grad = dw;
    return unit->ops->fake_quantize(unit->device, &fake);
}
