/* SPDX-License-Identifier: Apache-2.0 */
/* What a communicator module provides (kind "comm" of core/base/module.h): worlds over
 * a library of its own, as comm_nccl.so and comm_mpi.so do.
 *
 * Where a world over NCCL differs from comm.h: its events are the device's. A rank
 * sends only to its neighbours in the group's ring (else CADRE_E_UNSUPPORTED). Calls
 * are not compared between the ranks: one that differs hangs until the time limit. A
 * failure and its text are local to the rank; others end at their time limit or are
 * ended by the launcher. Sums are in NCCL's order, and MAX may drop a NaN, unless the
 * world is exact. `busy_s` and an observer's times are as a thread of the host sees
 * them. */
#ifndef CADRE_COMM_MODULE_H
#define CADRE_COMM_MODULE_H

#include "core/base/memory.h"
#include "core/comm/comm.h"

#define CADRE_COMM_ID_BYTES 256 /* largest id that `make_id` writes */

/* How a rank enters a world. */
struct cadre_comm_world {
    int rank, size;
    double timeout_s; /* comm.timeout */
    bool
        exact; /* reductions add in the tree over ranks, never in the library's order */
    struct cadre_device
        *device; /* buffers lie in its memory or the host's; outlives the
                                    world; NULL over MPI */
};

struct cadre_comm_module {
    uint32_t backend_bytes; /* sizeof(struct cadre_comm_backend) it was compiled with */
    /* The library and its version, which must be equal on all ranks of a world, as one
     * line of text ("NCCL 2.28.9"). [any thread] */
    cadre_status (*version)(struct cadre_text *out, struct cadre_error *err);
    /* [rank 0 of a world] Bytes by which the ranks of one world find each other; given
     * to all of them by the caller. MPI needs no id: it writes zeros, which `open`
     * ignores. [any thread] */
    cadre_status (*make_id)(unsigned char id[CADRE_COMM_ID_BYTES],
                            struct cadre_error *err);
    /* [collective: all ranks] The world communicator of this rank. Fails after
     * timeout_s where ranks are missing. Errors: CADRE_E_COMM, CADRE_E_UNSUPPORTED (the
     * library cannot reach the device), CADRE_E_RESOURCE. */
    cadre_status (*open)(const struct cadre_comm_world *world,
                         const unsigned char id[CADRE_COMM_ID_BYTES],
                         struct cadre_comm **out, struct cadre_error *err);
    /* Append lines about the library, for `cadre doctor`; one that begins with "no: "
     * says why it cannot be used. [any thread] */
    void (*describe)(struct cadre_text *out);
};

/* The table of comm_nccl.so, opened once per process. Errors: CADRE_E_UNSUPPORTED:
 * there is no such module, or it or its library cannot be used. [any thread] */
cadre_status cadre_comm_module_nccl(const struct cadre_comm_module **out,
                                    struct cadre_error *err);

/* The lines of the NCCL module, or one "no: " line that says why it does not open. [any
 * thread] */
void cadre_comm_describe_nccl(struct cadre_text *out);

/* The same for comm_mpi.so. Its `open` fails with CADRE_E_INVALID where MPI's ranks are
 * not those of `world`: the launcher belongs to another MPI. */
cadre_status cadre_comm_module_mpi(const struct cadre_comm_module **out,
                                   struct cadre_error *err);
void cadre_comm_describe_mpi(struct cadre_text *out);

#endif
