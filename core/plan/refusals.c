/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/refusals.h"

#include <string.h>

/* The candidate of the stack of found[i] that needs least memory, or i itself where
 * none was asked for; -1 where the stack came before. */
static ptrdiff_t smallest(const struct cadre_plan_search *search, size_t i)
{
    const struct cadre_candidate *c = &search->found[i].candidate;
    size_t best = i;
    for (size_t k = 0; k < search->n; k++) {
        const struct cadre_plan_found *o = &search->found[k];
        if (o->candidate.tensor != c->tensor || o->candidate.pipeline != c->pipeline)
            continue;
        if (k < i)
            return -1;
        if (o->footprint.total > 0 &&
            o->footprint.total < search->found[best].footprint.total)
            best = k;
    }
    return (ptrdiff_t)best;
}

static void count(struct cadre_plan_refusals *out, const char *why, size_t example)
{
    size_t i = 0;
    while (i < out->n && strcmp(out->of[i].why, why) != 0)
        i++;
    if (i == CADRE_PLAN_REASONS) {
        out->left_out++;
        return;
    }
    if (i == out->n)
        out->of[out->n++] = (struct cadre_plan_reason){.why = why, .example = example};
    out->of[i].stacks++;
}

void cadre_plan_refusals_count(struct cadre_plan_refusals *out,
                               const struct cadre_plan_search *search)
{
    *out = (struct cadre_plan_refusals){0};
    for (size_t i = search->legal; i < search->n; i++) {
        const ptrdiff_t best = smallest(search, i);
        if (best >= 0)
            count(out, search->found[best].refused, (size_t)best);
    }
}
