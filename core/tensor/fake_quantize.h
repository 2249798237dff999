/* SPDX-License-Identifier: Apache-2.0 */
/* The grids of 8da4w (8 bits of dynamic activations, 4 of weights), in the bits of
 * torchao 0.18 in fp32 (IntxFakeQuantizer): symmetric int4 of a group of weights,
 * asymmetric int8 of a token. All in fp32, whatever the values' own dtype. Codes are
 * rounded to nearest even; 0 is always a value. [any thread, deterministic] */
#ifndef CADRE_TENSOR_FAKE_QUANTIZE_H
#define CADRE_TENSOR_FAKE_QUANTIZE_H

#include <float.h>
#include <math.h>
#include <stdbool.h>

/* value = (code - zero) * scale, low <= code <= high */
struct cadre_grid {
    float scale, inverse, zero, low, high; /* inverse: 1 / scale */
};

/* Of weights whose largest magnitude is `most`; `finite` is false where one of them is
 * not, and then every value is NaN. */
static inline struct cadre_grid cadre_grid_int4(float most, bool finite)
{
    struct cadre_grid grid = {.low = -8, .high = 7};
    const float scale = most / 7.5F;
    grid.scale = !finite ? NAN : scale > FLT_MIN ? scale : FLT_MIN;
    grid.inverse = 1.0F / grid.scale;
    return grid;
}

/* Of a token whose values lie between least and most. */
static inline struct cadre_grid cadre_grid_int8(float least, float most, bool finite)
{
    const float low = least < 0 ? least : 0, high = most > 0 ? most : 0;
    struct cadre_grid grid = {.low = -128, .high = 127};
    const float scale = (high - low) / 255.0F;
    grid.scale = !finite ? NAN : scale > FLT_EPSILON ? scale : FLT_EPSILON;
    grid.inverse = 1.0F / grid.scale;
    const float zero = -128 - rintf(low / grid.scale);
    grid.zero = zero < -128 ? -128 : zero > 127 ? 127 : zero;
    return grid;
}

/* x times 1 / scale, rounded, not yet clamped: its gradient passes within low .. high.
 * Adding and subtracting 1.5 * 2^23 rounds a number of |x| <= 2^22 to nearest even; the
 * sign of a zero is lost, which the product with the scale would show. */
static inline float cadre_grid_code(struct cadre_grid grid, float x)
{
    const float to = 0x1.8p23F, at = x * grid.inverse + to;
    return at - to + grid.zero;
}

static inline float cadre_grid_clamp(struct cadre_grid grid, float code)
{
    return code < grid.low ? grid.low : code > grid.high ? grid.high : code;
}

static inline float cadre_grid_value(struct cadre_grid grid, float code)
{
    return (code - grid.zero) * grid.scale;
}

#endif
