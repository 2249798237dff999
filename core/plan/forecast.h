/* SPDX-License-Identifier: Apache-2.0 */
/* Seconds of a training step, by cause; the step is their sum. The analytic engine: no
 * run, no simulation. docs/planning.md has every formula and where it fails. */
#ifndef CADRE_PLAN_FORECAST_H
#define CADRE_PLAN_FORECAST_H

#include "core/plan/candidate.h"

enum cadre_plan_cause {
    CADRE_PLAN_COMPUTE, /* forward and backward once, of the largest stage */
    CADRE_PLAN_AGAIN, /* what is computed again in backward */
    CADRE_PLAN_TENSOR, /* exposed communication along each axis */
    CADRE_PLAN_CONTEXT,
    CADRE_PLAN_PIPELINE,
    CADRE_PLAN_DATA,
    CADRE_PLAN_BUBBLE,
    CADRE_PLAN_OPTIMIZER,
    CADRE_PLAN_STRAGGLE, /* waiting for the slowest rank */
    CADRE_PLAN_CAUSES,
};
const char *cadre_plan_cause_name(enum cadre_plan_cause cause);

struct cadre_forecast {
    double step; /* seconds: the sum of `cause` */
    double cause[CADRE_PLAN_CAUSES];
};

/* The largest cause. [any thread] */
enum cadre_plan_cause cadre_forecast_limit(const struct cadre_forecast *forecast);

/* Of a candidate that cadre_candidate_check let pass. [any thread] */
struct cadre_forecast cadre_forecast(const struct cadre_transformer *t,
                                     const struct cadre_candidate *c,
                                     const struct cadre_hardware *hw);

#endif
