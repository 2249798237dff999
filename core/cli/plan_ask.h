/* SPDX-License-Identifier: Apache-2.0 */
/* `cadre plan` asks the plugins that will train: whether they take a candidate, and
 * the bytes that its ranks hold. */
#ifndef CADRE_CLI_PLAN_ASK_H
#define CADRE_CLI_PLAN_ASK_H

#include "core/cli/plan_answers.h"

/* Ask for the first candidates, until `most` of those that run were asked, or 128 were
 * refused: one that is goes behind those that run, with the plugin's reason, or, where
 * the hardware file's accounting is cadre, with the bytes that do not fit. Errors:
 * those of the options. [main] */
cadre_status cadre_plan_ask(struct cadre_plan_answers *a, size_t most,
                            struct cadre_error *err);

/* Fill a->own: the stack of CONF, where it is not made of the known axes alone. Errors:
 * those of the options. [main] */
cadre_status cadre_plan_ask_own(struct cadre_plan_answers *a, struct cadre_error *err);

/* Assignments to options that make a run of a candidate. Each is "section.key=value";
 * returns how many. `out` holds CADRE_PLAN_SETTINGS. */
enum { CADRE_PLAN_SETTINGS = 8, CADRE_PLAN_SETTING = 160 };
int cadre_plan_settings(const struct cadre_candidate *c,
                        char out[CADRE_PLAN_SETTINGS][CADRE_PLAN_SETTING]);

/* The options of the file with those of a candidate (NULL: its own); the vocabulary
 * where the file leaves it to the data. *out is the caller's, unresolved. Errors: those
 * of the options. [main] */
cadre_status cadre_plan_options(const struct cadre_plan_answers *a,
                                const struct cadre_candidate *c,
                                struct cadre_options **out, struct cadre_error *err);

#endif
