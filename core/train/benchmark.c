/* SPDX-License-Identifier: Apache-2.0 */
#include "core/train/benchmark.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/clock.h"
#include "core/base/memory.h"

static const struct cadre_config_bench *config_of(const struct cadre_spec *spec)
{
    return &spec->config.bench;
}

int64_t cadre_benchmark_last_step(const struct cadre_spec *spec, int64_t first_step)
{
    const struct cadre_config_bench *c = config_of(spec);
    return c->steps > 0 ? first_step + c->warmup + c->windows * c->steps : spec->steps;
}

static bool has_target(const struct cadre_benchmark *benchmark)
{
    return config_of(benchmark->spec)->target > 0;
}

cadre_status cadre_benchmark_init(struct cadre_benchmark *benchmark,
                                  struct cadre_rank *rank,
                                  const struct cadre_spec *spec, int64_t first_step,
                                  int64_t last_step, struct cadre_error *err)
{
    const struct cadre_config_bench *c = config_of(spec);
    *benchmark = (struct cadre_benchmark){
        .rank = rank,
        .spec = spec,
        .on = cadre_bench_wanted(c),
        .first_step = first_step,
        .last_step = last_step,
        .bench = {.warmup = c->steps > 0 ? c->warmup : 0,
                  .steps = c->steps,
                  .tokens = (double)(spec->run.global_batch * spec->run.time),
                  .reached = c->target <= 0},
    };
    if (!has_target(benchmark))
        return CADRE_OK;
    benchmark->loss = cadre_calloc((size_t)c->target_steps, sizeof *benchmark->loss);
    return benchmark->loss ? CADRE_OK
                           : cadre_no_memory(err, "%lld losses (bench.target_steps)",
                                             (long long)c->target_steps);
}

void cadre_benchmark_fini(struct cadre_benchmark *benchmark)
{
    free(benchmark->loss);
}

/* ---- windows ---- */

static void open_window(struct cadre_benchmark *benchmark, double now)
{
    if (benchmark->bench.n == 0)
        benchmark->first_s = now;
    benchmark->open = true;
    benchmark->begin_s = now;
    benchmark->span_s = benchmark->bubble_s = benchmark->exposed_s = 0;
    benchmark->reports = 0;
}

static void close_window(struct cadre_benchmark *benchmark, double now)
{
    struct cadre_bench *bench = &benchmark->bench;
    const bool schedule = benchmark->rank->exchange.schedule != NULL;
    bench->window[bench->n++] = (struct cadre_bench_window){
        .seconds = now - benchmark->begin_s,
        .bubble_fraction = schedule && benchmark->span_s > 0
                               ? benchmark->bubble_s / benchmark->span_s
                               : (double)NAN,
        .comm_exposed_s = benchmark->exposed_s / (double)benchmark->reports,
    };
    benchmark->open = false;
}

bool cadre_benchmark_marks(const struct cadre_benchmark *benchmark, int64_t step)
{
    const struct cadre_config_bench *c = config_of(benchmark->spec);
    const int64_t done = step - benchmark->first_step - c->warmup;
    if (!benchmark->on || benchmark->ended)
        return false;
    if (has_target(benchmark))
        return step == benchmark->first_step || step == benchmark->last_step;
    return done >= 0 && done % c->steps == 0;
}

/* Wait for all work of the steps so far. Where replicas differ, a drain makes their
 * mean for an evaluation, which no step of a training does: there the device is waited
 * for, and the steps themselves have waited for their transfers. */
static cadre_status settle(struct cadre_rank *rank)
{
    if (!cadre_rank_diverging_axis(rank))
        return cadre_rank_drain(rank);
    cadre_status rc = rank->device->ops->synchronize(rank->device);
    return rc == CADRE_OK
               ? rc
               : cadre_fail(&rank->failure, rc,
                            "cannot finish the work of step %llu: %s",
                            (unsigned long long)rank->step, cadre_strerror(rc));
}

/* values: the sums over all ranks of the parts of all steps so far. */
static void take_parts(struct cadre_benchmark *benchmark, const double *values)
{
    const double steps = (double)benchmark->part_steps * benchmark->rank->spec->ranks;
    benchmark->bench.parts = benchmark->parts;
    cadre_step_parts_set(&benchmark->bench.parts, values, 1 / steps);
}

cadre_status cadre_benchmark_mark(struct cadre_benchmark *benchmark, int64_t step,
                                  struct cadre_error *err)
{
    struct cadre_rank *rank = benchmark->rank;
    double values[CADRE_STEP_PARTS_VALUES];
    if (!cadre_benchmark_marks(benchmark, step))
        return CADRE_OK;
    cadre_status rc = settle(rank);
    cadre_step_parts_values(&benchmark->parts, values);
    if (rc == CADRE_OK) /* a sum needs every rank */
        rc = cadre_rank_sum(rank, "benchmark", values, CADRE_STEP_PARTS_VALUES);
    if (rc != CADRE_OK)
        return cadre_fail(err, rc, "%s", rank->failure.text);
    const double now = cadre_now_s();
    if (benchmark->open)
        close_window(benchmark, now);
    if (benchmark->part_steps > 0 && !has_target(benchmark))
        take_parts(benchmark, values);
    if (step < benchmark->last_step)
        open_window(benchmark, now);
    return CADRE_OK;
}

/* ---- reports ---- */

/* Is the mean of the latest losses at most the target? */
static bool reaches(struct cadre_benchmark *benchmark, double loss)
{
    const struct cadre_config_bench *c = config_of(benchmark->spec);
    double sum = 0;
    benchmark->loss[(benchmark->reports - 1) % c->target_steps] = loss;
    if (benchmark->reports < c->target_steps)
        return false;
    for (int64_t i = 0; i < c->target_steps; i++)
        sum += benchmark->loss[i];
    return sum / (double)c->target_steps <= c->target;
}

void cadre_benchmark_report(struct cadre_benchmark *benchmark,
                            const struct cadre_step_report *report)
{
    const struct cadre_step_times *times = &report->times;
    if (!benchmark->open)
        return;
    benchmark->reports++;
    benchmark->span_s += times->span_s;
    benchmark->bubble_s += times->bubble_s;
    benchmark->exposed_s += times->comm_exposed_s;
    cadre_step_parts_add(&benchmark->parts, times);
    benchmark->part_steps++;
    if (!has_target(benchmark) || !reaches(benchmark, report->loss))
        return;
    /* Every rank has the same bits of the loss, as one rank alone adds each of its
     * parts to a sum over all, and so ends here too. A device whose reports are late
     * has begun another step, which is not counted. */
    close_window(benchmark, cadre_now_s());
    benchmark->ended = true;
    benchmark->bench.reached = true;
    benchmark->bench.target_step = (int64_t)report->step;
}

cadre_status cadre_benchmark_write(struct cadre_benchmark *benchmark, double begin_s,
                                   struct cadre_error *err)
{
    struct cadre_bench *bench = &benchmark->bench;
    if (!benchmark->on)
        return CADRE_OK;
    bench->start_s = benchmark->first_s - begin_s;
    if (has_target(benchmark))
        bench->steps = benchmark->reports;
    return cadre_bench_write(benchmark->spec->out, bench, err);
}
