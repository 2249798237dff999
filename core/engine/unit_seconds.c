/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/unit_seconds.h"
#include "core/model/unit.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/median.h"
#include "core/base/memory.h"
#include "core/base/rng.h"

enum { REPEATS = 5 };

/* One unit with its own storage. */
struct bench {
    const struct cadre_run_spec *spec;
    struct cadre_device *device;
    struct cadre_model *model;
    uint32_t unit;
    size_t element, wide_bytes;
    uint32_t wide;
    void **grad; /* by gradient entry; those of other units are NULL */
    void *x, *y, *dy, *dx;
    int32_t *tokens, *targets;
    struct cadre_pass pass;
    void **owned; /* every block of device memory */
    size_t n_owned;
};

static void *take(struct bench *b, size_t bytes)
{
    void *block = b->device->ops->alloc(b->device, bytes ? bytes : 64);
    if (block)
        b->owned[b->n_owned++] = block;
    return block;
}

static cadre_status grad_begin(void *arg, uint32_t param, void **dst, int *beta)
{
    struct bench *b = arg;
    *dst = b->grad[param];
    *beta = 0;
    return CADRE_OK;
}

static cadre_status grad_end(void *arg, uint32_t param)
{
    (void)arg;
    (void)param;
    return CADRE_OK;
}

/* Stands in for redistribution: only this rank's computation is timed. */
static cadre_status redistribute(void *arg, uint32_t at, bool backward, uint32_t form,
                                 const void *in, void *out, int64_t rows,
                                 int64_t channels)
{
    const struct bench *b = arg;
    bool loss = at == CADRE_POINT_LOSS_MAX || at == CADRE_POINT_LOSS_SUM;
    size_t row = (size_t)channels * (loss ? b->wide_bytes : b->element);
    size_t own = (size_t)cadre_model_rows(b->model, rows) * row;
    cadre_status rc = CADRE_OK;
    (void)backward;
    if (form != CADRE_REDISTRIBUTE_ALL_GATHER)
        return b->device->ops->copy(
            b->device, out, in,
            form == CADRE_REDISTRIBUTE_ALL_REDUCE ? (size_t)rows * row : own);
    for (int r = 0; rc == CADRE_OK && r < b->model->tp_size; r++) {
        size_t begin = (size_t)cadre_model_row(b->model, rows, r) * row;
        size_t end = (size_t)cadre_model_row(b->model, rows, r + 1) * row;
        rc = b->device->ops->copy(b->device, (char *)out + begin, in,
                                  end - begin < own ? end - begin : own);
    }
    return rc;
}

static cadre_status exchange_keys(void *arg, bool backward, const void *in, void *out,
                                  int64_t part)
{
    const struct bench *b = arg;
    size_t bytes = (size_t)part * b->element;
    for (int r = 0; r < (backward ? 1 : b->model->time_ranks); r++)
        CADRE_TRY(b->device->ops->copy(b->device, (char *)out + (size_t)r * bytes, in,
                                       bytes));
    return CADRE_OK;
}

/* Ordinary values: a run rarely computes with zeros and denormals. */
static cadre_status fill(struct bench *b, void *buffer, const char *name, int64_t count)
{
    bool narrow = b->wide != b->model->config.dtype;
    if (b->device->ops->simulated)
        return CADRE_OK;
    size_t bytes = (size_t)count * b->wide_bytes;
    char *host = cadre_calloc((size_t)count, b->wide_bytes);
    void *staged = narrow ? b->device->ops->alloc(b->device, bytes) : buffer;
    cadre_status rc = host && staged ? CADRE_OK : CADRE_E_RESOURCE;
    uint64_t key = cadre_rng_key(b->spec->seed, name);
    for (int64_t i = 0; rc == CADRE_OK && i < count; i++) {
        double value = cadre_rng_uniform(key, (uint64_t)i) - 0.5;
        if (b->wide == CADRE_F64)
            ((double *)(void *)host)[i] = value;
        else
            ((float *)(void *)host)[i] = (float)value;
    }
    if (rc == CADRE_OK)
        rc = b->device->ops->to_device(b->device, staged, host, bytes);
    if (rc == CADRE_OK && narrow)
        rc = b->device->ops->cast(b->device, b->model->config.dtype, buffer, b->wide,
                                  staged, count);
    if (rc == CADRE_OK)
        rc = b->device->ops->synchronize(b->device);
    if (narrow)
        b->device->ops->free(b->device, staged);
    free(host);
    return rc;
}

static cadre_status fill_tokens(struct bench *b, int32_t *buffer, int64_t n,
                                int64_t below)
{
    int32_t *host = cadre_calloc((size_t)n, sizeof *host);
    if (!host)
        return CADRE_E_RESOURCE;
    uint64_t key = cadre_rng_key(b->spec->seed, "unit_seconds.tokens");
    for (int64_t i = 0; i < n; i++)
        host[i] = (int32_t)cadre_rng_below(key, (uint64_t)i, (uint64_t)below);
    cadre_status rc =
        b->device->ops->to_device(b->device, buffer, host, (size_t)n * sizeof *host);
    free(host);
    return rc;
}

static cadre_status make_params(struct bench *b)
{
    cadre_status rc = CADRE_OK;
    for (uint32_t i = 0; rc == CADRE_OK && i < b->model->n_params; i++) {
        struct cadre_param *p = &b->model->params[i];
        uint64_t count = cadre_shape_count(&p->local);
        if (p->unit != b->unit)
            continue;
        p->data = take(b, count * b->element);
        b->grad[i] = take(b, count * b->wide_bytes);
        rc = p->data && b->grad[i] ? fill(b, p->data, p->name, (int64_t)count)
                                   : CADRE_E_RESOURCE;
    }
    return rc;
}

static cadre_status make_buffers(struct bench *b)
{
    const struct cadre_run_spec *spec = b->spec;
    const struct cadre_model_config *config = &b->model->config;
    int64_t B = spec->micro_batch, T = spec->time / b->model->time_ranks;
    const int64_t inputs = B * cadre_model_inputs(config, T);
    size_t rows = (size_t)(B * T), edge = rows * (size_t)config->channels * b->element;
    b->x = take(b, edge);
    b->y = take(b, edge);
    b->dy = take(b, edge);
    b->dx = take(b, edge);
    b->tokens = take(b, (size_t)inputs * sizeof *b->tokens);
    b->targets = take(b, rows * sizeof *b->targets);
    b->pass = (struct cadre_pass){
        .device = b->device,
        .batch = B,
        .time = T,
        .tokens = b->tokens,
        .targets = b->targets,
        .loss_seed = 1.0 / (double)rows,
        .loss_rows = take(b, rows * sizeof(double)),
        .saved = take(b, cadre_unit_saved_bytes(b->model, b->unit, B, T)),
        .grad_outputs = take(b, cadre_unit_grad_outputs_bytes(b->model, b->unit, B, T)),
        .scratch = take(b, cadre_unit_scratch_bytes(b->model, b->unit, B, T)),
        .both = true,
        .hook_arg = b,
        .grad_begin = grad_begin,
        .grad_end = grad_end,
        .redistribute = b->model->tp_size > 1 ? redistribute : NULL,
        .exchange_keys = exchange_keys,
    };
    if (!b->x || !b->y || !b->dy || !b->dx || !b->tokens || !b->targets ||
        !b->pass.loss_rows || !b->pass.saved || !b->pass.grad_outputs ||
        !b->pass.scratch)
        return CADRE_E_RESOURCE;
    CADRE_TRY(fill(b, b->x, "unit_seconds.x", B * T * config->channels));
    CADRE_TRY(fill(b, b->dy, "unit_seconds.dy", B * T * config->channels));
    CADRE_TRY(fill_tokens(b, b->tokens, inputs, config->vocab));
    return fill_tokens(b, b->targets, B * T,
                       config->classes > 0 ? config->classes : config->vocab);
}

static cadre_status run_once(struct bench *b)
{
    bool first = b->unit == 0, head = b->unit + 1 == b->model->n_units;
    const void *x = first ? NULL : b->x, *dy = head ? NULL : b->dy;
    void *y = head ? NULL : b->y, *dx = first ? NULL : b->dx;
    bool again = b->spec->recompute && !first && !head;
    CADRE_TRY(cadre_unit_forward(b->model, b->unit, &b->pass, x, y));
    if (again)
        CADRE_TRY(cadre_unit_forward(b->model, b->unit, &b->pass, x, y));
    CADRE_TRY(cadre_unit_backward_input(b->model, b->unit, &b->pass, x, dy, dx));
    CADRE_TRY(cadre_unit_backward_weight(b->model, b->unit, &b->pass, x));
    return b->device->ops->synchronize(b->device);
}

static cadre_status time_unit(struct bench *b, double *seconds)
{
    double took[REPEATS];
    CADRE_TRY(make_params(b));
    CADRE_TRY(make_buffers(b));
    CADRE_TRY(run_once(b));
    for (int i = 0; i < REPEATS; i++) {
        double start = cadre_now_s();
        CADRE_TRY(run_once(b));
        took[i] = cadre_now_s() - start;
    }
    *seconds = cadre_median(took, REPEATS);
    return CADRE_OK;
}

static void let_go(struct bench *b)
{
    while (b->n_owned > 0)
        b->device->ops->free(b->device, b->owned[--b->n_owned]);
    for (uint32_t i = 0; i < b->model->n_params; i++) {
        b->model->params[i].data = NULL;
        b->grad[i] = NULL;
    }
}

cadre_status cadre_unit_seconds_measure(const struct cadre_run_spec *spec,
                                        struct cadre_model *model, double *seconds,
                                        struct cadre_error *err)
{
    struct cadre_device *device = NULL;
    CADRE_TRY(cadre_device_open(&spec->device, &device, err));
    const cadre_status rc =
        cadre_unit_seconds_measure_on(spec, device, model, seconds, err);
    cadre_device_close(device);
    return rc;
}

cadre_status cadre_unit_seconds_measure_on(const struct cadre_run_spec *spec,
                                           struct cadre_device *device,
                                           struct cadre_model *model, double *seconds,
                                           struct cadre_error *err)
{
    uint32_t n = model->n_units;
    struct bench b = {
        .spec = spec,
        .device = device,
        .model = model,
        .element = cadre_dtype_bytes(model->config.dtype),
        .wide = cadre_dtype_wide(model->config.dtype),
        .wide_bytes = cadre_dtype_bytes(cadre_dtype_wide(model->config.dtype)),
        .grad = cadre_calloc(model->n_params, sizeof *b.grad),
        .owned = cadre_calloc(2 * (size_t)model->n_params + 16, sizeof(void *)),
    };
    const int ep_rank = model->ep_rank, ep_size = model->ep_size;
    cadre_status rc = CADRE_OK;
    /* own rows on all experts: what a rank has to do where tokens are spread evenly */
    model->ep_rank = 0;
    model->ep_size = 1;
    if (!b.grad || !b.owned)
        rc = cadre_no_memory(err, "a list of parameters");
    for (uint32_t u = 0; rc == CADRE_OK && u < n; u++) {
        if (u > 1 && u + 1 < n) {
            seconds[u] = seconds[1];
            continue;
        }
        b.unit = u;
        rc = time_unit(&b, &seconds[u]);
        let_go(&b);
        if (rc != CADRE_OK)
            cadre_fail(err, rc, "cannot measure the time of unit %u of the model: %s",
                       u, cadre_strerror(rc));
    }
    model->ep_rank = ep_rank;
    model->ep_size = ep_size;
    free(b.grad);
    free(b.owned);
    return rc;
}
