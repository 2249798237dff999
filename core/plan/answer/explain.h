/* SPDX-License-Identifier: Apache-2.0 */
/* Why one candidate is forecast to be faster than another. */
#ifndef CADRE_PLAN_ANSWER_EXPLAIN_H
#define CADRE_PLAN_ANSWER_EXPLAIN_H

#include "core/plan/search.h"

struct cadre_explain {
    const struct cadre_plan_found *a, *b; /* borrowed from the search */
    size_t place_a, place_b; /* in it, from 1 */
    double difference; /* seconds of a less those of b */
    enum cadre_plan_cause decides; /* the largest part of it, in its direction */
};

/* The candidate that `text` names: its place in the search, from 1, or a stack as
 * strategy.stack has it, of which the fastest is meant, or where none can run the one
 * that needs least memory. NULL: there is none. [any thread] */
const struct cadre_plan_found *
cadre_explain_find(const struct cadre_plan_search *search, const char *text);

/* Errors: CADRE_E_INVALID for a text that names none, two that name the same one, and
 * a candidate that has no forecast, with its reason. [any thread] */
cadre_status cadre_explain(struct cadre_explain *explain,
                           const struct cadre_plan_search *search, const char *a,
                           const char *b, struct cadre_error *err);
void cadre_explain_print(const struct cadre_explain *explain, FILE *out);
cadre_status cadre_explain_print_json(const struct cadre_explain *explain, FILE *out);

#endif
