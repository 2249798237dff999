/* SPDX-License-Identifier: Apache-2.0 */
#include "core/data/wfdb/ecg_quantise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"

/* Neighbours are often equal, and a count that was just stored is slow to load again:
 * samples take turns between LANES counts of their value. */
enum { VALUES_MAX = 1 << 16, LANES = 4 };

/* The k-th smallest, by Hoare's quickselect; what stands before k is then no larger. */
static int32_t select_kth(int32_t *values, int64_t count, int64_t k)
{
    int64_t low = 0, high = count - 1;
    while (low < high) {
        int32_t pivot = values[low + (high - low) / 2];
        int64_t i = low, j = high;
        while (i <= j) {
            while (values[i] < pivot)
                i++;
            while (values[j] > pivot)
                j--;
            if (i <= j) {
                int32_t swap = values[i];
                values[i++] = values[j];
                values[j--] = swap;
            }
        }
        if (k <= j)
            high = j;
        else if (k >= i)
            low = i;
        else
            break;
    }
    return values[k];
}

double cadre_ecg_median(int32_t *values, int64_t count)
{
    int32_t upper = select_kth(values, count, count / 2);
    int32_t lower = upper;
    if (count % 2 == 0) {
        lower = values[0];
        for (int64_t i = 1; i < count / 2; i++)
            lower = values[i] > lower ? values[i] : lower;
    }
    return ((double)lower + (double)upper) / 2;
}

uint16_t cadre_ecg_token(double mv, double range_mv, int64_t levels)
{
    double clipped = fmin(fmax(mv, -range_mv), range_mv);
    int64_t token =
        (int64_t)floor((clipped + range_mv) / (2 * range_mv) * (double)levels);
    return (uint16_t)(token < levels ? token : levels - 1);
}

double cadre_ecg_mv(uint16_t token, double range_mv, int64_t levels)
{
    return (2 * ((double)token + 0.5) / (double)levels - 1) * range_mv;
}

/* (value - baseline) / gain minus the median of the same: the baseline cancels. */
static uint16_t token_of(int32_t value, double median,
                         const struct cadre_ecg_scale *scale)
{
    return cadre_ecg_token(((double)value - median) / scale->gain * scale->unit_mv,
                           scale->range_mv, scale->levels);
}

/* ---- any values: sort out the median, then one sample after the other ---- */

static cadre_status quantise_each(const int32_t *samples, int64_t count,
                                  int64_t missing_value,
                                  const struct cadre_ecg_scale *scale, uint16_t *tokens,
                                  int64_t *missing)
{
    int64_t kept = 0;
    int32_t *sorted = cadre_calloc((size_t)count, sizeof *sorted);
    if (!sorted)
        return CADRE_E_RESOURCE;
    for (int64_t t = 0; t < count; t++)
        if (samples[t] != missing_value)
            sorted[kept++] = samples[t];
    double median = kept > 0 ? cadre_ecg_median(sorted, kept) : 0;
    free(sorted);
    for (int64_t t = 0; t < count; t++)
        tokens[t] = token_of(samples[t], median, scale);
    *missing = count - kept;
    return CADRE_OK;
}

/* ---- few values: count them ---- */

struct table {
    uint32_t *counts; /* (LANES, values), summed into the first lane */
    uint16_t *tokens; /* (values) */
    int64_t low, values;
};

static void count_values(struct table *table, const int32_t *samples, int64_t count)
{
    uint32_t *lane[LANES];
    int64_t t = 0;
    for (int l = 0; l < LANES; l++)
        lane[l] = table->counts + l * table->values - table->low;
    for (; t + LANES <= count; t += LANES) {
        lane[0][samples[t]]++;
        lane[1][samples[t + 1]]++;
        lane[2][samples[t + 2]]++;
        lane[3][samples[t + 3]]++;
    }
    for (; t < count; t++)
        lane[0][samples[t]]++;
    for (int64_t v = 0; v < table->values; v++)
        for (int l = 1; l < LANES; l++)
            table->counts[v] += table->counts[l * table->values + v];
}

/* The k-th smallest of what was counted, `skip` left out. */
static int64_t counted_kth(const struct table *table, int64_t skip, int64_t k)
{
    int64_t seen = 0, v = 0;
    for (;; v++) {
        if (v + table->low != skip)
            seen += table->counts[v];
        if (seen > k)
            return v + table->low;
    }
}

static cadre_status quantise_counted(struct table *table, const int32_t *samples,
                                     int64_t count, int64_t missing_value,
                                     const struct cadre_ecg_scale *scale,
                                     uint16_t *tokens, int64_t *missing)
{
    double median = 0;
    count_values(table, samples, count);
    int64_t at = missing_value - table->low;
    *missing = at >= 0 && at < table->values ? table->counts[at] : 0;
    int64_t kept = count - *missing;
    if (kept > 0)
        median = ((double)counted_kth(table, missing_value, (kept - 1) / 2) +
                  (double)counted_kth(table, missing_value, kept / 2)) /
                 2;
    for (int64_t v = 0; v < table->values; v++)
        if (table->counts[v] > 0)
            table->tokens[v] = token_of((int32_t)(v + table->low), median, scale);
    for (int64_t t = 0; t < count; t++)
        tokens[t] = table->tokens[samples[t] - table->low];
    return CADRE_OK;
}

cadre_status cadre_ecg_quantise(const int32_t *samples, int64_t count,
                                const struct cadre_wfdb_range *range,
                                const struct cadre_ecg_scale *scale, uint16_t *tokens,
                                int64_t *missing)
{
    struct table table = {.low = range->low, .values = range->high - range->low + 1};
    if (table.values > VALUES_MAX || count > UINT32_MAX)
        return quantise_each(samples, count, range->missing, scale, tokens, missing);
    cadre_status rc = CADRE_E_RESOURCE;
    table.counts = cadre_calloc((size_t)(LANES * table.values), sizeof *table.counts);
    table.tokens = cadre_calloc((size_t)table.values, sizeof *table.tokens);
    if (table.counts && table.tokens)
        rc = quantise_counted(&table, samples, count, range->missing, scale, tokens,
                              missing);
    free(table.counts);
    free(table.tokens);
    return rc;
}
