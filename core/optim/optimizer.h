/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers over slices: AdamW, SGD, Lion and AdamW with states of 8 bits on flat
 * ranges of parameters, wherever a strategy has placed them. */
#ifndef CADRE_OPTIM_OPTIMIZER_H
#define CADRE_OPTIM_OPTIMIZER_H

#include <stdbool.h>

#include "core/device/device.h"

enum cadre_optimizer_kind {
    CADRE_OPTIMIZER_ADAMW,
    CADRE_OPTIMIZER_SGD,
    CADRE_OPTIMIZER_LION,
    CADRE_OPTIMIZER_ADAMW8BIT, /* its states are planned: core/engine/layout/ */
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
    int64_t held; /* of struct cadre_adamw, for the next step */
};

/* The optimizer that optim.name names: a plugin where it is none of the core's. */
enum cadre_optimizer_kind cadre_optimizer_kind_of(const char *name);

/* The i-th name of the core's own; NULL after the last. */
const char *cadre_optimizer_name(int i);

/* Moments of the wide dtype that a parameter has: 2 exp_avg and exp_avg_sq, 1 exp_avg,
 * 0 where the states are those of a plan. */
int cadre_optimizer_moments(enum cadre_optimizer_kind kind);

/* Update every slice, of adamw, sgd or lion; dtype is that of parameters, the slices
 * are of its wide dtype and `rounded` of it where they differ. *grad_scale (device
 * memory) multiplies the gradients: clipping, loss scale. [stream] */
cadre_status cadre_optimizer_step(const struct cadre_optimizer_config *config,
                                  struct cadre_device *device, uint32_t dtype,
                                  const struct cadre_slice *slices, size_t n,
                                  int64_t step, const double *grad_scale);

/* The same of adamw8bit: moments of slices are codes, absmax (n) their magnitudes. */
cadre_status cadre_optimizer_step8(const struct cadre_optimizer_config *config,
                                   struct cadre_device *device, uint32_t dtype,
                                   const struct cadre_slice *slices,
                                   const struct cadre_absmax *absmax, size_t n,
                                   int64_t step, const double *grad_scale);

#endif
