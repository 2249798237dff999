/* SPDX-License-Identifier: Apache-2.0 */
/* What operations deliver. */
#include <stdlib.h>
#include <string.h>

#include "core/check/rehearsal/operations.h"

const char *play_operation_name(enum operation_kind kind)
{
    static const char *const names[] = {
        [ALL_REDUCE] = "all_reduce",
        [REDUCE_SCATTER] = "reduce_scatter",
        [ALL_GATHER] = "all_gather",
        [BROADCAST] = "broadcast",
        [ALL_TO_ALL] = "all_to_all",
        [ALL_TO_ALL_V] = "all_to_all_v",
        [BARRIER] = "barrier",
        [SEND] = "send",
        [RECV] = "recv",
    };
    return names[kind];
}

uint64_t play_operation_sends(const struct operation *op, int ranks, int rank)
{
    uint64_t others = (uint64_t)ranks - 1, n = (uint64_t)ranks;
    uint64_t in = play_buf_bytes(&op->in);
    switch (op->kind) {
    case ALL_REDUCE:
        return 2 * others * in / n;
    case REDUCE_SCATTER:
    case ALL_TO_ALL:
        return others * in / n;
    case ALL_GATHER:
        return others * in;
    case BROADCAST:
        return op->peer == rank ? others * in : 0;
    case ALL_TO_ALL_V:
    case SEND:
        return in;
    default:
        return 0;
    }
}

static uint64_t element_bytes(uint32_t dtype)
{
    const struct cadre_buf one = {NULL, 1, dtype, 0};
    return play_buf_bytes(&one);
}

/* ---- reductions ---- */

static bool can_reduce(uint32_t dtype)
{
    return dtype == CADRE_F32 || dtype == CADRE_F64;
}

/* A float's sum is taken in fp64 and rounded once: whole numbers are exact. */
static void reduce(const struct operation *op, struct operation *const *all, int ranks,
                   uint64_t begin, uint64_t count)
{
    for (uint64_t k = 0; k < count; k++) {
        double sum = play_get_value(op->in.dtype, all[0]->before, begin + k);
        for (int r = 1; r < ranks; r++) {
            double x = play_get_value(op->in.dtype, all[r]->before, begin + k);
            sum = op->red == CADRE_MAX ? (x > sum ? x : sum) : sum + x;
        }
        play_put_value(op->out.dtype, op->result, k, sum);
    }
}

/* ---- copies ---- */

static void gather(const struct operation *op, struct operation *const *all, int ranks)
{
    uint64_t size = element_bytes(op->out.dtype);
    for (int r = 0; r < ranks; r++)
        memcpy(op->result + op->offsets[r] * size, all[r]->before,
               (op->offsets[r + 1] - op->offsets[r]) * size);
}

static void exchange(const struct operation *op, struct operation *const *all,
                     int ranks, int rank)
{
    uint64_t slice = play_buf_bytes(&op->in) / (uint64_t)ranks;
    for (int r = 0; r < ranks; r++)
        memcpy(op->result + (uint64_t)r * slice,
               all[r]->before + (uint64_t)rank * slice, slice);
}

static cadre_status exchange_v(struct cadre_player *p, const struct operation *op,
                               struct operation *const *all)
{
    uint64_t size = element_bytes(op->out.dtype);
    for (int r = 0; r < p->all->ranks; r++) {
        const uint64_t *theirs = all[r]->in_offsets + p->rank;
        uint64_t count = op->offsets[r + 1] - op->offsets[r];
        if (theirs[1] - theirs[0] != count)
            return play_refuse(
                p, CADRE_RULE_ORDER,
                "all_to_all_v '%s': rank %d sends %llu elements here, this "
                "rank expects %llu",
                op->label, r, (unsigned long long)(theirs[1] - theirs[0]),
                (unsigned long long)count);
        memcpy(op->result + op->offsets[r] * size, all[r]->before + theirs[0] * size,
               count * size);
    }
    return CADRE_OK;
}

static cadre_status compute(struct cadre_player *p, struct operation *op,
                            struct operation *const *all)
{
    int ranks = p->all->ranks;
    switch (op->kind) {
    case ALL_REDUCE:
        reduce(op, all, ranks, 0, op->in.count);
        return CADRE_OK;
    case REDUCE_SCATTER:
        reduce(op, all, ranks, op->offsets[p->rank], op->out.count);
        return CADRE_OK;
    case ALL_GATHER:
        gather(op, all, ranks);
        return CADRE_OK;
    case BROADCAST:
        memcpy(op->result, all[op->peer]->before, play_buf_bytes(&op->out));
        return CADRE_OK;
    case ALL_TO_ALL:
        exchange(op, all, ranks, p->rank);
        return CADRE_OK;
    case ALL_TO_ALL_V:
        return exchange_v(p, op, all);
    case RECV:
        memcpy(op->result, all[op->peer]->before, play_buf_bytes(&op->out));
        return CADRE_OK;
    default:
        return CADRE_OK;
    }
}

cadre_status play_compute_operation(struct cadre_player *p, struct operation *op,
                                    struct operation *const *all)
{
    if ((op->kind == ALL_REDUCE || op->kind == REDUCE_SCATTER) &&
        !can_reduce(op->in.dtype))
        return play_beyond(p, "sums of 16-bit and whole numbers");
    op->result = malloc(play_buf_bytes(&op->out) + 1);
    if (!op->result)
        return CADRE_E_RESOURCE;
    CADRE_TRY(compute(p, op, all));
    op->computed = true;
    return CADRE_OK;
}
