/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of world.h share. */
#ifndef CADRE_LAUNCH_WORLD_PRIVATE_H
#define CADRE_LAUNCH_WORLD_PRIVATE_H

#include "core/launch/world.h"

enum cadre_world_transport {
    CADRE_WORLD_ALONE, /* a single rank */
    CADRE_WORLD_LOCAL, /* the segment */
    CADRE_WORLD_NCCL,
    CADRE_WORLD_MPI,
    CADRE_WORLD_NONE, /* CPUs of several machines, and no MPI */
};

/* By comm.backend, the device, and where the ranks are. [any thread] */
enum cadre_world_transport
cadre_world_transport(const struct cadre_world_run *run,
                      const struct cadre_launch_external *external);

/* The module of a transport that has one; NULL for the others. Errors:
 * CADRE_E_UNSUPPORTED. */
cadre_status cadre_world_module(enum cadre_world_transport transport,
                                const struct cadre_comm_module **out,
                                struct cadre_error *err);

/* What the ranks of one world compare. */
struct cadre_world_handshake {
    char version[128];
    uint64_t fingerprint;
    int64_t first_step;
};

/* This rank's, with only the version; `module` may be NULL. */
cadre_status cadre_world_handshake(const struct cadre_comm_module *module,
                                   struct cadre_world_handshake *handshake,
                                   struct cadre_error *err);

/* Compare the handshake of `rank` with that of rank 0: CADRE_E_INVALID, "rank N: ...".
 */
cadre_status
cadre_world_handshake_compare(const struct cadre_world_handshake *zero,
                              const struct cadre_world_handshake *handshake, int rank,
                              struct cadre_error *err);

/* [collective: all ranks] The device, and with it NCCL's world. */
cadre_status cadre_world_open_nccl(struct cadre_world *world,
                                   const struct cadre_world_run *run, int index,
                                   const unsigned char *id, struct cadre_error *err);

/* Wait for a collective that was posted with `rc`; a failure's text is the
 * communicator's. */
cadre_status cadre_world_finish(struct cadre_comm *comm, cadre_status rc,
                                cadre_event done, struct cadre_error *err);

#endif
