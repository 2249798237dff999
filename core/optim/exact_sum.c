/* SPDX-License-Identifier: Apache-2.0 */
#include "core/optim/exact_sum.h"

#include <math.h>

#include <cadre/types.h>

enum { BITS = 40, LEAST = -960, BLOCK = 1024, LANES = 8 };
#define MASK ((INT64_C(1) << BITS) - 1)
#define MOST 0x1p880

/* The digit of the highest bit of x > 0. */
static int digit_of(double x)
{
    const int exponent = ilogb(x);
    return exponent < LEAST ? 0 : (exponent - LEAST) / BITS;
}

/* rest = rest - whole, where whole is rest rounded to the unit; returns the sum of
 * whole, which is exact: up to BLOCK of them are below 2^52 units. *most = the largest
 * magnitude of what is left. */
static double take_digit(double *rest, double unit, double *most)
{
    const double magic = 0x1.8p52 * unit; /* adding it rounds to the unit */
    double sum[LANES] = {0}, left[LANES] = {0};
    for (int i = 0; i < BLOCK; i += LANES)
        for (int l = 0; l < LANES; l++) {
            const double whole = (rest[i + l] + magic) - magic;
            const double after = rest[i + l] - whole, size = fabs(after);
            rest[i + l] = after;
            sum[l] += whole;
            left[l] = size > left[l] ? size : left[l];
        }
    *most = 0;
    for (int l = 0; l < LANES; l++)
        *most = left[l] > *most ? left[l] : *most;
    for (int l = 1; l < LANES; l++)
        sum[0] += sum[l];
    return sum[0];
}

/* Add a block of squares; it is overwritten. */
static bool add_block(struct cadre_exact_sum *sum, double *square)
{
    double lane[LANES] = {0}, most = 0;
    for (int i = 0; i < BLOCK; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] = square[i + l] <= lane[l] ? lane[l] : square[i + l];
    for (int l = 0; l < LANES; l++) {
        if (lane[l] >= MOST)
            return false;
        most = lane[l] > most ? lane[l] : most;
    }
    while (most > 0) {
        const int digit = digit_of(most);
        const double unit = ldexp(1.0, BITS * digit + LEAST);
        const int64_t units = (int64_t)(take_digit(square, unit, &most) / unit);
        sum->digit[digit] += units & MASK;
        sum->digit[digit + 1] += units >> BITS; /* negative counts borrow */
        if (digit == 0)
            break;
    }
    return true;
}

/* Digits from 0 to MASK; the last one takes the rest. */
static void carry(int64_t *digit)
{
    for (int i = 0; i + 1 < CADRE_EXACT_DIGITS; i++) {
        digit[i + 1] += digit[i] >> BITS;
        digit[i] &= MASK;
    }
}

/* Squares (BLOCK) of n elements from x[at] on, then zeros. False where one is NaN. */
static bool square(uint32_t dtype, const void *x, int64_t at, int64_t n, double *out)
{
    const float *f32 = (const float *)x + at;
    const double *f64 = (const double *)x + at;
    double zero = 0; /* NaN where an element is not finite */
    for (int64_t i = 0; i < BLOCK; i++) {
        const double value = i >= n ? 0 : dtype == CADRE_F64 ? f64[i] : (double)f32[i];
        out[i] = value * value;
        zero += value * 0;
    }
    return zero == 0;
}

bool cadre_exact_sum_squares(struct cadre_exact_sum *sum, uint32_t dtype, const void *x,
                             int64_t count)
{
    double block[BLOCK];
    for (int64_t at = 0; at < count; at += BLOCK) {
        const int64_t n = count - at < BLOCK ? count - at : BLOCK;
        if (!square(dtype, x, at, n, block) || !add_block(sum, block))
            return false;
    }
    carry(sum->digit);
    return true;
}

void cadre_exact_sum_digits(const struct cadre_exact_sum *sum, double *out)
{
    struct cadre_exact_sum whole = *sum;
    carry(whole.digit);
    for (int i = 0; i < CADRE_EXACT_DIGITS; i++)
        out[i] = (double)whole.digit[i];
}

double cadre_exact_sum_total(const double *digits)
{
    int64_t whole[CADRE_EXACT_DIGITS];
    double total = 0;
    for (int i = 0; i < CADRE_EXACT_DIGITS; i++)
        whole[i] = (int64_t)digits[i];
    carry(whole);
    for (int i = CADRE_EXACT_DIGITS; i-- > 0;)
        total += ldexp((double)whole[i], BITS * i + LEAST);
    return total;
}
