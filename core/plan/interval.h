/* SPDX-License-Identifier: Apache-2.0 */
/* Prediction intervals: how far off forecasts were of published steps that no number
 * was fitted to. */
#ifndef CADRE_PLAN_INTERVAL_H
#define CADRE_PLAN_INTERVAL_H

#include <stdbool.h>

#include "core/plan/csv.h"

/* conf/hardware/errors.tsv: a row for each published step, with the error of its
 * forecast by numbers that were fitted without it. */
struct cadre_intervals {
    struct cadre_csv table;
    struct cadre_interval_row {
        const char *set; /* borrowed from the table */
        bool gathered; /* ZeRO-3: its errors are larger, so it is a kind of its own */
        double off; /* |ln(forecast / published)| */
    } * row; /* by `off`, ascending */
    size_t n;
};

/* Seconds between which a step is expected; `rows` errors stand behind it, 0: none do,
 * and low and high mean nothing. */
struct cadre_plan_interval {
    double low, high;
    size_t rows;
};

/* The part of new steps that intervals are made for. */
#define CADRE_INTERVAL_PART 0.9

/* Columns set, kind (gathered or other), error (forecast / published - 1). The caller
 * zeroes *intervals and ends it in any case. Errors: CADRE_E_INVALID. [any thread] */
cadre_status cadre_intervals_load(struct cadre_intervals *intervals, const char *path,
                                  struct cadre_error *err);
void cadre_intervals_fini(struct cadre_intervals *intervals);

/* Of a forecast of `seconds`: a factor down and up, which as many errors of its kind
 * are below as CADRE_INTERVAL_PART of one more than there are. Errors of the set
 * `without` (NULL: none) are left out. `intervals` may be NULL. [any thread] Source:
 * split conformal prediction, Vovk et al. 2005. */
struct cadre_plan_interval cadre_interval_of(const struct cadre_intervals *intervals,
                                             double seconds, bool gathered,
                                             const char *without);

#endif
