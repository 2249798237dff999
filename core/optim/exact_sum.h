/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of squares without rounding: they have the same bits however elements are
 * ordered, cut and spread over ranks. A square is rounded to double (those of f32 are
 * exact), then counted in digits of base 2^40, as in Demmel and Nguyen, Parallel
 * Reproducible Summation, 2015. */
#ifndef CADRE_OPTIM_EXACT_SUM_H
#define CADRE_OPTIM_EXACT_SUM_H

#include <stdbool.h>
#include <stdint.h>

/* Digit i counts units of 2^(40 i - 960). Squares below the last unit count as 0; one
 * of 2^880 or more is not finite, as are infinity and NaN. */
enum { CADRE_EXACT_DIGITS = 47 };

struct cadre_exact_sum {
    int64_t digit[CADRE_EXACT_DIGITS];
};

/* Add the squares of x (count), f32 or f64, in host memory. Returns false, and leaves
 * the sum as it is or with a part of x, where one is not finite. [any thread] */
bool cadre_exact_sum_squares(struct cadre_exact_sum *sum, uint32_t dtype, const void *x,
                             int64_t count);

/* out (CADRE_EXACT_DIGITS) = the digits of the sum, integers from 0 to 2^40: those of
 * up to 4096 ranks may be added as doubles without rounding. [any thread] */
void cadre_exact_sum_digits(const struct cadre_exact_sum *sum, double *out);

/* The sum of digits (CADRE_EXACT_DIGITS), which may be such additions; rounded in an
 * order that its value fixes. [any thread] */
double cadre_exact_sum_total(const double *digits);

#endif
