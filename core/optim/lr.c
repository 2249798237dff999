/* SPDX-License-Identifier: Apache-2.0 */
#include "core/optim/lr.h"

#include <math.h>

double cadre_lr_at(const struct cadre_optimizer_config *config, int64_t step)
{
    const double pi = 3.14159265358979323846;
    double span = (double)(config->steps - config->warmup);
    double past = 1.0; /* fraction of the steps after warm-up */
    if (step < config->warmup)
        return config->lr * (double)step / (double)config->warmup;
    if (span > 0 && step < config->steps)
        past = (double)(step - config->warmup) / span;
    switch (config->schedule) {
    case CADRE_LR_COSINE:
        return config->min_lr +
               0.5 * (1.0 + cos(pi * past)) * (config->lr - config->min_lr);
    case CADRE_LR_LINEAR:
        return config->min_lr + (1.0 - past) * (config->lr - config->min_lr);
    case CADRE_LR_CONSTANT:
        break;
    }
    return config->lr;
}
