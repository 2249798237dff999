/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums of what ranks send each other. Each rank adds the hashes (XXH64) of what it
 * gave each other rank of a group and of what it took from it, as an operation ends and
 * before its event has happened; a comparison then exchanges the sums. So no message is
 * longer, and none waits.
 *
 * Seen are other bits of all_gather, broadcast, all_to_all, send and recv, and results
 * of all_reduce that are not the same on all ranks. Not seen: a reduction that is wrong
 * alike on all, and reduce_scatter. Buffers in the memory of a GPU are left out, as is
 * a backend that learns late what has ended (NCCL). */
#ifndef CADRE_COMM_CHECKSUM_H
#define CADRE_COMM_CHECKSUM_H

#include "core/comm/comm.h"

/* Keep sums of every operation of this communicator that is posted from now on, until
 * it is destroyed. The same on all ranks of the group. [nothing is pending] Errors:
 * CADRE_E_RESOURCE. */
cadre_status cadre_checksum_keep(struct cadre_comm *comm, struct cadre_error *err);

/* Two ranks of the group that do not agree. */
struct cadre_checksum_odd {
    int from, to; /* -1: all agree */
    bool reduced; /* on the result of a reduction; else on what `from` sent `to` */
};

/* [collective] Of all that has ended on both sides: collectives that were posted before
 * are waited for, a send that is still under way is left to the next comparison. The
 * same *odd on all ranks. Nothing where no sums are kept. Errors: as
 * cadre_comm_gather_records. */
cadre_status cadre_checksum_compare(struct cadre_comm *comm,
                                    struct cadre_checksum_odd *odd);

#endif
