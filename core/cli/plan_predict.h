/* SPDX-License-Identifier: Apache-2.0 */
/* Options of a run as a question to the formulas of `cadre plan`, and the forecast of
 * one run. */
#ifndef CADRE_CLI_PLAN_PREDICT_H
#define CADRE_CLI_PLAN_PREDICT_H

#include "core/config/options.h"
#include "core/plan/hardware.h"
#include "core/plan/search.h"

/* The model and what a search starts from, of resolved options; ranks are left as they
 * are. Errors: CADRE_E_INVALID, CADRE_E_UNSUPPORTED for what no formula has. [main] */
cadre_status cadre_plan_question_of(const struct cadre_options *options,
                                    struct cadre_plan_question *question,
                                    struct cadre_error *err);

/* A cadre_predictor: `arg` is the hardware (struct cadre_hardware). Errors: the reason
 * why its stack, or the run, cannot be forecast. [main] */
cadre_status cadre_plan_predict(void *arg, const struct cadre_options *options,
                                double *seconds, struct cadre_error *why);

#endif
