/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/timing/order.h"

#include <math.h>
#include <stdio.h>

#include "core/base/rng.h"

int cadre_rounds_needed(size_t runs, double alpha)
{
    int rounds = CADRE_ROUNDS_LEAST;
    double least = runs > 1 ? alpha / (double)(runs - 1) : 1;
    while (ldexp(1, 1 - rounds) > least)
        rounds++;
    return rounds;
}

int cadre_rounds_wanted(size_t runs, double alpha)
{
    int needed = cadre_rounds_needed(runs, alpha);
    return needed > CADRE_ROUNDS_DEFAULT ? needed : CADRE_ROUNDS_DEFAULT;
}

void cadre_round_order(uint64_t seed, int round, size_t n, bool mirror, size_t *order)
{
    char stream[40];
    snprintf(stream, sizeof stream, "compare.round.%d", round);
    uint64_t key = cadre_rng_key(seed, stream);
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    for (size_t i = n; i > 1; i--) { /* Fisher and Yates */
        size_t k = cadre_rng_below(key, i, i), moved = order[i - 1];
        order[i - 1] = order[k];
        order[k] = moved;
    }
    for (size_t i = 0; mirror && i < n; i++)
        order[2 * n - 1 - i] = order[i];
}
