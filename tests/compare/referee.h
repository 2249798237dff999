/* SPDX-License-Identifier: Apache-2.0 */
/* An experiment for the referee: the rounds of a comparison as `cadre compare` takes
 * them, with pieces from somewhere else, and what was said of them. */
#ifndef CADRE_TESTS_COMPARE_REFEREE_H
#define CADRE_TESTS_COMPARE_REFEREE_H

#include "core/compare/timing/speed.h"

enum { REFEREE_RUNS = 8, REFEREE_ROUNDS = 16 };

struct referee {
    uint64_t seed; /* of the orders */
    size_t runs;
    bool single; /* one piece of a run in a round, where starts are dear */
    double margin;
    double speedup; /* of run 1, planted; 1: all runs are the same program */
    /* Fills period_s and load of the next piece in time; false: there is none left. */
    bool (*next)(void *source, struct cadre_piece *piece);
    void *source;
};

/* The verdicts are in *out, to be freed by cadre_speed_fini; false where the pieces
 * did not suffice. Disturbed rounds are repeated at the end, at most a third more. */
bool referee_experiment(const struct referee *referee, struct cadre_speed *out);

/* With all runs the same: a run faster or slower, or a winner. */
bool referee_false_alarm(const struct cadre_speed *speed);

/* Run 1 was found faster than the baseline, run 0. */
bool referee_found(const struct cadre_speed *speed);

/* Whatever the effect of run 1 and of no other: any statement that is wrong. */
bool referee_wrong(const struct cadre_speed *speed);

/* The upper end of the exact 95 % interval of a rate, of which k of n were seen
 * (Clopper and Pearson 1934); two-sided, so 97.5 % one-sided. */
double referee_rate_high(int k, int n);

#endif
