/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that an external launcher started find each other: over TCP or a file, or over
 * MPI where the launcher gives no address. They meet twice: to compare versions and
 * options, and after the steps that may fail on one rank only. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/launch/rendezvous.h"
#include "core/launch/world_private.h"
#include "core/launch/world_watch.h"

/* What rank 0 sends to the others at the first meeting, and over MPI each to all. */
struct greeting {
    struct cadre_world_handshake handshake;
    char mark[48];
    struct cadre_local_address address; /* of a segment; else zero */
    uint32_t failed; /* over MPI */
    char why[512];
};

/* The communicator over which the ranks meet, NULL where there is an address. */
static struct cadre_comm *between(const struct cadre_world *world,
                                  const struct cadre_launch_external *external,
                                  enum cadre_world_transport transport)
{
    return transport == CADRE_WORLD_MPI ? world->comm
           : external->where[0]         ? NULL
                                        : world->control_comm;
}

/* ---- by an address ---- */

/* The nonce distinguishes both meetings of a job at one address. `kept` as in struct
 * cadre_rendezvous. */
static cadre_status meet(const struct cadre_world_run *run,
                         const struct cadre_launch_external *external, const char *what,
                         void *bytes, size_t n, const char *failed, int *kept,
                         struct cadre_error *err)
{
    char *name =
        cadre_format("%s/%s/%d/%s", external->job, run->name, external->size, what);
    struct cadre_rendezvous job = {
        .where = external->where,
        .job = name,
        .rank = external->rank,
        .size = external->size,
        .timeout_s = run->local->timeout_s,
        .secret = run->secret,
        .near = external->nodes == 1 || external->local_size == external->size,
        .kept = kept,
    };
    if (!name)
        return cadre_no_memory(err, "the job's name");
    cadre_status rc = cadre_rendezvous_meet(&job, bytes, n, failed, err);
    free(name);
    return rc;
}

/* What differs from rank 0's greeting on this rank; nothing on rank 0. */
static cadre_status judge(struct cadre_world *world, const struct greeting *zero,
                          const struct greeting *mine, int rank,
                          struct cadre_error *err)
{
    cadre_status rc =
        cadre_world_handshake_compare(&zero->handshake, &mine->handshake, rank, err);
    if (rc == CADRE_OK && rank > 0 && zero->address.pid) {
        rc = cadre_local_address_enter(&zero->address, &world->segment, err);
        if (rc == CADRE_OK)
            cadre_local_guard_join(world->segment, rank);
        else
            cadre_error_prefix(err, "rank %d", rank);
    }
    return rc;
}

static cadre_status meet_at_place(struct cadre_world *world,
                                  const struct cadre_world_run *run,
                                  const struct cadre_launch_external *external,
                                  const struct greeting *mine, struct greeting *zero,
                                  const char *failed, struct cadre_error *err)
{
    struct cadre_error why = {0};
    *zero = *mine;
    CADRE_TRY(meet(run, external, "versions", zero, sizeof *zero, failed, NULL, err));
    cadre_status rc = judge(world, zero, mine, external->rank, &why);
    if (rc !=
        CADRE_OK) { /* rank 0 learns of it at the second meeting, and reports whose */
        unsigned char nothing[CADRE_COMM_ID_BYTES] = {0};
        const char *text = strchr(why.text, ':') + 2;
        meet(run, external, "id", nothing, sizeof nothing, text, NULL, NULL);
        *err = why;
    }
    return rc;
}

/* ---- over MPI ---- */

static cadre_status open_mpi(const struct cadre_world_run *run,
                             const struct cadre_launch_external *external,
                             const struct cadre_comm_module *mpi,
                             struct cadre_comm **out, struct cadre_error *err)
{
    const unsigned char id[CADRE_COMM_ID_BYTES] = {0};
    const struct cadre_comm_world request = {
        .rank = external->rank,
        .size = external->size,
        .timeout_s = run->local->timeout_s,
        .exact = run->exact,
    };
    cadre_status rc = mpi->open(&request, id, out, err);
    if (rc == CADRE_OK && external->rank == 0)
        cadre_log(CADRE_LOG_INFO, "comm", "%d ranks over MPI", external->size);
    return rc;
}

/* All ranks receive all greetings and reach the same result. */
static cadre_status meet_over(struct cadre_comm *comm, const char *what,
                              struct greeting *mine, struct greeting *zero,
                              const char *failed, struct cadre_error *err)
{
    size_t size = (size_t)comm->size;
    struct greeting *all = cadre_calloc(size, sizeof *all);
    cadre_status rc;
    mine->failed = failed != NULL;
    snprintf(mine->why, sizeof mine->why, "%s", failed ? failed : "");
    if (!all)
        return cadre_fail(err, CADRE_E_RESOURCE, "no memory to meet the ranks");
    rc = cadre_comm_gather_records(comm, what, mine, all, sizeof *all);
    rc = cadre_world_finish(comm, rc, 0, err);
    for (int r = 0; rc == CADRE_OK && r < comm->size; r++)
        if (all[r].failed)
            rc = cadre_fail(err, CADRE_E_COMM, "rank %d: %.*s", r,
                            (int)sizeof all[r].why - 1, all[r].why);
    for (int r = 1; rc == CADRE_OK && r < comm->size; r++)
        rc =
            cadre_world_handshake_compare(&all[0].handshake, &all[r].handshake, r, err);
    if (rc == CADRE_OK)
        *zero = all[0];
    free(all);
    return rc;
}

/* ---- the two meetings ---- */

/* What only rank 0 provides. */
static cadre_status make_segment(struct cadre_world *world,
                                 const struct cadre_world_run *run,
                                 struct greeting *mine, struct cadre_error *err)
{
    struct cadre_local_config config = *run->local;
    config.processes = true;
    cadre_status rc = cadre_local_segment_create(&config, &world->segment, err);
    if (rc == CADRE_OK)
        rc = cadre_local_address_make(world->segment, &mine->address, err);
    if (rc == CADRE_OK)
        cadre_local_guard_join(world->segment, 0);
    return rc;
}

cadre_status cadre_world_meet(struct cadre_world *world,
                              const struct cadre_world_run *run,
                              const struct cadre_launch_external *external,
                              struct cadre_world_terms *terms, const char *failed,
                              struct cadre_error *err)
{
    enum cadre_world_transport transport = cadre_world_transport(run, external);
    const struct cadre_comm_module *mpi;
    struct greeting mine = {0}, zero;
    struct cadre_error why = {0};
    CADRE_TRY(cadre_world_module(transport, &world->module, err));
    if (transport == CADRE_WORLD_MPI)
        CADRE_TRY(open_mpi(run, external, world->module, &world->comm, err));
    else if (!external->where[0]) {
        CADRE_TRY(cadre_world_module(CADRE_WORLD_MPI, &mpi, err));
        CADRE_TRY(open_mpi(run, external, mpi, &world->control_comm, err));
    }
    CADRE_TRY(cadre_world_handshake(world->module, &mine.handshake, err));
    mine.handshake.fingerprint = terms->fingerprint;
    mine.handshake.first_step = terms->first_step;
    snprintf(mine.mark, sizeof mine.mark, "%s", terms->mark);
    if (transport == CADRE_WORLD_LOCAL && external->rank == 0 && !failed &&
        make_segment(world, run, &mine, &why) != CADRE_OK)
        failed = why.text;
    struct cadre_comm *comm = between(world, external, transport);
    if (comm)
        CADRE_TRY(meet_over(comm, "versions", &mine, &zero, failed, err));
    else
        CADRE_TRY(meet_at_place(world, run, external, &mine, &zero, failed, err));
    snprintf(terms->mark, sizeof terms->mark, "%.*s", (int)sizeof zero.mark - 1,
             zero.mark);
    return CADRE_OK;
}

/* Arriving here means that a rank has opened the segment. */
static cadre_status enter_segment(struct cadre_world *world, int rank,
                                  struct cadre_error *err)
{
    cadre_status rc = cadre_local_guard_open(world->segment, rank, &world->guard, err);
    if (rc == CADRE_OK)
        rc = cadre_local_open(world->segment, rank, &world->comm, err);
    if (rc == CADRE_OK) { /* the address is no longer needed */
        cadre_event done = 0;
        rc = cadre_comm_barrier(world->comm, "begin", 0, &done);
        rc = cadre_world_finish(world->comm, rc, done, err);
    }
    if (rc == CADRE_OK && rank == 0)
        cadre_log(CADRE_LOG_INFO, "comm", "the ranks share a segment of memory");
    return rc;
}

static cadre_status enter_over_mpi(struct cadre_world *world,
                                   const struct cadre_world_run *run,
                                   const struct cadre_launch_external *external,
                                   const char *failed, struct cadre_error *err)
{
    bool nccl = cadre_world_transport(run, external) == CADRE_WORLD_NCCL;
    struct cadre_comm *comm = nccl ? world->control_comm : world->comm;
    unsigned char id[CADRE_COMM_ID_BYTES] = {0};
    struct greeting mine = {0}, zero;
    struct cadre_error why = {0};
    cadre_event done = 0;
    cadre_status rc = CADRE_OK;
    if (nccl && external->rank == 0 && !failed)
        rc = world->module->make_id(id, &why);
    CADRE_TRY(
        meet_over(comm, "id", &mine, &zero, rc == CADRE_OK ? failed : why.text, err));
    if (nccl) {
        rc = cadre_comm_broadcast(comm, "id", id, sizeof id, CADRE_U8, 0, 0, &done);
        CADRE_TRY(cadre_world_finish(comm, rc, done, err));
        CADRE_TRY(cadre_world_open_nccl(world, run, external->rank, id, err));
        CADRE_TRY(cadre_world_watch_open(comm, world->comm, &world->watch, err));
    }
    return rc;
}

static void on_lost(void *arg, const char *text)
{
    cadre_comm_abort(arg, text);
}

/* The connections by which the ranks met are the vigil's, or closed. */
static cadre_status keep_vigil(struct cadre_world *world,
                               const struct cadre_world_run *run,
                               const struct cadre_launch_external *external,
                               const int *kept, struct cadre_error *err)
{
    const struct cadre_vigil_job job = {
        .rank = external->rank,
        .size = external->size,
        .fd = kept,
        .lost_s = run->heartbeat_s < 0.5 ? 0.5 : run->heartbeat_s,
        .lost = on_lost,
        .arg = world->comm,
    };
    return cadre_vigil_open(&job, &world->vigil, err);
}

static void close_all(const int *kept, int size)
{
    for (int r = 0; r < size; r++)
        if (kept[r] >= 0)
            close(kept[r]);
}

/* [collective: all ranks] Give the others rank 0's id, open NCCL's world by it, and
 * watch over its ranks. */
static cadre_status enter_nccl(struct cadre_world *world,
                               const struct cadre_world_run *run,
                               const struct cadre_launch_external *external,
                               unsigned char *id, const char *failed,
                               struct cadre_error *err)
{
    const int size = external->size;
    int *kept = cadre_calloc((size_t)size, sizeof *kept);
    struct cadre_error why = {0};
    cadre_status rc = CADRE_OK;
    if (!kept && !failed) {
        cadre_no_memory(&why, "the connections to other ranks");
        failed = why.text;
    }
    for (int r = 0; kept && r < size; r++)
        kept[r] = -1;
    if (external->rank == 0 && !failed)
        rc = world->module->make_id(id, &why);
    rc = meet(run, external, "id", id, CADRE_COMM_ID_BYTES,
              rc == CADRE_OK ? failed : why.text, run->heartbeat_s > 0 ? kept : NULL,
              err);
    if (rc == CADRE_OK)
        rc = cadre_world_open_nccl(world, run, external->rank, id, err);
    if (rc == CADRE_OK)
        rc = keep_vigil(world, run, external, kept, err);
    else if (kept)
        close_all(kept, size);
    free(kept);
    return rc;
}

cadre_status cadre_world_enter(struct cadre_world *world,
                               const struct cadre_world_run *run,
                               const struct cadre_launch_external *external,
                               const char *failed, struct cadre_error *err)
{
    enum cadre_world_transport transport = cadre_world_transport(run, external);
    unsigned char id[CADRE_COMM_ID_BYTES] = {0};
    cadre_status rc;
    if (between(world, external, transport))
        return enter_over_mpi(world, run, external, failed, err);
    if (transport == CADRE_WORLD_NCCL) {
        rc = enter_nccl(world, run, external, id, failed, err);
    } else {
        rc = meet(run, external, "id", id, sizeof id, failed, NULL, err);
        if (rc == CADRE_OK)
            rc = enter_segment(world, external->rank, err);
    }
    const struct cadre_rendezvous job = {.where = external->where,
                                         .rank = external->rank};
    if (rc == CADRE_OK) /* opening by the id needs all ranks */
        cadre_rendezvous_forget(&job);
    return rc;
}
