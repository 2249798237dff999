/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/verdict/consumption.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/median.h"
#include "core/base/memory.h"

static bool is_disturbed(const struct cadre_comparison *c,
                         const struct cadre_piece *piece)
{
    for (size_t i = 0; i < c->speed.n_rounds; i++)
        if (c->speed.round[i].round == piece->round)
            return c->speed.round[i].disturbed;
    return false;
}

/* The run's known values: of undisturbed rounds, else of all. Returns how many. */
static size_t collect(const struct cadre_comparison *c, size_t run, bool disturbed,
                      double *joules)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n_pieces; i++) {
        const struct cadre_piece *piece = &c->piece[i];
        if (piece->run == run && piece->round > 0 && piece->joules_per_token > 0 &&
            (disturbed || !is_disturbed(c, piece)))
            joules[n++] = piece->joules_per_token;
    }
    return n;
}

double cadre_consumption_joules(const struct cadre_comparison *c, size_t run)
{
    double *joules = cadre_calloc(c->n_pieces + 1, sizeof *joules);
    if (!joules)
        return NAN;
    size_t n = collect(c, run, false, joules);
    if (n == 0)
        n = collect(c, run, true, joules);
    double found = n > 0 ? cadre_median(joules, n) : (double)NAN;
    free(joules);
    if (c->n_pieces == 0 && c->run[run].record.summary)
        found = cadre_record_number_in(&c->run[run].record, "energy", "j_per_token");
    return found;
}

/* FLOPs of a token by `key`, as a share of what the devices can do. */
static double utilisation(const struct cadre_compared_run *run, const char *key)
{
    if (!run->record.summary)
        return NAN;
    return cadre_record_number(&run->record, key) * run->tokens_per_s /
           cadre_record_number(&run->record, "peak_flops");
}

double cadre_consumption_mfu(const struct cadre_compared_run *run)
{
    return utilisation(run, "flops_per_token");
}

double cadre_consumption_hfu(const struct cadre_compared_run *run)
{
    return utilisation(run, "hardware_flops_per_token");
}

double cadre_consumption_price(const struct cadre_compared_run *run)
{
    if (!run->record.summary)
        return NAN;
    return 1e6 / 3600 * cadre_record_number_in(&run->record, "price", "per_hour") *
           cadre_record_number_in(&run->record, "price", "hosts") / run->tokens_per_s;
}
