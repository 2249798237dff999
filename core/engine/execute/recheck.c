/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/execute/recheck.h"

#include <stdlib.h>

#include "core/base/hash.h"
#include "core/engine/execute/executor_private.h"

/* ---- memory ---- */

static size_t grad_bytes(const struct cadre_executor_config *config, uint32_t param)
{
    const struct cadre_model *model = config->model;
    const struct cadre_plan_param *p = &config->plan->param[param];
    if (!p->present || p->frozen)
        return 0;
    const size_t bytes = (size_t)cadre_shape_count(&model->params[param].local) *
                         cadre_dtype_bytes(cadre_dtype_wide(model->config.dtype));
    return (bytes + 63) / 64 * 64;
}

/* Of the unit with the most; with `offset` (params), where each begins in it. */
static size_t grads_bytes(const struct cadre_executor_config *config, size_t *offset)
{
    const struct cadre_model *model = config->model;
    size_t most = 0;
    for (uint32_t u = 0; u < model->n_units; u++) {
        size_t bytes = 0;
        for (uint32_t i = 0; i < model->n_params; i++) {
            if (model->params[i].unit != u)
                continue;
            if (offset)
                offset[i] = bytes;
            bytes += grad_bytes(config, i);
        }
        most = bytes > most ? bytes : most;
    }
    return most;
}

size_t cadre_recheck_bytes(const struct cadre_executor_config *config,
                           size_t activation)
{
    return config->recheck > 0 ? 2 * activation + grads_bytes(config, NULL) : 0;
}

cadre_status cadre_recheck_create(struct cadre_executor *exec, char *memory)
{
    struct cadre_recheck *recheck = &exec->recheck;
    const uint32_t n = exec->config.model->n_params;
    if (exec->config.recheck == 0)
        return CADRE_OK;
    recheck->y = memory;
    recheck->dy = recheck->y + exec->act_bytes;
    recheck->grads = recheck->dy + exec->act_bytes;
    recheck->offset = cadre_calloc(n, sizeof *recheck->offset);
    recheck->dst = cadre_calloc(n, sizeof *recheck->dst);
    recheck->sum = cadre_calloc(n, sizeof *recheck->sum);
    recheck->weight_reads =
        cadre_calloc(exec->config.model->n_units, sizeof *recheck->weight_reads);
    if (!recheck->offset || !recheck->dst || !recheck->sum || !recheck->weight_reads)
        return CADRE_E_RESOURCE;
    grads_bytes(&exec->config, recheck->offset);
    return cadre_memory_hash_init(&recheck->hash, exec->config.device, NULL);
}

void cadre_recheck_destroy(struct cadre_recheck *recheck)
{
    free(recheck->offset);
    free(recheck->dst);
    free(recheck->sum);
    free(recheck->weight_reads);
    cadre_memory_hash_fini(&recheck->hash);
}

bool cadre_recheck_due(const struct cadre_executor *exec, uint32_t microbatch)
{
    const uint64_t every = (uint64_t)exec->config.recheck;
    return every > 0 && !exec->forward_only && exec->step % every == 0 &&
           !exec->config.device->ops->simulated &&
           exec->step / every % (uint64_t)exec->config.plan->n_microbatches ==
               microbatch;
}

/* ---- bits ---- */

static cadre_status hash(const struct cadre_executor *exec, const void *data,
                         size_t bytes, uint64_t *out)
{
    return cadre_memory_hash_of(&exec->recheck.hash, false, data, bytes, 0, out);
}

static cadre_status hash_grad(const struct cadre_executor *exec, uint32_t param,
                              const void *grad, uint64_t *out)
{
    const struct cadre_store *store = exec->config.store;
    return hash(exec, grad, store->param[param].count * store->wide_bytes, out);
}

static cadre_status differs(const struct cadre_executor *exec, const char *what,
                            const char *name)
{
    return cadre_fail(
        exec->recheck.why, CADRE_E_INTERNAL,
        "run.recheck: %s%s of unit %u came out with other bits, seen on rank %d, when "
        "micro-batch %u of step %llu was computed again: a core, memory or a driver "
        "has failed; resume from the newest checkpoint, on another machine if it comes "
        "back",
        what, name, exec->unit, exec->config.plan->mesh->rank, exec->microbatch,
        (unsigned long long)exec->step);
}

/* ---- forward ---- */

/* A unit's output: the head's are the losses of its rows. */
static cadre_status hash_output(const struct cadre_executor *exec, const void *y,
                                uint64_t *out)
{
    const struct cadre_executor_config *config = &exec->config;
    const int64_t rows = config->model->config.classes > 0
                             ? config->batch
                             : config->batch * config->time;
    return y ? hash(exec, y, cadre_executor_boundary_bytes(exec), out)
             : hash(exec, exec->loss_rows, (size_t)rows * sizeof *exec->loss_rows, out);
}

static cadre_status run_forward(struct cadre_executor *exec, const void *x)
{
    const struct cadre_model *model = exec->config.model;
    const bool head = exec->unit + 1 == model->n_units;
    return cadre_unit_forward(model, exec->unit, &exec->pass, x,
                              head ? NULL : exec->recheck.y);
}

cadre_status cadre_recheck_after_forward(struct cadre_executor *exec, const void *x,
                                         const void *y)
{
    const bool head = exec->unit + 1 == exec->config.model->n_units;
    uint64_t first, second;
    CADRE_TRY(hash_output(exec, head ? NULL : y, &first));
    CADRE_TRY(run_forward(exec, x));
    CADRE_TRY(hash_output(exec, head ? NULL : exec->recheck.y, &second));
    return first == second ? CADRE_OK
                           : differs(exec, head ? "the losses" : "the output", "");
}

/* ---- backward ---- */

static cadre_status first_begin(void *arg, uint32_t param, void **dst, int *beta)
{
    struct cadre_executor *exec = arg;
    const struct cadre_store *store = exec->config.store;
    struct cadre_device *device = exec->config.device;
    void *sum;
    if (exec->config.plan->param[param].frozen) {
        *dst = cadre_executor_frozen_grad(exec, param);
        *beta = 0;
        return CADRE_OK;
    }
    cadre_accumulation_peek(&exec->accumulation, param, &sum, beta);
    *dst = exec->recheck.grads + exec->recheck.offset[param];
    return *beta && sum
               ? device->ops->copy(device, *dst, sum,
                                   store->param[param].count * store->wide_bytes)
               : CADRE_OK;
}

static cadre_status first_end(void *arg, uint32_t param)
{
    struct cadre_executor *exec = arg;
    struct cadre_recheck *recheck = &exec->recheck;
    if (exec->config.plan->param[param].frozen)
        return CADRE_OK;
    return hash_grad(exec, param, recheck->grads + recheck->offset[param],
                     &recheck->sum[param]);
}

/* Of what INPUT has saved for WEIGHT and computed for it. */
static cadre_status hash_weight_reads(const struct cadre_executor *exec, uint64_t *out)
{
    const struct cadre_executor_config *config = &exec->config;
    const struct cadre_pass *pass = &exec->pass;
    size_t saved =
        cadre_unit_saved_bytes(config->model, exec->unit, pass->batch, pass->time);
    if (pass->saved_for_input)
        saved -= cadre_unit_saved_for_input_bytes(config->model, exec->unit,
                                                  pass->batch, pass->time);
    uint64_t both[2];
    CADRE_TRY(hash(exec, pass->saved, saved, &both[0]));
    CADRE_TRY(hash(exec, pass->grad_outputs,
                   cadre_unit_grad_outputs_bytes(config->model, exec->unit, pass->batch,
                                                 pass->time),
                   &both[1]));
    *out = cadre_hash_of(both, sizeof both, 0);
    return CADRE_OK;
}

static cadre_status compare_weight_reads(const struct cadre_executor *exec)
{
    uint64_t now;
    CADRE_TRY(hash_weight_reads(exec, &now));
    return now == exec->recheck.weight_reads[exec->unit]
               ? CADRE_OK
               : differs(exec, "what is kept for the gradients of weights", "");
}

cadre_status cadre_recheck_before_backward(struct cadre_executor *exec, uint32_t what,
                                           const void *x, void *dy, void *dx)
{
    struct cadre_device *device = exec->config.device;
    const struct cadre_model *model = exec->config.model;
    struct cadre_recheck *recheck = &exec->recheck;
    const size_t bytes = cadre_executor_boundary_bytes(exec);
    struct cadre_pass first = exec->pass;
    first.grad_begin = first_begin;
    first.grad_end = first_end;
    if (!(what & CADRE_PASS_INPUT)) {
        CADRE_TRY(compare_weight_reads(exec));
        return cadre_unit_backward_weight(model, exec->unit, &first, x);
    }
    if (dy)
        CADRE_TRY(device->ops->copy(device, recheck->dy, dy, bytes));
    CADRE_TRY(cadre_unit_backward_input(model, exec->unit, &first, x, dy, dx));
    if (what & CADRE_PASS_WEIGHT)
        CADRE_TRY(cadre_unit_backward_weight(model, exec->unit, &first, x));
    if (what == CADRE_PASS_INPUT)
        CADRE_TRY(hash_weight_reads(exec, &recheck->weight_reads[exec->unit]));
    if (dx)
        CADRE_TRY(hash(exec, dx, bytes, &recheck->dx));
    if (dy)
        CADRE_TRY(device->ops->copy(device, dy, recheck->dy, bytes));
    return run_forward(exec, x);
}

cadre_status cadre_recheck_after_backward(struct cadre_executor *exec, uint32_t what,
                                          const void *dx)
{
    uint64_t second;
    if (what == CADRE_PASS_INPUT)
        CADRE_TRY(compare_weight_reads(exec));
    if (!dx || !(what & CADRE_PASS_INPUT))
        return CADRE_OK;
    CADRE_TRY(hash(exec, dx, cadre_executor_boundary_bytes(exec), &second));
    return second == exec->recheck.dx ? CADRE_OK
                                      : differs(exec, "the gradient of the input", "");
}

void cadre_recheck_open(struct cadre_executor *exec, uint32_t param, void *dst)
{
    if (exec->recheck.on)
        exec->recheck.dst[param] = dst;
}

cadre_status cadre_recheck_close(struct cadre_executor *exec, uint32_t param)
{
    uint64_t second;
    if (!exec->recheck.on)
        return CADRE_OK;
    CADRE_TRY(hash_grad(exec, param, exec->recheck.dst[param], &second));
    return second == exec->recheck.sum[param]
               ? CADRE_OK
               : differs(exec, "the gradient of ",
                         exec->config.model->params[param].name);
}
