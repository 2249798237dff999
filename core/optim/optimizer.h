/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers over slices: AdamW and SGD on flat ranges of parameters, wherever a
 * strategy has placed them. */
#ifndef CADRE_OPTIM_OPTIMIZER_H
#define CADRE_OPTIM_OPTIMIZER_H

#include <stdbool.h>

#include "core/device/device.h"

enum cadre_optimizer_kind {
    CADRE_OPTIMIZER_ADAMW,
    CADRE_OPTIMIZER_SGD,
    CADRE_OPTIMIZER_PLUGIN, /* of the role OPTIMIZER: core/engine/plugin_update.h */
};

enum cadre_lr_schedule {
    CADRE_LR_CONSTANT,
    CADRE_LR_COSINE,
    CADRE_LR_LINEAR,
};

struct cadre_optimizer_config {
    enum cadre_optimizer_kind kind;
    double lr, min_lr;
    enum cadre_lr_schedule schedule;
    int64_t warmup, steps; /* in optimizer steps */
    double momentum, weight_decay, beta1, beta2, eps;
    double clip; /* global-norm limit, 0: off */
};

/* The optimizer that optim.name names: a plugin where it is neither adamw nor sgd. */
enum cadre_optimizer_kind cadre_optimizer_kind_of(const char *name);

/* Update every slice, of adamw or sgd; dtype is that of parameters, the slices are of
 * its wide dtype and `rounded` of it where they differ. *grad_scale (device memory)
 * multiplies the gradients: clipping, loss scale. [stream] */
cadre_status cadre_optimizer_step(const struct cadre_optimizer_config *config,
                                  struct cadre_device *device, uint32_t dtype,
                                  const struct cadre_slice *slices, size_t n,
                                  int64_t step, const double *grad_scale);

#endif
