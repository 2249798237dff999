/* SPDX-License-Identifier: Apache-2.0 */
#include "core/train/loop.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/base/status_slot.h"
#include "core/checkpoint/load.h"
#include "core/checkpoint/writer.h"
#include "core/comm/nodes.h"
#include "core/export/export.h"
#include "core/export/trace.h"
#include "core/report/run_page.h"
#include "core/run/metrics.h"
#include "core/run/passes.h"
#include "core/run/rank_status.h"
#include "core/run/rundir.h"
#include "core/train/benchmark.h"
#include "core/train/evaluate.h"
#include "core/train/metering.h"
#include "core/train/perturb.h"
#include "core/train/progress.h"
#include "core/train/recut.h"
#include "core/train/reference.h"
#include "core/train/stop.h"

/* State of rank 0 besides its rank. */
struct recorder {
    struct cadre_metrics *metrics;
    struct cadre_export *export;
    struct cadre_progress progress;
};

static cadre_status evaluate(struct cadre_rank *rank, const struct cadre_train_run *run,
                             struct cadre_valid_result *valid, struct cadre_error *err)
{
    struct cadre_evaluation result;
    cadre_status rc =
        cadre_evaluate(rank, run->spec, run->spec->config.train.eval_batches, &result,
                       &valid->has, err);
    valid->loss = result.loss;
    valid->accuracy = result.accuracy;
    valid->logits[0] = result.logits[0];
    valid->logits[1] = result.logits[1];
    valid->targets = result.targets;
    valid->samples = result.samples;
    return rc;
}

static cadre_status drain(struct cadre_rank *rank, struct cadre_error *err)
{
    cadre_status rc = cadre_rank_drain(rank);
    return rc == CADRE_OK ? rc : cadre_fail(err, rc, "%s", rank->failure.text);
}

/* Is an action due after `step` that happens every `every` steps and at the end? */
static bool due(int64_t step, int64_t every, bool last)
{
    return last || (every > 0 && step % every == 0);
}

/* A rank in its loop. */
struct loop {
    struct cadre_rank *rank;
    struct cadre_writer *writer;
    const struct cadre_train_run *run;
    struct recorder *recorder; /* NULL but on rank 0 */
    struct cadre_world *world;
    struct cadre_trace trace;
    struct cadre_benchmark benchmark;
    struct cadre_meter meter;
    struct cadre_valid_result valid; /* of the last evaluation */
    struct cadre_recut_clock recut;
    bool again; /* the ranks end here, to be started again with other stages */
    bool stop;
};

/* Count a report and write its line, if it belongs to a step. */
static cadre_status tell_step(struct loop *loop, const struct cadre_step_report *report,
                              const struct cadre_valid_result *valid,
                              struct cadre_error *err)
{
    struct recorder *recorder = loop->recorder;
    int64_t step = (int64_t)report->step;
    if (step == 0)
        return CADRE_OK;
    cadre_benchmark_report(&loop->benchmark, report);
    cadre_recut_clock_report(&loop->recut, report);
    cadre_rank_status_report(loop->rank, report, valid);
    if (!recorder)
        return CADRE_OK;
    cadre_status rc = cadre_metrics_step(recorder->metrics, step, report, valid, err);
    if (rc == CADRE_OK)
        rc = cadre_export_step(recorder->export, step, report, valid, err);
    if (rc == CADRE_OK)
        cadre_progress_step(&recorder->progress, step, report, valid);
    return rc;
}

/* Call before any action that depends on `step`: afterwards `report` is that of `step`,
 * and the report before it was written. */
static cadre_status catch_up(struct loop *loop, int64_t step,
                             struct cadre_step_report *report, struct cadre_error *err)
{
    static const struct cadre_valid_result none = {0};
    if ((int64_t)report->step == step)
        return CADRE_OK;
    CADRE_TRY(tell_step(loop, report, &none, err));
    cadre_status rc = cadre_rank_flush(loop->rank, report);
    return rc == CADRE_OK ? rc : cadre_fail(err, rc, "%s", loop->rank->failure.text);
}

/* Training steps run from now on; of a benchmark those of its windows count. */
static void meter_steps(struct loop *loop)
{
    const struct cadre_benchmark *benchmark = &loop->benchmark;
    cadre_metering_steps(&loop->meter, !benchmark->on || benchmark->open);
}

static cadre_status evaluate_now(struct loop *loop, int64_t step,
                                 struct cadre_error *err)
{
    double begin = cadre_now_s();
    cadre_rank_page_state(loop->rank->page, CADRE_RANK_EVALUATING);
    CADRE_TRY(drain(loop->rank, err));
    cadre_metering_steps(&loop->meter, false);
    CADRE_TRY(evaluate(loop->rank, loop->run, &loop->valid, err));
    cadre_rank_page_state(loop->rank->page, CADRE_RANK_TRAINING);
    meter_steps(loop);
    cadre_trace_other(&loop->trace, step, "evaluation", begin);
    return CADRE_OK;
}

/* Save; before it, decide whether the ranks end after it, to be started again with
 * other stages. */
static cadre_status save_or_cut(struct loop *loop, int64_t step, bool last,
                                struct cadre_error *err)
{
    const struct cadre_spec *spec = loop->run->spec;
    struct cadre_recut_choice choice = {0};
    const bool ends = last || loop->stop;
    cadre_status rc = CADRE_OK;
    if (!ends)
        rc = cadre_recut_decide(&loop->recut, loop->rank, spec, &loop->again, &choice,
                                err);
    if (rc == CADRE_OK)
        rc = cadre_writer_save(loop->writer, step, ends || loop->again, err);
    if (rc == CADRE_OK && loop->again && loop->recorder)
        rc = cadre_recut_leave(&choice, spec, step, err);
    cadre_recut_choice_fini(&choice);
    return rc;
}

static cadre_status save_now(struct loop *loop, int64_t step, bool last,
                             struct cadre_error *err)
{
    double begin = cadre_now_s();
    cadre_rank_page_state(loop->rank->page, CADRE_RANK_SAVING);
    CADRE_TRY(drain(loop->rank, err));
    cadre_metering_steps(&loop->meter, false);
    CADRE_TRY(save_or_cut(loop, step, last, err));
    cadre_rank_page_state(loop->rank->page, CADRE_RANK_TRAINING);
    meter_steps(loop);
    cadre_trace_other(&loop->trace, step, "checkpoint", begin);
    return CADRE_OK;
}

static cadre_status one_step(struct loop *loop, int64_t step, struct cadre_error *err)
{
    struct cadre_rank *rank = loop->rank;
    const struct cadre_train_run *run = loop->run;
    struct cadre_valid_result *valid = &loop->valid;
    const struct cadre_config *c = &run->spec->config;
    struct cadre_step_report report = {0};
    bool evaluates, saves;
    cadre_status rc;
    bool last = step == run->last_step, measures = loop->benchmark.on;
    rank->exchange.votes.stop = cadre_stop_vote((uint64_t)step);
    cadre_writer_vote(loop->writer);
    CADRE_TRY(cadre_trace_begin(&loop->trace, step, err));
    cadre_world_step(loop->world, step);
    double begin = cadre_now_s();
    rc = cadre_rank_step(rank, (uint64_t)step, &report);
    if (rc != CADRE_OK)
        return cadre_fail(err, rc, "%s", rank->failure.text);
    cadre_trace_step(&loop->trace, step, begin, &report);
    if (report.first && step > run->first_step + 1)
        cadre_trace_other(&loop->trace, step, "micro-batches dealt", cadre_now_s());
    if (step == run->first_step + 1) /* libraries set up the rest in the first step */
        cadre_status_watch_exit();
    cadre_rank_status_step(rank);
    if (step == run->first_step + c->compare.warmup && !last)
        cadre_timeline_warm(&rank->timeline);
    CADRE_TRY(cadre_writer_turn(loop->writer, &report, err));
    valid->has = false;
    cadre_meter_step(&loop->meter, cadre_now_s());
    loop->stop = report.stop && !last; /* after the last there is nothing to stop */
    evaluates = !measures && due(step, c->train.eval_every, last);
    saves = !measures && due(step, c->checkpoint.every, last || loop->stop);
    if (evaluates || saves || cadre_benchmark_marks(&loop->benchmark, step))
        CADRE_TRY(catch_up(loop, step, &report, err));
    if (evaluates)
        CADRE_TRY(evaluate_now(loop, step, err));
    CADRE_TRY(tell_step(loop, &report, valid, err));
    CADRE_TRY(cadre_benchmark_mark(&loop->benchmark, step, err));
    meter_steps(loop);
    return saves ? save_now(loop, step, last, err) : CADRE_OK;
}

/* [collective] Counters of all ranks, then rank 0 writes the summary. */
static cadre_status summarise(struct loop *loop, struct cadre_error *err)
{
    struct cadre_rank *rank = loop->rank;
    const struct cadre_train_run *run = loop->run;
    struct recorder *recorder = loop->recorder;
    struct cadre_energy energy = {0};
    struct cadre_efficiency efficiency;
    size_t ranks = (size_t)run->spec->run.ranks;
    struct cadre_comm_stats comm;
    struct cadre_usage usage = {0};
    struct cadre_site site = {0};
    const size_t n = 2 * ranks + 2;
    double *table = cadre_calloc(n, sizeof *table);
    if (!table)
        return cadre_no_memory(err, "the summary");
    cadre_rank_comm(rank, &comm);
    table[rank->index] = (double)rank->ledger.peak_bytes;
    table[ranks] = (double)comm.bytes;
    table[ranks + 1 + (size_t)rank->index] = (double)rank->update.plugin.computed;
    table[n - 1] = (double)comm.between_bytes;
    cadre_status rc = cadre_rank_sum(rank, "summary", table, n);
    struct cadre_run_totals totals = {
        .peak_bytes = table,
        .usage = &usage,
        .site = &site,
        .energy = &energy,
        .efficiency = &efficiency,
        .comm_bytes = table[ranks],
        .between_bytes = table[n - 1],
        .nodes = rank->world ? cadre_nodes_count(rank->world) : 1,
        .matrices = table + ranks + 1,
        .params = cadre_model_count(rank->model),
        .params_trained = cadre_model_count_trained(rank->model),
        .device = rank->device->ops->name,
        .threads = rank->threads,
        .valid = loop->valid,
    };
    if (rc == CADRE_OK)
        rc = cadre_usage_gather(rank, &usage, err);
    if (rc == CADRE_OK)
        rc = cadre_site_gather(rank, &site, err);
    if (rc == CADRE_OK)
        rc = cadre_metering_find(rank, &loop->meter, run->spec, &energy, err);
    if (rc == CADRE_OK && recorder)
        rc = cadre_efficiency_find(run->spec, rank, &site, &energy, &efficiency, err);
    if (rc == CADRE_OK && recorder && cadre_rank_tuning(rank, &totals.tuning))
        rc = cadre_no_memory(err, "the summary");
    if (rc == CADRE_OK && recorder)
        rc = cadre_metrics_summary(recorder->metrics, &totals, err);
    cadre_usage_fini(&usage);
    cadre_site_fini(&site);
    free(table);
    return rc;
}

/* To the last one, to a signal, or to the end of a benchmark. */
static cadre_status all_steps(struct loop *loop, struct cadre_error *err)
{
    static const struct cadre_valid_result none = {0};
    const struct cadre_train_run *run = loop->run;
    struct cadre_benchmark *benchmark = &loop->benchmark;
    struct cadre_step_report report = {0};
    cadre_rank_page_state(loop->rank->page, CADRE_RANK_TRAINING);
    CADRE_TRY(cadre_benchmark_mark(benchmark, run->first_step, err));
    meter_steps(loop);
    for (int64_t step = run->first_step + 1;
         step <= run->last_step && !loop->stop && !loop->again && !benchmark->ended;
         step++)
        CADRE_TRY(one_step(loop, step, err));
    loop->stop = loop->stop && !benchmark->ended;
    if (cadre_rank_flush(loop->rank, &report) != CADRE_OK)
        return cadre_fail(err, loop->rank->failure.code, "%s",
                          loop->rank->failure.text);
    cadre_metering_steps(&loop->meter, false);
    return tell_step(loop, &report, &none, err);
}

static cadre_status stopped(const struct loop *loop, struct cadre_error *err)
{
    const unsigned long long step = (unsigned long long)loop->rank->step;
    if (loop->benchmark.on)
        return cadre_fail(err, CADRE_E_STOPPED,
                          "stopped by a signal after step %llu of a benchmark, which "
                          "leaves no result",
                          step);
    return cadre_fail(err, CADRE_E_STOPPED,
                      "stopped by a signal after step %llu; a checkpoint is in "
                      "'%s/checkpoints'; continue with --set checkpoint.resume=auto",
                      step, loop->run->spec->out);
}

static cadre_status train_loop(struct cadre_rank *rank, struct cadre_writer *writer,
                               const struct cadre_train_run *run,
                               struct cadre_world *world, struct recorder *recorder,
                               struct cadre_error *err)
{
    struct loop loop = {.rank = rank,
                        .writer = writer,
                        .run = run,
                        .world = world,
                        .recorder = recorder};
    cadre_status rc = CADRE_OK;
    cadre_trace_init(&loop.trace, rank, run->spec, run->first_step, run->last_step);
    cadre_recut_clock_init(&loop.recut, run->spec, run->first_step,
                           run->external != NULL);
    cadre_metering_open(&loop.meter, run->spec);
    CADRE_TRY_OR(cadre_benchmark_init(&loop.benchmark, rank, run->spec, run->first_step,
                                      run->last_step, err),
                 fail);
    CADRE_TRY_OR(all_steps(&loop, err), fail);
    CADRE_TRY_OR(drain(rank, err), fail);
    CADRE_TRY_OR(cadre_trace_write(&loop.trace, err), fail);
    CADRE_TRY_OR(cadre_passes_write(rank, run->spec, err), fail);
    CADRE_TRY_OR(summarise(&loop, err), fail);
    if (loop.stop)
        rc = stopped(&loop, err);
    else if (recorder)
        rc = cadre_benchmark_write(&loop.benchmark, run->begin_s, err);
fail:
    cadre_meter_close(&loop.meter);
    cadre_benchmark_fini(&loop.benchmark);
    cadre_trace_fini(&loop.trace);
    return rc;
}

static cadre_status take_model(struct cadre_rank *rank,
                               const struct cadre_train_run *run,
                               struct cadre_error *err)
{
    const char *init = run->spec->config.model.init;
    const char *adapter = run->spec->config.tune.adapter;
    int64_t perturb = run->spec->config.run.perturb;
    cadre_status rc = CADRE_OK;
    if (*init || *adapter)
        rc = cadre_load_model(rank, init, err);
    if (rc == CADRE_OK && perturb > 0)
        rc = cadre_perturb(rank, (uint64_t)perturb, err);
    return rc;
}

static cadre_status take_checkpoint(struct cadre_rank *rank,
                                    const struct cadre_train_run *run,
                                    struct cadre_error *err)
{
    cadre_status rc = cadre_load(rank, run->checkpoint, err);
    if (rc == CADRE_OK && rank->index == 0)
        cadre_log(CADRE_LOG_INFO, "train", "resuming from '%s' after step %lld",
                  run->checkpoint, (long long)run->first_step);
    return rc;
}

static cadre_status measure_reference(struct cadre_rank *rank,
                                      const struct cadre_train_run *run,
                                      struct cadre_error *err)
{
    const struct cadre_config *c = &run->spec->config;
    const bool evaluates = !cadre_bench_wanted(&c->bench);
    return cadre_reference_measure(rank, run->spec, run->first_step, run->last_step,
                                   evaluates ? c->train.eval_batches : -1, err);
}

/* dpo without adapters: the reference is measured while its values are there, and what
 * is trained takes their place. */
static cadre_status fill_after_reference(struct cadre_rank *rank,
                                         const struct cadre_train_run *run,
                                         struct cadre_error *err)
{
    const char *reference = run->spec->config.tune.reference;
    CADRE_TRY(*reference ? cadre_load_model(rank, reference, err)
                         : take_model(rank, run, err));
    CADRE_TRY(measure_reference(rank, run, err));
    if (!run->checkpoint && !*reference)
        return CADRE_OK;
    CADRE_TRY(run->checkpoint ? take_checkpoint(rank, run, err)
                              : take_model(rank, run, err));
    cadre_status rc = cadre_chain_sync(&rank->chain, CADRE_SYNC_PARAMS);
    return rc == CADRE_OK ? rc : cadre_fail(err, rc, "%s", rank->failure.text);
}

static cadre_status fill(struct cadre_rank *rank, const struct cadre_train_run *run,
                         struct cadre_error *err)
{
    if (cadre_rank_has_pairs(rank) && rank->model->config.lora.rank == 0)
        return fill_after_reference(rank, run, err);
    CADRE_TRY(run->checkpoint ? take_checkpoint(rank, run, err)
                              : take_model(rank, run, err));
    return measure_reference(rank, run, err);
}

/* With progress shown, and Ctrl-C answered. */
static cadre_status watched(struct cadre_rank *rank, struct cadre_writer *writer,
                            const struct cadre_train_run *run,
                            struct cadre_world *world, struct recorder *recorder,
                            struct cadre_error *err)
{
    cadre_progress_init(&recorder->progress, run->spec, run->first_step,
                        run->last_step);
    const struct cadre_stop_plan stop = {
        .dir = cadre_bench_wanted(&run->spec->config.bench) ? NULL : run->spec->out,
        .first_step = (uint64_t)run->first_step,
        .last_step = (uint64_t)run->last_step,
        .bar = recorder->progress.bar,
    };
    cadre_stop_tell(&stop);
    cadre_status rc = train_loop(rank, writer, run, world, recorder, err);
    cadre_stop_tell(NULL);
    cadre_progress_fini(&recorder->progress);
    return rc;
}

/* All that it shows is in other files: a run does not fail for it. */
static void leave_page(const struct cadre_spec *spec)
{
    struct cadre_error err = {0};
    if (spec->config.log.page && !cadre_bench_wanted(&spec->config.bench) &&
        cadre_run_page_leave(spec->out, &err) != CADRE_OK)
        cadre_log(CADRE_LOG_WARN, "train", "no run.html: %s", err.text);
}

static cadre_status record(struct cadre_rank *rank, struct cadre_writer *writer,
                           const struct cadre_train_run *run, struct cadre_world *world,
                           struct cadre_error *err)
{
    struct recorder recorder = {0};
    /* not before: ranks that do not agree on the checkpoint must lose no line */
    CADRE_TRY(cadre_rundir_cut_metrics(run->spec->out, run->first_step, err));
    CADRE_TRY(cadre_metrics_open(run->spec, &recorder.metrics, err));
    cadre_status rc =
        cadre_export_open(run->spec, rank, run->first_step, &recorder.export, err);
    if (rc == CADRE_OK)
        rc = watched(rank, writer, run, world, &recorder, err);
    cadre_export_close(recorder.export);
    cadre_metrics_close(recorder.metrics);
    if (rc == CADRE_OK || rc == CADRE_E_STOPPED)
        leave_page(run->spec);
    return rc;
}

/* What the run takes on this rank besides its plan. */
static uint64_t extra_bytes(const struct cadre_rank *rank,
                            const struct cadre_spec *spec)
{
    return spec->config.checkpoint.async ? cadre_writer_bytes(rank) : 0;
}

/* A rank that is planned, from its binding to its end. */
static cadre_status run_rank(struct cadre_rank *rank, const struct cadre_train_run *run,
                             struct cadre_world *world, struct cadre_error *err)
{
    struct cadre_writer *writer = NULL;
    rank->device = world->device;
    rank->device_lent = world->device != NULL;
    rank->threads = run->place ? run->place[rank->index].threads : 0;
    cadre_rank_status_open(rank, run->spec, extra_bytes(rank, run->spec),
                           run->first_step, run->last_step);
    cadre_status rc =
        cadre_rank_bind(rank, world->comm, (uint64_t)run->first_step, err);
    cadre_status_watch_exit();
    if (rc == CADRE_OK)
        rc = fill(rank, run, err);
    if (rc == CADRE_OK)
        rc = cadre_writer_create(rank, run->spec->out, &writer, err);
    if (rc == CADRE_OK)
        rc = rank->index == 0 ? record(rank, writer, run, world, err)
                              : train_loop(rank, writer, run, world, NULL, err);
    if (rc != CADRE_OK && err->code == CADRE_OK) /* every failure has a text */
        cadre_fail(err, rc, "the run failed after step %llu: %s",
                   (unsigned long long)rank->step, cadre_strerror(rc));
    if (rc == CADRE_E_RESOURCE && writer) /* what binds has said it */
        cadre_rank_tell_memory(rank, err);
    rc = cadre_world_tell(world, rank->index, rc, err);
    cadre_writer_destroy(writer);
    if (rc != CADRE_OK)
        cadre_chain_abort(&rank->chain, rc);
    cadre_rank_status_end(rank, rc, err);
    return rc;
}

cadre_status cadre_train_rank(const struct cadre_train_run *run, int index,
                              struct cadre_world *world, struct cadre_error *err)
{
    struct cadre_rank rank;
    cadre_status rc = cadre_rank_plan(&rank, &run->spec->run, index, err);
    if (rc != CADRE_OK)
        return cadre_world_tell(world, index, rc, err);
    rc = run_rank(&rank, run, world, err);
    cadre_rank_fini(&rank);
    cadre_rank_status_close(&rank);
    return rc;
}
