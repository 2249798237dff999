/* SPDX-License-Identifier: Apache-2.0 */
/* A drawing of the schedule that `cadre plan` puts first. */
#ifndef CADRE_CLI_PLAN_DRAW_H
#define CADRE_CLI_PLAN_DRAW_H

#include "core/cli/plan_answers.h"

/* Simulate the first candidate that has a pipeline, with one of its data ranks and some
 * of its micro-batches, and append the drawing of its passes to `drawing`, what they
 * are to `note`. Where it cannot be simulated the note alone says why. Errors:
 * CADRE_E_RESOURCE. [main] */
cadre_status cadre_plan_draw(const struct cadre_plan_answers *a,
                             struct cadre_text *drawing, struct cadre_text *note,
                             struct cadre_error *err);

#endif
