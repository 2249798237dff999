/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/timing/signed_rank.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/median.h"
#include "core/base/memory.h"

enum { SUM_MAX = CADRE_SIGNED_RANK_MAX * (CADRE_SIGNED_RANK_MAX + 1) / 2 };

/* prob[s], s < size: the probability that the ranks with a positive sign sum to s, one
 * rank more than before. Halving is exact, so only the additions round. */
static void add_rank(double *prob, size_t size, size_t rank)
{
    for (size_t s = size; s-- > 0;)
        prob[s] = 0.5 * (prob[s] + (s >= rank ? prob[s - rank] : 0));
}

/* P(W = w) for w < size under the null hypothesis without ties. */
static void mass(size_t n, double *prob, size_t size)
{
    memset(prob, 0, size * sizeof *prob);
    prob[0] = 1;
    for (size_t rank = 1; rank <= n; rank++)
        add_rank(prob, size, rank);
}

double cadre_signed_rank_cdf(size_t n, size_t w)
{
    double prob[SUM_MAX / 2 + 1], sum = 0;
    size_t most = n * (n + 1) / 2;
    if (n > CADRE_SIGNED_RANK_MAX)
        return NAN;
    if (w >= most)
        return 1;
    if (w > most / 2) /* symmetric: the shorter tail is summed */
        return 1 - cadre_signed_rank_cdf(n, most - w - 1);
    mass(n, prob, w + 1);
    for (size_t s = 0; s <= w; s++)
        sum += prob[s];
    return sum;
}

size_t cadre_signed_rank_order(size_t n, double alpha)
{
    double prob[SUM_MAX / 2 + 1], sum = 0;
    size_t middle = n * (n + 1) / 4, k = 0;
    if (n == 0 || n > CADRE_SIGNED_RANK_MAX)
        return 0;
    mass(n, prob, middle + 1);
    while (k <= middle && 2 * (sum + prob[k]) <= alpha)
        sum += prob[k++];
    return k;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool all_finite(const double *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

static cadre_status check_count(size_t n, struct cadre_error *err)
{
    if (n > CADRE_SIGNED_RANK_MAX)
        return cadre_fail(err, CADRE_E_INVALID,
                          "a signed-rank statistic of %zu values, at most %d can be "
                          "judged: take fewer rounds",
                          n, CADRE_SIGNED_RANK_MAX);
    return CADRE_OK;
}

cadre_status cadre_signed_rank_interval(const double *x, size_t n, double alpha,
                                        struct cadre_interval *out,
                                        struct cadre_error *err)
{
    CADRE_TRY(check_count(n, err));
    struct cadre_interval none = {NAN, NAN, NAN};
    size_t count = n * (n + 1) / 2, at = 0;
    if (n == 0 || !all_finite(x, n)) {
        *out = none;
        return CADRE_OK;
    }
    double *walsh = cadre_calloc(count, sizeof *walsh);
    if (!walsh)
        return cadre_no_memory(err, "the averages of %zu values", n);
    for (size_t i = 0; i < n; i++)
        for (size_t k = i; k < n; k++)
            walsh[at++] = 0.5 * (x[i] + x[k]);
    qsort(walsh, count, sizeof *walsh, ascending);
    size_t k = cadre_signed_rank_order(n, alpha);
    *out = none;
    out->value = 0.5 * (walsh[(count - 1) / 2] + walsh[count / 2]);
    if (k > 0) {
        out->low = walsh[k - 1];
        out->high = walsh[count - k];
    }
    free(walsh);
    return CADRE_OK;
}

struct difference {
    double size;
    bool positive;
};

static int by_size(const void *a, const void *b)
{
    const struct difference *x = a, *y = b;
    return (x->size > y->size) - (x->size < y->size);
}

/* P(sum of positive ranks >= the one seen), over all signs of the n differences, whose
 * ranks are doubled so that those of ties are whole. */
static cadre_status upper_tail(struct difference *d, size_t n, double *p,
                               struct cadre_error *err)
{
    size_t seen = 0, size = n * (n + 1) + 1;
    double *prob = cadre_calloc(size, sizeof *prob);
    if (!prob)
        return cadre_no_memory(err, "the distribution of %zu ranks", n);
    qsort(d, n, sizeof *d, by_size);
    prob[0] = 1;
    for (size_t first = 0, end; first < n; first = end) {
        for (end = first; end < n && d[end].size <= d[first].size; end++)
            ;
        for (size_t i = first; i < end; i++) {
            add_rank(prob, size, first + end + 1);
            seen += d[i].positive ? first + end + 1 : 0;
        }
    }
    double sum = 0;
    for (size_t s = seen; s < size; s++)
        sum += prob[s];
    *p = fmin(sum, 1);
    free(prob);
    return CADRE_OK;
}

cadre_status cadre_signed_rank_above(const double *x, size_t n, double centre,
                                     double *p, struct cadre_error *err)
{
    struct difference d[CADRE_SIGNED_RANK_MAX];
    size_t count = 0;
    CADRE_TRY(check_count(n, err));
    if (!all_finite(x, n)) {
        *p = 1;
        return CADRE_OK;
    }
    for (size_t i = 0; i < n; i++) {
        struct difference one = {fabs(x[i] - centre), x[i] > centre};
        if (one.size > 0)
            d[count++] = one;
    }
    return upper_tail(d, count, p, err);
}

void cadre_holm(const double *p, size_t m, double alpha, bool *reject)
{
    for (size_t i = 0; i < m; i++)
        reject[i] = false;
    for (size_t left = m; left > 0; left--) {
        size_t least = m;
        for (size_t i = 0; i < m; i++)
            if (!reject[i] && !isnan(p[i]) && (least == m || p[i] < p[least]))
                least = i;
        if (least == m || p[least] > alpha / (double)left)
            return;
        reject[least] = true;
    }
}
