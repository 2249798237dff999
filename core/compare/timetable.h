/* SPDX-License-Identifier: Apache-2.0 */
/* How the runs of a comparison are timed: which, in how many rounds, with how many
 * steps a piece. All of it is decided before the first round that counts, so that no
 * time that was seen decides how long to go on. [main] */
#ifndef CADRE_COMPARE_TIMETABLE_H
#define CADRE_COMPARE_TIMETABLE_H

#include "core/compare/verdict/comparison.h"
#include "core/config/config.h"
#include "core/config/options.h"

enum {
    CADRE_TIMETABLE_WINDOWS = 4, /* of a start, where starts are dear */
    CADRE_TIMETABLE_STEPS = 10, /* of a piece, at least */
    CADRE_TIMETABLE_WARMUP = 2, /* steps, at least */
};

struct cadre_timetable {
    int wanted; /* compare.rounds; 0: as many as the runs need */
    double budget_s; /* compare.budget; 0: none */
    double piece_s; /* compare.piece */
    int64_t period; /* compare.period */
    uint64_t seed; /* run.seed, of trainings to a target */
    uint64_t order; /* seed of the orders: compare.order; 0: not drawn yet */
    /* by cadre_timetable_size */
    int64_t warmup, steps; /* of a piece, the same of every run */
};

/* Take the options of the comparison, which are those of its first run. Errors:
 * CADRE_E_INVALID compare.budget is no time. */
cadre_status cadre_timetable_read(struct cadre_timetable *table,
                                  const struct cadre_options *options,
                                  const struct cadre_config *config,
                                  struct cadre_error *err);

/* Draw a seed of the orders where none was given. Errors: CADRE_E_RESOURCE no random
 * bytes. */
cadre_status cadre_timetable_draw(struct cadre_timetable *table,
                                  struct cadre_error *err);

/* Put the indices of the runs whose steps are timed into `timed`, which has room for
 * all; returns their number, 0 where there are none to compare. Those that change
 * training by design get `to_target` if there is one, each other run is told why
 * (`untimed`), and where nothing is timed the comparison (`unranked`). Records are
 * filled and unfair runs found. */
size_t cadre_timetable_choose(struct cadre_comparison *comparison, size_t *timed);

/* Fix the steps of a piece from the fastest of the runs' trainings. */
void cadre_timetable_size(struct cadre_timetable *table,
                          const struct cadre_comparison *comparison,
                          const size_t *timed, size_t n);

/* Rounds of `runs` timed runs where one takes `round_s` seconds. */
int cadre_timetable_rounds(const struct cadre_timetable *table, size_t runs,
                           double round_s);

/* Seconds that the timed steps of a piece took. */
double cadre_timetable_window_s(const struct cadre_timetable *table,
                                const struct cadre_piece *piece);

/* Does a start cost more than three pieces, by these (of the warm-up)? */
bool cadre_timetable_starts_are_dear(const struct cadre_timetable *table,
                                     const struct cadre_piece *piece, size_t n);

/* Rounds of `n` in which disturbed ones are repeated, at most. */
int cadre_timetable_repeats(int n);

#endif
