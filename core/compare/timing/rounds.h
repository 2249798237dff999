/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces gathered by round and run, and which rounds were disturbed. What the verdicts
 * of speed.h are computed from. [any thread, deterministic] */
#ifndef CADRE_COMPARE_TIMING_ROUNDS_H
#define CADRE_COMPARE_TIMING_ROUNDS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/compare/timing/speed.h"

/* Of one run in one round. */
struct cadre_round_value {
    double log_t; /* log of the geometric mean of its pieces' seconds a period */
    double control; /* log of the ratio of its two pieces; NaN where it has one */
    double taken; /* of a disturbed round: how much longer, as a logarithm, its pieces
                     may have taken for that; 0 of others */
    double loaded; /* likewise of any round, by the load's counters alone; 0 where they
                      are not known, or say nothing of a GPU */
    double bubble_fraction, comm_exposed_s; /* means of its pieces */
};

struct cadre_rounds {
    struct cadre_speed_round *round; /* owned, by number, without warm-up */
    size_t n, n_runs, n_disturbed;
    struct cadre_round_value *value; /* owned, [round][run] */
    bool *timed; /* owned, [run]: it has pieces */
};

/* Errors: CADRE_E_INVALID a run without its one or two pieces in a round, as many in
 * each, a time that is none, or a baseline that is no run; CADRE_E_RESOURCE. */
cadre_status cadre_rounds_init(struct cadre_rounds *rounds,
                               const struct cadre_speed_input *input,
                               struct cadre_error *err);

/* Accepts a zeroed one. */
void cadre_rounds_fini(struct cadre_rounds *rounds);

static inline const struct cadre_round_value *
cadre_rounds_at(const struct cadre_rounds *rounds, size_t round, size_t run)
{
    return &rounds->value[round * rounds->n_runs + run];
}

#endif
