/* SPDX-License-Identifier: Apache-2.0 */
/* Split runs as a collective of the parent: colors and keys are in the slots; the first
 * member of each color makes the group; all wait at a barrier before they read its
 * offset. */
#include "core/comm/local/private.h"

/* Members of my color in order of (key, rank); returns how many. */
static int members_of(const struct local_comm *c, int64_t color, int *members)
{
    const struct shared_slot *slots = c->group->slots;
    int n = 0;
    for (int m = 0; m < c->base.size; m++) {
        if (slots[m].call.color != color)
            continue;
        int at = n++;
        for (; at > 0 && slots[members[at - 1]].call.key > slots[m].call.key; at--)
            members[at] = members[at - 1];
        members[at] = m;
    }
    return n;
}

cadre_status cadre_local_run_split(struct local_queue *queue,
                                   const struct cadre_comm_op *op)
{
    struct local_comm *c = queue->comm;
    struct local_split *split = op->out;
    struct shared_slot *slots = c->group->slots;
    struct shared_call *mine = &slots[c->base.rank].call;
    int members[LOCAL_MAX_RANKS];
    int n = split->color < 0 ? 0 : members_of(c, split->color, members);
    if (n > 0 && members[0] == c->base.rank) {
        struct shared_group *g =
            cadre_local_group_create(c->me->segment, n, &mine->group);
        if (!g)
            return cadre_local_fail(
                c->me, "rank %d: no room for another communicator of %d ranks",
                c->me->context.rank, n);
        for (int i = 0; i < n; i++)
            g->slots[i].world_rank = slots[members[i]].world_rank;
    }
    cadre_status rc = cadre_local_barrier(queue, op);
    if (rc != CADRE_OK || n == 0)
        return rc;
    split->group = slots[members[0]].call.group;
    if (!cadre_local_group_fits(c->me->segment, split->group))
        return cadre_local_fail(
            c->me,
            "rank %d: the shared memory of the ranks is damaged: a communicator "
            "of %d ranks at offset %llu; a plugin may have written there",
            c->me->context.rank, n, (unsigned long long)split->group);
    for (int i = 0; i < n; i++)
        if (members[i] == c->base.rank)
            split->rank = i;
    return CADRE_OK;
}
