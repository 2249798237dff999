/* SPDX-License-Identifier: Apache-2.0 */
/* A published measurement of a training step: a row of a table like
 * tests/samples/planner/published.csv, as a candidate and the seconds it took. */
#ifndef CADRE_PLAN_PUBLISHED_H
#define CADRE_PLAN_PUBLISHED_H

#include "core/plan/candidate.h"
#include "core/plan/csv.h"

enum cadre_plan_metric {
    CADRE_PLAN_SECONDS, /* s_per_step */
    CADRE_PLAN_EQ3, /* TFLOPs_eq3: of a GPU, by cadre_transformer_eq3 */
    CADRE_PLAN_MODEL, /* model_TFLOPs: of a GPU, 6N + 12LHQT a token, as the MFU of
                         Chowdhery et al. 2022, App. B: scores without their mask */
    CADRE_PLAN_CAUSAL, /* causal_TFLOPs: the same with half of the scores */
    CADRE_PLAN_TOKENS, /* tok_s_gpu */
    CADRE_PLAN_ALL_TOKENS, /* tok_s: of all GPUs together */
    CADRE_PLAN_METRICS,
};

struct cadre_published {
    const char *set, *source, *hw, *model, *metric_name; /* borrowed from the table */
    struct cadre_transformer transformer;
    struct cadre_candidate candidate;
    bool micro_batch_given, chunks_given, sequence_parallel_given;
    char assumed
        [64]; /* fields that are empty and were taken by a rule: "heads, dtype" */
    enum cadre_plan_metric metric;
    double value, seconds;
};

/* The row of a table, its columns in any order and names in any case; "-", "?" and NA
 * are empty. micro_batch and chunks that are not printed are 0; other fields that are
 * empty are taken as docs/planning.md says. Errors: CADRE_E_UNSUPPORTED with the
 * reason, where the row cannot be expressed. [any thread]
 */
cadre_status cadre_published_read(struct cadre_published *row,
                                  const struct cadre_csv *csv, size_t at,
                                  struct cadre_error *err);

/* Seconds of a step as the row's metric has them; its own inverse. [any thread] */
double cadre_published_convert(const struct cadre_published *row, double value);

/* Choose what is not printed, by a rule that is the same for all rows: of the chunks, 3
 * where that divides the layers of a stage, else 2, else 1, and without a pipeline 1;
 * of the micro-batches 1, 2, 4, 8 and 16, the one whose forecast is the fastest of
 * those that are legal and fit in memory, or of the legal ones where none fits. Errors:
 * CADRE_E_UNSUPPORTED with the reason that refuses the row. [any thread] */
cadre_status cadre_published_settle(struct cadre_published *row,
                                    const struct cadre_hardware *hw,
                                    struct cadre_error *err);

#endif
