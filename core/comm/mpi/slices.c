/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors cut into a slice for each rank. An operation works in turns, each on one part
 * of every slice; where MPI's int cannot reach all of the vector, parts are copied into
 * a room side by side. */
#include <stdlib.h>
#include <string.h>

#include "core/comm/mpi/internal.h"
#include "core/tensor/dtype.h"

uint64_t cadre_mpi_slice_begin(const struct mpi_op *op, int m)
{
    uint64_t each = op->base.count / (uint64_t)op->group->base.size;
    return op->base.offsets ? op->base.offsets[m] : (uint64_t)m * each;
}

static uint64_t length_of(const struct mpi_op *op, int m)
{
    return cadre_mpi_slice_begin(op, m + 1) - cadre_mpi_slice_begin(op, m);
}

uint64_t cadre_mpi_slice_turn(const struct mpi_op *op, int m)
{
    uint64_t length = length_of(op, m), at = op->move.at;
    uint64_t left = length > at ? length - at : 0;
    return left < op->move.part ? left : op->move.part;
}

uint64_t cadre_mpi_slice_longest(const struct mpi_op *op)
{
    uint64_t longest = 0;
    for (int m = 0; m < op->group->base.size; m++)
        longest = length_of(op, m) > longest ? length_of(op, m) : longest;
    return longest;
}

void cadre_mpi_slice_places(const struct mpi_op *op, bool packed, int *counts,
                            int *places)
{
    uint64_t before = 0;
    for (int m = 0; m < op->group->base.size; m++) {
        uint64_t n = cadre_mpi_slice_turn(op, m);
        uint64_t at = packed ? before : cadre_mpi_slice_begin(op, m) + op->move.at;
        counts[m] = (int)n;
        places[m] = n > 0 ? (int)at : 0;
        before += n;
    }
}

/* From the whole vector into the room, or back. */
static void copy_parts(const struct mpi_op *op, char *room, char *whole, bool back)
{
    size_t e = cadre_dtype_bytes(op->base.dtype);
    for (int m = 0; m < op->group->base.size; m++) {
        size_t n = cadre_mpi_slice_turn(op, m) * e;
        char *part = whole + (cadre_mpi_slice_begin(op, m) + op->move.at) * e;
        if (n > 0)
            memcpy(back ? part : room, back ? room : part, n);
        room += n;
    }
}

void cadre_mpi_slice_pack(const struct mpi_op *op, char *room, const void *whole)
{
    copy_parts(op, room, (char *)(uintptr_t)whole, false);
}

void cadre_mpi_slice_unpack(const struct mpi_op *op, void *whole, char *room)
{
    copy_parts(op, room, whole, true);
}

/* ---- rooms are kept, since new memory costs more than what it is used for */

struct mpi_room *cadre_mpi_room_take(struct mpi_world *w, size_t bytes)
{
    for (struct mpi_room **at = &w->rooms; *at; at = &(*at)->next)
        if ((*at)->bytes >= bytes) {
            struct mpi_room *room = *at;
            *at = room->next;
            return room;
        }
    struct mpi_room *room = malloc(sizeof *room + bytes);
    if (room)
        room->bytes = bytes;
    else
        cadre_mpi_fail(w, NULL, CADRE_E_RESOURCE,
                       "rank %d: no memory for %zu bytes of a collective",
                       w->context.rank, bytes);
    return room;
}

void cadre_mpi_room_give(struct mpi_world *w, struct mpi_room *room)
{
    if (!room)
        return;
    room->next = w->rooms;
    w->rooms = room;
}
