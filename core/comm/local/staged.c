/* SPDX-License-Identifier: Apache-2.0 */
/* The data of a collective among processes: in each round every member copies a part of
 * its buffer into its stage in the segment, all wait at a barrier, and each reads what
 * it needs. A member's two stages alternate: a stage is written again only after the
 * barrier of the next round, which every reader entered after it had finished. */
#include <string.h>

#include "core/comm/local/private.h"
#include "core/comm/reduce.h"
#include "core/tensor/dtype.h"

struct turn {
    struct local_queue *queue;
    struct local_comm *c;
    const struct cadre_comm_op *op;
    size_t element;
    uint64_t part; /* elements of one slice in one round */
    uint64_t at; /* first element of the round in each slice */
    unsigned parity; /* stage in use */
};

static cadre_status fetch(const struct turn *t, void *host, const void *from,
                          uint64_t bytes)
{
    return cadre_local_fetch(t->queue, t->op, host, from, bytes);
}

static cadre_status put(const struct turn *t, void *to, const void *host,
                        uint64_t bytes)
{
    return cadre_local_put(t->queue, t->op, to, host, bytes);
}

static char *stage(const struct turn *t, int member)
{
    char *base = local_at(t->c->me->segment, t->c->group->staging);
    return base + ((uint64_t)member * 2 + t->parity) * LOCAL_CHUNK;
}

/* Elements of slice m in this round. */
static uint64_t in_turn(const struct turn *t, int m)
{
    return cadre_comm_slice_part(t->op, m, t->at, t->part);
}

static const char *input(const struct turn *t, int slice)
{
    return (const char *)t->op->in + (t->op->offsets[slice] + t->at) * t->element;
}

static char *output(const struct turn *t, int slice)
{
    return (char *)t->op->out + (t->op->offsets[slice] + t->at) * t->element;
}

static char *part_of(const struct turn *t, int member, int slice)
{
    return stage(t, member) + (uint64_t)slice * t->part * t->element;
}

/* Does the CPU read and write the caller's buffers where they are? */
static bool in_place(const struct turn *t)
{
    return t->op->memory != CADRE_COMM_DEVICE_MEMORY;
}

/* Reduce this rank's slice of the round, from its own buffer and the others' stages,
 * into `to`, and into its stage where the others need it. With device memory this
 * rank's own part is copied through its stage, both ways. */
static cadre_status reduce_part(const struct turn *t, char *to, bool share)
{
    const void *srcs[LOCAL_MAX_RANKS];
    _Alignas(64) char block[CADRE_REDUCE_BLOCK_BYTES];
    int rank = t->c->base.rank;
    uint64_t most = CADRE_REDUCE_BLOCK_BYTES / t->element;
    uint64_t end = in_turn(t, rank);
    bool direct = in_place(t);
    char *own = part_of(t, rank, rank);
    for (uint64_t i = 0; i < end; i += most) {
        uint64_t n = end - i < most ? end - i : most;
        for (int m = 0; m < t->c->base.size; m++)
            srcs[m] = (m == rank && direct ? input(t, m) : part_of(t, m, rank)) +
                      i * t->element;
        cadre_reduce_block(block, srcs, t->c->base.size, n, t->op->dtype, t->op->red);
        if (direct)
            memcpy(to + i * t->element, block, n * t->element);
        if (share || !direct)
            memcpy(own + i * t->element, block, n * t->element);
    }
    return direct ? CADRE_OK : put(t, to, own, end * t->element);
}

/* Copy what the others need of this rank's buffer in this round into its stage. */
static cadre_status stage_parts(const struct turn *t)
{
    int rank = t->c->base.rank;
    cadre_status rc = CADRE_OK;
    for (int m = 0; m < t->c->base.size && rc == CADRE_OK; m++)
        if ((m != rank || !in_place(t)) && in_turn(t, m))
            rc = fetch(t, part_of(t, rank, m), input(t, m), in_turn(t, m) * t->element);
    return rc;
}

static cadre_status reduce(struct turn *t)
{
    int size = t->c->base.size, rank = t->c->base.rank;
    uint64_t longest = cadre_comm_slice_longest(t->op, t->c->base.size);
    t->part = LOCAL_CHUNK / (unsigned)size / t->element;
    for (; t->at < longest; t->at += t->part, t->parity ^= 1) {
        CADRE_TRY(stage_parts(t));
        CADRE_TRY(cadre_local_barrier(t->queue, t->op));
        if (t->op->kind == CADRE_COMM_REDUCE_SCATTER) {
            char *to = (char *)t->op->out + t->at * t->element;
            CADRE_TRY(reduce_part(t, to, false));
            continue;
        }
        CADRE_TRY(reduce_part(t, output(t, rank), true));
        CADRE_TRY(cadre_local_barrier(t->queue, t->op));
        for (int m = 0; m < size; m++)
            if (m != rank && in_turn(t, m))
                CADRE_TRY(
                    put(t, output(t, m), part_of(t, m, m), in_turn(t, m) * t->element));
    }
    return CADRE_OK;
}

static cadre_status gather(struct turn *t)
{
    int rank = t->c->base.rank;
    uint64_t longest = cadre_comm_slice_longest(t->op, t->c->base.size);
    t->part = LOCAL_CHUNK / t->element;
    for (; t->at < longest; t->at += t->part, t->parity ^= 1) {
        uint64_t mine = in_turn(t, rank) * t->element;
        const char *from = (const char *)t->op->in + t->at * t->element;
        CADRE_TRY(fetch(t, stage(t, rank), from, mine));
        CADRE_TRY(cadre_local_barrier(t->queue, t->op));
        for (int m = 0; m < t->c->base.size; m++) {
            bool there = m == rank && output(t, m) == from;
            if (!there)
                CADRE_TRY(
                    put(t, output(t, m), stage(t, m), in_turn(t, m) * t->element));
        }
    }
    return CADRE_OK;
}

static cadre_status broadcast(struct turn *t)
{
    int root = t->op->root;
    uint64_t bytes = t->op->count * t->element;
    for (uint64_t at = 0; at < bytes; at += LOCAL_CHUNK, t->parity ^= 1) {
        uint64_t n = bytes - at < LOCAL_CHUNK ? bytes - at : LOCAL_CHUNK;
        if (t->c->base.rank == root)
            CADRE_TRY(fetch(t, stage(t, root), (const char *)t->op->in + at, n));
        CADRE_TRY(cadre_local_barrier(t->queue, t->op));
        if (t->c->base.rank != root)
            CADRE_TRY(put(t, (char *)t->op->out + at, stage(t, root), n));
    }
    return CADRE_OK;
}

static cadre_status exchange(struct turn *t)
{
    int size = t->c->base.size, rank = t->c->base.rank;
    uint64_t slice = t->op->count / (uint64_t)size * t->element;
    uint64_t part = LOCAL_CHUNK / (unsigned)size;
    for (uint64_t at = 0; at < slice; at += part, t->parity ^= 1) {
        uint64_t n = slice - at < part ? slice - at : part;
        for (int m = 0; m < size; m++)
            CADRE_TRY(fetch(t, stage(t, rank) + (uint64_t)m * part,
                            (const char *)t->op->in + (uint64_t)m * slice + at, n));
        CADRE_TRY(cadre_local_barrier(t->queue, t->op));
        for (int m = 0; m < size; m++)
            CADRE_TRY(put(t, (char *)t->op->out + (uint64_t)m * slice + at,
                          stage(t, m) + (uint64_t)rank * part, n));
    }
    return CADRE_OK;
}

cadre_status cadre_local_move_staged(struct local_queue *queue,
                                     const struct cadre_comm_op *op)
{
    struct turn t = {.queue = queue,
                     .c = queue->comm,
                     .op = op,
                     .element = cadre_dtype_bytes(op->dtype)};
    switch (op->kind) {
    case CADRE_COMM_ALL_REDUCE:
    case CADRE_COMM_REDUCE_SCATTER:
        return reduce(&t);
    case CADRE_COMM_ALL_GATHER:
        return gather(&t);
    case CADRE_COMM_BROADCAST:
        return broadcast(&t);
    case CADRE_COMM_ALL_TO_ALL:
        return exchange(&t);
    default:
        return CADRE_E_INTERNAL;
    }
}
