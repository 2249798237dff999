/* SPDX-License-Identifier: Apache-2.0 */
/* A candidate: one way to run a transformer on N ranks. */
#ifndef CADRE_PLAN_CANDIDATE_H
#define CADRE_PLAN_CANDIDATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/plan/hardware.h"
#include "core/plan/transformer.h"

enum cadre_plan_recompute {
    CADRE_PLAN_RECOMPUTE_NONE,
    CADRE_PLAN_RECOMPUTE_SELECTIVE, /* of the attention core; Cadre has no such */
    CADRE_PLAN_RECOMPUTE_FULL, /* train.recompute = block */
};
const char *cadre_plan_recompute_name(enum cadre_plan_recompute recompute);

/* Which ranks are neighbours: tensor before context before data before pipeline, as in
 * the stack `pipeline:P, zero:D, tensor:T`. */
struct cadre_candidate {
    int64_t tensor, pipeline, context, data; /* ranks along each axis */
    int64_t chunks; /* of a stage; 1: plain 1F1B */
    int64_t zero; /* stage; 0: ddp */
    int64_t micro_batch, global_batch; /* sequences */
    enum cadre_plan_recompute recompute;
    enum cadre_plan_dtype dtype;
    bool sequence_parallel;
};

int64_t cadre_candidate_ranks(const struct cadre_candidate *c);

/* Micro-batches that each data rank runs in a step. */
int64_t cadre_candidate_micro_batches(const struct cadre_candidate *c);

/* Blocks of the largest stage. */
int64_t cadre_candidate_stage_layers(const struct cadre_candidate *c,
                                     const struct cadre_transformer *t);

/* Whether it can run. Errors: CADRE_E_INVALID, CADRE_E_UNSUPPORTED with the first
 * reason against it. [any thread] */
cadre_status cadre_candidate_check(const struct cadre_candidate *c,
                                   const struct cadre_transformer *t,
                                   const struct cadre_hardware *hw,
                                   struct cadre_error *err);

/* "pipeline:4, zero:16, tensor:8", as strategy.stack has it; "single" for one rank.
 * [any thread] */
void cadre_candidate_stack(const struct cadre_candidate *c, char *out, size_t bytes);

#endif
