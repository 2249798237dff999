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

/* pipeline.schedule; plugins/pipeline/README.md has each. */
enum cadre_plan_schedule {
    CADRE_PLAN_1F1B, /* with several chunks: interleaved */
    CADRE_PLAN_INTERLEAVED,
    CADRE_PLAN_GPIPE,
    CADRE_PLAN_ZB_H1,
    CADRE_PLAN_BREADTH_FIRST,
    CADRE_PLAN_ZB_V,
    CADRE_PLAN_DUALPIPEV,
    CADRE_PLAN_SCHEDULES,
};
const char *cadre_plan_schedule_name(enum cadre_plan_schedule schedule);

/* Which ranks are neighbours: tensor before context before data before pipeline, as in
 * the stack `pipeline:P, hsdp:G, zero:D, tensor:T`. */
struct cadre_candidate {
    int64_t tensor, pipeline, context, data; /* ranks along each axis */
    int64_t chunks; /* of a stage */
    enum cadre_plan_schedule schedule;
    int64_t zero; /* stage; 0: ddp */
    int64_t replicas; /* of groups of data ranks that shard (hsdp); 0, 1: one group */
    int64_t micro_batch, global_batch; /* sequences */
    enum cadre_plan_recompute recompute;
    enum cadre_plan_dtype dtype;
    bool sequence_parallel;
};

int64_t cadre_candidate_ranks(const struct cadre_candidate *c);

/* Data ranks among which states are sharded: data / replicas, by context ranks. */
int64_t cadre_candidate_shards(const struct cadre_candidate *c);

/* 1f1b with several chunks is interleaved. */
enum cadre_plan_schedule cadre_candidate_schedule(const struct cadre_candidate *c);

/* Whether backward is in two parts, and whether chunks run back over the ranks. */
bool cadre_candidate_splits(const struct cadre_candidate *c);
bool cadre_candidate_turns_back(const struct cadre_candidate *c);

/* The same in all that is searched for. */
bool cadre_candidate_equal(const struct cadre_candidate *a,
                           const struct cadre_candidate *b);

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

/* "pipeline:4, hsdp:2, zero:8, tensor:8", as strategy.stack has it; "single" for one
 * rank. [any thread] */
void cadre_candidate_stack(const struct cadre_candidate *c, char *out, size_t bytes);

/* What the stack does not say: "stage 3, micro-batch 1, interleaved of 2 chunks,
 * recompute full, bf16". [any thread] */
void cadre_candidate_form(const struct cadre_candidate *c, char *out, size_t bytes);
enum { CADRE_CANDIDATE_STACK = 96, CADRE_CANDIDATE_FORM = 128 };

#endif
