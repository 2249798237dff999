/* SPDX-License-Identifier: Apache-2.0 */
#include "core/train/prepare.h"

#include <string.h>

#include "core/checkpoint/load.h"
#include "core/checkpoint/resume.h"
#include "core/run/rundir.h"
#include "core/train/costs.h"

/* User errors are found before anything is started or written. */
static cadre_status check(const struct cadre_train_run *run, struct cadre_error *err)
{
    const struct cadre_spec *spec = run->spec;
    const char *init = spec->config.model.init;
    struct cadre_rank rank;
    cadre_status rc = cadre_rank_plan(&rank, &spec->run, 0, err);
    if (rc != CADRE_OK)
        return CADRE_E_INVALID;
    if (run->checkpoint)
        rc = cadre_load_check(&rank, run->checkpoint, err);
    else if (*init)
        rc = cadre_load_model_check(&rank, init, err);
    cadre_rank_fini(&rank);
    return rc == CADRE_E_IO ? CADRE_E_INVALID : rc;
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
    return cadre_places_check(&request, err) == CADRE_OK ? CADRE_OK : CADRE_E_INVALID;
}

/* Environment and CPUs are set before a rank starts. */
static cadre_status place(const struct cadre_train_run *run,
                          struct cadre_places *places, struct cadre_error *err)
{
    const struct cadre_places_request request = places_of(run);
    if (run->external)
        return cadre_train_check_place(run, err);
    return cadre_places_collect(places, &request, err) == CADRE_OK ? CADRE_OK
                                                                   : CADRE_E_INVALID;
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
                                 struct cadre_error *err)
{
    bool resuming = strcmp(spec->config.checkpoint.resume, "no") != 0;
    const struct cadre_world_run ranks = cadre_train_world(spec);
    CADRE_TRY(cadre_world_check(&ranks, run->external, err));
    cadre_status rc = cadre_costs_find(spec, err);
    if (rc != CADRE_OK)
        return CADRE_E_INVALID;
    CADRE_TRY(check(run, err));
    CADRE_TRY(place(run, places, err));
    CADRE_TRY(check_steps(run, err));
    if (resuming)
        rc = cadre_resume_refuse_older(spec->out, run->first_step, err);
    if (rc == CADRE_OK)
        rc = cadre_rundir_prepare(spec, resuming, err);
    if (rc == CADRE_OK)
        rc = cadre_rundir_cut_metrics(spec->out, run->first_step, err);
    if (rc == CADRE_OK)
        rc = cadre_costs_write(spec, err);
    return rc;
}
