/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors divided into a slice for each rank. An operation works in rounds, one part of
 * every slice each; where MPI's int cannot count all of the vector, parts are copied
 * into scratch next to each other. */
#include <stdlib.h>
#include <string.h>

#include "core/comm/mpi/private.h"
#include "core/tensor/dtype.h"

uint64_t cadre_mpi_slice_turn(const struct mpi_op *op, int m)
{
    return cadre_comm_slice_part(&op->base, m, op->move.at, op->move.part);
}

void cadre_mpi_slice_places(const struct mpi_op *op, bool packed, int *counts,
                            int *places)
{
    uint64_t before = 0;
    for (int m = 0; m < op->group->base.size; m++) {
        uint64_t n = cadre_mpi_slice_turn(op, m);
        uint64_t at = packed ? before : op->base.offsets[m] + op->move.at;
        counts[m] = (int)n;
        places[m] = n > 0 ? (int)at : 0;
        before += n;
    }
}

/* From the whole vector into scratch, or back. */
static void copy_parts(const struct mpi_op *op, char *scratch, char *whole, bool back)
{
    size_t e = cadre_dtype_bytes(op->base.dtype);
    for (int m = 0; m < op->group->base.size; m++) {
        size_t n = cadre_mpi_slice_turn(op, m) * e;
        char *part = whole + (op->base.offsets[m] + op->move.at) * e;
        if (n > 0)
            memcpy(back ? part : scratch, back ? scratch : part, n);
        scratch += n;
    }
}

void cadre_mpi_slice_pack(const struct mpi_op *op, char *scratch, const void *whole)
{
    copy_parts(op, scratch, (char *)(uintptr_t)whole, false);
}

void cadre_mpi_slice_unpack(const struct mpi_op *op, void *whole, char *scratch)
{
    copy_parts(op, scratch, whole, true);
}

/* ---- scratch is kept, since new memory costs more than what it is used for ---- */

struct mpi_scratch *cadre_mpi_scratch_take(struct mpi_world *w, size_t bytes)
{
    for (struct mpi_scratch **at = &w->free_scratch; *at; at = &(*at)->next)
        if ((*at)->bytes >= bytes) {
            struct mpi_scratch *scratch = *at;
            *at = scratch->next;
            return scratch;
        }
    struct mpi_scratch *scratch = malloc(sizeof *scratch + bytes);
    if (scratch)
        scratch->bytes = bytes;
    else
        cadre_mpi_fail(w, NULL, CADRE_E_RESOURCE,
                       "rank %d: no memory for %zu bytes of a collective",
                       w->context.rank, bytes);
    return scratch;
}

void cadre_mpi_scratch_give(struct mpi_world *w, struct mpi_scratch *scratch)
{
    if (!scratch)
        return;
    scratch->next = w->free_scratch;
    w->free_scratch = scratch;
}
