/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tensor/rotary.h"

#include <math.h>

#define PI 3.14159265358979323846

/* The CUDA kernel has these lines once more: core/device/cuda/rows.cu. */
double cadre_rotary_frequency(const struct cadre_rotary *rotary, int64_t i,
                              int64_t pairs)
{
    const double plain = pow(rotary->theta, -(double)i / (double)pairs);
    if (rotary->scaling == CADRE_ROTARY_PLAIN)
        return plain;
    if (rotary->scaling == CADRE_ROTARY_LINEAR)
        return plain / rotary->factor;
    const double waves = (double)rotary->original / (2 * PI / plain);
    if (waves < rotary->low)
        return plain / rotary->factor;
    if (waves > rotary->high)
        return plain;
    const double part = (waves - rotary->low) / (rotary->high - rotary->low);
    return (1 - part) * plain / rotary->factor + part * plain;
}

bool cadre_rotary_equal(const struct cadre_rotary *a, const struct cadre_rotary *b)
{
    return a->theta == b->theta && a->scaling == b->scaling && a->factor == b->factor &&
           a->low == b->low && a->high == b->high && a->original == b->original;
}
