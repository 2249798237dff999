/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/plugins/thread_run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/comm/comm.h"
#include "core/launch/launch.h"
#include "tests/support/check_main.h"

static cadre_status steps_of(struct thread_run *run, struct cadre_rank *rank,
                             struct cadre_error *err)
{
    for (int step = 1; step <= run->steps; step++) {
        struct cadre_step_report report = {0};
        if (cadre_rank_step(rank, (uint64_t)step, &report) != CADRE_OK)
            return cadre_fail(err, rank->failure.code, "%s", rank->failure.text);
        if (rank->index == 0) {
            run->loss[step] = report.loss;
            run->norm[step] = report.grad_norm;
        }
        if (run->each)
            run->each(rank, step);
    }
    cadre_status rc = cadre_rank_drain(rank);
    return rc == CADRE_OK ? rc : cadre_fail(err, rc, "%s", rank->failure.text);
}

static cadre_status rank_main(void *arg, int index, struct cadre_local_segment *segment)
{
    struct thread_run *run = arg;
    struct cadre_error err = {0};
    struct cadre_comm *world = NULL;
    struct cadre_rank rank;
    CADRE_TRY(cadre_local_open(segment, index, &world, &err));
    cadre_status rc = cadre_rank_plan(&rank, &run->spec->run, index, &err);
    const bool planned = rc == CADRE_OK;
    if (rc == CADRE_OK)
        rc = cadre_rank_bind(&rank, world, 0, &err);
    if (rc == CADRE_OK)
        rc = steps_of(run, &rank, &err);
    if (rc != CADRE_OK && rc != CADRE_E_ABORTED)
        cadre_comm_abort(world, err.text); /* before this rank is gone */
    if (planned)
        cadre_rank_fini(&rank);
    cadre_comm_destroy(world);
    return rc;
}

static void plug(struct thread_run *run, int slot, const char *name, uint32_t role,
                 const struct cadre_strategy_ops *ops)
{
    struct cadre_run_spec *spec = &run->spec->run;
    struct cadre_plugin_handle *handle = &run->handle[slot];
    const bool optimizer = role == CADRE_ROLE_OPTIMIZER;
    *handle = (struct cadre_plugin_handle){.ops = *ops};
    snprintf(handle->name, sizeof handle->name, "%s", name);
    handle->desc.role = role;
    handle->desc.id = handle->name;
    handle->desc.axis = optimizer ? NULL : handle->name;
    spec->plugin[spec->n_plugins] = handle;
    spec->instance[spec->n_plugins] =
        (struct cadre_instance){handle->name, handle->desc.axis};
    spec->axis[spec->n_plugins] = (struct cadre_axis_request){
        .name = optimizer ? "" : handle->name, .size = 1, .plugin = handle->name};
    spec->n_plugins++;
    if (optimizer)
        spec->optim.kind = CADRE_OPTIMIZER_PLUGIN;
}

cadre_status thread_run_try(struct thread_run *run, const char *sets)
{
    run->err = (struct cadre_error){0};
    run->spec = NULL;
    ck_assert_int_le(run->steps, THREAD_STEPS);
    cadre_status rc = spec_fixture_try(run->fixture, sets, &run->spec);
    if (rc != CADRE_OK) {
        run->err = run->fixture->err;
        return rc;
    }
    run->ranks = run->spec->run.ranks;
    ck_assert_int_le(run->ranks, THREAD_RANKS);
    if (run->probe)
        plug(run, 0, "probe", CADRE_ROLE_INTRA, run->probe);
    if (run->optimizer)
        plug(run, 1, "optimizer", CADRE_ROLE_OPTIMIZER, run->optimizer);
    rc = cadre_launch_threads(&run->spec->local, NULL, rank_main, run, &run->err);
    cadre_spec_destroy(run->spec);
    return rc;
}

void thread_run(struct thread_run *run, const char *sets)
{
    cadre_status rc = thread_run_try(run, sets);
    ck_assert_msg(rc == CADRE_OK, "%s: %s", sets, run->err.text);
}

bool thread_runs_same(const struct thread_run *a, const struct thread_run *b)
{
    size_t bytes = (size_t)a->steps * sizeof *a->loss;
    return a->steps == b->steps && memcmp(&a->loss[1], &b->loss[1], bytes) == 0 &&
           memcmp(&a->norm[1], &b->norm[1], bytes) == 0;
}

double thread_runs_differ(const struct thread_run *a, const struct thread_run *b)
{
    double most = 0;
    for (int step = 1; step <= a->steps; step++)
        most = fmax(most, fabs(a->loss[step] - b->loss[step]));
    return most;
}

double thread_run_bytes(struct cadre_rank *rank, const char *axis)
{
    const struct cadre_axis *found = cadre_mesh_axis(&rank->mesh, axis);
    struct cadre_comm_stats stats = {0};
    if (found && found->comm)
        cadre_comm_read_stats(found->comm, &stats);
    return (double)stats.bytes;
}
