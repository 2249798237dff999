/* SPDX-License-Identifier: Apache-2.0 */
/* One optimizer step over the slices of a rank, by one device op. */
#include "core/optim/optimizer.h"

#include <string.h>

#include "core/optim/codes.h"
#include "core/optim/lr.h"

static const char *const names[] = {
    [CADRE_OPTIMIZER_ADAMW] = "adamw",
    [CADRE_OPTIMIZER_SGD] = "sgd",
    [CADRE_OPTIMIZER_LION] = "lion",
    [CADRE_OPTIMIZER_ADAMW8BIT] = "adamw8bit",
};
enum { NAMES = sizeof names / sizeof names[0] };

const char *cadre_optimizer_name(int i)
{
    return i < NAMES ? names[i] : NULL;
}

enum cadre_optimizer_kind cadre_optimizer_kind_of(const char *name)
{
    for (int i = 0; i < NAMES; i++)
        if (strcmp(name, names[i]) == 0)
            return (enum cadre_optimizer_kind)i;
    return CADRE_OPTIMIZER_PLUGIN;
}

int cadre_optimizer_moments(enum cadre_optimizer_kind kind)
{
    if (kind == CADRE_OPTIMIZER_ADAMW)
        return 2;
    return kind == CADRE_OPTIMIZER_SGD || kind == CADRE_OPTIMIZER_LION ? 1 : 0;
}

static struct cadre_adamw adamw_of(const struct cadre_optimizer_config *config,
                                   uint32_t dtype, const struct cadre_slice *slices,
                                   size_t n, int64_t step, const double *grad_scale)
{
    const uint32_t wide = cadre_dtype_wide(dtype);
    return (struct cadre_adamw){
        .dtype = wide,
        .rounded_dtype = dtype != wide ? dtype : 0,
        .lr = cadre_lr_at(config, step),
        .beta1 = config->beta1,
        .beta2 = config->beta2,
        .eps = config->eps,
        .step = step,
        .grad_scale = grad_scale,
        .slices = slices,
        .n = (int64_t)n,
        .held = config->held,
    };
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
    if (config->kind == CADRE_OPTIMIZER_LION) {
        const struct cadre_lion op = {
            .dtype = wide,
            .rounded_dtype = dtype != wide ? dtype : 0,
            .lr = lr,
            .beta1 = config->beta1,
            .beta2 = config->beta2,
            .grad_scale = grad_scale,
            .slices = slices,
            .n = (int64_t)n,
        };
        return device->ops->lion(device, &op);
    }
    const struct cadre_adamw op = adamw_of(config, dtype, slices, n, step, grad_scale);
    return device->ops->adamw(device, &op);
}

cadre_status cadre_optimizer_step8(const struct cadre_optimizer_config *config,
                                   struct cadre_device *device, uint32_t dtype,
                                   const struct cadre_slice *slices,
                                   const struct cadre_absmax *absmax, size_t n,
                                   int64_t step, const double *grad_scale)
{
    struct cadre_codes first, second;
    cadre_codes_fill(&first, true);
    cadre_codes_fill(&second, false);
    const struct cadre_adamw8 op = {
        .adamw = adamw_of(config, dtype, slices, n, step, grad_scale),
        .absmax = absmax,
        .first = &first,
        .second = &second,
    };
    return device->ops->adamw8(device, &op);
}
