/* SPDX-License-Identifier: Apache-2.0 */
/* Forward without gradients: evaluation and generation. */
#include "core/strategy/executor_impl.h"

#include "core/tensor/dtype.h"

static cadre_status add_losses(struct cadre_executor *exec, struct cadre_eval *eval,
                               int64_t rows)
{
    struct cadre_device *device = exec->config.device;
    cadre_status rc = device->ops->to_host(device, exec->loss_host, exec->loss_rows,
                                           (size_t)rows * sizeof(double));
    for (int64_t i = 0; rc == CADRE_OK && i < rows; i++) {
        eval->loss_sum += exec->loss_host[i];
        eval->n_targets += eval->targets[i] >= 0;
    }
    return rc;
}

static cadre_status copy_logits(struct cadre_executor *exec, struct cadre_eval *eval,
                                int64_t rows)
{
    const struct cadre_model *model = exec->config.model;
    struct cadre_device *device = exec->config.device;
    if (!eval->logits)
        return CADRE_OK;
    int64_t width = model->config.classes > 0 ? model->config.classes : model->vocab;
    return device->ops->to_host(
        device, eval->logits, cadre_head_logits(model, &exec->pass),
        (size_t)(rows * width) * cadre_dtype_bytes(model->config.dtype));
}

cadre_status cadre_executor_eval(struct cadre_executor *exec, struct cadre_eval *eval,
                                 struct cadre_error *why)
{
    const struct cadre_executor_config *config = &exec->config;
    const struct cadre_model *model = config->model;
    struct cadre_device *device = config->device;
    struct cadre_chunk_state *chunk = &exec->chunk[0];
    struct cadre_slot *slot = &chunk->slot[0];
    cadre_status rc;
    if (chunk->plan.begin != 0 || chunk->plan.end != model->n_units)
        return cadre_fail(why, CADRE_E_UNSUPPORTED,
                          "evaluation of a model cut into stages is not yet supported");
    if (eval->batch > config->batch || eval->time > config->time)
        return cadre_fail(why, CADRE_E_INTERNAL,
                          "evaluation batch larger than planned");
    bool classify = model->config.classes > 0;
    int64_t n = eval->batch * eval->time, rows = classify ? eval->batch : n;
    CADRE_TRY(device->ops->to_device(device, slot->tokens, eval->inputs,
                                     (size_t)n * sizeof(int32_t)));
    CADRE_TRY(device->ops->to_device(device, slot->targets, eval->targets,
                                     (size_t)rows * sizeof(int32_t)));
    slot->microbatch = 0;
    for (uint32_t u = 0; u < model->n_units; u++) {
        int32_t next = u + 1 < model->n_units ? (int32_t)u + 1 : -1;
        cadre_executor_set_pass(exec, chunk, slot, u);
        exec->pass.batch = eval->batch;
        exec->pass.time = eval->time;
        CADRE_TRY(cadre_executor_raise(exec, CADRE_BEFORE_FORWARD, 0, next, 0));
        CADRE_TRY(cadre_unit_forward(model, u, &exec->pass, slot->x[u],
                                     u + 1 < model->n_units ? slot->x[u + 1] : NULL));
        CADRE_TRY(cadre_executor_raise(exec, CADRE_AFTER_FORWARD, 0, next, 0));
    }
    CADRE_TRY(add_losses(exec, eval, rows));
    CADRE_TRY(copy_logits(exec, eval, rows));
fail:
    return rc;
}
