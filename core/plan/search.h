/* SPDX-License-Identifier: Apache-2.0 */
/* Every stack of tensor, pipeline and data, sharded or hybrid sharded data parallelism
 * for N ranks, with micro-batches, schedules, activation checkpointing and precisions:
 * ranked by the forecast of a step, and each refused one with its first reason. */
#ifndef CADRE_PLAN_SEARCH_H
#define CADRE_PLAN_SEARCH_H

#include <stdio.h>

#include "core/base/json.h"
#include "core/plan/footprint.h"
#include "core/plan/forecast.h"
#include "core/plan/interval.h"

struct cadre_plan_found {
    struct cadre_candidate candidate;
    size_t number; /* in the order in which candidates are made */
    struct cadre_forecast forecast; /* zeros where refused before it was made */
    struct cadre_footprint footprint; /* likewise */
    char refused[96]; /* the first reason; "": it can run */
    double asked; /* bytes that the plugins ask for on the rank that needs most, where
                     they were asked; 0: they were not */
};

struct cadre_plan_search {
    struct cadre_plan_found *found; /* those that can run by their step, then refused */
    size_t n, legal;
};

/* What is searched: `from` has global batch, dtype and sequence_parallel. */
struct cadre_plan_question {
    struct cadre_transformer transformer;
    struct cadre_candidate from;
    bool dtypes; /* fp32, bf16, fp16 and fp64 besides, where the device has a peak */
    int64_t ranks;
};

/* *search is the caller's (fini). Errors: CADRE_E_INVALID for a model that cannot be,
 * or ranks that are more than samples and layers can use; CADRE_E_UNSUPPORTED;
 * CADRE_E_RESOURCE. [any thread] */
cadre_status cadre_plan_search(struct cadre_plan_search *search,
                               const struct cadre_plan_question *question,
                               const struct cadre_hardware *hw,
                               struct cadre_error *err);
void cadre_plan_search_fini(struct cadre_plan_search *search);

/* What a candidate is and its forecast, as keys of the object that is open. */
void cadre_plan_found_put(struct cadre_json *json,
                          const struct cadre_plan_found *found);

/* The `top` best for people, with why others are refused; all as JSON, with the keys
 * that `more` puts (NULL: none). Both with the intervals of forecasts (NULL: not
 * known).
 */
bool cadre_plan_search_print(const struct cadre_plan_search *search,
                             const struct cadre_plan_question *question,
                             const struct cadre_hardware *hw,
                             const struct cadre_intervals *intervals, size_t top,
                             FILE *out);
cadre_status cadre_plan_search_print_json(
    const struct cadre_plan_search *search, const struct cadre_plan_question *question,
    const struct cadre_hardware *hw, const struct cadre_intervals *intervals,
    void (*more)(struct cadre_json *json, const void *arg), const void *arg, FILE *out);

#endif
