/* SPDX-License-Identifier: Apache-2.0 */
/* How a rank reaches the others (comm.backend): through the machine's segment, NCCL or
 * MPI. Ranks that cadre started meet over the segment, which beside NCCL stays the
 * channel of failures: a thread of each rank carries a failure of one world to the
 * other. Ranks that an external launcher started, one process each, meet where the
 * launcher or CADRE_INIT says, and then
 *   - on GPUs take NCCL,
 *   - on the CPUs of one machine open a segment of rank 0's and watch each other,
 *   - on the CPUs of several machines take MPI; MPI is also the place to meet where the
 *     launcher gives none. */
#ifndef CADRE_LAUNCH_WORLD_H
#define CADRE_LAUNCH_WORLD_H

#include "core/comm/local_external.h"
#include "core/comm/module.h"
#include "core/config/config.h"
#include "core/launch/launch.h"

/* What of a run its ranks have to know to meet. Borrowed. */
struct cadre_world_run {
    const char *name; /* the same on all ranks */
    enum cadre_config_backend backend;
    const char *link; /* comm.link */
    const struct cadre_device_config *device;
    const struct cadre_local_config *local; /* how many, of what kind, time limit */
    bool gpu; /* the device is one */
    bool exact;
};

/* Of one rank. Zeroed: of a rank that is alone. */
struct cadre_world {
    struct cadre_comm *comm; /* what it trains through; NULL: alone, or not open yet */
    struct cadre_comm *beside; /* of the segment, or MPI's, where `comm` is NCCL's */
    struct cadre_device *device; /* that `comm` was opened with; NULL: it needs none */
    const struct cadre_comm_module *module; /* NULL: none is used */
    struct cadre_world_watch *watch; /* between comm and beside */
    struct cadre_local_segment *segment; /* of ranks of an external launcher */
    struct cadre_local_guard *guard; /* over the processes of `segment` */
};

/* Can the ranks reach each other as comm.backend says? Asked in the launching process,
 * or in each rank that was started by an external launcher (`outside`, else NULL),
 * before anything is made. Errors: CADRE_E_INVALID, CADRE_E_UNSUPPORTED: the device is
 * no GPU, ranks are threads, there are fewer GPUs than ranks, there is no module, or
 * ranks of several machines have nothing between them. [main] */
cadre_status cadre_world_check(const struct cadre_world_run *run,
                               const struct cadre_launch_external *external,
                               struct cadre_error *err);

/* [collective: all ranks of the segment] The world of rank `index`, which cadre
 * started. After an error the segment knows it, and `world` is closed. Errors: what the
 * communicators give; CADRE_E_INVALID where the ranks have different versions. */
cadre_status cadre_world_open(struct cadre_world *world,
                              const struct cadre_world_run *run,
                              struct cadre_local_segment *segment, int index,
                              struct cadre_error *err);

/* What ranks of an external launcher compare beside the library. */
struct cadre_world_terms {
    uint64_t fingerprint; /* of the run as it was planned, without measured costs */
    int64_t first_step; /* steps done before */
    char mark[48]; /* rank 0's, given to all: a file in the run's folder */
};

/* [collective: all ranks] The ranks that were started by an external launcher find each
 * other, and compare the library's version and `terms`. A rank that cannot go on says
 * why in `failed`, else NULL: then the call fails on all ranks, with that line. Rank
 * 0's files are there for the others on return. Errors: as cadre_rendezvous_meet;
 * CADRE_E_INVALID for a difference. `world` is zeroed before, and closed by the caller
 * in any case. */
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

/* A rank ends with `rc` and the text in err: the others learn it where it is their
 * first, and err gets the first failure of all. Returns rc. A rank that ends because
 * another told it so waits for that one to speak. CADRE_OK and CADRE_E_STOPPED are not
 * failures. */
cadre_status cadre_world_tell(struct cadre_world *world, int rank, cadre_status rc,
                              struct cadre_error *err);

/* The rank is in optimizer step `step`: told to `beside`, for messages. */
void cadre_world_step(struct cadre_world *world, int64_t step);

/* Accepts a zeroed world and leaves one. */
void cadre_world_close(struct cadre_world *world);

#endif
