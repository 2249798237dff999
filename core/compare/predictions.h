/* SPDX-License-Identifier: Apache-2.0 */
/* `cadre compare --predict`: forecasts beside what was measured, and a log of their
 * errors. */
#ifndef CADRE_COMPARE_PREDICTIONS_H
#define CADRE_COMPARE_PREDICTIONS_H

#include "core/compare/verdict/comparison.h"

/* Forecasts seconds of a step of a run, from its resolved options. Errors: the reason
 * why there is no forecast. [main] */
typedef cadre_status (*cadre_predictor)(void *arg, const struct cadre_options *options,
                                        double *seconds, struct cadre_error *why);

struct cadre_prediction_request {
    const char *hardware; /* the file's name; NULL: nothing is forecast */
    cadre_predictor predict;
    void *arg;
};

/* Forecast every run of a judged comparison. Nothing without a hardware file. Errors:
 * CADRE_E_RESOURCE. [main] */
cadre_status cadre_predictions_make(struct cadre_comparison *comparison,
                                    const struct cadre_prediction_request *request,
                                    struct cadre_error *err);

/* Append a line for each run that has a forecast to dir/predictions.tsv, whose first
 * line names the columns. Nothing without a hardware file. Errors: CADRE_E_IO,
 * CADRE_E_RESOURCE. [main] */
cadre_status cadre_predictions_log(const struct cadre_comparison *comparison,
                                   const char *dir, struct cadre_error *err);

#endif
