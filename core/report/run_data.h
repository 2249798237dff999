/* SPDX-License-Identifier: Apache-2.0 */
/* What the folder of a run holds, for reports: of any run, also one that was stopped,
 * is at work, or was made by another version, since what is missing is left open. For
 * judging equality record.h is stricter. [any thread] */
#ifndef CADRE_REPORT_RUN_DATA_H
#define CADRE_REPORT_RUN_DATA_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/config/ini.h"
#include "core/report/curve.h"
#include "core/report/run_end.h"
#include "core/run/bench.h"
#include "core/run/parts_of_step.h"

struct json_t;

enum cadre_run_series {
    CADRE_SERIES_LOSS,
    CADRE_SERIES_VALID, /* validation loss */
    CADRE_SERIES_LR,
    CADRE_SERIES_NORM,
    CADRE_SERIES_TOKENS, /* tokens a second */
    CADRE_SERIES,
};

/* Median and quartiles of the steps after warm-up, or of a benchmark's windows. */
struct cadre_run_spread {
    double low, median, high; /* s a step; NaN where unknown */
    size_t n; /* of them */
};

struct cadre_run_data {
    char *dir, *name; /* owned; the folder, and summary.json's name or the folder's */
    const char *folder; /* the end of dir: the folder's own name */
    struct json_t *summary; /* owned; NULL: there is none */
    struct json_t *setup; /* owned: setup.json, of its start; NULL: there is none */
    struct cadre_ini config; /* config.ini; empty where there is none */
    bool benchmark;
    struct cadre_bench bench; /* n = 0: none */
    int64_t wanted; /* train.steps, 0: not known */
    int64_t first_step, last_step; /* in metrics.jsonl; 0: it has no step */
    size_t steps; /* lines of steps */
    size_t not_finite; /* of them without a finite loss */
    size_t unread; /* lines that are no step, such as one that was cut */
    double *loss; /* (steps) owned; NaN where it is null */
    int64_t *loss_step; /* (steps) owned; rising */
    struct cadre_curve curve[CADRE_SERIES];
    struct cadre_run_spread step_s;
    struct cadre_step_parts parts; /* mean of the steps after warm-up, s */
    double parts_step_s; /* mean of step_s of the same steps */
    double last_valid, best_valid; /* validation losses; NaN: none */
    int64_t best_valid_step;
    struct cadre_run_end end; /* of a run that did not finish */
};

/* Is DIR the folder of one run: has it metrics.jsonl, or a summary.json that is no
 * sweep's? */
bool cadre_run_data_is_run(const char *dir);

/* Read DIR into *data, which the caller ends by fini, also on failure. Errors:
 * CADRE_E_INVALID for a folder that is none of a run, or a summary or config.ini that
 * is none; CADRE_E_IO, CADRE_E_RESOURCE. */
cadre_status cadre_run_data_read(const char *dir, struct cadre_run_data *data,
                                 struct cadre_error *err);

/* Accepts a zeroed one. */
void cadre_run_data_fini(struct cadre_run_data *data);

/* "section.key" of config.ini, its entry or its value; NULL where it is not there. */
const struct cadre_ini_entry *cadre_run_data_entry(const struct cadre_run_data *data,
                                                   const char *name);
const char *cadre_run_data_option(const struct cadre_run_data *data, const char *name);

/* A number of the summary; what that has not, as where the run did not end, of
 * setup.json; NaN without both. */
double cadre_run_data_number(const struct cadre_run_data *data, const char *key);

/* A number of an object in the summary. */
double cadre_run_data_number_in(const struct cadre_run_data *data, const char *inside,
                                const char *key);

/* The largest of an array of numbers of the summary; NaN without it. */
double cadre_run_data_largest(const struct cadre_run_data *data, const char *key);

/* A text of the summary, or of an object in it where `inside` names one; NULL without
 * it. */
const char *cadre_run_data_text(const struct cadre_run_data *data, const char *inside,
                                const char *key);

/* "finished", "stopped after step 12 of 20", "failed" or "died after step 12 of 20",
 * "unfinished: 12 of 20 steps", "benchmark". Returns out. */
const char *cadre_run_data_state(const struct cadre_run_data *data, char *out,
                                 size_t size);

/* Did it make all its steps, or its benchmark? */
bool cadre_run_data_finished(const struct cadre_run_data *data);

/* "2 x 4 cores of Some CPU (host)": processor, cores and hosts; "-" where not known.
 * Returns out. */
const char *cadre_run_data_machine(const struct cadre_run_data *data, char *out,
                                   size_t size);

#endif
