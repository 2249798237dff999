/* SPDX-License-Identifier: Apache-2.0 */
/* Forward without gradients: evaluation and generation. Where a schedule distributes
 * the model over ranks, each rank runs its units in order and sends the activation to
 * the next. */
#include "core/engine/execute/executor_private.h"
#include "core/model/head.h"

#include <string.h>

#include "core/base/tree.h"
#include "core/tensor/dtype.h"
#include "core/tensor/half.h"

/* The chunk of this rank that holds a unit, -1 when another rank runs it. */
static int chunk_of(const struct cadre_executor *exec, uint32_t unit)
{
    for (int c = 0; c < exec->n_chunks; c++)
        if (unit >= exec->chunk[c].plan.begin && unit < exec->chunk[c].plan.end)
            return c;
    return -1;
}

static int64_t loss_rows(const struct cadre_executor *exec,
                         const struct cadre_eval *eval)
{
    bool classify = exec->config.model->config.classes > 0;
    return classify ? eval->batch : eval->batch * eval->time;
}

static cadre_status give_logits(struct cadre_executor *exec,
                                const struct cadre_eval *eval)
{
    struct cadre_device *device = exec->config.device;
    const size_t rows = (size_t)loss_rows(exec, eval);
    if (!eval->sequence_logits)
        return CADRE_OK;
    CADRE_TRY(device->ops->to_host(device, exec->logit_host, exec->logit_rows,
                                   rows * sizeof *exec->logit_host));
    for (int64_t b = 0; b < eval->batch; b++)
        eval->sequence_logits[b] =
            cadre_tree_sum(exec->logit_host + b * eval->time, (size_t)eval->time) /
            (double)exec->config.model->config.vocab;
    return CADRE_OK;
}

static cadre_status add_losses(struct cadre_executor *exec, struct cadre_eval *eval)
{
    struct cadre_device *device = exec->config.device;
    int64_t rows = loss_rows(exec, eval);
    cadre_status rc = device->ops->to_host(device, exec->loss_host, exec->loss_rows,
                                           (size_t)rows * sizeof(double));
    for (int64_t i = 0; rc == CADRE_OK && i < rows; i++) {
        eval->loss_sum += exec->loss_host[i];
        eval->n_targets += eval->targets[i] >= 0;
    }
    for (int64_t b = 0; rc == CADRE_OK && eval->sequence_losses && b < eval->batch; b++)
        eval->sequence_losses[b] =
            cadre_tree_sum(exec->loss_host + b * eval->time, (size_t)eval->time);
    eval->has_head = true;
    return rc;
}

static void widen(float *out, const char *in, size_t n, uint32_t dtype)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t bits;
        memcpy(&bits, in + i * sizeof bits, sizeof bits);
        float value =
            dtype == CADRE_BF16 ? cadre_bf16_to_f32(bits) : cadre_f16_to_f32(bits);
        memcpy(out + i, &value, sizeof value);
    }
}

/* `count` values of the model's dtype to `to`, wide. */
static cadre_status fetch(struct cadre_executor *exec, char *to, const char *from,
                          size_t count)
{
    struct cadre_device *device = exec->config.device;
    uint32_t dtype = exec->config.model->config.dtype;
    size_t narrow = cadre_dtype_bytes(dtype);
    size_t wide = cadre_dtype_bytes(cadre_dtype_wide(dtype));
    /* 16-bit values go to the upper half, which widening overwrites last */
    char *raw = to + count * (wide - narrow);
    cadre_status rc = device->ops->to_host(device, raw, from, count * narrow);
    if (rc == CADRE_OK && wide != narrow)
        widen((float *)(void *)to, raw, count, dtype);
    return rc;
}

static cadre_status copy_logits(struct cadre_executor *exec, struct cadre_eval *eval)
{
    const struct cadre_model *model = exec->config.model;
    uint32_t dtype = model->config.dtype;
    int64_t width = model->config.classes > 0 ? model->config.classes : model->vocab;
    int64_t all = loss_rows(exec, eval), rows = 0, most = eval->some_rows;
    size_t narrow = (size_t)width * cadre_dtype_bytes(dtype);
    size_t wide = (size_t)width * cadre_dtype_bytes(cadre_dtype_wide(dtype));
    cadre_status rc = CADRE_OK;
    const int64_t first = eval->last_row ? all - 1 : 0;
    for (int64_t at = first; eval->logits && rc == CADRE_OK && at < all; at += rows) {
        const void *logits;
        rc = cadre_head_logits(model, &exec->pass, at, &rows, &logits);
        for (int64_t r = 0, n; rc == CADRE_OK && r < rows; r += n) {
            char *to =
                (char *)eval->logits + (most ? 0 : (size_t)(at - first + r) * wide);
            n = most && rows - r > most ? most : rows - r;
            rc = fetch(exec, to, (const char *)logits + (size_t)r * narrow,
                       (size_t)(n * width));
            if (rc == CADRE_OK && most)
                eval->each_rows(eval->arg, at + r, n);
        }
    }
    return rc;
}

static cadre_status run_unit(struct cadre_executor *exec, struct cadre_eval *eval,
                             int c, uint32_t unit)
{
    const struct cadre_model *model = exec->config.model;
    struct cadre_device *device = exec->config.device;
    struct cadre_chunk_state *chunk = &exec->chunk[c];
    struct cadre_slot *slot = &chunk->slot[0];
    uint32_t i = unit - chunk->plan.begin;
    bool end = unit + 1 == chunk->plan.end, head = unit + 1 == model->n_units;
    int32_t next =
        !end || (!head && chunk_of(exec, unit + 1) >= 0) ? (int32_t)unit + 1 : -1;
    void *y = head ? NULL : end ? exec->boundary_grad : slot->x[i + 1];
    cadre_status rc = CADRE_OK;
    slot->microbatch = 0;
    if (unit == 0)
        rc = device->ops->to_device(
            device, slot->tokens, eval->inputs,
            (size_t)(eval->batch * cadre_model_inputs(&model->config, eval->time)) *
                sizeof(int32_t));
    if (rc == CADRE_OK && head)
        rc = device->ops->to_device(device, slot->targets, eval->targets,
                                    (size_t)loss_rows(exec, eval) * sizeof(int32_t));
    if (rc != CADRE_OK)
        return rc;
    cadre_executor_set_pass(exec, chunk, slot, unit);
    exec->pass.batch = eval->batch;
    exec->pass.time = eval->time;
    exec->pass.kv_cache = eval->kv_cache;
    exec->pass.positions = eval->positions;
    exec->pass.training = false;
    exec->pass.logit_rows = eval->sequence_logits ? exec->logit_rows : NULL;
    CADRE_TRY(cadre_executor_raise(exec, CADRE_BEFORE_FORWARD, (uint32_t)c, next, 0));
    CADRE_TRY(cadre_chain_await_unit(exec->config.chain, unit));
    CADRE_TRY(cadre_forms_decode(exec->config.store, unit));
    CADRE_TRY(cadre_unit_forward(model, unit, &exec->pass, slot->x[i], y));
    CADRE_TRY(cadre_executor_raise(exec, CADRE_AFTER_FORWARD, (uint32_t)c, next, 0));
    if (head) {
        CADRE_TRY(add_losses(exec, eval));
        CADRE_TRY(give_logits(exec, eval));
        CADRE_TRY(copy_logits(exec, eval));
    }
    return rc;
}

/* Send the output of a chunk's last unit to the next chunk. */
static cadre_status hand_on(struct cadre_executor *exec, const struct cadre_eval *eval,
                            uint32_t unit)
{
    const struct cadre_model *model = exec->config.model;
    struct cadre_device *device = exec->config.device;
    int from = chunk_of(exec, unit), to = chunk_of(exec, unit + 1);
    if (from == to)
        return CADRE_OK;
    int64_t rows = cadre_model_rows(model, eval->batch * eval->time);
    uint64_t count = (uint64_t)(rows * model->config.channels);
    uint32_t dtype = model->config.dtype;
    void *x = to >= 0 ? exec->chunk[to].slot[0].x[0] : NULL;
    if (from >= 0 && to >= 0)
        return device->ops->copy(device, x, exec->boundary_grad,
                                 count * cadre_dtype_bytes(dtype));
    const struct cadre_stages *stages = exec->config.stages;
    struct cadre_comm *comm = stages->axis->comm;
    cadre_event done, after;
    cadre_status rc = device->ops->event_record(device, &after);
    if (rc == CADRE_OK && from >= 0)
        rc = cadre_comm_send(comm, "evaluation", exec->boundary_grad, count, dtype,
                             cadre_stages_home(stages, unit + 1), after, &done);
    else if (rc == CADRE_OK)
        rc = cadre_comm_recv(comm, "evaluation", x, count, dtype,
                             cadre_stages_home(stages, unit), after, &done);
    return rc == CADRE_OK ? cadre_comm_stream_wait(comm, device, done) : rc;
}

static cadre_status run_units(struct cadre_executor *exec, struct cadre_eval *eval)
{
    uint32_t n_units = exec->config.model->n_units;
    for (uint32_t u = 0; u < n_units; u++) {
        int chunk = chunk_of(exec, u);
        if (chunk >= 0)
            CADRE_TRY(run_unit(exec, eval, chunk, u));
        if (u + 1 < n_units)
            CADRE_TRY(hand_on(exec, eval, u));
    }
    return CADRE_OK;
}

/* Outside steps no slot is busy; each chunk uses its first. */
cadre_status cadre_executor_eval(struct cadre_executor *exec, struct cadre_eval *eval,
                                 struct cadre_error *why)
{
    const struct cadre_executor_config *config = &exec->config;
    if (eval->batch > config->batch || eval->time > config->time)
        return cadre_fail(why, CADRE_E_INTERNAL,
                          "evaluation batch larger than planned");
    for (int c = 0; c < exec->n_chunks; c++)
        cadre_executor_lend(exec, &exec->chunk[c], &exec->chunk[c].slot[0]);
    cadre_status rc = run_units(exec, eval);
    for (int c = 0; c < exec->n_chunks; c++)
        cadre_executor_return(exec, &exec->chunk[c], &exec->chunk[c].slot[0]);
    if (rc == CADRE_OK && eval->kv_cache)
        eval->kv_cache->n += eval->time;
    return rc;
}
