/* SPDX-License-Identifier: Apache-2.0 */
/* `cadre plan --replay`: forecasts beside published measurements, and their errors. */
#ifndef CADRE_PLAN_BACKTEST_H
#define CADRE_PLAN_BACKTEST_H

#include <stdio.h>

#include "core/plan/footprint.h"
#include "core/plan/forecast.h"
#include "core/plan/interval.h"
#include "core/plan/published.h"

struct cadre_backtest_row {
    struct cadre_published published;
    int line; /* in the file */
    char hardware[64]; /* the file's name; "" where none was found */
    char *refused; /* why it cannot be expressed; NULL: it can */
    bool foreign; /* Cadre cannot run it; see `foreign_reason` */
    struct cadre_forecast forecast;
    struct cadre_footprint footprint;
    bool fits;
    double predicted; /* in the row's metric */
    double error; /* predicted seconds / published seconds - 1 */
};

/* Errors of rows together, in parts: of a set, or of its part with ZeRO-3 or without.
 */
struct cadre_backtest_set {
    char name[80];
    size_t rows, refused;
    double mape, max; /* means and maximum of |error| */
    double constant_mape, constant_max; /* those of the median FLOP/s of the rows */
    double skill; /* 1 - mape / constant_mape; NaN where that is 0 */
};

struct cadre_backtest {
    struct cadre_csv csv;
    struct cadre_backtest_row *row;
    size_t n;
    struct cadre_backtest_set *set;
    size_t n_sets;
};

/* Replay the table `path` with the hardware files that the table `map` (texts.tsv: hw,
 * set, hardware) names, beside itself. *backtest is the caller's (fini). Errors:
 * CADRE_E_INVALID for a table or a hardware file that is wrong; a row that cannot be
 * expressed is none. [main] */
cadre_status cadre_backtest(struct cadre_backtest *backtest, const char *path,
                            const char *map, struct cadre_error *err);
void cadre_backtest_fini(struct cadre_backtest *backtest);

/* As tables for people, as JSON. The interval of a row (intervals; NULL: none) is made
 * of errors of other sets. */
void cadre_backtest_print(const struct cadre_backtest *backtest,
                          const struct cadre_intervals *intervals, FILE *out);
cadre_status cadre_backtest_print_json(const struct cadre_backtest *backtest,
                                       const struct cadre_intervals *intervals,
                                       FILE *out);

#endif
