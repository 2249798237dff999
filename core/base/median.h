/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CADRE_BASE_MEDIAN_H
#define CADRE_BASE_MEDIAN_H

#include <stddef.h>

/* Median of values[0, n), which are sorted in place; the mean of the middle two for an
 * even n, 0 for none. No value may be NaN. [any thread] */
double cadre_median(double *values, size_t n);

/* The value below which `part` of sorted[0, n) lie, n > 0: between two of them by its
 * distance. [any thread] Source: Hyndman and Fan, Sample Quantiles in Statistical
 * Packages, 1996, type 7. */
double cadre_quantile(const double *sorted, size_t n, double part);

/* Sort values[0, n) upwards. No value may be NaN. [any thread] */
void cadre_sort(double *values, size_t n);

#endif
