/* SPDX-License-Identifier: Apache-2.0 */
/* A scaling curve: the best candidate on 1, 2, 4, ... ranks, at one global batch. */
#ifndef CADRE_PLAN_ANSWER_GROWTH_H
#define CADRE_PLAN_ANSWER_GROWTH_H

#include "core/plan/interval.h"
#include "core/plan/search.h"

struct cadre_growth_point {
    int64_t ranks;
    size_t legal; /* candidates that run; 0: none, and `best` has why not */
    struct cadre_plan_found best;
    double tokens_s; /* of all ranks together */
    double efficiency; /* tokens a second and rank over those of the first point */
};

enum { CADRE_GROWTH_POINTS = 32 };

/* Powers of two times `first` up to `last`; returns how many. Errors: those of
 * cadre_plan_search. [any thread] */
cadre_status cadre_growth(struct cadre_growth_point out[CADRE_GROWTH_POINTS], size_t *n,
                          struct cadre_plan_question question, const int64_t range[2],
                          const struct cadre_hardware *hw, struct cadre_error *err);
bool cadre_growth_print(const struct cadre_growth_point *points, size_t n,
                        const struct cadre_intervals *intervals, FILE *out);
cadre_status cadre_growth_print_json(const struct cadre_growth_point *points, size_t n,
                                     const struct cadre_intervals *intervals,
                                     FILE *out);

#endif
