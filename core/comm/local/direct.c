/* SPDX-License-Identifier: Apache-2.0 */
/* The data of a collective among threads: members read, and in all_reduce write, each
 * other's buffers through the pointers in the slots. While it reduces, only member r
 * accesses slice r of any member's buffers, so in == out is safe. */
#include <string.h>

#include "core/comm/local/private.h"
#include "core/comm/reduce.h"
#include "core/tensor/dtype.h"

/* Reduce slice r block by block; each result goes to member r, or to all of them. Two
 * members' sum is made in the first one's buffer: its tree reads nothing after that is
 * written. */
static void reduce(struct local_comm *c, const struct cadre_comm_op *op, size_t element)
{
    const struct shared_slot *slots = c->group->slots;
    const void *srcs[LOCAL_MAX_RANKS];
    _Alignas(64) char block[CADRE_REDUCE_BLOCK_BYTES];
    int size = c->base.size;
    bool in_first = op->kind == CADRE_COMM_ALL_REDUCE && size == 2;
    uint64_t begin = op->offsets[c->base.rank], end = op->offsets[c->base.rank + 1];
    uint64_t most = CADRE_REDUCE_BLOCK_BYTES / element;
    for (uint64_t at = begin; at < end; at += most) {
        uint64_t n = end - at < most ? end - at : most;
        for (int m = 0; m < size; m++)
            srcs[m] = (const char *)slots[m].call.in + at * element;
        char *sum = in_first ? (char *)slots[0].call.out + at * element : block;
        cadre_reduce_block(sum, srcs, size, n, op->dtype, op->red);
        if (op->kind == CADRE_COMM_REDUCE_SCATTER) {
            memcpy((char *)op->out + (at - begin) * element, block, n * element);
            continue;
        }
        for (int m = in_first; m < size; m++)
            memcpy((char *)slots[m].call.out + at * element, sum, n * element);
    }
}

/* Slice m of out comes from member m: its whole input, or its slice for this rank. */
static cadre_status collect(struct local_queue *queue, const struct cadre_comm_op *op,
                            size_t element)
{
    struct local_comm *c = queue->comm;
    int rank = c->base.rank, size = c->base.size;
    uint64_t begin = op->kind == CADRE_COMM_ALL_TO_ALL ? op->offsets[rank] : 0;
    cadre_status rc = CADRE_OK;
    for (int i = 0; i < size && rc == CADRE_OK; i++) {
        int m = (rank + i) % size; /* so that not all read from one member at once */
        const char *in = c->group->slots[m].call.in;
        rc = cadre_local_copy(queue, op, (char *)op->out + op->offsets[m] * element,
                              in + begin * element,
                              (op->offsets[m + 1] - op->offsets[m]) * element);
    }
    return rc;
}

static cadre_status move(struct local_queue *queue, const struct cadre_comm_op *op)
{
    size_t element = cadre_dtype_bytes(op->dtype);
    switch (op->kind) {
    case CADRE_COMM_ALL_REDUCE:
    case CADRE_COMM_REDUCE_SCATTER:
        if (op->memory == CADRE_COMM_DEVICE_MEMORY)
            return cadre_local_device_reduce(queue, op);
        reduce(queue->comm, op, element);
        return CADRE_OK;
    case CADRE_COMM_ALL_GATHER:
    case CADRE_COMM_ALL_TO_ALL:
        return collect(queue, op, element);
    case CADRE_COMM_BROADCAST:
        return cadre_local_copy(queue, op, op->out,
                                queue->comm->group->slots[op->root].call.in,
                                op->count * element);
    default:
        return CADRE_E_INTERNAL;
    }
}

cadre_status cadre_local_move_direct(struct local_queue *queue,
                                     const struct cadre_comm_op *op)
{
    cadre_status rc = cadre_local_device_begin(queue, op);
    return rc == CADRE_OK ? cadre_local_device_end(queue, op, move(queue, op)) : rc;
}
