/* SPDX-License-Identifier: Apache-2.0 */
/* What changes where a number of the hardware file does: `--what-if`. */
#ifndef CADRE_PLAN_ANSWER_WHAT_IF_H
#define CADRE_PLAN_ANSWER_WHAT_IF_H

#include "core/plan/search.h"

struct cadre_what_if {
    const char *change; /* "link.bandwidth=+10%"; NULL: all changes together */
    double before, after; /* seconds of the candidate that is the best without it */
    struct cadre_plan_found best; /* with it, of those that no plugin refused before */
    bool moved; /* that is another one */
    size_t overtaken; /* pairs of the candidates that run before and after it whose
                         order it turned */
    size_t pairs; /* of all of them */
};

/* One answer for each change, and where there are several one for all together: *out is
 * the caller's (free), with *n of them. Errors: CADRE_E_INVALID for a change that is
 * wrong, or where nothing can run; those of cadre_plan_search. [any thread] */
cadre_status cadre_what_if(struct cadre_what_if **out, size_t *n,
                           const struct cadre_plan_search *search,
                           const struct cadre_plan_question *question,
                           const struct cadre_hardware *hw, char *const *changes,
                           struct cadre_error *err);
bool cadre_what_if_print(const struct cadre_what_if *answer, size_t n, FILE *out);
cadre_status cadre_what_if_print_json(const struct cadre_what_if *answer, size_t n,
                                      FILE *out);

#endif
