/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of simulated ranks that meet: when each begins and ends. */
#include <math.h>
#include <stdlib.h>

#include "core/base/memory.h"
#include "core/simulate/link_cost.h"
#include "core/simulate/simulated_world_private.h"

/* ---- queues and groups ---- */

/* Who runs for whom. */
static bool find_by(struct sim_queue *queue)
{
    struct sim_world *world = queue->world;
    int *member = cadre_calloc((size_t)world->who->ranks, sizeof *member);
    queue->by = cadre_calloc((size_t)queue->size, sizeof *queue->by);
    const bool good = member && queue->by;
    for (int m = 0; good && m < queue->size; m++)
        member[queue->rank[m]] = m + 1;
    for (int m = 0; good && m < queue->size; m++) {
        const int by = cadre_representative(world->who, queue->rank[m]);
        queue->by[m] = member[by] - 1;
        if (queue->by[m] < 0) {
            queue->by[m] = m;
            world->unlike |= cadre_representatives_parts(world->who, queue->rank[m]);
            cadre_sim_fail(world, CADRE_E_UNSUPPORTED,
                           "a group has simulated rank %d and not rank %d, which "
                           "represents it",
                           queue->rank[m], by);
        }
    }
    free(member);
    return good;
}

static bool queue_init(struct sim_queue *queue, struct sim_world *world,
                       const int *rank, int size)
{
    *queue = (struct sim_queue){.world = world, .size = size, .first = 1};
    queue->rank = cadre_calloc((size_t)size, sizeof *queue->rank);
    queue->posted = cadre_calloc((size_t)size, sizeof *queue->posted);
    if (!queue->rank || !queue->posted)
        return false;
    for (int m = 0; m < size; m++) {
        queue->rank[m] = rank[m];
        queue->run += cadre_representative(world->who, rank[m]) == rank[m];
    }
    return queue->run == size || find_by(queue);
}

static void queue_fini(struct sim_queue *queue)
{
    while (queue->head) {
        struct sim_slot *slot = queue->head;
        queue->head = slot->next;
        for (int m = 0; m < queue->size; m++)
            free(slot->op[m]);
        free(slot);
    }
    free(queue->rank);
    free(queue->posted);
    free(queue->by);
}

struct sim_group *cadre_sim_group_create(struct sim_world *world, const int *rank,
                                         int size)
{
    struct sim_group *group = calloc(1, sizeof *group);
    if (!group)
        return NULL;
    group->size = size;
    if (!queue_init(&group->all, world, rank, size)) {
        cadre_sim_group_destroy(group);
        return NULL;
    }
    group->number = world->n_groups++;
    group->next = world->groups;
    world->groups = group;
    return group;
}

void cadre_sim_group_destroy(struct sim_group *group)
{
    while (group->pairs) {
        struct sim_queue *pair = group->pairs;
        group->pairs = pair->next;
        queue_fini(pair);
        free(pair);
    }
    queue_fini(&group->all);
    free(group);
}

static void queue_forget(struct sim_queue *queue, const struct sim_comm *comm)
{
    for (struct sim_slot *slot = queue->head; slot; slot = slot->next)
        for (int m = 0; m < queue->size; m++)
            if (slot->op[m] && slot->op[m]->comm == comm)
                slot->op[m]->comm = NULL;
}

void cadre_sim_group_forget(struct sim_group *group, const struct sim_comm *comm)
{
    queue_forget(&group->all, comm);
    for (struct sim_queue *pair = group->pairs; pair; pair = pair->next)
        queue_forget(pair, comm);
}

static struct sim_queue *pair_of(struct sim_group *group, int from, int to)
{
    struct sim_queue *pair = group->pairs;
    while (pair && (pair->from != from || pair->to != to))
        pair = pair->next;
    if (pair)
        return pair;
    const int rank[2] = {group->all.rank[from], group->all.rank[to]};
    pair = malloc(sizeof *pair);
    if (!pair || !queue_init(pair, group->all.world, rank, 2)) {
        if (pair)
            queue_fini(pair);
        free(pair);
        return NULL;
    }
    pair->from = from;
    pair->to = to;
    pair->next = group->pairs;
    group->pairs = pair;
    return pair;
}

/* ---- one operation ---- */

static bool alike(const struct cadre_comm_op *a, const struct cadre_comm_op *b,
                  bool pair)
{
    if (a->dtype != b->dtype || a->count != b->count)
        return false;
    if (pair)
        return true;
    bool same = a->kind == b->kind && a->red == b->red && a->root == b->root;
    return same;
}

/* False: they differ, and the world has failed. */
static bool compare(struct sim_queue *queue, struct sim_op *const *op)
{
    char first[CADRE_SIM_TEXT], other[CADRE_SIM_TEXT];
    const bool pair = op[0]->base.kind == CADRE_COMM_SEND;
    for (int m = 1; m < queue->size; m++) {
        if (!op[m] || alike(&op[0]->base, &op[m]->base, pair))
            continue;
        cadre_sim_fail(queue->world, CADRE_E_COMM,
                       "simulated ranks differ: rank %d posts %s, rank %d posts %s",
                       queue->rank[0], cadre_sim_text(op[0], first), queue->rank[m],
                       cadre_sim_text(op[m], other));
        return false;
    }
    return true;
}

/* When the operation's rank lets it begin; NaN: not known yet. */
static double ready_s(const struct sim_rank *rank, const struct sim_op *op)
{
    const struct sim_event *after = cadre_sim_event(rank, op->base.after);
    if (!after)
        return op->base.posted_s;
    return isnan(after->ended_s) ? (double)NAN
                                 : fmax(op->base.posted_s, after->ended_s);
}

static double begin_s(const struct sim_queue *queue, const struct sim_slot *slot)
{
    double begin = queue->ended_s;
    for (int m = 0; m < queue->size; m++) {
        if (!slot->op[m])
            continue;
        const double ready = ready_s(&queue->world->rank[queue->rank[m]], slot->op[m]);
        if (isnan(ready))
            return ready;
        begin = fmax(begin, ready);
    }
    return begin;
}

/* Into the rank's list, by its end, and behind those that end with it. */
static void end_op(struct sim_world *world, int r, struct sim_op *op)
{
    struct sim_rank *rank = &world->rank[r];
    struct sim_op **at = &rank->ended;
    struct sim_event *event = cadre_sim_event(rank, op->event);
    event->ended_s = op->ended_s;
    event->op = NULL;
    cadre_step_graph_ended(rank->graph, event->node, op->began_s, op->ended_s);
    if (rank->awaited == op->event)
        cadre_turns_wake(world->turns, rank->turn, op->ended_s);
    if (!op->comm) {
        free(op);
        return;
    }
    while (*at && (*at)->ended_s <= op->ended_s)
        at = &(*at)->next;
    op->next = *at;
    *at = op;
}

/* Between the ranks, and for those that do not run what their representatives bring.
 * False: no memory. */
static bool move(struct sim_queue *queue, const struct sim_slot *slot)
{
    struct sim_world *world = queue->world;
    const bool divides = slot->op[0]->base.kind == CADRE_COMM_SPLIT;
    struct sim_op **all = NULL;
    struct sim_op *const *op = slot->op;
    if (queue->by) {
        all = cadre_calloc((size_t)queue->size, sizeof(struct sim_op *));
        for (int m = 0; all && m < queue->size; m++)
            all[m] = slot->op[queue->by[m]];
        op = all;
    }
    const bool moved = op && (divides ? cadre_sim_divide(queue, op)
                                      : cadre_sim_deliver(world, op, queue->size));
    free(all);
    return moved;
}

/* The head, which all have posted, from `begin` on. */
static bool carry_out(struct sim_queue *queue, double begin)
{
    struct sim_world *world = queue->world;
    struct sim_slot *slot = queue->head;
    struct sim_op *const *op = slot->op;
    if (!compare(queue, op))
        return false;
    if (!move(queue, slot)) {
        cadre_sim_fail(world, CADRE_E_RESOURCE, "no memory for a simulated operation");
        return false;
    }
    queue->ended_s =
        begin + cadre_link_cost(world->hw, &op[0]->base, queue->rank, queue->size);
    for (int m = 0; m < queue->size; m++) {
        if (!op[m])
            continue;
        op[m]->began_s = begin;
        op[m]->ended_s = queue->ended_s;
        end_op(world, queue->rank[m], op[m]);
    }
    queue->head = slot->next;
    queue->first++;
    free(slot);
    return true;
}

/* True where an operation was carried out. */
static bool advance(struct sim_queue *queue)
{
    struct sim_world *world = queue->world;
    bool any = false;
    while (queue->head && queue->head->posted == queue->run &&
           !cadre_failure_is_set(&world->failure)) {
        const double begin = begin_s(queue, queue->head);
        if (isnan(begin)) {
            if (!queue->stalled) {
                queue->next_stalled = world->stalled;
                world->stalled = queue;
                queue->stalled = true;
            }
            return any;
        }
        if (!carry_out(queue, begin))
            return any;
        any = true;
    }
    return any;
}

/* Those that waited for what has ended now, until nothing more ends. */
static void advance_stalled(struct sim_world *world)
{
    bool any = true;
    while (any) {
        struct sim_queue *queue = world->stalled;
        any = false;
        world->stalled = NULL;
        while (queue) {
            struct sim_queue *next = queue->next_stalled;
            queue->stalled = false;
            any |= advance(queue);
            queue = next;
        }
    }
}

/* ---- posting ---- */

static struct sim_slot *slot_of(struct sim_queue *queue, uint64_t sequence)
{
    struct sim_slot **at = &queue->head;
    for (uint64_t s = queue->first; s < sequence && *at; s++)
        at = &(*at)->next;
    if (!*at)
        *at = calloc(1, sizeof **at + (size_t)queue->size * sizeof(struct sim_op *));
    return *at;
}

static void take_back(struct sim_op *op)
{
    op->comm->me->n_events--; /* it was the last */
    free(op);
}

/* True where the peer of a message does not run: the world has failed, op is gone. */
static bool refused(const struct sim_group *group, struct sim_op *op)
{
    const int peer = op->base.root;
    struct sim_world *world = group->all.world;
    if (!group->all.by || group->all.by[peer] == peer)
        return false;
    world->unlike |= cadre_representatives_parts(world->who, group->all.rank[peer]);
    cadre_sim_fail(world, CADRE_E_UNSUPPORTED,
                   "simulated rank %d and rank %d, which another rank represents, have "
                   "a message",
                   op->comm->me->index, group->all.rank[peer]);
    take_back(op);
    return true;
}

cadre_status cadre_sim_post(struct sim_group *group, struct sim_op *op)
{
    const bool send = op->base.kind == CADRE_COMM_SEND;
    const bool receive = op->base.kind == CADRE_COMM_RECV;
    const int self = op->comm->base.rank, peer = op->base.root;
    if ((send || receive) && refused(group, op))
        return CADRE_E_ABORTED;
    struct sim_queue *queue = send      ? pair_of(group, self, peer)
                              : receive ? pair_of(group, peer, self)
                                        : &group->all;
    const int member = send ? 0 : receive ? 1 : self;
    struct sim_slot *slot = queue ? slot_of(queue, queue->posted[member] + 1) : NULL;
    if (!slot) {
        take_back(op);
        return CADRE_E_RESOURCE;
    }
    op->base.sequence = ++queue->posted[member];
    slot->op[member] = op;
    slot->posted++;
    if (advance(queue))
        advance_stalled(queue->world);
    return CADRE_OK;
}
