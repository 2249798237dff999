/* SPDX-License-Identifier: Apache-2.0 */
/* What operations of simulated ranks really do: values move into buffers of the host,
 * and a split makes groups. */
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/comm/reduce.h"
#include "core/simulate/simulated_world_private.h"
#include "core/tensor/dtype.h"

enum { MOST_SOURCES = 256 }; /* of cadre_reduce_block */

/* Where a member's result is to be written; NULL: nowhere. */
static char *target(const struct sim_world *world, const struct sim_op *op, int member)
{
    const struct sim_rank *rank = &world->rank[op->comm->me->index];
    const uint64_t bytes = op->base.count * cadre_dtype_bytes(op->base.dtype);
    if (cadre_comm_op_extent(&op->base, member, false) == 0 ||
        (rank->memory && cadre_reserve_holds(rank->memory, op->base.out)) ||
        (bytes > CADRE_SIMULATED_MOVED && rank->pinned &&
         cadre_reserve_holds(rank->pinned, op->base.out)))
        return NULL;
    return op->base.out;
}

static bool any_target(const struct sim_world *world, struct sim_op *const *op, int n)
{
    for (int m = 0; m < n; m++)
        if (op[m]->comm && target(world, op[m], op[m]->comm->base.rank))
            return true;
    return false;
}

/* ---- reductions ---- */

struct reduction {
    const struct sim_world *world;
    struct sim_op *const *op;
    int n;
    size_t element;
    const void **source; /* (n + 1) */
};

/* Elements [at, at + count) of all, summed into `block`: 256 at a time. */
static void reduce(const struct reduction *r, char *block, uint64_t at, uint64_t count)
{
    static const size_t most = CADRE_REDUCE_BLOCK_BYTES;
    const uint32_t dtype = r->op[0]->base.dtype, red = r->op[0]->base.red;
    char sum[CADRE_REDUCE_BLOCK_BYTES];
    for (int m = 0; m < r->n;) {
        int k = 0;
        if (m > 0) {
            memcpy(sum, block, count * r->element < most ? count * r->element : most);
            r->source[k++] = sum;
        }
        for (; k < MOST_SOURCES && m < r->n; m++)
            r->source[k++] = (const char *)r->op[m]->base.in + at * r->element;
        cadre_reduce_block(block, r->source, k, count, dtype, red);
    }
}

/* [begin, end) of the vector to those targets that want it; `slice`: of whose slice it
 * is, -1: all take it at its place. */
static void reduce_range(const struct reduction *r, uint64_t begin, uint64_t end,
                         int slice)
{
    char block[CADRE_REDUCE_BLOCK_BYTES];
    const uint64_t most = CADRE_REDUCE_BLOCK_BYTES / r->element;
    for (uint64_t at = begin; at < end; at += most) {
        const uint64_t count = end - at < most ? end - at : most;
        reduce(r, block, at, count);
        for (int m = slice < 0 ? 0 : slice; m < (slice < 0 ? r->n : slice + 1); m++) {
            char *to = target(r->world, r->op[m], m);
            const uint64_t place = slice < 0 ? at : at - begin;
            if (to)
                memcpy(to + place * r->element, block, count * r->element);
        }
    }
}

static bool deliver_reduced(const struct sim_world *world, struct sim_op *const *op,
                            int n)
{
    struct reduction r = {
        .world = world,
        .op = op,
        .n = n,
        .element = cadre_dtype_bytes(op[0]->base.dtype),
        .source = cadre_calloc((size_t)n + 1, sizeof *r.source),
    };
    if (!r.source)
        return false;
    if (op[0]->base.kind == CADRE_COMM_ALL_REDUCE)
        reduce_range(&r, 0, op[0]->base.count, -1);
    else
        for (int m = 0; m < n; m++)
            if (target(world, op[m], m))
                reduce_range(&r, op[m]->base.offsets[m], op[m]->base.offsets[m + 1], m);
    free(r.source);
    return true;
}

/* ---- copies ---- */

static void deliver_copies(const struct sim_world *world, struct sim_op *const *op,
                           int n)
{
    const size_t element = cadre_dtype_bytes(op[0]->base.dtype);
    for (int m = 0; m < n; m++) {
        char *to = target(world, op[m], m);
        for (int s = 0; to && s < n; s++) {
            const struct cadre_comm_op *from = &op[s]->base;
            const uint64_t *offsets = from->offsets;
            const bool exchange = from->kind == CADRE_COMM_ALL_TO_ALL;
            const char *slice = from->in;
            if (exchange)
                slice += offsets[m] * element;
            memmove(to + offsets[s] * element, slice,
                    (offsets[s + 1] - offsets[s]) * element);
        }
    }
}

static void deliver_broadcast(const struct sim_world *world, struct sim_op *const *op,
                              int n)
{
    const struct cadre_comm_op *root = &op[op[0]->base.root]->base;
    const size_t bytes = root->count * cadre_dtype_bytes(root->dtype);
    for (int m = 0; m < n; m++) {
        char *to = target(world, op[m], m);
        if (to)
            memmove(to, root->in, bytes);
    }
}

bool cadre_sim_deliver(const struct sim_world *world, struct sim_op *const *op, int n)
{
    for (int m = 0; m < n; m++)
        if (!op[m]->comm) /* destroyed: whoever receives is gone too, or has failed */
            return true;
    if (!any_target(world, op, n))
        return true;
    switch (op[0]->base.kind) {
    case CADRE_COMM_ALL_REDUCE:
    case CADRE_COMM_REDUCE_SCATTER:
        return deliver_reduced(world, op, n);
    case CADRE_COMM_ALL_GATHER:
    case CADRE_COMM_ALL_TO_ALL:
        deliver_copies(world, op, n);
        return true;
    case CADRE_COMM_BROADCAST:
        deliver_broadcast(world, op, n);
        return true;
    case CADRE_COMM_SEND:
        memmove(op[1]->base.out, op[0]->base.in,
                op[0]->base.count * cadre_dtype_bytes(op[0]->base.dtype));
        return true;
    default:
        return true;
    }
}

/* ---- splits ---- */

/* Members of a color in order of (key, rank); returns how many. */
static int members_of(struct sim_op *const *op, int n, int color, int *member)
{
    int found = 0;
    for (int m = 0; m < n; m++) {
        if (op[m]->split->color != color)
            continue;
        int at = found++;
        for (; at > 0 && op[member[at - 1]]->split->key > op[m]->split->key; at--)
            member[at] = member[at - 1];
        member[at] = m;
    }
    return found;
}

bool cadre_sim_divide(struct sim_world *world, struct sim_op *const *op, int n)
{
    int *member = cadre_calloc(2 * (size_t)n, sizeof *member);
    int *rank = member + n;
    bool good = member != NULL;
    for (int m = 0; good && m < n; m++) {
        const int color = op[m]->split->color;
        if (color < 0 || op[m]->split->group)
            continue;
        const int size = members_of(op, n, color, member);
        for (int i = 0; i < size; i++)
            rank[i] = op[member[i]]->comm->me->index;
        struct sim_group *group = cadre_sim_group_create(world, rank, size);
        good = group != NULL;
        for (int i = 0; good && i < size; i++) {
            op[member[i]]->split->group = group;
            op[member[i]]->split->rank = i;
        }
    }
    free(member);
    return good;
}
