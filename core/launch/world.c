/* SPDX-License-Identifier: Apache-2.0 */
#include "core/launch/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/launch/world_private.h"
#include "core/launch/world_watch.h"

/* ---- shared by all transports ---- */

cadre_status cadre_world_handshake(const struct cadre_comm_module *module,
                                   struct cadre_world_handshake *handshake,
                                   struct cadre_error *err)
{
    struct cadre_text version = {0};
    cadre_status rc = CADRE_OK;
    memset(handshake, 0, sizeof *handshake);
    if (module)
        rc = module->version(&version, err);
    snprintf(handshake->version, sizeof handshake->version, "%s",
             cadre_text_str(&version));
    cadre_text_fini(&version);
    return rc;
}

cadre_status
cadre_world_handshake_compare(const struct cadre_world_handshake *zero,
                              const struct cadre_world_handshake *handshake, int rank,
                              struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    if (strncmp(zero->version, handshake->version, sizeof zero->version) != 0)
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "it has %.*s, rank 0 has %.*s: they cannot communicate; "
                        "install one version for all ranks",
                        (int)sizeof handshake->version - 1, handshake->version,
                        (int)sizeof zero->version - 1, zero->version);
    else if (zero->fingerprint != handshake->fingerprint)
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "it does not run what rank 0 runs: build, plugins, options or "
                        "data differ; start all ranks from one installation and one "
                        "ini file");
    else if (zero->first_step != handshake->first_step)
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "it resumes after step %lld, rank 0 after step %lld: all ranks "
                        "must see one folder of the run; on a network file system "
                        "start again when all hosts list the newest checkpoint",
                        (long long)handshake->first_step, (long long)zero->first_step);
    if (rc != CADRE_OK)
        cadre_error_prefix(err, "rank %d", rank);
    return rc;
}

cadre_status cadre_world_open_nccl(struct cadre_world *world,
                                   const struct cadre_world_run *run, int index,
                                   const unsigned char *id, struct cadre_error *err)
{
    struct cadre_comm_world request = {
        .rank = index,
        .size = run->local->size,
        .timeout_s = run->local->timeout_s,
        .exact = run->exact,
    };
    cadre_status rc = cadre_device_open(run->device, &world->device, err);
    request.device = world->device;
    if (rc == CADRE_OK)
        rc = world->module->open(&request, id, &world->comm, err);
    if (rc == CADRE_OK && index == 0)
        cadre_log(CADRE_LOG_INFO, "comm", "%d ranks over NCCL", run->local->size);
    return rc;
}

/* ---- ranks that cadre started ---- */

cadre_status cadre_world_finish(struct cadre_comm *comm, cadre_status rc,
                                cadre_event done, struct cadre_error *err)
{
    if (rc == CADRE_OK)
        rc = cadre_comm_wait(comm, done);
    if (rc != CADRE_OK && cadre_comm_failure(comm, err) == CADRE_OK)
        cadre_fail(err, rc, "the ranks could not meet: %s", cadre_strerror(rc));
    return rc;
}

static cadre_status compare_all(struct cadre_comm *comm,
                                const struct cadre_world_handshake *mine,
                                struct cadre_error *err)
{
    size_t size = (size_t)comm->size;
    struct cadre_world_handshake *all = cadre_calloc(size, sizeof *all);
    cadre_status rc =
        all ? cadre_comm_gather_records(comm, "versions", mine, all, sizeof *all)
            : CADRE_E_RESOURCE;
    rc = cadre_world_finish(comm, rc, 0, err);
    for (int r = 1; rc == CADRE_OK && r < comm->size; r++)
        rc = cadre_world_handshake_compare(&all[0], &all[r], r, err);
    free(all);
    return rc;
}

/* Over the segment: compare, then all ranks get rank 0's id. */
static cadre_status meet_over_control_comm(struct cadre_world *world, unsigned char *id,
                                           struct cadre_error *err)
{
    struct cadre_comm *comm = world->control_comm;
    struct cadre_world_handshake handshake;
    cadre_event done = 0;
    cadre_status rc;
    CADRE_TRY(cadre_world_module(CADRE_WORLD_NCCL, &world->module, err));
    CADRE_TRY(cadre_world_handshake(world->module, &handshake,
                                    err)); /* all else comes from one launcher */
    CADRE_TRY(compare_all(comm, &handshake, err));
    if (comm->rank == 0)
        CADRE_TRY(world->module->make_id(id, err));
    rc = cadre_comm_broadcast(comm, "id", id, CADRE_COMM_ID_BYTES, CADRE_U8, 0, 0,
                              &done);
    return cadre_world_finish(comm, rc, done, err);
}

cadre_status cadre_world_open(struct cadre_world *world,
                              const struct cadre_world_run *run,
                              struct cadre_local_segment *segment, int index,
                              struct cadre_error *err)
{
    unsigned char id[CADRE_COMM_ID_BYTES] = {0};
    struct cadre_comm *local = NULL;
    *world = (struct cadre_world){0};
    cadre_status rc = cadre_local_open(segment, index, &local, err);
    if (rc != CADRE_OK) {
        cadre_local_segment_fail(segment, index, err->text);
        return rc;
    }
    if (cadre_world_transport(run, NULL) != CADRE_WORLD_NCCL) {
        world->comm = local;
        return CADRE_OK;
    }
    world->control_comm = local;
    CADRE_TRY_OR(meet_over_control_comm(world, id, err), fail);
    CADRE_TRY_OR(cadre_world_open_nccl(world, run, index, id, err), fail);
    CADRE_TRY_OR(cadre_world_watch_open(local, world->comm, &world->watch, err), fail);
    return CADRE_OK;
fail:
    if (rc == CADRE_E_UNSUPPORTED || rc == CADRE_E_RESOURCE || rc == CADRE_E_DEVICE)
        cadre_error_prefix(err, "rank %d", index);
    cadre_comm_abort(local, err->text); /* no effect where that is why it failed */
    cadre_world_close(world);
    return rc;
}

/* ---- the end ---- */

/* A rank that ends on another rank's request lets that rank report first: its abort
 * ends the wait. */
static void await_reason(struct cadre_comm *comm)
{
    struct cadre_error reason = {0};
    cadre_event done;
    if (cadre_comm_failure(comm, &reason) == CADRE_OK &&
        cadre_comm_barrier(comm, "end of a failed run", 0, &done) == CADRE_OK)
        cadre_comm_wait(comm, done);
}

cadre_status cadre_world_tell(struct cadre_world *world, int rank, cadre_status rc,
                              struct cadre_error *err)
{
    struct cadre_comm *comm = world->comm;
    if (!comm || rc == CADRE_OK || rc == CADRE_E_STOPPED)
        return rc;
    if (rc != CADRE_E_ABORTED && rc != CADRE_E_COMM) {
        cadre_error_prefix(err, "rank %d", rank);
        if (world->control_comm)
            cadre_comm_abort(world->control_comm, err->text);
        cadre_vigil_tell(world->vigil, err->text);
        cadre_comm_abort(comm, err->text);
    } else {
        await_reason(comm);
    }
    if (world->watch)
        cadre_world_watch_failure(world->watch, err);
    else
        cadre_comm_failure(comm, err);
    return rc;
}

void cadre_world_step(struct cadre_world *world, int64_t step)
{
    if (world->control_comm)
        cadre_comm_set_step(world->control_comm, (uint64_t)step);
}

void cadre_world_close(struct cadre_world *world)
{
    cadre_world_watch_close(world->watch);
    cadre_vigil_close(world->vigil);
    if (world->comm)
        cadre_comm_destroy(world->comm);
    cadre_device_close(world->device);
    if (world->control_comm)
        cadre_comm_destroy(world->control_comm);
    cadre_local_guard_close(world->guard);
    cadre_local_segment_close(world->segment);
    *world = (struct cadre_world){0};
}
