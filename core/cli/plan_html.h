/* SPDX-License-Identifier: Apache-2.0 */
/* `cadre plan --html FILE`: the list of candidates as a page. */
#ifndef CADRE_CLI_PLAN_HTML_H
#define CADRE_CLI_PLAN_HTML_H

#include "core/cli/plan_answers.h"

/* Before anything is done: can the page be written? Nothing without --html. Errors:
 * CADRE_E_INVALID where something else is asked for than the list, where FILE is a
 * folder or is in none, or is no page of a plan, which would be lost. */
cadre_status cadre_plan_html_check(const struct cadre_cli_args *args,
                                   struct cadre_error *err);

/* Write it. Errors: CADRE_E_INVALID where it cannot be written, CADRE_E_RESOURCE.
 * [main] */
cadre_status cadre_plan_html_write(const struct cadre_plan_answers *a,
                                   struct cadre_error *err);

#endif
