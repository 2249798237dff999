/* SPDX-License-Identifier: Apache-2.0 */
/* A benchmark while it runs: the windows of time that bench.json has
 * (core/run/bench.h). Every rank has one, and they act at the same steps; rank 0's
 * clock counts. A run without bench.steps and bench.target is none, and the calls do
 * nothing.
 *
 *     cadre_benchmark_init(&benchmark, rank, spec, first_step, last_step);
 *     cadre_benchmark_mark(&benchmark, first_step, err);
 *     for each step:
 *         cadre_benchmark_report(&benchmark, report);   when its report is there
 *         cadre_benchmark_mark(&benchmark, step, err);  after its report
 *         ... until last_step or benchmark.ended
 *     cadre_benchmark_write(&benchmark, begin_s, err);  on rank 0
 */
#ifndef CADRE_TRAIN_BENCHMARK_H
#define CADRE_TRAIN_BENCHMARK_H

#include "core/run/bench.h"
#include "core/run/spec.h"

struct cadre_benchmark {
    struct cadre_rank *rank;
    const struct cadre_spec *spec;
    bool on;
    bool open; /* a window is */
    bool ended; /* the target is reached: the same step on every rank */
    int64_t first_step, last_step;
    double first_s, begin_s; /* when the first window, the present one began */
    double span_s, bubble_s, exposed_s; /* sums of the present window's reports */
    int64_t reports; /* in these sums */
    struct cadre_step_parts parts; /* sums of all windows' reports, of this rank */
    int64_t part_steps; /* in them */
    double *loss; /* owned; of the latest bench.target_steps reports, a ring */
    struct cadre_bench bench;
};

/* The step that a run ends with after `first_step` steps were done: spec->steps, or
 * that of the benchmark's last window. */
int64_t cadre_benchmark_last_step(const struct cadre_spec *spec, int64_t first_step);

/* Borrows rank and spec until fini. Errors: CADRE_E_RESOURCE. */
cadre_status cadre_benchmark_init(struct cadre_benchmark *benchmark,
                                  struct cadre_rank *rank,
                                  const struct cadre_spec *spec, int64_t first_step,
                                  int64_t last_step, struct cadre_error *err);
void cadre_benchmark_fini(struct cadre_benchmark *benchmark);

/* Does a window begin or end after `step`? Then the reports of all steps so far must be
 * there before the mark. */
bool cadre_benchmark_marks(const struct cadre_benchmark *benchmark, int64_t step);

/* A step's report, on every rank and in order. It may end the benchmark. */
void cadre_benchmark_report(struct cadre_benchmark *benchmark,
                            const struct cadre_step_report *report);

/* [collective: world] If a window begins or ends after `step`: finish all work of the
 * steps, meet all ranks and read the clock. The end of a window is the begin of the
 * next. Replicas that differ are not drained: their mean is no work of a step. Errors:
 * as cadre_rank_drain, cadre_rank_sum. */
cadre_status cadre_benchmark_mark(struct cadre_benchmark *benchmark, int64_t step,
                                  struct cadre_error *err);

/* [rank 0, after the last step] Write bench.json into the run's folder. The process
 * began at `begin_s` of cadre_now_s, NaN: not known. Errors: as cadre_bench_write. */
cadre_status cadre_benchmark_write(struct cadre_benchmark *benchmark, double begin_s,
                                   struct cadre_error *err);

#endif
