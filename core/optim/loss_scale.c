/* SPDX-License-Identifier: Apache-2.0 */
#include "core/optim/loss_scale.h"

#include <math.h>

void cadre_loss_scale_good(struct cadre_loss_scale *at)
{
    if (++at->good < CADRE_LOSS_SCALE_GROWS)
        return;
    at->good = 0;
    if (at->scale < CADRE_LOSS_SCALE_MAX)
        at->scale *= 2;
}

bool cadre_loss_scale_bad(struct cadre_loss_scale *at)
{
    at->good = 0;
    at->skipped++;
    at->scale /= 2;
    return at->scale >= CADRE_LOSS_SCALE_MIN;
}

bool cadre_loss_scale_valid(double scale)
{
    int exponent;
    return scale >= CADRE_LOSS_SCALE_MIN && scale <= CADRE_LOSS_SCALE_MAX &&
           frexp(scale, &exponent) == 0.5;
}
