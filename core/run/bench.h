/* SPDX-License-Identifier: Apache-2.0 */
/* bench.json: what a benchmark measured. With bench.steps > 0 (config.bench) `cadre
 * train` is a benchmark: bench.warmup steps, then bench.windows times bench.steps
 * steps, timed from barrier to barrier; no evaluation, no checkpoint, and the folder's
 * summary.json and metrics.jsonl are as always. With bench.target > 0 it trains, at
 * most train.steps, until the mean loss of the last bench.target_steps steps is at or
 * below the target, and the one window is the time until then. Its folder is its own:
 * the default has "-bench" behind the run's name, and a benchmark replaces an older
 * one there (rundir.h). */
#ifndef CADRE_RUN_BENCH_H
#define CADRE_RUN_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/config/config.h"
#include "core/run/parts_of_step.h"

enum { CADRE_BENCH_WINDOWS = 64 }; /* at most, of one start */

struct cadre_bench_window {
    double seconds; /* from barrier to barrier, of all its steps */
    double bubble_fraction; /* of its time; NaN: no schedule */
    double comm_exposed_s; /* a step, mean; of rank 0 */
};

struct cadre_bench {
    int64_t warmup, steps; /* steps of the warm-up and of a window */
    double tokens; /* of a step; of the first instance's where there are several */
    double start_s; /* from the start of the process (of the launching one, where Cadre
                     * starts ranks as processes) to the first timed step; NaN: not
                     * known */
    bool reached; /* the target; true without one */
    int64_t target_step; /* the step that reached it, 0: none */
    struct cadre_step_parts parts; /* s a step, mean over the windows' steps and all
                                      ranks; unknown of a target and of instances */
    size_t n;
    struct cadre_bench_window window[CADRE_BENCH_WINDOWS];
};

/* Do these options make a benchmark of a training? */
bool cadre_bench_wanted(const struct cadre_config_bench *config);

/* Did a benchmark make the folder, whether it ended or not? Its config.ini says; false
 * where that is not there or cannot be read. */
bool cadre_bench_made(const char *dir);

/* Write DIR/bench.json. [rank 0] Errors: CADRE_E_IO, CADRE_E_RESOURCE. */
cadre_status cadre_bench_write(const char *dir, const struct cadre_bench *bench,
                               struct cadre_error *err);

/* Read it back. For a folder of independent runs (instances.json) the windows are those
 * of all instances together: seconds = steps * tokens / (sum of the instances' tokens a
 * second), with `tokens` those of the first instance's step; of bubbles, exposed
 * communication and start_s the largest; reached if all did, by the last of them.
 * Errors: CADRE_E_INVALID naming file and key, CADRE_E_IO, CADRE_E_RESOURCE. */
cadre_status cadre_bench_read(const char *dir, struct cadre_bench *bench,
                              struct cadre_error *err);

/* Mean seconds of a step over all windows. */
double cadre_bench_step_s(const struct cadre_bench *bench);

#endif
