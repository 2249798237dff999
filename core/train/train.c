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
#include "core/tensor/dtype.h"
#include "core/train/benchmark.h"
#include "core/train/costs.h"
#include "core/train/elastic.h"
#include "core/train/external.h"
#include "core/train/loop.h"
#include "core/train/prepare.h"
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
                          struct cadre_launch_end *end, struct cadre_error *err)
{
    struct cadre_train_run run;
    struct cadre_places places = {0};
    char *checkpoint = NULL;
    *end = (struct cadre_launch_end){0};
    cadre_status rc = find_run(spec, &run, &checkpoint, err);
    if (rc == CADRE_OK)
        rc = cadre_train_prepare(&run, spec, &places, err);
    if (rc == CADRE_OK)
        rc = run_ranks(&run, place, &places, end, err);
    cadre_places_fini(&places);
    free(checkpoint);
    return rc;
}

/* Start the ranks, again after each loss with run.elastic. */
static cadre_status start_all(struct cadre_spec **spec,
                              const struct cadre_train_place *place,
                              struct cadre_error *err)
{
    struct cadre_train_place again = *place;
    struct cadre_elastic elastic = {0};
    struct cadre_launch_end end;
    cadre_elastic_begin(&elastic, *spec);
    cadre_status rc = start(*spec, place, &end, err);
    while (rc != CADRE_OK && end.lost > 0 && elastic.on) {
        struct cadre_spec *next = NULL;
        rc = cadre_elastic_next(&elastic, *spec, &end, &next, err);
        if (rc != CADRE_OK)
            break;
        cadre_spec_destroy(*spec);
        *spec = next;
        end.lost = 0;
        char **argv = cadre_elastic_argv(next, place->argv);
        again.argv = argv;
        rc = argv ? start(next, &again, &end, err) : cadre_no_memory(err, "a restart");
        free(argv);
        if (rc == CADRE_E_INVALID) /* the name was valid before */
            rc = cadre_elastic_cannot(&elastic, err);
    }
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

/* Upper bound of the local transport's two chunk buffers of a rank: 1 MiB, or a unit's
 * parameters if these are communicated by unit; a send's if no data rank has a peer. */
static double staged_mib(const struct cadre_rank *rank)
{
    const struct cadre_model *model = rank->model;
    uint64_t unit_elements = 0, most = 0;
    bool sharded = false;
    for (uint32_t i = 0; i < model->n_params; i++) {
        if (i > 0 && model->params[i].unit != model->params[i - 1].unit)
            unit_elements = 0;
        unit_elements += cadre_shape_count(&model->params[i].local);
        most = unit_elements > most ? unit_elements : most;
        sharded = sharded || rank->plan.param[i].share[CADRE_KIND_PARAM].placed;
    }
    double mib = (double)(most * cadre_dtype_bytes(model->config.dtype)) / 1048576.0;
    if (cadre_mesh_data_size(&rank->mesh) == 1)
        return 0.5;
    return 2 * (sharded && mib < 1 ? mib : 1);
}

/* Measured memory of a rank's matrix products by number format: packed operands and
 * what the libraries keep. */
static double products_mib(uint32_t dtype)
{
    return dtype == CADRE_F64 ? 8 : dtype == CADRE_F32 ? 6 : 1;
}

/* Memory on the CPU besides what the ranks ask for: this process as it is now, before
 * anything ran, and an estimate of the libraries at work: their code (5 MiB measured),
 * a rank's products, some for each further worker; for processes the staging buffers of
 * all ranks. */
static void print_resident(const struct cadre_spec *spec, uint64_t bytes, double staged,
                           FILE *out)
{
    const bool processes = spec->local.processes && spec->run.ranks > 1;
    const int ranks = processes ? 1 : spec->run.ranks,
              threads = spec->run.device.threads;
    uint64_t now;
    cadre_memory_resident(&now, NULL);
    if (now == 0 || spec->gpu)
        return;
    double work = 5 + ranks * (products_mib(spec->run.model.dtype) +
                               (threads > 1 ? threads - 1 : 0));
    if (processes)
        work += spec->run.ranks * staged;
    fprintf(out,
            "in memory: about %.1f MiB in %s; of it %.1f MiB for the program and its "
            "libraries, %.1f MiB for these at work\n",
            (double)(bytes + now) / 1048576.0 + work,
            processes             ? "the fullest rank's process"
            : spec->run.ranks > 1 ? "the process of all ranks"
                                  : "the process",
            (double)now / 1048576.0, work);
}

cadre_status cadre_train_dry_run(struct cadre_spec *spec, FILE *out,
                                 struct cadre_error *err)
{
    if (cadre_costs_find(spec, err) != CADRE_OK)
        return CADRE_E_INVALID;
    uint64_t most = 0, sum = 0;
    double staged = 0;
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
                    (long long)cadre_benchmark_last_step(spec, 0),
                    (long long)spec->run.global_batch, (long long)spec->run.time);
        if (spec->config.checkpoint.async)
            cadre_ledger_note(&rank.plan.planned, CADRE_SPACE_HOST,
                              cadre_writer_bytes(&rank), CADRE_WRITER_TAG);
        uint64_t bytes = cadre_rank_print(&rank, out);
        fullest = bytes > most ? r : fullest;
        most = bytes > most ? bytes : most;
        sum += bytes;
        staged = staged_mib(&rank);
        cadre_rank_fini(&rank);
    }
    fprintf(out, "fullest rank: %d, with %.3f MiB; all together %.3f MiB\n", fullest,
            (double)most / 1048576.0, (double)sum / 1048576.0);
    print_resident(spec, spec->local.processes ? most : sum, staged, out);
    return CADRE_OK;
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
    const char *init = spec->config.model.init;
    cadre_status rc;
    memset(rank, 0, sizeof *rank);
    if (spec->run.ranks != 1)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "this command runs on one rank; leave strategy.stack at single");
    CADRE_TRY_OR(cadre_rank_plan(rank, &spec->run, 0, err), fail);
    if (*init)
        CADRE_TRY_OR(cadre_load_model_check(rank, init, err), fail);
    CADRE_TRY_OR(cadre_rank_bind(rank, NULL, 0, err), fail);
    if (*init)
        CADRE_TRY_OR(cadre_load_model(rank, init, err), fail);
    return CADRE_OK;
fail:
    cadre_rank_fini(rank);
    return rc;
}
