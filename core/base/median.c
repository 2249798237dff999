/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/median.h"

#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void cadre_sort(double *values, size_t n)
{
    if (n > 0)
        qsort(values, n, sizeof *values, by_value);
}

double cadre_quantile(const double *sorted, size_t n, double part)
{
    double at = part * (double)(n - 1);
    size_t below = (size_t)at, above = below + 1 < n ? below + 1 : below;
    return sorted[below] + (at - (double)below) * (sorted[above] - sorted[below]);
}

double cadre_median(double *values, size_t n)
{
    if (n == 0)
        return 0;
    cadre_sort(values, n);
    return n % 2 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}
