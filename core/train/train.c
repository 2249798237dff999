/* SPDX-License-Identifier: Apache-2.0 */
#include "core/train/train.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/base/status_slot.h"
#include "core/checkpoint/format/checkpoint.h"
#include "core/checkpoint/load.h"
#include "core/checkpoint/resume.h"
#include "core/checkpoint/writer.h"
#include "core/device/module.h"
#include "core/run/outdir.h"
#include "core/run/recuts.h"
#include "core/tensor/dtype.h"
#include "core/train/benchmark.h"
#include "core/train/costs.h"
#include "core/train/elastic.h"
#include "core/train/external.h"
#include "core/train/loop.h"
#include "core/train/predict.h"
#include "core/train/prepare.h"
#include "core/train/recut.h"
#include "core/train/stop.h"

static cadre_status rank_main(void *arg, int index, struct cadre_local_segment *segment)
{
    const struct cadre_train_run *run = arg;
    const struct cadre_world_run ranks = cadre_train_world(run->spec);
    struct cadre_world world;
    struct cadre_error err = {0};
    cadre_log_set_rank(index, run->spec->run.ranks);
    CADRE_TRY(cadre_world_open(&world, &ranks, segment, index, &err));
    cadre_status rc = cadre_train_rank(run, index, &world, &err);
    cadre_world_close(&world);
    return rc;
}

static cadre_status run_child(const struct cadre_train_run *run,
                              struct cadre_spec *spec,
                              const struct cadre_train_place *place,
                              struct cadre_error *err)
{
    struct cadre_local_segment *segment = NULL;
    CADRE_TRY(cadre_local_segment_open(place->segment_fd, &segment, err));
    if (cadre_local_segment_config(segment)->threads > 0)
        spec->run.device.threads = cadre_local_segment_config(segment)->threads;
    const char *own = getenv("CADRE_RANK_THREADS"); /* on CPUs of its own */
    if (own && strtol(own, NULL, 10) > 0)
        spec->run.device.threads = (int)strtol(own, NULL, 10);
    cadre_status rc = cadre_costs_read(spec, place->rank, err);
    if (rc == CADRE_OK)
        rc = rank_main((void *)(uintptr_t)run, place->rank, segment);
    else
        cadre_local_segment_fail(segment, place->rank, err->text);
    cadre_local_segment_close(segment);
    return rc; /* the text is in the segment; the launcher prints it once */
}

/* With the local transport, ranks that are threads share one GPU. */
static void tell_sharing(const struct cadre_spec *spec)
{
    int gpus = spec->gpu ? cadre_device_count_cuda() : 0;
    if (gpus > 1)
        cadre_log(CADRE_LOG_INFO, "train",
                  "the ranks are threads and share GPU %d of %d; comm.ranks = "
                  "processes gives each its own GPU",
                  spec->run.device.index % gpus, gpus);
}

static cadre_status run_ranks(const struct cadre_train_run *run,
                              const struct cadre_train_place *place,
                              const struct cadre_places *places,
                              struct cadre_launch_end *end, struct cadre_error *err)
{
    const struct cadre_spec *spec = run->spec;
    struct cadre_world alone = {0};
    cadre_status rc;
    if (spec->run.ranks == 1 && !places->rank) {
        cadre_status_begin(cadre_status_current(), 0);
        return cadre_train_rank(run, 0, &alone, err);
    }
    if (spec->local.processes) {
        cadre_stop_hold();
        rc = cadre_launch_processes(&spec->local, places->rank, place->argv, end, err);
        cadre_stop_release();
    } else {
        tell_sharing(spec);
        rc = cadre_launch_threads(&spec->local, places->rank, rank_main,
                                  (void *)(uintptr_t)run, err);
    }
    if (rc == CADRE_E_STOPPED && cadre_bench_wanted(&spec->config.bench))
        cadre_fail(err, rc,
                   "stopped by a signal during a benchmark, which leaves no result");
    else if (rc == CADRE_E_STOPPED)
        cadre_fail(
            err, rc,
            "stopped by a signal; a checkpoint is in '%s/checkpoints'; continue with "
            "--set checkpoint.resume=auto",
            spec->out);
    return rc;
}

/* What the ranks of this start need to know. *checkpoint is the caller's. */
static cadre_status find_run(const struct cadre_spec *spec, struct cadre_train_run *run,
                             char **checkpoint, struct cadre_error *err)
{
    *run = (struct cadre_train_run){.spec = spec};
    CADRE_TRY(cadre_resume_find(spec->config.checkpoint.resume, spec->out, checkpoint,
                                &run->first_step, err));
    run->checkpoint = *checkpoint;
    run->last_step = cadre_benchmark_last_step(spec, run->first_step);
    const pid_t root = cadre_status_root(cadre_status_current());
    run->begin_s = cadre_clock_process_begin_s(root);
    return CADRE_OK;
}

/* One start of the ranks: prepare, start, wait for their end. */
static cadre_status start(struct cadre_spec *spec,
                          const struct cadre_train_place *place,
                          struct cadre_run_lock *lock, struct cadre_launch_end *end,
                          struct cadre_error *err)
{
    struct cadre_train_run run;
    struct cadre_places places = {0};
    char *checkpoint = NULL;
    *end = (struct cadre_launch_end){0};
    /* a folder of others stays as it is, without a lock in it */
    cadre_status rc = cadre_outdir_check(spec->out, CADRE_OUTDIR_RUN, err);
    /* what it continues from is looked for while no other process changes it */
    if (rc == CADRE_OK)
        rc = cadre_run_lock_take(lock, spec->out, err);
    if (rc == CADRE_OK)
        rc = find_run(spec, &run, &checkpoint, err);
    if (rc == CADRE_OK)
        rc = cadre_train_prepare(&run, spec, &places, lock, err);
    run.place = places.rank;
    if (rc == CADRE_OK)
        rc = run_ranks(&run, place, &places, end, err);
    cadre_places_fini(&places);
    free(checkpoint);
    return rc;
}

/* What follows a start that ended with *rc: after a loss with run.elastic, after a
 * decision of run.recut. *next is NULL where nothing does. */
static cadre_status follow(struct cadre_elastic *elastic, const struct cadre_spec *spec,
                           uint32_t recuts, cadre_status rc,
                           const struct cadre_launch_end *end, struct cadre_spec **next,
                           struct cadre_error *err)
{
    *next = NULL;
    if (rc == CADRE_OK)
        return cadre_recut_next(spec, recuts, next, err);
    return end->lost > 0 && elastic->on
               ? cadre_elastic_next(elastic, spec, end, next, err)
               : rc;
}

/* Start the ranks, again after a loss with run.elastic or a new cut of run.recut. */
static cadre_status start_all(struct cadre_spec **spec,
                              const struct cadre_train_place *place,
                              struct cadre_error *err)
{
    struct cadre_train_place again = *place;
    struct cadre_elastic elastic = {0};
    struct cadre_run_lock lock = {0};
    struct cadre_launch_end end;
    struct cadre_spec *next;
    uint32_t recuts = cadre_recuts_count((*spec)->out);
    cadre_elastic_begin(&elastic, *spec);
    cadre_status rc = start(*spec, place, &lock, &end, err);
    for (;;) {
        const bool lost = rc != CADRE_OK;
        rc = follow(&elastic, *spec, recuts, rc, &end, &next, err);
        if (!next)
            break;
        cadre_spec_destroy(*spec);
        *spec = next;
        recuts = cadre_recuts_count(next->out);
        end.lost = 0;
        char **argv = cadre_elastic_argv(next, place->argv);
        again.argv = argv;
        rc = argv ? start(next, &again, &lock, &end, err)
                  : cadre_no_memory(err, "a restart");
        free(argv);
        if (rc == CADRE_E_INVALID && lost) /* the name was valid before */
            rc = cadre_elastic_cannot(&elastic, err);
    }
    cadre_run_lock_release(&lock);
    return rc;
}

static cadre_status train_one(struct cadre_spec *spec,
                              const struct cadre_train_place *place,
                              struct cadre_error *err)
{
    struct cadre_train_run run;
    char *checkpoint = NULL;
    cadre_status rc = find_run(spec, &run, &checkpoint, err);
    if (rc != CADRE_OK)
        return rc;
    if (place->child) {
        rc = run_child(&run, spec, place, err);
    } else {
        run.external = &place->external;
        rc = cadre_train_external(&run, spec, err);
    }
    free(checkpoint);
    return rc;
}

cadre_status cadre_train(struct cadre_spec **spec,
                         const struct cadre_train_place *place, struct cadre_error *err)
{
    cadre_stop_install();
    if (place->child || place->external.launcher)
        return train_one(*spec, place, err);
    return start_all(spec, place, err);
}

cadre_status cadre_train_dry_run(struct cadre_spec *spec,
                                 const struct cadre_launch_external *external,
                                 FILE *out, struct cadre_prediction *prediction,
                                 struct cadre_error *err)
{
    CADRE_TRY(cadre_error_of_planning(cadre_costs_find(spec, err)));
    CADRE_TRY(
        cadre_error_of_planning(cadre_predict(spec, external, out, prediction, err)));
    if (out)
        cadre_predict_print(spec, prediction, out);
    return cadre_predict_check(spec, prediction, err);
}

cadre_status cadre_train_signature(const struct cadre_spec *spec,
                                   char out[CADRE_SIGNATURE_CHARS],
                                   struct cadre_changes *changes,
                                   struct cadre_error *err)
{
    struct cadre_rank rank;
    CADRE_TRY(cadre_rank_plan(&rank, &spec->run, 0, err));
    cadre_rank_reduction_signature(&rank, out);
    cadre_rank_changes(&rank, changes);
    cadre_rank_fini(&rank);
    return CADRE_OK;
}

cadre_status cadre_train_find_params(const char *from, char **out,
                                     struct cadre_error *err)
{
    *out = NULL;
    if (!cadre_path_has_dir(from, "checkpoints")) {
        *out = cadre_strdup(from);
        return *out ? CADRE_OK : cadre_no_memory(err, "a path");
    }
    char *root = cadre_path_join(from, "checkpoints");
    cadre_status rc = root ? cadre_checkpoint_find_latest(root, out, err)
                           : cadre_no_memory(err, "a path");
    if (rc == CADRE_OK && !*out)
        rc =
            cadre_fail(err, CADRE_E_INVALID, "'%s' holds no complete checkpoint", from);
    free(root);
    return rc;
}

cadre_status cadre_train_load_rank(const struct cadre_spec *spec,
                                   struct cadre_rank *rank, struct cadre_error *err)
{
    const char *init = spec->config.model.init;
    const bool given = *init || *spec->config.tune.adapter;
    cadre_status rc;
    memset(rank, 0, sizeof *rank);
    if (spec->run.ranks != 1)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "this command runs on one rank; leave strategy.stack at single");
    CADRE_TRY_OR(cadre_rank_plan(rank, &spec->run, 0, err), fail);
    if (given)
        CADRE_TRY_OR(cadre_load_model_check(rank, init, err), fail);
    CADRE_TRY_OR(cadre_rank_bind(rank, NULL, 0, err), fail);
    if (given)
        CADRE_TRY_OR(cadre_load_model(rank, init, err), fail);
    return CADRE_OK;
fail:
    cadre_rank_fini(rank);
    return rc;
}
