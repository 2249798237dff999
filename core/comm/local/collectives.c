/* SPDX-License-Identifier: Apache-2.0 */
/* A collective: every member publishes its call, all wait at a barrier, compare the
 * calls, move data and wait at a second barrier. Nothing published is overwritten
 * before the second barrier, so a slot holds one call at a time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/comm/local/private.h"

static bool same_call(const struct shared_call *a, const struct shared_call *b)
{
    return a->kind == b->kind && a->dtype == b->dtype && a->red == b->red &&
           a->root == b->root && a->count == b->count &&
           a->offsets_hash == b->offsets_hash;
}

/* Among threads a member's data is read by another member's device, or by the host. */
static cadre_status check_memory(struct local_comm *c)
{
    static const char *const lie[] = {"nowhere", "in host memory", "in device memory"};
    const struct shared_slot *slots = c->group->slots;
    char text[192];
    for (int m = 1; c->me->direct && m < c->base.size; m++) {
        if (slots[m].call.memory == slots[0].call.memory)
            continue;
        cadre_local_call_text(&slots[m].call, text, sizeof text);
        return cadre_local_fail(
            c->me,
            "rank %d posted %s with buffers %s, rank %d with buffers %s; all ranks "
            "of a group must use the same memory",
            slots[m].world_rank, text, lie[slots[m].call.memory % 3],
            slots[0].world_rank, lie[slots[0].call.memory % 3]);
    }
    return CADRE_OK;
}

static cadre_status check_calls(struct local_comm *c)
{
    const struct shared_slot *slots = c->group->slots;
    char mine[192], theirs[192];
    for (int m = 1; m < c->base.size; m++) {
        if (same_call(&slots[0].call, &slots[m].call))
            continue;
        cadre_local_call_text(&slots[0].call, mine, sizeof mine);
        cadre_local_call_text(&slots[m].call, theirs, sizeof theirs);
        bool offsets = slots[0].call.kind == slots[m].call.kind &&
                       slots[0].call.offsets_hash != slots[m].call.offsets_hash;
        return cadre_local_fail(
            c->me,
            "collectives differ: rank %d posted %s, rank %d posted %s%s; all ranks of "
            "a group must post the same collectives in the same order",
            slots[0].world_rank, mine, slots[m].world_rank, theirs,
            offsets ? " with other slices" : "");
    }
    return check_memory(c);
}

static cadre_status move(struct local_queue *queue, const struct cadre_comm_op *op)
{
    struct local_comm *c = queue->comm;
    if (op->kind == CADRE_COMM_BARRIER)
        return CADRE_OK;
    if (op->kind == CADRE_COMM_SPLIT)
        return cadre_local_run_split(queue, op);
    if (!c->me->direct)
        return cadre_local_move_staged(queue, op);
    if (!cadre_local_copy_begin(c))
        return CADRE_E_ABORTED;
    cadre_status rc = cadre_local_move_direct(queue, op);
    cadre_local_copy_end(c);
    return rc;
}

cadre_status cadre_local_run_collective(struct local_queue *queue,
                                        const struct cadre_comm_op *op)
{
    struct local_comm *c = queue->comm;
    struct shared_group *g = c->group;
    cadre_status rc;
    cadre_local_call_fill(queue, op, &g->slots[c->base.rank].call);
    CADRE_TRY_OR(cadre_local_barrier(queue, op), fail);
    double began_s = cadre_now_s();
    uint64_t arrives = cadre_local_link_book(c, atomic_load(&g->last_ns), op);
    CADRE_TRY_OR(check_calls(c), fail);
    CADRE_TRY_OR(move(queue, op), fail);
    CADRE_TRY_OR(cadre_local_barrier(queue, op), fail);
    CADRE_TRY_OR(cadre_local_sleep_until(queue, arrives), fail);
    cadre_local_note_done(c->me, op);
    cadre_comm_account(&c->base, op, began_s);
    return CADRE_OK;
fail:
    cadre_local_drain(c);
    return rc;
}
