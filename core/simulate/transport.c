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

/* Not one whose representative's operation this is. */
static bool runs(struct sim_op *const *op, int member)
{
    return op[member]->comm->base.rank == member;
}

/* Is what the operation writes there at all? A device's memory is not. */
static bool arrives(const struct sim_world *world, const struct sim_op *op)
{
    const struct sim_rank *rank = &world->rank[op->comm->me->index];
    const uint64_t bytes = op->base.count * cadre_dtype_bytes(op->base.dtype);
    const void *out = op->base.out;
    return !(rank->memory && cadre_reserve_holds(rank->memory, out)) &&
           !(bytes > CADRE_SIMULATED_MOVED && rank->pinned &&
             cadre_reserve_holds(rank->pinned, out));
}

/* Where a member's result is to be written; NULL: nowhere. */
static char *target(const struct sim_world *world, struct sim_op *const *all,
                    int member)
{
    const struct sim_op *op = all[member];
    const bool wanted =
        runs(all, member) && cadre_comm_op_extent(&op->base, member, false) > 0;
    return wanted && arrives(world, op) ? op->base.out : NULL;
}

static bool any_target(const struct sim_world *world, struct sim_op *const *op, int n)
{
    for (int m = 0; m < n; m++)
        if (op[m]->comm && target(world, op, m))
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

/* Elements [at, at + count) of all that run, summed into `block`: 256 at a time. Those
 * that do not bring zeros, as every rank does to places of a table that are others'. */
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
            if (runs(r->op, m))
                r->source[k++] = (const char *)r->op[m]->base.in + at * r->element;
        cadre_reduce_block(block, r->source, k, count, dtype, red);
    }
}

/* What is there already, as zeros often are, is not written: that would commit it. */
static void put(char *to, const char *block, size_t bytes)
{
    if (memcmp(to, block, bytes) != 0)
        memcpy(to, block, bytes);
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
            char *to = target(r->world, r->op, m);
            const uint64_t place = slice < 0 ? at : at - begin;
            if (to)
                put(to + place * r->element, block, count * r->element);
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
            if (target(world, op, m))
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
        char *to = target(world, op, m);
        for (int s = 0; to && s < n; s++) {
            const struct cadre_comm_op *from = &op[s]->base;
            const uint64_t *offsets = from->offsets;
            const bool exchange = from->kind == CADRE_COMM_ALL_TO_ALL;
            const char *slice = from->in;
            const int by = op[s]->comm->base.rank; /* whose slice may be shorter */
            const uint64_t wanted = offsets[s + 1] - offsets[s],
                           there = offsets[by + 1] - offsets[by];
            if (exchange)
                slice += offsets[m] * element;
            memmove(to + offsets[s] * element, slice,
                    (wanted < there ? wanted : there) * element);
        }
    }
}

static void deliver_broadcast(const struct sim_world *world, struct sim_op *const *op,
                              int n)
{
    const struct cadre_comm_op *root = &op[op[0]->base.root]->base;
    const size_t bytes = root->count * cadre_dtype_bytes(root->dtype);
    for (int m = 0; m < n; m++) {
        char *to = target(world, op, m);
        if (to)
            memmove(to, root->in, bytes);
    }
}

bool cadre_sim_deliver(const struct sim_world *world, struct sim_op *const *op, int n)
{
    for (int m = 0; m < n; m++)
        if (!op[m]->comm) /* destroyed: whoever receives is gone too, or has failed */
            return true;
    if (op[0]->base.kind == CADRE_COMM_SEND) {
        if (arrives(world, op[1]))
            memmove(op[1]->base.out, op[0]->base.in,
                    op[0]->base.count * cadre_dtype_bytes(op[0]->base.dtype));
        return true;
    }
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
    default:
        return true;
    }
}

/* ---- splits ---- */

struct brought { /* by a member; color -1: it is in no group of one that runs */
    int color, key;
};
enum { SIBLINGS = CADRE_REPRESENTATIVES, PAIRS = SIBLINGS * (SIBLINGS - 1) / 2 };

/* A rank that does not run: where its siblings along a part of the mesh that do have
 * one color, it has it too, and a key between theirs, which ascend evenly; where each
 * has another one, it is in a group of which nobody runs. So it is for axes of the
 * mesh, which alone are made by splitting the world. False: neither is so. */
static bool along(const struct brought *of, const struct cadre_axis_factor *factor,
                  int rank, struct brought *mine)
{
    int at[SIBLINGS], same = 0;
    struct brought there[SIBLINGS];
    cadre_representatives_along(factor, at);
    for (int i = 0; i < SIBLINGS; i++) {
        there[i] = of[cadre_representatives_at(factor, rank, at[i])];
        for (int k = 0; k < i; k++)
            same += there[i].color == there[k].color;
    }
    if (same == 0 || there[0].color < 0) {
        mine->color = -1;
        return same == 0 || same == PAIRS;
    }
    const int step = there[1].key - there[0].key;
    for (int i = 2; i < SIBLINGS; i++)
        if (there[i].key != there[0].key + at[i] * step)
            return false;
    mine->key += (cadre_representatives_coordinate(factor, rank) - at[1]) * step;
    return same == PAIRS;
}

/* Of a rank of the world, which is divided, that does not run. */
static bool guess(struct sim_world *world, struct brought *of, int rank)
{
    const struct cadre_representatives *who = world->who;
    const int by = cadre_representative(who, rank);
    struct brought mine = of[by];
    for (int p = 0; p < who->n_thinned && mine.color >= 0; p++) {
        const struct cadre_axis_factor *factor = &who->thinned[p];
        const int at = cadre_representatives_coordinate(factor, rank);
        const int near = cadre_representatives_at(factor, by, at);
        if (cadre_representative(who, near) == near || along(of, factor, near, &mine))
            continue;
        world->unlike |= 1u << p;
        return false;
    }
    of[rank] = mine;
    return true;
}

/* False: the world has failed. */
static bool bring(struct sim_queue *queue, struct sim_op *const *op, struct brought *of)
{
    const struct cadre_representatives *who = queue->world->who;
    for (int m = 0; m < queue->size; m++)
        of[m] = (struct brought){op[m]->split->color, op[m]->split->key};
    if (!queue->by)
        return true;
    bool good = queue->size == who->ranks;
    for (int r = 0; good && r < who->ranks; r++)
        good = queue->by[r] == r || guess(queue->world, of, r);
    if (!good)
        cadre_sim_fail(queue->world, CADRE_E_UNSUPPORTED,
                       "simulated ranks are divided into groups that follow no axis, "
                       "so that none can represent others");
    return good;
}

/* Members of a color in order of (key, rank); returns how many. */
static int members_of(const struct brought *of, int n, int color, int *member)
{
    int found = 0;
    for (int m = 0; m < n; m++) {
        if (of[m].color != color)
            continue;
        int at = found++;
        for (; at > 0 && of[member[at - 1]].key > of[m].key; at--)
            member[at] = member[at - 1];
        member[at] = m;
    }
    return found;
}

/* The group of a member that runs, for all of its members. False: no memory. */
static bool make_group(struct sim_queue *queue, struct sim_op *const *op,
                       const struct brought *of, int color, int *member)
{
    const int size = members_of(of, queue->size, color, member);
    int *rank = member + queue->size;
    for (int i = 0; i < size; i++)
        rank[i] = queue->rank[member[i]];
    struct sim_group *group = cadre_sim_group_create(queue->world, rank, size);
    for (int i = 0; group && i < size; i++) {
        if (!runs(op, member[i]))
            continue;
        op[member[i]]->split->group = group;
        op[member[i]]->split->rank = i;
    }
    return group != NULL;
}

bool cadre_sim_divide(struct sim_queue *queue, struct sim_op *const *op)
{
    const size_t n = (size_t)queue->size;
    int *member = cadre_calloc(2 * n, sizeof *member);
    struct brought *of = cadre_calloc(n, sizeof *of);
    bool good = member && of && bring(queue, op, of);
    for (int m = 0; good && m < queue->size; m++)
        if (runs(op, m) && of[m].color >= 0 && !op[m]->split->group)
            good = make_group(queue, op, of, of[m].color, member);
    free(of);
    free(member);
    return good;
}
