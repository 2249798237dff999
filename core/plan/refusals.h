/* SPDX-License-Identifier: Apache-2.0 */
/* Why stacks cannot run: those of tensor and pipeline ranks of which no form can, by
 * their first reason. */
#ifndef CADRE_PLAN_REFUSALS_H
#define CADRE_PLAN_REFUSALS_H

#include "core/plan/search.h"

enum { CADRE_PLAN_REASONS = 64 };

struct cadre_plan_refusals {
    struct cadre_plan_reason {
        const char *why; /* of the search */
        size_t stacks; /* that have it */
        size_t example; /* place in search->found of the first of them */
    } of[CADRE_PLAN_REASONS];
    size_t n;
    size_t left_out; /* stacks whose reasons found no place */
};

/* Where a stack's reason is memory, it is that of the form that needs least. The search
 * outlives *out. [any thread] */
void cadre_plan_refusals_count(struct cadre_plan_refusals *out,
                               const struct cadre_plan_search *search);

#endif
