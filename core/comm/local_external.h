/* SPDX-License-Identifier: Apache-2.0 */
/* The segment of ranks that an external launcher started on one machine: rank 0 makes
 * it and sends its location; the others open it in rank 0's /proc. No process is the
 * parent of all, so each rank watches the others' processes. */
#ifndef CADRE_COMM_LOCAL_EXTERNAL_H
#define CADRE_COMM_LOCAL_EXTERNAL_H

#include "core/comm/local.h"

/* Location of rank 0's segment, sent as bytes. */
struct cadre_local_address {
    char host[64], boot[40], pids[40]; /* machine, its boot, its PID namespace */
    int64_t pid, fd;
    uint64_t device, inode;
};

/* [rank 0] Location of the segment, which stays open until all have joined. Errors:
 * CADRE_E_IO, CADRE_E_RESOURCE. */
cadre_status cadre_local_address_make(const struct cadre_local_segment *segment,
                                      struct cadre_local_address *out,
                                      struct cadre_error *err);

/* [the others] The segment of rank 0; the caller closes it. Errors: CADRE_E_INVALID:
 * this process is on another machine or in another container (the text names this
 * host); CADRE_E_COMM: rank 0 has ended since; CADRE_E_IO, CADRE_E_RESOURCE. [any
 * thread] */
cadre_status cadre_local_address_enter(const struct cadre_local_address *address,
                                       struct cadre_local_segment **out,
                                       struct cadre_error *err);

struct cadre_local_guard; /* a thread that watches the other ranks */

/* [each rank, before all have joined] This process is rank `rank` of the segment. */
void cadre_local_guard_join(struct cadre_local_segment *segment, int rank);

/* [each rank, after all have joined] From now on a rank whose process ends without
 * cadre_local_guard_close fails the segment, on all ranks. The segment outlives the
 * guard. Errors: CADRE_E_RESOURCE. */
cadre_status cadre_local_guard_open(struct cadre_local_segment *segment, int rank,
                                    struct cadre_local_guard **out,
                                    struct cadre_error *err);

/* This rank ends as expected; failures have been reported before. Waits for the thread.
 * NULL is allowed. */
void cadre_local_guard_close(struct cadre_local_guard *guard);

#endif
