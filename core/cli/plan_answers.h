/* SPDX-License-Identifier: Apache-2.0 */
/* What `cadre plan` answers besides its list of candidates. */
#ifndef CADRE_CLI_PLAN_ANSWERS_H
#define CADRE_CLI_PLAN_ANSWERS_H

#include "core/cli/cli.h"
#include "core/plan/hardware.h"
#include "core/plan/interval.h"
#include "core/plan/search.h"

/* A stack of CONF that is not made of the known axes alone, as of a plugin of somebody
 * else: what its plugins say of it, and the seconds that its ranks compute, which is
 * the least that a step takes. `stack` is "" where CONF has no such stack. */
struct cadre_plan_own {
    char stack[256];
    char refused[256]; /* by a plugin, or its bytes that do not fit; "": it can run */
    int ranks, tensor, blocks;
    int64_t micro_batches;
    double bytes, step_at_least;
};

struct cadre_plan_answers {
    const struct cadre_cli_args *args;
    struct cadre_plan_question question;
    struct cadre_hardware hardware;
    struct cadre_intervals intervals;
    struct cadre_plan_search search;
    int64_t top;
    struct cadre_plan_own own;
};

/* Print what was asked for, the list of candidates where nothing else was. Errors:
 * CADRE_E_INVALID for two questions at once, and those of the answers. [main] */
cadre_status cadre_plan_answer(const struct cadre_plan_answers *a,
                               struct cadre_error *err);

/* The stack of CONF's own plugins, as a->own has it: nothing where it has none. With
 * --json it is the object "own" of the list. */
void cadre_plan_own_print(const struct cadre_plan_answers *a, FILE *out);

/* A scaling curve from range[0] to range[1] ranks. Errors: CADRE_E_INVALID where
 * something else is asked for besides. [main] */
cadre_status cadre_plan_answer_curve(const struct cadre_plan_answers *a,
                                     const int64_t range[2], struct cadre_error *err);

#endif
