/* SPDX-License-Identifier: Apache-2.0 */
#include "core/train/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/checkpoint/checkpoint.h"
#include "core/comm/launch.h"
#include "core/device/module.h"
#include "core/strategy/place.h"
#include "core/train/costs.h"
#include "core/train/evaluate.h"
#include "core/train/metrics.h"
#include "core/train/passes.h"
#include "core/train/perturb.h"
#include "core/train/progress.h"
#include "core/train/rundir.h"
#include "core/train/saver.h"
#include "core/train/snapshot.h"
#include "core/train/stop.h"
#include "core/train/trace.h"
#include "core/train/world.h"

/* A run as its ranks see it; read only. */
struct run {
    const struct cadre_spec *spec;
    const char *checkpoint; /* to resume from, or NULL */
    int64_t first_step; /* steps done before */
    const struct cadre_launch_outside *outside; /* NULL: cadre starts its ranks */
};

/* What rank 0 keeps beside its rank. */
struct recorder {
    struct cadre_metrics *metrics;
    struct cadre_progress progress;
};

static cadre_status evaluate(struct cadre_rank *rank, const struct run *run,
                             struct cadre_valid_result *valid, struct cadre_error *err)
{
    struct cadre_evaluation result;
    int64_t batches = cadre_options_i64(run->spec->options, "train.eval_batches");
    cadre_status rc =
        cadre_evaluate(rank, run->spec, batches, &result, &valid->has, err);
    valid->loss = result.loss;
    valid->targets = result.targets;
    return rc;
}

static cadre_status quiesce(struct cadre_rank *rank, struct cadre_error *err)
{
    cadre_status rc = cadre_rank_quiesce(rank);
    return rc == CADRE_OK ? rc : cadre_fail(err, rc, "%s", rank->failure.text);
}

/* Is something due after `step`, when it happens every `every` steps and at the end? */
static bool due(int64_t step, int64_t every, bool last)
{
    return last || (every > 0 && step % every == 0);
}

/* A rank in its loop. */
struct loop {
    struct cadre_rank *rank;
    struct cadre_saver *saver;
    const struct run *run;
    struct recorder *recorder; /* NULL but on rank 0 */
    struct cadre_world *world;
    struct cadre_trace trace;
    struct cadre_valid_result valid; /* of the last evaluation */
    bool stop;
};

/* The line of a report; one that is of no step yet has none. */
static cadre_status tell_step(struct loop *loop, const struct cadre_step_report *report,
                              const struct cadre_valid_result *valid,
                              struct cadre_error *err)
{
    struct recorder *recorder = loop->recorder;
    int64_t step = (int64_t)report->step;
    if (!recorder || step == 0)
        return CADRE_OK;
    cadre_status rc = cadre_metrics_step(recorder->metrics, step, report, valid, err);
    if (rc == CADRE_OK)
        cadre_progress_step(&recorder->progress, step, report, valid);
    return rc;
}

/* Before anything that rests on `step`: `report` is of it, and the one before told. */
static cadre_status catch_up(struct loop *loop, int64_t step,
                             struct cadre_step_report *report, struct cadre_error *err)
{
    static const struct cadre_valid_result none = {0};
    if ((int64_t)report->step == step)
        return CADRE_OK;
    cadre_status rc = tell_step(loop, report, &none, err);
    if (rc != CADRE_OK)
        return rc;
    rc = cadre_rank_flush(loop->rank, report);
    return rc == CADRE_OK ? rc : cadre_fail(err, rc, "%s", loop->rank->failure.text);
}

static cadre_status one_step(struct loop *loop, int64_t step, struct cadre_error *err)
{
    struct cadre_rank *rank = loop->rank;
    const struct run *run = loop->run;
    struct cadre_valid_result *valid = &loop->valid;
    const struct cadre_options *o = run->spec->options;
    struct cadre_step_report report = {0};
    bool evaluates, saves;
    cadre_status rc;
    bool last = step == run->spec->steps;
    rank->wants_stop = cadre_stop_requested();
    cadre_saver_vote(loop->saver);
    cadre_trace_begin(&loop->trace, step);
    cadre_world_step(loop->world, step);
    double begin = cadre_now_s();
    rc = cadre_rank_step(rank, (uint64_t)step, &report);
    if (rc != CADRE_OK)
        return cadre_fail(err, rc, "%s", rank->failure.text);
    cadre_trace_step(&loop->trace, step, begin);
    if (step == run->first_step + cadre_options_i64(o, "compare.warmup") && !last)
        cadre_timeline_warm(&rank->timeline);
    CADRE_TRY(cadre_saver_turn(loop->saver, &report, err));
    valid->has = false;
    loop->stop = report.stop && !last; /* after the last there is nothing to stop */
    evaluates = due(step, cadre_options_i64(o, "train.eval_every"), last);
    saves = due(step, cadre_options_i64(o, "checkpoint.every"), last || loop->stop);
    if (evaluates || saves)
        CADRE_TRY(catch_up(loop, step, &report, err));
    if (evaluates) {
        begin = cadre_now_s();
        CADRE_TRY(quiesce(rank, err));
        CADRE_TRY(evaluate(rank, run, valid, err));
        cadre_trace_other(&loop->trace, step, "evaluation", begin);
    }
    CADRE_TRY(tell_step(loop, &report, valid, err));
    if (saves) {
        begin = cadre_now_s();
        CADRE_TRY(quiesce(rank, err));
        CADRE_TRY(cadre_saver_save(loop->saver, step, last || loop->stop, err));
        cadre_trace_other(&loop->trace, step, "checkpoint", begin);
    }
fail:
    return rc;
}

/* [collective] Counters of all ranks, then rank 0 writes the summary. */
static cadre_status summarise(struct cadre_rank *rank, const struct run *run,
                              struct recorder *recorder,
                              const struct cadre_valid_result *valid,
                              struct cadre_error *err)
{
    size_t ranks = (size_t)run->spec->run.ranks;
    struct cadre_comm_stats comm;
    struct cadre_usage usage = {0};
    double *table = cadre_calloc(ranks + 1, sizeof *table);
    if (!table)
        return cadre_fail(err, CADRE_E_RESOURCE, "no memory for the summary");
    cadre_rank_comm(rank, &comm);
    table[rank->index] = (double)rank->ledger.peak_bytes;
    table[ranks] = (double)comm.bytes;
    cadre_status rc = cadre_rank_sum(rank, "summary", table, ranks + 1);
    struct cadre_run_totals totals = {
        .peak_bytes = table,
        .usage = &usage,
        .comm_bytes = table[ranks],
        .comm_exposed_s = fmax(comm.waited_s, 0),
        .params = cadre_model_count(rank->model),
        .device = rank->device->ops->name,
        .valid = *valid,
    };
    if (rc == CADRE_OK)
        rc = cadre_usage_gather(rank, &usage, err);
    if (rc == CADRE_OK && recorder && cadre_rank_tuning(rank, &totals.tuning))
        rc = cadre_fail(err, CADRE_E_RESOURCE, "no memory for the summary");
    if (rc == CADRE_OK && recorder)
        rc = cadre_metrics_summary(recorder->metrics, &totals, err);
    cadre_usage_fini(&usage);
    free(table);
    return rc;
}

static cadre_status train_loop(struct cadre_rank *rank, struct cadre_saver *saver,
                               const struct run *run, struct cadre_world *world,
                               struct recorder *recorder, struct cadre_error *err)
{
    struct loop loop = {
        .rank = rank, .saver = saver, .run = run, .world = world, .recorder = recorder};
    cadre_status rc = CADRE_OK;
    cadre_trace_init(&loop.trace, rank, run->spec, run->first_step);
    for (int64_t step = run->first_step + 1; step <= run->spec->steps && !loop.stop;
         step++)
        CADRE_TRY(one_step(&loop, step, err));
    CADRE_TRY(quiesce(rank, err));
    CADRE_TRY(cadre_trace_write(&loop.trace, err));
    CADRE_TRY(cadre_passes_write(rank, run->spec, err));
    CADRE_TRY(summarise(rank, run, recorder, &loop.valid, err));
    if (loop.stop)
        rc = cadre_fail(err, CADRE_E_STOPPED,
                        "stopped by a signal after step %llu; a checkpoint is in "
                        "'%s/checkpoints'; go on with --set checkpoint.resume=auto",
                        (unsigned long long)rank->step, run->spec->out);
fail:
    cadre_trace_fini(&loop.trace);
    return rc;
}

static cadre_status fill(struct cadre_rank *rank, const struct run *run,
                         struct cadre_error *err)
{
    const char *init = cadre_options_str(run->spec->options, "model.init");
    int64_t perturb = cadre_options_i64(run->spec->options, "run.perturb");
    cadre_status rc = CADRE_OK;
    if (!run->checkpoint) {
        if (*init)
            rc = cadre_snapshot_init(rank, init, err);
        if (rc == CADRE_OK && perturb > 0)
            rc = cadre_perturb(rank, (uint64_t)perturb, err);
        return rc;
    }
    rc = cadre_snapshot_load(rank, run->spec, run->checkpoint, err);
    if (rc == CADRE_OK && rank->index == 0)
        cadre_log(CADRE_LOG_INFO, "train", "resuming from '%s' after step %lld",
                  run->checkpoint, (long long)run->first_step);
    return rc;
}

static cadre_status record(struct cadre_rank *rank, struct cadre_saver *saver,
                           const struct run *run, struct cadre_world *world,
                           struct cadre_error *err)
{
    struct recorder recorder = {0};
    cadre_status rc = cadre_metrics_open(run->spec, &recorder.metrics, err);
    if (rc != CADRE_OK)
        return rc;
    cadre_progress_init(&recorder.progress, run->spec, run->first_step);
    rc = train_loop(rank, saver, run, world, &recorder, err);
    cadre_progress_fini(&recorder.progress);
    cadre_metrics_close(recorder.metrics);
    return rc;
}

static cadre_status run_rank(const struct run *run, int index,
                             struct cadre_world *world, struct cadre_error *err)
{
    struct cadre_saver *saver = NULL;
    struct cadre_rank rank;
    cadre_status rc = cadre_rank_plan(&rank, &run->spec->run, index, err);
    if (rc == CADRE_OK) {
        rank.device = world->device;
        rank.device_lent = world->device != NULL;
        rc = cadre_rank_bind(&rank, world->comm, (uint64_t)run->first_step, err);
        if (rc == CADRE_OK)
            rc = fill(&rank, run, err);
        if (rc == CADRE_OK)
            rc = cadre_saver_create(&rank, run->spec, &saver, err);
        if (rc == CADRE_OK)
            rc = index == 0 ? record(&rank, saver, run, world, err)
                            : train_loop(&rank, saver, run, world, NULL, err);
        rc = cadre_world_tell(world, index, rc, err);
        cadre_saver_destroy(saver);
        if (rc != CADRE_OK)
            cadre_chain_abort(&rank.chain);
        cadre_rank_fini(&rank);
        return rc;
    }
    return cadre_world_tell(world, index, rc, err);
}

static cadre_status rank_main(void *arg, int index, struct cadre_local_segment *segment)
{
    const struct run *run = arg;
    struct cadre_world world;
    struct cadre_error err = {0};
    cadre_log_set_rank(index, run->spec->run.ranks);
    cadre_status rc = cadre_world_open(&world, run->spec, segment, index, &err);
    if (rc != CADRE_OK)
        return rc;
    rc = run_rank(run, index, &world, &err);
    cadre_world_close(&world);
    return rc;
}

static cadre_status run_child(const struct run *run, struct cadre_spec *spec,
                              const struct cadre_train_place *place,
                              struct cadre_error *err)
{
    struct cadre_local_segment *segment = NULL;
    cadre_status rc = cadre_local_segment_open(place->segment_fd, &segment, err);
    if (rc != CADRE_OK)
        return rc;
    rc = cadre_costs_read(spec, place->rank, err);
    if (rc == CADRE_OK)
        rc = rank_main((void *)(uintptr_t)run, place->rank, segment);
    else
        cadre_local_segment_fail(segment, place->rank, err->text);
    cadre_local_segment_close(segment);
    return rc; /* the text is in the segment, the launcher tells it once */
}

/* The local transport adds what lies in one device's memory. */
static void tell_sharing(const struct cadre_spec *spec)
{
    int gpus = spec->gpu ? cadre_device_count_cuda() : 0;
    if (gpus > 1)
        cadre_log(CADRE_LOG_INFO, "train",
                  "the ranks are threads and share GPU %d of %d; comm.ranks = "
                  "processes gives each one of its own",
                  spec->run.device.index % gpus, gpus);
}

static cadre_status run_ranks(const struct run *run,
                              const struct cadre_train_place *place,
                              const struct cadre_places *places,
                              struct cadre_error *err)
{
    const struct cadre_spec *spec = run->spec;
    struct cadre_world alone = {0};
    cadre_status rc;
    if (spec->run.ranks == 1 && !places->rank)
        return run_rank(run, 0, &alone, err);
    if (spec->local.processes) {
        cadre_stop_hold();
        rc = cadre_launch_processes(&spec->local, places->rank, place->argv, err);
        cadre_stop_release();
    } else {
        tell_sharing(spec);
        rc = cadre_launch_threads(&spec->local, places->rank, rank_main,
                                  (void *)(uintptr_t)run, err);
    }
    if (rc == CADRE_E_STOPPED)
        cadre_fail(
            err, rc,
            "stopped by a signal; a checkpoint is in '%s/checkpoints'; go on with "
            "--set checkpoint.resume=auto",
            spec->out);
    return rc;
}

/* What the user has to mend is found before anything is started or left behind. */
static cadre_status check(const struct run *run, struct cadre_error *err)
{
    const struct cadre_spec *spec = run->spec;
    const char *init = cadre_options_str(spec->options, "model.init");
    struct cadre_rank rank;
    cadre_status rc = cadre_rank_plan(&rank, &spec->run, 0, err);
    if (rc != CADRE_OK)
        return CADRE_E_INVALID;
    if (run->checkpoint)
        rc = cadre_snapshot_check(&rank, spec, run->checkpoint, err);
    else if (*init)
        rc = cadre_snapshot_check_init(&rank, init, err);
    cadre_rank_fini(&rank);
    return rc == CADRE_E_IO ? CADRE_E_INVALID : rc;
}

/* Environment and CPUs are given before a rank starts. */
static cadre_status refuse_places(const struct cadre_places *places,
                                  struct cadre_error *err)
{
    for (int r = 0; places->rank && r < places->ranks; r++)
        if (places->rank[r].pinned || places->rank[r].variable[0])
            return cadre_fail(
                err, CADRE_E_INVALID,
                "a plugin of strategy.stack wishes an environment or CPUs "
                "for rank %d, which ranks that cadre starts alone can "
                "have; unset CADRE_INIT, or leave the plugin out",
                r);
    return CADRE_OK;
}

static cadre_status prepare(const struct run *run, struct cadre_spec *spec,
                            struct cadre_places *places, struct cadre_error *err)
{
    bool resuming =
        strcmp(cadre_options_str(spec->options, "checkpoint.resume"), "no") != 0;
    cadre_status rc = cadre_world_check(spec, run->outside, err);
    if (rc != CADRE_OK)
        return rc;
    rc = cadre_costs_find(spec, err);
    if (rc != CADRE_OK)
        return CADRE_E_INVALID;
    rc = check(run, err);
    if (rc != CADRE_OK)
        return rc;
    rc = cadre_places_collect(places, &spec->run, spec->local.processes || run->outside,
                              err);
    if (rc == CADRE_OK && run->outside)
        rc = refuse_places(places, err);
    if (rc != CADRE_OK)
        return CADRE_E_INVALID;
    if (run->first_step >= spec->steps)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "'%s' has done %lld steps already, train.steps = %lld; raise it to "
            "go on",
            run->checkpoint ? run->checkpoint : spec->out, (long long)run->first_step,
            (long long)spec->steps);
    if (resuming)
        rc = cadre_snapshot_refuse_older(spec, run->first_step, err);
    if (rc == CADRE_OK)
        rc = cadre_rundir_prepare(spec, resuming, err);
    if (rc == CADRE_OK)
        rc = cadre_rundir_cut_metrics(spec->out, run->first_step, err);
    if (rc == CADRE_OK)
        rc = cadre_costs_write(spec, err);
    return rc;
}

/* This process is one rank, started by somebody else. What is wrong with rank 0's
 * files is told to all; what every rank finds by itself is not waited with. */
static cadre_status run_outside(const struct run *run, struct cadre_spec *spec,
                                struct cadre_error *err)
{
    const struct cadre_launch_outside *outside = run->outside;
    struct cadre_places places = {0};
    struct cadre_world world = {0};
    struct cadre_error own = {0};
    const struct cadre_world_terms terms = {.fingerprint = spec->run.fingerprint,
                                            .first_step = run->first_step};
    cadre_status rc = cadre_world_check(spec, outside, err);
    if (rc != CADRE_OK)
        return rc;
    cadre_log_set_rank(outside->rank, outside->size);
    if (outside->rank == 0)
        own.code = prepare(run, spec, &places, &own);
    if (outside->size > 1)
        rc = cadre_world_meet(&world, spec, outside, &terms,
                              own.code == CADRE_OK ? NULL : own.text, err);
    if (rc == CADRE_OK && outside->rank > 0)
        own.code = cadre_costs_read(spec, outside->rank, &own);
    if (rc == CADRE_OK && outside->size > 1)
        rc = cadre_world_enter(&world, spec, outside,
                               own.code == CADRE_OK ? NULL : own.text, err);
    if (own.code != CADRE_OK) {
        *err = own;
        rc = own.code;
    }
    if (rc == CADRE_OK)
        rc = run_rank(run, outside->rank, &world, err);
    if (rc == CADRE_E_STOPPED && outside->rank > 0)
        err->text[0] = '\0'; /* rank 0 says it */
    cadre_world_close(&world);
    cadre_places_fini(&places);
    return rc;
}

cadre_status cadre_train(struct cadre_spec *spec, const struct cadre_train_place *place,
                         struct cadre_error *err)
{
    const struct cadre_launch_outside *outside =
        place->outside.where ? &place->outside : NULL;
    struct run run = {.spec = spec, .outside = outside};
    char *checkpoint = NULL;
    cadre_status rc = cadre_snapshot_find(spec, &checkpoint, &run.first_step, err);
    if (rc != CADRE_OK)
        return rc;
    run.checkpoint = checkpoint;
    cadre_stop_install();
    if (place->child) {
        rc = run_child(&run, spec, place, err);
    } else if (outside) {
        rc = run_outside(&run, spec, err);
    } else {
        struct cadre_places places = {0};
        rc = prepare(&run, spec, &places, err);
        if (rc == CADRE_OK)
            rc = run_ranks(&run, place, &places, err);
        cadre_places_fini(&places);
    }
    free(checkpoint);
    return rc;
}

cadre_status cadre_train_dry_run(struct cadre_spec *spec, FILE *out,
                                 struct cadre_error *err)
{
    if (cadre_costs_find(spec, err) != CADRE_OK)
        return CADRE_E_INVALID;
    uint64_t most = 0, sum = 0;
    int fullest = 0;
    for (int r = 0; r < spec->run.ranks; r++) {
        struct cadre_rank rank;
        cadre_status rc = cadre_rank_plan(&rank, &spec->run, r, err);
        if (rc != CADRE_OK)
            return CADRE_E_INVALID;
        if (r == 0)
            fprintf(out, "%s: %s, %llu parameters, %lld steps of %lld x %lld tokens\n",
                    spec->name, spec->stack,
                    (unsigned long long)cadre_model_count(rank.model),
                    (long long)spec->steps, (long long)spec->run.global_batch,
                    (long long)spec->run.time);
        if (cadre_options_bool(spec->options, "checkpoint.async"))
            cadre_ledger_note(&rank.plan.planned, CADRE_SPACE_HOST,
                              cadre_saver_bytes(&rank), CADRE_SAVER_TAG);
        uint64_t bytes = cadre_rank_print(&rank, out);
        fullest = bytes > most ? r : fullest;
        most = bytes > most ? bytes : most;
        sum += bytes;
        cadre_rank_fini(&rank);
    }
    fprintf(out, "fullest rank: %d, with %.3f MiB; all together %.3f MiB\n", fullest,
            (double)most / 1048576.0, (double)sum / 1048576.0);
    return CADRE_OK;
}

cadre_status cadre_train_sums(const struct cadre_spec *spec, char out[CADRE_SUMS_CHARS],
                              struct cadre_changes *changes, struct cadre_error *err)
{
    struct cadre_rank rank;
    cadre_status rc = cadre_rank_plan(&rank, &spec->run, 0, err);
    if (rc != CADRE_OK)
        return rc;
    cadre_rank_sums(&rank, out);
    cadre_rank_changes(&rank, changes);
    cadre_rank_fini(&rank);
    return CADRE_OK;
}

cadre_status cadre_train_find_params(const char *from, char **out,
                                     struct cadre_error *err)
{
    char *root = cadre_path_join(from, "checkpoints");
    cadre_status rc = CADRE_OK;
    *out = NULL;
    if (root && cadre_path_is_dir(root))
        rc = cadre_checkpoint_find_latest(root, out, err);
    else
        *out = cadre_strdup(from);
    if (rc == CADRE_OK && !*out)
        rc =
            cadre_fail(err, CADRE_E_INVALID, "'%s' holds no complete checkpoint", from);
    free(root);
    return rc;
}

cadre_status cadre_train_load_rank(const struct cadre_spec *spec,
                                   struct cadre_rank *rank, struct cadre_error *err)
{
    const char *init = cadre_options_str(spec->options, "model.init");
    cadre_status rc;
    memset(rank, 0, sizeof *rank);
    if (spec->run.ranks != 1)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "this command runs on one rank; leave strategy.stack at single");
    CADRE_TRY(cadre_rank_plan(rank, &spec->run, 0, err));
    if (*init)
        CADRE_TRY(cadre_snapshot_check_init(rank, init, err));
    CADRE_TRY(cadre_rank_bind(rank, NULL, 0, err));
    if (*init)
        CADRE_TRY(cadre_snapshot_init(rank, init, err));
    return CADRE_OK;
fail:
    cadre_rank_fini(rank);
    return rc;
}
