/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/balance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/median.h"
#include "core/base/memory.h"
#include "core/engine/layout/division.h"

cadre_status cadre_balance_init(struct cadre_balance *balance, int n,
                                int64_t microbatches, int64_t most,
                                struct cadre_error *err)
{
    const size_t ranks = (size_t)n;
    *balance = (struct cadre_balance){
        .n = n, .microbatches = microbatches, .most = most, .rest = 1};
    balance->seen = cadre_calloc(ranks * CADRE_BALANCE_WINDOW, sizeof *balance->seen);
    balance->second = cadre_calloc(ranks, sizeof *balance->second);
    balance->speed = cadre_calloc(ranks, sizeof *balance->speed);
    if (balance->seen && balance->second && balance->speed)
        return CADRE_OK;
    cadre_balance_fini(balance);
    return cadre_no_memory(err, "the speeds of %d ranks", n);
}

void cadre_balance_fini(struct cadre_balance *balance)
{
    free(balance->seen);
    free(balance->second);
    free(balance->speed);
    *balance = (struct cadre_balance){0};
}

static bool are_known(const double *seconds, int n)
{
    for (int r = 0; r < n; r++)
        if (!(seconds[r] > 0) || !isfinite(seconds[r]))
            return false;
    return true;
}

static void take(struct cadre_balance *balance, const double *seconds)
{
    const uint64_t at = balance->steps++ % CADRE_BALANCE_WINDOW;
    for (int r = 0; r < balance->n; r++)
        balance->seen[(uint64_t)r * CADRE_BALANCE_WINDOW + at] = seconds[r];
}

static void find_speeds(struct cadre_balance *balance)
{
    for (int r = 0; r < balance->n; r++) {
        double sorted[CADRE_BALANCE_WINDOW];
        memcpy(sorted, balance->seen + (size_t)r * CADRE_BALANCE_WINDOW, sizeof sorted);
        balance->second[r] = cadre_median(sorted, CADRE_BALANCE_WINDOW);
        balance->speed[r] = 1 / balance->second[r];
    }
}

/* Seconds of the slowest rank's passes under a division. */
static double longest(const struct cadre_balance *balance, const uint64_t *first)
{
    double most = 0;
    for (int r = 0; r < balance->n; r++)
        most = fmax(most, (double)(first[r + 1] - first[r]) * balance->second[r]);
    return most;
}

bool cadre_balance_judge(struct cadre_balance *balance, const double *seconds,
                         const uint64_t *now, uint64_t *next)
{
    if (balance->rest > 0) {
        balance->rest--;
        return false;
    }
    if (!are_known(seconds, balance->n))
        return false;
    take(balance, seconds);
    if (balance->steps < CADRE_BALANCE_WINDOW)
        return false;
    find_speeds(balance);
    cadre_division_deal(balance->speed, balance->n, balance->microbatches,
                        balance->most, next);
    bool better =
        longest(balance, next) < (1 - CADRE_BALANCE_GAIN) * longest(balance, now);
    balance->streak = better ? balance->streak + 1 : 0;
    if (balance->streak < CADRE_BALANCE_STREAK)
        return false;
    balance->steps = 0;
    balance->streak = 0;
    balance->rest = CADRE_BALANCE_REST;
    return true;
}
