/* SPDX-License-Identifier: Apache-2.0 */
/* The data of a collective among threads: members read, and in all_reduce write, each
 * other's buffers through the pointers in the slots. Member r alone touches slice r of
 * anybody's buffers while it reduces, so in place needs no care. */
#include <string.h>

#include "core/comm/local/internal.h"
#include "core/comm/reduce.h"
#include "core/tensor/dtype.h"

static void copy(char *to, const char *from, uint64_t bytes)
{
    if (bytes && to != from)
        memcpy(to, from, bytes);
}

/* Reduce slice r block by block; each result goes to member r, or to all of them. */
static void reduce(struct local_comm *c, const struct cadre_comm_op *op, size_t element)
{
    const struct shared_slot *slots = c->group->slots;
    const void *srcs[LOCAL_MAX_RANKS];
    _Alignas(64) char block[CADRE_REDUCE_BLOCK_BYTES];
    int size = c->base.size;
    uint64_t begin = op->offsets[c->base.rank], end = op->offsets[c->base.rank + 1];
    uint64_t most = CADRE_REDUCE_BLOCK_BYTES / element;
    for (uint64_t at = begin; at < end; at += most) {
        uint64_t n = end - at < most ? end - at : most;
        for (int m = 0; m < size; m++)
            srcs[m] = (const char *)slots[m].call.in + at * element;
        cadre_reduce_block(block, srcs, size, n, op->dtype, op->red);
        if (op->kind == CADRE_COMM_REDUCE_SCATTER) {
            memcpy((char *)op->out + (at - begin) * element, block, n * element);
            continue;
        }
        for (int m = 0; m < size; m++)
            memcpy((char *)slots[m].call.out + at * element, block, n * element);
    }
}

static void gather(struct local_comm *c, const struct cadre_comm_op *op, size_t element)
{
    for (int i = 0; i < c->base.size; i++) {
        int m = (c->base.rank + i) % c->base.size; /* not all from one member at once */
        copy((char *)op->out + op->offsets[m] * element, c->group->slots[m].call.in,
             (op->offsets[m + 1] - op->offsets[m]) * element);
    }
}

static void exchange(struct local_comm *c, const struct cadre_comm_op *op,
                     size_t element)
{
    uint64_t bytes = op->count / (uint64_t)c->base.size * element;
    for (int i = 0; i < c->base.size; i++) {
        int m = (c->base.rank + i) % c->base.size;
        const char *in = c->group->slots[m].call.in;
        copy((char *)op->out + (uint64_t)m * bytes, in + (uint64_t)c->base.rank * bytes,
             bytes);
    }
}

cadre_status cadre_local_move_direct(struct local_comm *comm,
                                     const struct cadre_comm_op *op)
{
    size_t element = cadre_dtype_bytes(op->dtype);
    switch (op->kind) {
    case CADRE_COMM_ALL_REDUCE:
    case CADRE_COMM_REDUCE_SCATTER:
        reduce(comm, op, element);
        return CADRE_OK;
    case CADRE_COMM_ALL_GATHER:
        gather(comm, op, element);
        return CADRE_OK;
    case CADRE_COMM_BROADCAST:
        copy(op->out, comm->group->slots[op->root].call.in, op->count * element);
        return CADRE_OK;
    case CADRE_COMM_ALL_TO_ALL:
        exchange(comm, op, element);
        return CADRE_OK;
    default:
        return CADRE_E_INTERNAL;
    }
}
