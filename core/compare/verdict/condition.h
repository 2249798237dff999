/* SPDX-License-Identifier: Apache-2.0 */
/* A condition on a figure of a comparison, for `cadre compare --fail-if`:
 *
 *     FIGURE(RUN) OPERATOR NUMBER[%]        speedup(zero) < 0.9
 *
 * FIGURE is speedup, efficiency, overhead (s a step), price (of exact mode, 0.1 is
 * 10 %), bubble (a fraction) or exposed (communication, s a step); OPERATOR is <, <=, >
 * or >=. It holds if it holds for the whole 95 % interval, and does not hold if it does
 * for no part of it; else nothing is decided, as for a run that is not ranked. Where no
 * difference from the baseline was shown the interval is widened to that of none: the
 * margin and the disturbed rounds count here as they do in the verdict. [any thread] */
#ifndef CADRE_COMPARE_VERDICT_CONDITION_H
#define CADRE_COMPARE_VERDICT_CONDITION_H

#include "core/base/memory.h"
#include "core/compare/verdict/comparison.h"

/* Statuses beside those of <cadre/status.h>: the exit statuses 5 and 6. */
#define CADRE_E_CONDITION (-64) /* a condition holds */
#define CADRE_E_UNDECIDED (-65) /* none holds, and of one it is not known */

enum cadre_condition_figure {
    CADRE_CONDITION_SPEEDUP,
    CADRE_CONDITION_EFFICIENCY,
    CADRE_CONDITION_OVERHEAD,
    CADRE_CONDITION_PRICE,
    CADRE_CONDITION_BUBBLE,
    CADRE_CONDITION_EXPOSED,
    CADRE_CONDITION_FIGURES,
};

enum cadre_condition_result {
    CADRE_CONDITION_NO,
    CADRE_CONDITION_UNDECIDED,
    CADRE_CONDITION_YES,
};

struct cadre_condition {
    const char *text; /* as it was given; borrowed */
    enum cadre_condition_figure figure;
    size_t run;
    bool above; /* > or >=, else < or <= */
    bool or_equal;
    double limit;
};

/* Read `text` for the runs of a comparison, of which only names and settings need be
 * there. Errors: CADRE_E_INVALID, naming what was expected, and the nearest figure or
 * run. */
cadre_status cadre_condition_parse(const char *text,
                                   const struct cadre_comparison *comparison,
                                   struct cadre_condition *out,
                                   struct cadre_error *err);

/* Of a judged comparison. figure (may be NULL): the interval that was looked at. */
enum cadre_condition_result
cadre_condition_judge(const struct cadre_condition *condition,
                      const struct cadre_comparison *comparison,
                      struct cadre_interval *figure);

/* Judge all of n conditions, and tell each as a line. Errors: CADRE_E_CONDITION if one
 * holds, else CADRE_E_UNDECIDED if one is undecided; err names the first such. */
cadre_status cadre_conditions_check(const struct cadre_condition *conditions, size_t n,
                                    const struct cadre_comparison *comparison,
                                    struct cadre_text *lines, struct cadre_error *err);

#endif
