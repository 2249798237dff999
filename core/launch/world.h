/* SPDX-License-Identifier: Apache-2.0 */
/* How a rank reaches the others (comm.backend): through the machine's segment, NCCL or
 * MPI. Ranks that cadre started meet over the segment. With NCCL the segment also
 * reports failures: a thread of each rank carries a failure of one world to the other.
 * Ranks that an external launcher started, one process each, meet at the address of the
 * launcher or CADRE_INIT, and then
 *   - use NCCL on GPUs,
 *   - open rank 0's segment on the CPUs of one machine, and watch each other,
 *   - use MPI on the CPUs of several machines; they also meet over MPI where the
 *   launcher gives no address. */
#ifndef CADRE_LAUNCH_WORLD_H
#define CADRE_LAUNCH_WORLD_H

#include "core/comm/local_external.h"
#include "core/comm/module.h"
#include "core/config/config.h"
#include "core/launch/launch.h"
#include "core/launch/secret.h"
#include "core/launch/vigil.h"

/* What the ranks of a run need to meet. Borrowed. */
struct cadre_world_run {
    const char *name; /* the same on all ranks */
    enum cadre_config_backend backend;
    const char *link; /* comm.link */
    const struct cadre_device_config *device;
    const struct cadre_local_config *local; /* number, kind, time limit */
    bool gpu; /* the device is one */
    bool exact;
    double heartbeat_s; /* comm.heartbeat; 0: none */
    /* where ranks of an external launcher meet by an address; else NULL */
    struct cadre_secret *secret;
};

/* World of one rank. Zeroed: a single rank. */
struct cadre_world {
    struct cadre_comm *comm; /* for training; NULL: a single rank, or not open yet */
    struct cadre_comm
        *control_comm; /* of the segment, or MPI's, where `comm` is NCCL's */
    struct cadre_device *device; /* that `comm` was opened with; NULL: none needed */
    const struct cadre_comm_module *module; /* NULL: unused */
    struct cadre_world_watch *watch; /* between comm and control_comm */
    struct cadre_vigil *vigil; /* over NCCL's ranks that met over TCP; else NULL */
    struct cadre_local_segment *segment; /* of ranks of an external launcher */
    struct cadre_local_guard *guard; /* over the processes of `segment` */
};

/* Can the ranks reach each other by comm.backend? Called in the launching process, or
 * in each rank of an external launcher (`outside`, else NULL), before anything is made.
 * Errors: CADRE_E_INVALID, CADRE_E_UNSUPPORTED: the device is no GPU, ranks are
 * threads, there are fewer GPUs than ranks, there is no module, or ranks of several
 * machines have no transport. [main] */
cadre_status cadre_world_check(const struct cadre_world_run *run,
                               const struct cadre_launch_external *external,
                               struct cadre_error *err);

/* [collective: all ranks of the segment] The world of rank `index`, which cadre
 * started. An error is recorded in the segment and closes `world`. Errors: those of the
 * communicators; CADRE_E_INVALID where the ranks have different versions. */
cadre_status cadre_world_open(struct cadre_world *world,
                              const struct cadre_world_run *run,
                              struct cadre_local_segment *segment, int index,
                              struct cadre_error *err);

/* What ranks of an external launcher compare besides the library. */
struct cadre_world_terms {
    uint64_t fingerprint; /* of the planned run, without measured costs */
    int64_t first_step; /* steps done before */
    char mark[48]; /* rank 0's, sent to all: a file in the run's folder */
};

/* [collective: all ranks] The ranks that were started by an external launcher find each
 * other, and compare the library's version and `terms`. A rank that cannot continue
 * passes the reason in `failed`, else NULL: then the call fails on all ranks, with that
 * line. Rank 0's files exist for the others on return. Errors: as
 * cadre_rendezvous_meet; CADRE_E_INVALID for a difference. `world` is zeroed before,
 * and closed by the caller in any case. */
cadre_status cadre_world_meet(struct cadre_world *world,
                              const struct cadre_world_run *run,
                              const struct cadre_launch_external *external,
                              struct cadre_world_terms *terms, const char *failed,
                              struct cadre_error *err);

/* [collective: all ranks, after cadre_world_meet] Open the world; `failed` as there. */
cadre_status cadre_world_enter(struct cadre_world *world,
                               const struct cadre_world_run *run,
                               const struct cadre_launch_external *external,
                               const char *failed, struct cadre_error *err);

/* A rank ends with `rc` and the text in err: the others receive it where it is the
 * first failure, and err gets the first failure of all. Returns rc. A rank that ends on
 * another rank's request waits until that rank has reported. CADRE_OK and
 * CADRE_E_STOPPED are not failures. */
cadre_status cadre_world_tell(struct cadre_world *world, int rank, cadre_status rc,
                              struct cadre_error *err);

/* The rank is in optimizer step `step`: passed to `control_comm`, for messages. */
void cadre_world_step(struct cadre_world *world, int64_t step);

/* Accepts a zeroed world; the world is zeroed on return. */
void cadre_world_close(struct cadre_world *world);

#endif
