/* SPDX-License-Identifier: Apache-2.0 */
/* The largest model, context and micro-batch that fit: `--fit`. */
#ifndef CADRE_PLAN_ANSWER_FIT_H
#define CADRE_PLAN_ANSWER_FIT_H

#include "core/plan/search.h"

enum cadre_fit_kind {
    CADRE_FIT_LAYERS,
    CADRE_FIT_CHANNELS, /* heads and the MLP in proportion */
    CADRE_FIT_CONTEXT,
    CADRE_FIT_MICRO_BATCH, /* with as many micro-batches */
    CADRE_FIT_KINDS,
};
const char *cadre_fit_name(enum cadre_fit_kind kind);

struct cadre_fit {
    int64_t now; /* what the question has */
    int64_t most; /* the largest that fits; 0: none does */
    double parameters, bytes; /* then */
    bool more; /* larger ones were not tried: 1024 times as much fits */
};

/* Of a candidate, each kind alone, in steps that it can run: layers of whole stages,
 * contexts that its ranks divide, 64 channels of each tensor rank. [any thread] */
void cadre_fit(struct cadre_fit out[CADRE_FIT_KINDS],
               const struct cadre_transformer *transformer,
               const struct cadre_candidate *candidate,
               const struct cadre_hardware *hw);

/* Of the candidate as it is, and in the form of its stack that needs least memory. */
bool cadre_fit_print(const struct cadre_plan_search *search,
                     const struct cadre_plan_found *found,
                     const struct cadre_plan_question *question,
                     const struct cadre_hardware *hw, FILE *out);
cadre_status cadre_fit_print_json(const struct cadre_plan_search *search,
                                  const struct cadre_plan_found *found,
                                  const struct cadre_plan_question *question,
                                  const struct cadre_hardware *hw, FILE *out);

#endif
