/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CADRE_BASE_MEDIAN_H
#define CADRE_BASE_MEDIAN_H

#include <stddef.h>

/* Median of values[0, n), which are sorted in place; the mean of the middle two for an
 * even n, 0 for none. No value may be NaN. [any thread] */
double cadre_median(double *values, size_t n);

#endif
