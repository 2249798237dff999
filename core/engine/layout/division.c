/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/layout/division.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/numbers.h"

#define KEY "balance.micro_batches"

/* ---- the option ---- */

static cadre_status wrong(const char *text, struct cadre_error *err)
{
    return cadre_fail(err, CADRE_E_INVALID,
                      KEY " = %s: expected off, measured, or a share above 0 for each "
                          "data rank, as 2, 1, and at most %d times / STEP: and shares "
                          "as many, with steps that ascend from 2",
                      text, CADRE_MAX_DEALS - 1);
}

/* "4:", the step from which shares hold. */
static bool take_step(struct cadre_division *division, const char **at)
{
    const int d = division->n_deals;
    char *end;
    *at += 1 + strspn(*at + 1, " \t");
    if (strspn(*at, "0123456789") == 0)
        return false;
    division->from[d] = strtoull(*at, &end, 10);
    end += strspn(end, " \t");
    if (*end != ':' || division->from[d] <= division->from[d - 1])
        return false;
    *at = end + 1;
    return true;
}

static bool take_shares(struct cadre_division *division, const char **at, int room)
{
    const int had = division->n_deals * division->n_shares;
    double *share = division->share + had;
    int n = cadre_numbers_parse(*at, "/", share, room - had, at);
    if (n < 1 || (division->n_deals > 0 && n != division->n_shares))
        return false;
    for (int i = 0; i < n; i++)
        if (!(share[i] > 0 && share[i] <= 1e9))
            return false;
    division->n_shares = n;
    division->n_deals++;
    return true;
}

static bool take_deals(struct cadre_division *division, const char *text, int room)
{
    const char *at = text;
    division->from[0] = 1;
    if (!take_shares(division, &at, room))
        return false;
    while (*at == '/')
        if (division->n_deals == CADRE_MAX_DEALS || !take_step(division, &at) ||
            !take_shares(division, &at, room))
            return false;
    return *at == 0;
}

cadre_status cadre_division_init(struct cadre_division *division, const char *text,
                                 double limit, struct cadre_error *err)
{
    const size_t room = strlen(text) / 2 + 1; /* a number and a byte between */
    *division = (struct cadre_division){.text = text, .limit = limit};
    if (strcmp(text, "off") == 0)
        return CADRE_OK;
    if (strcmp(text, "measured") == 0) {
        division->kind = CADRE_DIVISION_MEASURED;
        return CADRE_OK;
    }
    division->kind = CADRE_DIVISION_SHARES;
    division->share = cadre_calloc(room, sizeof *division->share);
    if (!division->share)
        return cadre_no_memory(err, KEY);
    if (take_deals(division, text, (int)room))
        return CADRE_OK;
    cadre_division_fini(division);
    return wrong(text, err);
}

void cadre_division_fini(struct cadre_division *division)
{
    free(division->share);
    *division = (struct cadre_division){0};
}

bool cadre_division_changes(const struct cadre_division *division)
{
    return division->kind == CADRE_DIVISION_MEASURED || division->n_deals > 1;
}

/* ---- the deal ---- */

void cadre_division_deal(const double *speed, int n, int64_t m, int64_t most,
                         uint64_t *first)
{
    uint64_t *count = first + 1;
    for (int r = 0; r < n; r++)
        count[r] = 1;
    for (int64_t left = m - n; left > 0; left--) {
        int best = -1;
        for (int r = 0; r < n; r++)
            if (count[r] < (uint64_t)most &&
                (best < 0 || (double)(count[r] + 1) * speed[best] <
                                 (double)(count[best] + 1) * speed[r]))
                best = r;
        if (best < 0)
            break; /* n x most < m: the caller's error */
        count[best]++;
    }
    first[0] = 0;
    for (int r = 0; r < n; r++)
        first[r + 1] += first[r];
}

/* The deal that holds in a step. */
static int deal_of(const struct cadre_division *division, uint64_t step)
{
    int d = 0;
    while (d + 1 < division->n_deals && division->from[d + 1] <= step)
        d++;
    return d;
}

static void deal_evenly(int64_t m, int n, uint64_t *first)
{
    for (int r = 0; r <= n; r++)
        first[r] = (uint64_t)(m / n * r + (m % n < r ? m % n : r));
}

static void deal_shares(const struct cadre_division *division, uint64_t step, int64_t m,
                        uint64_t *first)
{
    const int n = division->n_shares;
    cadre_division_deal(division->share + (size_t)deal_of(division, step) * (size_t)n,
                        n, m, m, first);
}

static cadre_status check_size(const struct cadre_division *division, int64_t m, int n,
                               struct cadre_error *err)
{
    if (m < n)
        return cadre_fail(err, CADRE_E_INVALID,
                          "train.global_batch / train.micro_batch makes %lld "
                          "micro-batches, which " KEY
                          " = %s cannot divide over %d data ranks: each runs one at "
                          "least; lower train.micro_batch",
                          (long long)m, division->text, n);
    if (division->kind == CADRE_DIVISION_SHARES && division->n_shares != n)
        return cadre_fail(err, CADRE_E_INVALID,
                          KEY " = %s has %d shares, expected one for each of the %d "
                              "data ranks of strategy.stack",
                          division->text, division->n_shares, n);
    return CADRE_OK;
}

cadre_status cadre_division_at(const struct cadre_division *division, uint64_t step,
                               int64_t m, int n, uint64_t *first,
                               struct cadre_error *err)
{
    CADRE_TRY(check_size(division, m, n, err));
    if (division->kind == CADRE_DIVISION_SHARES)
        deal_shares(division, step, m, first);
    else
        deal_evenly(m, n, first);
    return CADRE_OK;
}

/* ---- what memory is planned for ---- */

/* Of shares that are given, the largest count of any deal. */
static int64_t most_of_shares(const struct cadre_division *division, int64_t m, int n)
{
    uint64_t *first = cadre_calloc((size_t)n + 1, sizeof *first);
    int64_t most = first ? 1 : m; /* without memory: the most there can be */
    for (int d = 0; first && d < division->n_deals; d++) {
        deal_shares(division, division->from[d], m, first);
        for (int r = 0; r < n; r++)
            if ((int64_t)(first[r + 1] - first[r]) > most)
                most = (int64_t)(first[r + 1] - first[r]);
    }
    free(first);
    return most;
}

int64_t cadre_division_most(const struct cadre_division *division, int64_t m, int n)
{
    const int64_t even = (m + n - 1) / n, all = m - n + 1;
    if (m < n)
        return m;
    if (division->kind == CADRE_DIVISION_SHARES)
        return division->n_shares == n ? most_of_shares(division, m, n) : all;
    double most = ceil(division->limit * (double)m / n);
    return most < (double)even ? even : most > (double)all ? all : (int64_t)most;
}

/* Nodes of a range ascend in size, then descend: 2k of them are 2 (2^k - 1) leaves at
 * least, one more 2^k more. */
int cadre_division_nodes(int64_t most)
{
    int n = 0;
    for (;; n++) {
        int64_t half = (int64_t)1 << (n + 1) / 2;
        int64_t leaves = 2 * (half - 1) + ((n + 1) % 2 ? half : 0);
        if (leaves > most)
            return n;
    }
}

int cadre_division_levels(int64_t most)
{
    int levels = 0;
    while (levels < 62 && (int64_t)2 << levels <= most)
        levels++;
    return levels;
}
