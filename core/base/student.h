/* SPDX-License-Identifier: Apache-2.0 */
/* Student's t distribution, for the mean of a few independent values. [any thread] */
#ifndef CADRE_BASE_STUDENT_H
#define CADRE_BASE_STUDENT_H

#include <stddef.h>

/* P(|T| < t) with `degrees` of freedom, from 1 on; t >= 0. Source: M. Abramowitz, I. A.
 * Stegun, Handbook of Mathematical Functions, 1964, 26.7.3 and 26.7.4. */
double cadre_student_within(double t, int degrees);

/* The t with P(|T| < t) = 0.95, 2.776 for 4 degrees; NaN for fewer than 1. */
double cadre_student_quantile(int degrees);

/* Mean of n values and half the width of its 95 % interval, which supposes that they
 * are independent and normally distributed. The mean of none and the half of fewer
 * than two are NaN. */
double cadre_student_mean(const double *values, size_t n, double *half);

#endif
