/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers over slices: AdamW and SGD on flat ranges of parameters, wherever a
 * strategy has placed them; learning-rate schedule; global norm and clipping. */
#ifndef CADRE_OPTIM_OPTIMIZER_H
#define CADRE_OPTIM_OPTIMIZER_H

#include <stdbool.h>

#include "core/device/device.h"

enum cadre_optimizer_kind {
    CADRE_OPTIMIZER_ADAMW,
    CADRE_OPTIMIZER_SGD,
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

/* Learning rate of optimizer step `step`, counted from 1: linear warm-up from
 * lr/warmup to lr over `warmup` steps, then constant, or cosine / linear down to min_lr
 * at step `steps`. */
double cadre_lr_at(const struct cadre_optimizer_config *config, int64_t step);

/* Update every slice; dtype is that of parameters, the slices are of its wide dtype and
 * `rounded` of it where they differ. *grad_scale (device memory) multiplies the
 * gradients: clipping, loss scale. [stream] */
cadre_status cadre_optimizer_step(const struct cadre_optimizer_config *config,
                                  struct cadre_device *device, uint32_t dtype,
                                  const struct cadre_slice *slices, size_t n,
                                  int64_t step, const double *grad_scale);

/* Number of norm chunks of a parameter of `count` elements: chunks of CADRE_NORM_CHUNK
 * that restart at each parameter. */
uint64_t cadre_norm_chunks(uint64_t count);

#endif
