/* SPDX-License-Identifier: Apache-2.0 */
/* The results of a run, read from its folder: summary.json, metrics.jsonl and the path
 * of its last checkpoint. */
#ifndef CADRE_RUN_RECORD_H
#define CADRE_RUN_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

struct json_t;

/* schema_version of summary.json, of a run and of independent ones; lines of
 * metrics.jsonl belong to it. A file of a later one is refused, an older one read. */
enum { CADRE_RECORD_SCHEMA = 1 };

/* One line of metrics.jsonl. A number that is null there (not finite) is NaN. */
struct cadre_record_step {
    int64_t step;
    double loss, grad_norm, lr, step_s;
};

struct cadre_record {
    char *dir; /* owned */
    struct json_t *summary; /* owned; an object */
    struct cadre_record_step *step; /* owned; steps 1, 2, ... n in order */
    size_t n;
    struct cadre_record *instance; /* of independent runs; owned */
    size_t n_instances; /* 0: a single run */
    size_t best; /* the instance whose steps and checkpoint stand for the run's */
};

/* Read DIR of a finished run into *record, which the caller passes zeroed and ends with
 * fini, also on failure. For independent runs (see sweep.h) the records of all are
 * read, and the record has the steps of the best one. Errors:
 * CADRE_E_INVALID for a file that is missing or not what train writes (file and line
 * named), CADRE_E_IO, CADRE_E_RESOURCE. */
cadre_status cadre_record_read(const char *dir, struct cadre_record *record,
                               struct cadre_error *err);

/* The summary of DIR alone: the record has no steps, and the run may have begun after
 * others' steps. As cadre_record_read. */
cadre_status cadre_record_read_summary(const char *dir, struct cadre_record *record,
                                       struct cadre_error *err);

/* Accepts a zeroed record. */
void cadre_record_fini(struct cadre_record *record);

/* A number of the summary; NaN where it is absent or null. */
double cadre_record_number(const struct cadre_record *record, const char *key);

/* A number and a text of an object in the summary, or of the summary itself where
 * `object` is NULL; NaN and NULL where it has none. The text is the record's. */
double cadre_record_number_in(const struct cadre_record *record, const char *object,
                              const char *key);
const char *cadre_record_text_in(const struct cadre_record *record, const char *object,
                                 const char *key);

/* The largest number of an array of the summary (peak_bytes); NaN where there is
 * none. */
double cadre_record_largest(const struct cadre_record *record, const char *key);

/* The matrix products: "library" or "algorithms" of the summary's "gemm". NULL if the
 * summary has none, as those of earlier builds; owned by the record. */
const char *cadre_record_gemm(const struct cadre_record *record, const char *key);

/* The summary's "machine". Summaries of earlier builds have none: NULL, NaN. */
const char *cadre_record_cpu(const struct cadre_record *record);
const struct json_t *cadre_record_hosts(const struct cadre_record *record);
double cadre_record_machine(const struct cadre_record *record, const char *key);

/* The stack after the last restart by run.elastic, NULL if no rank was lost, and *from
 * the one before the first; owned by the record. */
const char *cadre_record_restarted(const struct cadre_record *record,
                                   const char **from);

/* Cuts of run.recut: how many, 0 for a run without, and of the last one its step and
 * the units of each chunk before and after, owned by the record. */
size_t cadre_record_recuts(const struct cadre_record *record, int64_t *step,
                           const char **from, const char **to);

/* DIR/checkpoints/step-NNNNNNNN/FILE of the last step, in the folder of the best
 * instance where there are several; the caller frees it, NULL where
 * there is no memory. The file may be absent. */
char *cadre_record_checkpoint(const struct cadre_record *record, const char *file);

/* The hash chain of losses up to step `last`: link k is the XXH64 of step k's loss
 * (fp64, little-endian) under the seed of link k-1; link 0 is 0. */
uint64_t cadre_record_chain(const struct cadre_record *record, int64_t last);

/* Median of step_s over steps (warmup, last]; over all of (0, last] where there are no
 * more than warmup. 0 for no step, NaN where there is no memory. For independent
 * runs it is the tokens of the best one's step over the sum of the instances' tokens
 * per second, each from its own median. */
double cadre_record_median_s(const struct cadre_record *record, int64_t warmup,
                             int64_t last);

/* The quartiles of step_s over the same steps; NaN without a step, as for independent
 * runs, or without memory. */
void cadre_record_middle_s(const struct cadre_record *record, int64_t warmup,
                           int64_t last, double *low, double *high);

/* Tokens of a step; those of the best instance if there are several. */
double cadre_record_step_tokens(const struct cadre_record *record);

#endif
