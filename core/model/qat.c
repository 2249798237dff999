/* SPDX-License-Identifier: Apache-2.0 */
#include "core/model/qat.h"

#include <assert.h>

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
    if (tp_size > 1)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "tune.method = qat over %d tensor ranks, expected 1: the "
                          "scale of a token is of all its channels, which tensor "
                          "ranks share; use data, zero or pipeline ranks",
                          tp_size);
    if (config->exact_parts > 1)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "run.exact_parts = %lld with tune.method = qat, expected 1: "
                          "tensor ranks, which it is for, are not built for qat",
                          (long long)config->exact_parts);
    return CADRE_OK;
}

struct buffers {
    void *input, *weight;
};

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static struct buffers carve(struct cadre_carver *carver)
{
    const struct cadre_unit *u = carver->unit;
    const int64_t in = larger(larger(u->C, u->A), u->F);
    const int64_t most = larger(larger(u->Q, u->A), u->F) * u->C;
    struct buffers b;
    b.input = cadre_carve(carver, CADRE_UNIT_SCRATCH, u->N * in);
    b.weight = cadre_carve(carver, CADRE_UNIT_SCRATCH, most);
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
    };
}

cadre_status cadre_qat_weight(const struct cadre_unit *unit,
                              const struct cadre_linear *linear, const void **out)
{
    *out = cadre_unit_param(unit, linear->weight);
    if (!cadre_qat_quantises(unit) || unit->model->config.qat.stored)
        return CADRE_OK;
    struct cadre_fake_quantize fake = of_weight(unit, linear);
    fake.y = buffers_of(unit).weight;
    *out = fake.y;
    return unit->ops->fake_quantize(unit->device, &fake);
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
    struct cadre_fake_quantize fake = of_input(unit, linear, linear->x);
    fake.grad = dx;
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
