/* SPDX-License-Identifier: Apache-2.0 */
/* One optimizer step over the slices of a rank, each by one device op. */
#include "core/optim/optimizer.h"

static cadre_status adamw_slice(const struct cadre_optimizer_config *config,
                                struct cadre_device *device, uint32_t dtype,
                                const struct cadre_opt_slice *slice, int64_t step,
                                double grad_scale)
{
    struct cadre_adamw op = {
        .dtype = dtype,
        .count = (int64_t)slice->count,
        .param = slice->data,
        .grad = slice->grad,
        .exp_avg = slice->exp_avg,
        .exp_avg_sq = slice->exp_avg_sq,
        .lr = cadre_lr_at(config, step),
        .beta1 = config->beta1,
        .beta2 = config->beta2,
        .eps = config->eps,
        .weight_decay = slice->decay ? config->weight_decay : 0.0,
        .grad_scale = grad_scale,
        .step = step,
    };
    return device->ops->adamw(device, &op);
}

static cadre_status sgd_slice(const struct cadre_optimizer_config *config,
                              struct cadre_device *device, uint32_t dtype,
                              const struct cadre_opt_slice *slice, int64_t step,
                              double grad_scale)
{
    struct cadre_sgd op = {
        .dtype = dtype,
        .count = (int64_t)slice->count,
        .param = slice->data,
        .grad = slice->grad,
        .momentum_buf = slice->exp_avg,
        .lr = cadre_lr_at(config, step),
        .momentum = config->momentum,
        .weight_decay = slice->decay ? config->weight_decay : 0.0,
        .grad_scale = grad_scale,
        .step = step,
    };
    return device->ops->sgd(device, &op);
}

cadre_status cadre_optimizer_step(const struct cadre_optimizer_config *config,
                                  struct cadre_device *device, uint32_t dtype,
                                  struct cadre_opt_slice *slices, size_t n,
                                  int64_t step, double grad_scale)
{
    cadre_status rc = CADRE_OK;
    for (size_t i = 0; i < n && rc == CADRE_OK; i++) {
        if (slices[i].count == 0)
            continue;
        if (config->kind == CADRE_OPTIMIZER_SGD)
            rc = sgd_slice(config, device, dtype, &slices[i], step, grad_scale);
        else
            rc = adamw_slice(config, device, dtype, &slices[i], step, grad_scale);
    }
    return rc;
}
