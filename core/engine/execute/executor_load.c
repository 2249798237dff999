/* SPDX-License-Identifier: Apache-2.0 */
/* Batches of the executor: from the loader, through staging buffers, to the device. */
#include "core/engine/execute/executor_private.h"

#include <string.h>

#include "core/base/clock.h"
#include "core/base/rank_page.h"

/* Copy tokens (n) to the device; pinned memory must not change before `sent`. */
static cadre_status put_tokens(struct cadre_executor *exec, int32_t *to,
                               const int32_t *from, int64_t n)
{
    struct cadre_device *device = exec->config.device;
    size_t bytes = (size_t)n * sizeof *from;
    if (!to)
        return CADRE_OK;
    return exec->config.pinned ? device->ops->upload(device, to, from, bytes)
                               : device->ops->to_device(device, to, from, bytes);
}

/* The next staging buffer, once its previous batch is copied. */
static cadre_status next_staging(struct cadre_executor *exec,
                                 struct cadre_staging **out)
{
    struct cadre_device *device = exec->config.device;
    *out = &exec->staging[exec->config.pinned ? exec->staged++ % CADRE_STAGINGS : 0];
    return (*out)->sent ? device->ops->event_sync(device, (*out)->sent) : CADRE_OK;
}

cadre_status cadre_executor_load(struct cadre_executor *exec, struct cadre_slot *slot,
                                 struct cadre_error *why)
{
    const struct cadre_executor_config *config = &exec->config;
    if (!slot->tokens && !slot->targets && !slot->positions)
        return CADRE_OK;
    struct cadre_device *device = config->device;
    int64_t n = config->batch * config->time;
    int64_t inputs =
        config->batch * cadre_model_inputs(&config->model->config, config->time);
    bool classify = config->model->config.classes > 0;
    struct cadre_staging *staging;
    CADRE_TRY(next_staging(exec, &staging));
    int32_t *targets = staging->tokens + inputs;
    struct cadre_batch batch = {
        .inputs = staging->tokens,
        .targets = classify ? NULL : targets,
        .labels = classify ? targets : NULL,
        .positions = slot->positions,
    };
    struct cadre_rank_page *page = cadre_executor_page(exec);
    const uint64_t phase = cadre_rank_page_enter(page, CADRE_PHASE_DATA, 0, 0);
    double begin = cadre_now_s();
    cadre_status rc = CADRE_OK;
    if (config->loader)
        rc = cadre_loader_next(config->loader, exec->step - 1, slot->global_microbatch,
                               &batch);
    else /* a plan alone that is simulated: token 0 */
        memset(staging->tokens, 0,
               (size_t)(inputs + (classify ? config->batch : n)) *
                   sizeof *staging->tokens);
    cadre_rank_page_leave(page, phase);
    cadre_timeline_add(config->timeline, CADRE_SPAN_WORK, "data", begin);
    if (rc != CADRE_OK)
        return cadre_fail(why, rc, "cannot read micro-batch %lld of step %llu",
                          (long long)slot->global_microbatch,
                          (unsigned long long)exec->step);
    CADRE_TRY(put_tokens(exec, slot->tokens, batch.inputs, inputs));
    CADRE_TRY(put_tokens(exec, slot->targets, targets, classify ? config->batch : n));
    if (config->pinned)
        CADRE_TRY(device->ops->event_record(device, &staging->sent));
    return rc;
}
