/* SPDX-License-Identifier: Apache-2.0 */
/* One optimizer step over the slices of a rank, by one device op. */
#include "core/optim/optimizer.h"

#include <string.h>

#include "core/optim/lr.h"

enum cadre_optimizer_kind cadre_optimizer_kind_of(const char *name)
{
    return strcmp(name, "adamw") == 0 ? CADRE_OPTIMIZER_ADAMW
           : strcmp(name, "sgd") == 0 ? CADRE_OPTIMIZER_SGD
                                      : CADRE_OPTIMIZER_PLUGIN;
}

cadre_status cadre_optimizer_step(const struct cadre_optimizer_config *config,
                                  struct cadre_device *device, uint32_t dtype,
                                  const struct cadre_slice *slices, size_t n,
                                  int64_t step, const double *grad_scale)
{
    const uint32_t wide = cadre_dtype_wide(dtype);
    const double lr = cadre_lr_at(config, step);
    if (config->kind == CADRE_OPTIMIZER_SGD) {
        const struct cadre_sgd op = {
            .dtype = wide,
            .rounded_dtype = dtype != wide ? dtype : 0,
            .lr = lr,
            .momentum = config->momentum,
            .step = step,
            .grad_scale = grad_scale,
            .slices = slices,
            .n = (int64_t)n,
        };
        return device->ops->sgd(device, &op);
    }
    const struct cadre_adamw op = {
        .dtype = wide,
        .rounded_dtype = dtype != wide ? dtype : 0,
        .lr = lr,
        .beta1 = config->beta1,
        .beta2 = config->beta2,
        .eps = config->eps,
        .step = step,
        .grad_scale = grad_scale,
        .slices = slices,
        .n = (int64_t)n,
    };
    return device->ops->adamw(device, &op);
}
