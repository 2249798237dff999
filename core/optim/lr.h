/* SPDX-License-Identifier: Apache-2.0 */
/* The learning rate as a function of the step, so that a resumed run needs no state. */
#ifndef CADRE_OPTIM_LR_H
#define CADRE_OPTIM_LR_H

#include "core/optim/optimizer.h"

/* Learning rate of optimizer step `step`, counted from 1: linear warm-up from
 * lr/warmup to lr over `warmup` steps, then constant, or cosine / linear down to min_lr
 * at step `steps`. */
double cadre_lr_at(const struct cadre_optimizer_config *config, int64_t step);

#endif
