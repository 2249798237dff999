/* SPDX-License-Identifier: Apache-2.0 */
#include "core/train/prepare.h"

#include <string.h>

#include "core/base/cores.h"
#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/checkpoint/load.h"
#include "core/checkpoint/resume.h"
#include "core/checkpoint/trained.h"
#include "core/run/idle.h"
#include "core/run/rundir.h"
#include "core/run/setup.h"
#include "core/train/costs.h"
#include "core/train/predict.h"
#include "core/train/recut.h"

/* What dpo reads besides what it trains. */
static cadre_status check_reference(const struct cadre_rank *rank,
                                    const struct cadre_spec *spec,
                                    struct cadre_error *err)
{
    const char *init = spec->config.model.init;
    const char *reference = spec->config.tune.reference;
    const char *from = *reference ? reference : init;
    return *from ? cadre_load_model_check(rank, from, err) : CADRE_OK;
}

/* User errors are found before anything is started or written. */
static cadre_status check(const struct cadre_train_run *run, struct cadre_error *err)
{
    const struct cadre_spec *spec = run->spec;
    const char *init = spec->config.model.init;
    const char *adapter = spec->config.tune.adapter;
    struct cadre_rank rank;
    if (spec->config.tune.quantized)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "tune.quantized = yes is for evaluating and generating, found "
            "training: rounded weights have lost what steps add up; "
            "train from the run that they are from");
    cadre_status rc = cadre_rank_plan(&rank, &spec->run, 0, err);
    if (rc != CADRE_OK)
        return cadre_error_of_planning(rc);
    if (run->checkpoint)
        rc = cadre_load_check(&rank, run->checkpoint, err);
    else if (*init || *adapter)
        rc = cadre_load_model_check(&rank, init, err);
    if (rc == CADRE_OK && spec->run.preference.on && rank.model->config.lora.rank == 0)
        rc = check_reference(&rank, spec, err);
    cadre_rank_fini(&rank);
    return cadre_error_of_input(rc, err);
}

static struct cadre_places_request places_of(const struct cadre_train_run *run)
{
    const struct cadre_spec *spec = run->spec;
    const enum cadre_config_backend backend = spec->config.comm.backend;
    return (struct cadre_places_request){
        .spec = &spec->run,
        .processes = spec->local.processes,
        .gpu = spec->gpu,
        .nccl = backend == CADRE_CONFIG_BACKEND_NCCL ||
                (run->external && spec->gpu && backend == CADRE_CONFIG_BACKEND_AUTO),
        .external = run->external,
    };
}

struct cadre_world_run cadre_train_world(const struct cadre_spec *spec)
{
    return (struct cadre_world_run){
        .name = spec->name,
        .backend = spec->config.comm.backend,
        .link = spec->config.comm.link,
        .heartbeat_s = spec->config.comm.heartbeat,
        .device = &spec->run.device,
        .local = &spec->local,
        .gpu = spec->gpu,
        .exact = spec->run.exact,
    };
}

cadre_status cadre_train_check_place(const struct cadre_train_run *run,
                                     struct cadre_error *err)
{
    const struct cadre_places_request request = places_of(run);
    return cadre_error_of_planning(cadre_places_check(&request, err));
}

/* Environment and CPUs are set before a rank starts. */
static cadre_status place(const struct cadre_train_run *run,
                          struct cadre_places *places, struct cadre_error *err)
{
    const struct cadre_places_request request = places_of(run);
    if (run->external)
        return cadre_train_check_place(run, err);
    CADRE_TRY(cadre_error_of_planning(cadre_places_collect(places, &request, err)));
    if (run->spec->config.device.threads == 0)
        cadre_places_count_threads(places);
    return CADRE_OK;
}

/* What the run is and whether there is memory for it. */
static cadre_status find_setup(const struct cadre_train_run *run,
                               const struct cadre_places *places,
                               struct cadre_setup *setup, struct cadre_error *err)
{
    const struct cadre_spec *spec = run->spec;
    struct cadre_prediction p;
    CADRE_TRY(cadre_predict(spec, run->external, NULL, &p, err));
    CADRE_TRY(cadre_predict_check(spec, &p, err));
    *setup = (struct cadre_setup){
        .params = p.params,
        .params_trained = p.params_trained,
        .first_step = run->first_step,
        .last_step = run->last_step,
        .ranks_here = p.ranks,
        .cores = cadre_cores(),
        .launched = run->external != NULL,
        .placed = places->rank != NULL,
        .needed_bytes = spec->gpu ? p.device : p.host,
        .free_bytes = spec->gpu ? p.device_free : p.host_free,
    };
    return CADRE_OK;
}

/* A validation loss says nothing of data that the parameters were fitted to. */
static cadre_status warn_of_trained(const struct cadre_spec *spec,
                                    struct cadre_error *err)
{
    const char *init = spec->config.model.init;
    struct cadre_met met = {0};
    cadre_status rc = CADRE_OK;
    if (*init && spec->data)
        rc = cadre_trained_find(init, spec->data, &met, err);
    if (rc == CADRE_OK)
        cadre_trained_warn("train", "model.init = ", init, &met);
    cadre_text_fini(&met.records);
    return rc;
}

static cadre_status check_steps(const struct cadre_train_run *run,
                                struct cadre_error *err)
{
    const struct cadre_spec *spec = run->spec;
    const struct cadre_config_bench *bench = &spec->config.bench;
    const int64_t left = run->last_step - run->first_step;
    if (left <= 0)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "'%s' has done %lld steps already, train.steps = %lld; raise it to "
            "continue",
            run->checkpoint ? run->checkpoint : spec->out, (long long)run->first_step,
            (long long)spec->steps);
    if (bench->target > 0 && bench->target_steps > left)
        return cadre_fail(err, CADRE_E_INVALID,
                          "bench.target_steps = %lld is more than the %lld steps to "
                          "train (train.steps = %lld); lower it or raise train.steps",
                          (long long)bench->target_steps, (long long)left,
                          (long long)spec->steps);
    return CADRE_OK;
}

cadre_status cadre_train_prepare(const struct cadre_train_run *run,
                                 struct cadre_spec *spec, struct cadre_places *places,
                                 struct cadre_run_lock *lock, struct cadre_error *err)
{
    bool resuming = strcmp(spec->config.checkpoint.resume, "no") != 0;
    const struct cadre_world_run ranks = cadre_train_world(spec);
    struct cadre_setup setup;
    CADRE_TRY(cadre_world_check(&ranks, run->external, err));
    cadre_status rc = CADRE_OK;
    CADRE_TRY(cadre_error_of_planning(cadre_costs_find(spec, err)));
    CADRE_TRY(cadre_recut_check(spec, run->external != NULL, err));
    CADRE_TRY(check(run, err));
    CADRE_TRY(place(run, places, err));
    CADRE_TRY(check_steps(run, err));
    CADRE_TRY(find_setup(run, places, &setup, err));
    if (resuming)
        rc = cadre_resume_refuse_older(spec->config.checkpoint.resume, spec->out,
                                       run->first_step, err);
    if (rc == CADRE_OK)
        rc = cadre_rundir_prepare(spec, resuming, lock, err);
    if (rc == CADRE_OK)
        rc = cadre_idle_measure(spec, run->external != NULL, err);
    if (rc == CADRE_OK)
        rc = cadre_costs_write(spec, err);
    if (rc == CADRE_OK)
        rc = cadre_setup_write(spec, &setup, err);
    if (rc == CADRE_OK)
        cadre_setup_tell(spec, &setup);
    if (rc == CADRE_OK)
        rc = warn_of_trained(spec, err);
    return rc;
}
