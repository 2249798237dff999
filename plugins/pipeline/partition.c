/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/pipeline/partition.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>

/* Tables over (number of chunks, units they hold). */
struct table {
    uint32_t width;
    double *sum; /* of the costs of the first units */
    double *best;
    uint32_t *last; /* where the last chunk begins */
};

static double cost_of(const struct table *t, uint32_t begin, uint32_t end)
{
    return t->sum[end] - t->sum[begin];
}

/* best[k][i]: the first i units in k chunks. With limit < 0 it is the cost of the
 * largest chunk, else the least sum of squares over partitions without a chunk above
 * the limit. */
static double solve(struct table *t, uint32_t pieces, double limit)
{
    uint32_t w = t->width;
    for (size_t at = 0; at < ((size_t)pieces + 1) * w; at++)
        t->best[at] = INFINITY;
    t->best[0] = 0;
    for (uint32_t k = 1; k <= pieces; k++)
        for (uint32_t i = k; i < w; i++)
            for (uint32_t j = k - 1; j < i; j++) {
                double before = t->best[(size_t)(k - 1) * w + j];
                double piece = cost_of(t, j, i), value = before + piece * piece;
                if (limit < 0)
                    value = before > piece ? before : piece;
                else if (piece > limit)
                    continue;
                if (value < t->best[(size_t)k * w + i]) {
                    t->best[(size_t)k * w + i] = value;
                    t->last[(size_t)k * w + i] = j;
                }
            }
    return t->best[(size_t)pieces * w + w - 1];
}

int pipeline_partition_even(const double *cost, uint32_t n_units, uint32_t pieces,
                            uint32_t *first)
{
    size_t cells = ((size_t)pieces + 1) * (n_units + 1);
    struct table t = {
        .width = n_units + 1,
        .sum = calloc((size_t)n_units + 1, sizeof *t.sum),
        .best = calloc(cells, sizeof *t.best),
        .last = calloc(cells, sizeof *t.last),
    };
    int rc = t.sum && t.best && t.last ? 0 : -1;
    if (rc == 0) {
        for (uint32_t u = 0; u < n_units; u++)
            t.sum[u + 1] = t.sum[u] + cost[u];
        solve(&t, pieces, solve(&t, pieces, -1));
        first[pieces] = n_units;
        for (uint32_t k = pieces; k > 0; k--)
            first[k - 1] = t.last[(size_t)k * t.width + first[k]];
    }
    free(t.sum);
    free(t.best);
    free(t.last);
    return rc;
}

int pipeline_partition_counts(const char *text, uint32_t n_units, uint32_t pieces,
                              uint32_t *first, uint64_t *sum, uint32_t *n)
{
    *sum = 0;
    *n = 0;
    first[0] = 0;
    for (const char *at = text; *at;) {
        char *end;
        if (!isdigit((unsigned char)*at))
            return -1;
        unsigned long count = strtoul(at, &end, 10);
        if (count == 0 || count > UINT32_MAX || (*end && *end != ' '))
            return -1;
        *sum += count;
        if (*n < pieces && *sum <= n_units)
            first[*n + 1] = (uint32_t)*sum;
        *n += 1;
        for (at = end; *at == ' ';)
            at++;
    }
    return *n == 0 ? -1 : *n != pieces || *sum != n_units;
}
