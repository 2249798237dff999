/* SPDX-License-Identifier: Apache-2.0 */
/* The Wilcoxon signed-rank procedures, exact: estimate, interval and test of the centre
 * of a symmetric distribution. Hollander, Wolfe and Chicken, Nonparametric Statistical
 * Methods, 3rd edition, sections 3.1 to 3.3. [any thread, deterministic] */
#ifndef CADRE_COMPARE_TIMING_SIGNED_RANK_H
#define CADRE_COMPARE_TIMING_SIGNED_RANK_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/error.h"

enum { CADRE_SIGNED_RANK_MAX = 200 }; /* values in one sample */

/* NaN: not known. */
struct cadre_interval {
    double value, low, high;
};

/* P(W <= w) of the signed-rank statistic of n values under the null hypothesis. */
double cadre_signed_rank_cdf(size_t n, size_t w);

/* How many Walsh averages lie outside the interval at each end: the largest k with
 * P(low <= centre <= high) >= 1 - alpha, counted from 1 (n = 6: 1, n = 8: 4). 0: n is
 * too small for alpha. */
size_t cadre_signed_rank_order(size_t n, double alpha);

/* The Hodges-Lehmann median of the Walsh averages (x_i + x_j) / 2, i <= j, and the
 * interval of coverage >= 1 - alpha; without one (n too small) low and high are NaN.
 * Any value not finite: all three NaN. Errors: CADRE_E_INVALID n above
 * CADRE_SIGNED_RANK_MAX, CADRE_E_RESOURCE. */
cadre_status cadre_signed_rank_interval(const double *x, size_t n, double alpha,
                                        struct cadre_interval *out,
                                        struct cadre_error *err);

/* P-value of "the centre is at most `centre`" against "it is above": small where x is
 * above. Zero differences are dropped, ties get mid-ranks, and the distribution is that
 * of these ranks, exactly. 1 where a value is not finite. Errors: as above. */
cadre_status cadre_signed_rank_above(const double *x, size_t n, double centre,
                                     double *p, struct cadre_error *err);

/* Holm's procedure: reject[i] for p[i] of m hypotheses, family-wise error <= alpha.
 * NaN is never rejected. Holm, Scandinavian Journal of Statistics 6 (1979). */
void cadre_holm(const double *p, size_t m, double alpha, bool *reject);

#endif
