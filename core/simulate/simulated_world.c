/* SPDX-License-Identifier: Apache-2.0 */
/* A simulated world: opening, waiting, counting, splitting. */
#include "core/simulate/simulated_world.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/clock.h"
#include "core/base/memory.h"
#include "core/simulate/simulated_world_private.h"
#include "core/tensor/dtype.h"

#define POLL_S 1e-6 /* what a look takes at least that finds nothing */
enum { MOST_POLLS = 100000 }; /* while no rank posts anything */

struct cadre_simulated_world {
    struct sim_world world;
};

static struct sim_comm *of(const struct cadre_comm *comm)
{
    return (struct sim_comm *)(uintptr_t)comm;
}

static double now_of(const struct sim_rank *rank)
{
    return *cadre_turns_clock(rank->world->turns, rank->turn);
}

/* ---- failures ---- */

const char *cadre_sim_text(const struct sim_op *op, char out[CADRE_SIM_TEXT])
{
    snprintf(out, CADRE_SIM_TEXT, "%s #%llu '%.64s' (%s, %llu elements)",
             cadre_comm_kind_name(op->base.kind), (unsigned long long)op->base.sequence,
             cadre_comm_op_label(&op->base), cadre_dtype_name(op->base.dtype),
             (unsigned long long)op->base.count);
    return out;
}

void cadre_sim_fail(struct sim_world *world, cadre_status code, const char *fmt, ...)
{
    char why[sizeof world->failure.text];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    cadre_failure_set(&world->failure, code, why);
    for (int t = 0; t < world->who->n; t++)
        cadre_turns_wake(world->turns, t, 0);
}

/* All ranks wait for each other, this one for `event`. */
static void fail_circle(struct sim_rank *rank, const struct sim_event *event)
{
    char text[CADRE_SIM_TEXT];
    cadre_sim_fail(rank->world, CADRE_E_COMM,
                   "simulated rank %d waits for %s in step %llu, and no other rank can "
                   "go on: one of them has not posted the same",
                   rank->index, cadre_sim_text(event->op, text),
                   (unsigned long long)atomic_load(&rank->step));
}

/* ---- counting ---- */

/* Told at the moment of its end. */
static void count_op(struct sim_rank *rank, struct sim_op *op)
{
    const double now_s = now_of(rank);
    cadre_turns_set(rank->world->turns, rank->turn, op->ended_s);
    if (op->comm)
        cadre_comm_account(&op->comm->base, &op->base, op->began_s);
    cadre_turns_set(rank->world->turns, rank->turn, now_s);
    free(op);
}

static void progress(const struct cadre_comm *comm)
{
    struct sim_rank *rank = of(comm)->me;
    while (rank->ended && rank->ended->ended_s <= now_of(rank)) {
        struct sim_op *op = rank->ended;
        rank->ended = op->next;
        count_op(rank, op);
    }
}

/* ---- posting and waiting ---- */

struct sim_event *cadre_sim_event(const struct sim_rank *rank, cadre_event event)
{
    return event > 0 && event <= rank->n_events ? &rank->event[event - 1] : NULL;
}

static bool add_event(struct sim_rank *rank, struct sim_op *op)
{
    if (rank->n_events == rank->room) {
        const size_t room = rank->room ? 2 * rank->room : 256;
        struct sim_event *grown = cadre_realloc(rank->event, room, sizeof *rank->event);
        if (!grown)
            return false;
        rank->event = grown;
        rank->room = room;
    }
    rank->event[rank->n_events++] = (struct sim_event){(double)NAN, op, 0};
    op->event = rank->n_events;
    return true;
}

static void note_post(struct sim_comm *c, const struct sim_op *op)
{
    const struct sim_event *after = cadre_sim_event(c->me, op->base.after);
    const struct cadre_step_place place = {
        .group = c->group->number,
        .size = c->group->size,
        .peer = c->group->all.rank[op->base.root],
        .after = after ? after->node : 0,
    };
    cadre_sim_event(c->me, op->event)->node =
        cadre_step_graph_post(c->me->graph, &op->base, &place);
}

static void hash_post(struct sim_comm *c, const struct cadre_comm_op *op)
{
    const uint64_t what[] = {(uint64_t)op->kind,
                             op->count,
                             op->dtype,
                             op->red,
                             (uint64_t)op->root,
                             op->after,
                             (uint64_t)c->group->size};
    cadre_hash_update(&c->me->posted, what, sizeof what);
}

/* The rank knows now that the event has happened. */
static void note_wait(const struct sim_rank *rank, cadre_event event)
{
    cadre_step_graph_wait(rank->graph, cadre_sim_event(rank, event)->node,
                          now_of(rank));
}

static cadre_status enqueue(struct cadre_comm *comm, struct cadre_comm_op *base,
                            cadre_event *done)
{
    struct sim_comm *c = of(comm);
    struct sim_op *op = (struct sim_op *)base;
    const cadre_event after = base->after;
    cadre_status rc = CADRE_OK;
    op->comm = c;
    if (cadre_failure_is_set(&c->me->world->failure))
        rc = CADRE_E_ABORTED;
    else if (after != 0 && !cadre_sim_event(c->me, after))
        rc = cadre_comm_refuse(comm, base, CADRE_E_INVALID,
                               "it comes after an event that was never posted");
    else if (!add_event(c->me, op))
        rc = CADRE_E_RESOURCE;
    if (rc != CADRE_OK) {
        free(op);
        return rc;
    }
    note_post(c, op);
    hash_post(c, base);
    const cadre_event event = op->event;
    const uint64_t bytes = base->bytes, between = base->between_bytes;
    CADRE_TRY(cadre_sim_post(c->group, op)); /* it may have ended, and be gone */
    c->me->world->polls = 0;
    c->me->sent += bytes;
    c->me->between += between;
    if (done)
        *done = event;
    return CADRE_OK;
}

static cadre_status wait_for(struct cadre_comm *comm, cadre_event event)
{
    struct sim_rank *rank = of(comm)->me;
    struct sim_world *world = rank->world;
    if (!cadre_sim_event(rank, event))
        return CADRE_E_INVALID;
    rank->awaited = event;
    while (isnan(cadre_sim_event(rank, event)->ended_s) &&
           !cadre_failure_is_set(&world->failure))
        if (!cadre_turns_wait(world->turns, rank->turn))
            fail_circle(rank, cadre_sim_event(rank, event));
    rank->awaited = 0;
    const double ended_s = cadre_sim_event(rank, event)->ended_s;
    if (isnan(ended_s))
        return CADRE_E_ABORTED;
    if (ended_s > now_of(rank))
        cadre_turns_set(world->turns, rank->turn, ended_s);
    note_wait(rank, event);
    return CADRE_OK;
}

static bool has_happened(const struct sim_rank *rank, cadre_event event)
{
    return cadre_sim_event(rank, event)->ended_s <= now_of(rank);
}

/* The longer it was looked for, the longer a look takes: a hundredth of that. */
static double look_s(struct sim_rank *rank, cadre_event event)
{
    const double now_s = now_of(rank);
    if (rank->polled != event) {
        rank->polled = event;
        rank->polled_s = now_s;
    }
    return fmax(POLL_S, 0.01 * (now_s - rank->polled_s));
}

/* Ranks that are behind may still make it happen before now. */
static cadre_status look(struct cadre_comm *comm, cadre_event event, bool *happened)
{
    struct sim_rank *rank = of(comm)->me;
    struct sim_world *world = rank->world;
    if (!cadre_sim_event(rank, event))
        return CADRE_E_INVALID;
    if (!has_happened(rank, event))
        cadre_turns_yield(world->turns, rank->turn);
    *happened = has_happened(rank, event);
    if (*happened) {
        note_wait(rank, event);
        return CADRE_OK;
    }
    if (!cadre_failure_is_set(&world->failure) &&
        isnan(cadre_sim_event(rank, event)->ended_s) && ++world->polls > MOST_POLLS)
        fail_circle(rank, cadre_sim_event(rank, event));
    cadre_turns_spend(world->turns, rank->turn, look_s(rank, event));
    return cadre_failure_is_set(&world->failure) ? CADRE_E_ABORTED : CADRE_OK;
}

/* Its ops have ended when they return: no buffer is a queued device's. */
static cadre_status use_device(struct cadre_comm *comm, struct cadre_device *device,
                               struct cadre_error *err)
{
    (void)comm;
    (void)device;
    (void)err;
    return CADRE_OK;
}

static void stop_all(struct cadre_comm *comm, const char *why)
{
    cadre_sim_fail(of(comm)->me->world, CADRE_E_ABORTED, "%s", why);
}

/* ---- groups ---- */

static const struct cadre_comm_backend backend;

static struct sim_comm *make_comm(struct sim_rank *me, struct sim_group *group,
                                  int rank)
{
    struct sim_comm *comm = calloc(1, sizeof *comm);
    if (!comm)
        return NULL;
    comm->base.backend = &backend;
    comm->base.context = &me->context;
    comm->base.rank = rank;
    comm->base.size = group->size;
    comm->base.represented = group->all.by != NULL;
    comm->me = me;
    comm->group = group;
    return comm;
}

/* A member that does not run cannot tell on which node it is. */
static bool set_nodes(struct sim_comm *comm)
{
    const int *of = comm->me->comm->base.node;
    const struct sim_queue *all = &comm->group->all;
    if (!of || !all->by)
        return true;
    comm->base.node = cadre_calloc((size_t)all->size, sizeof *comm->base.node);
    for (int m = 0; comm->base.node && m < all->size; m++)
        comm->base.node[m] = of[all->rank[m]];
    return comm->base.node != NULL;
}

static cadre_status split(struct cadre_comm *comm, int color, int key,
                          struct cadre_comm **out, struct cadre_error *err)
{
    struct sim_comm *c = of(comm);
    struct sim_split mine = {.color = color, .key = key};
    const struct cadre_comm_op from = {
        .kind = CADRE_COMM_SPLIT, .label = "split", .dtype = CADRE_U8};
    cadre_event done = 0;
    struct sim_op *op = (struct sim_op *)cadre_comm_op_create(comm, &from);
    cadre_status rc = op ? CADRE_OK : CADRE_E_RESOURCE;
    if (op)
        op->split = &mine;
    if (rc == CADRE_OK)
        rc = enqueue(comm, &op->base, &done);
    if (rc == CADRE_OK)
        rc = wait_for(comm, done);
    progress(comm);
    if (rc == CADRE_OK && mine.group) {
        struct sim_comm *made = make_comm(c->me, mine.group, mine.rank);
        rc = made && set_nodes(made) ? CADRE_OK : CADRE_E_RESOURCE;
        if (rc != CADRE_OK && made) {
            cadre_comm_destroy(&made->base);
            made = NULL;
        }
        *out = made ? &made->base : NULL;
    } else if (rc == CADRE_OK) {
        *out = NULL;
    }
    if (rc != CADRE_OK && cadre_failure_get(&c->me->world->failure, err) == CADRE_OK)
        cadre_fail(err, rc, "no memory for a communicator");
    return rc;
}

static void destroy(struct cadre_comm *comm)
{
    struct sim_comm *c = of(comm);
    for (struct sim_op *op = c->me->ended; op; op = op->next)
        if (op->comm == c)
            op->comm = NULL;
    cadre_sim_group_forget(c->group, c);
    free(c);
}

static const struct cadre_comm_backend backend = {
    .op_bytes = sizeof(struct sim_op),
    .enqueue = enqueue,
    .wait = wait_for,
    .test = look,
    .use_device = use_device,
    .split = split,
    .abort = stop_all,
    .destroy = destroy,
    .progress = progress,
};

/* ---- the world ---- */

static bool make_rank(struct sim_world *world, struct sim_group *group, int turn)
{
    const int index = world->who->rank[turn];
    struct sim_rank *rank = &world->rank[index];
    rank->comm = make_comm(rank, group, index);
    if (!rank->comm)
        return false;
    rank->world = world;
    rank->index = index;
    rank->turn = turn;
    cadre_hash_init(&rank->posted, 0);
    cadre_comm_context_init(&rank->context, index, world->who->ranks, &rank->step,
                            &world->failure);
    return true;
}

cadre_status cadre_simulated_world_open(const struct cadre_hardware *hw,
                                        struct cadre_turns *turns,
                                        const struct cadre_representatives *who,
                                        struct cadre_simulated_world **out,
                                        struct cadre_error *err)
{
    const int ranks = who->ranks;
    struct cadre_simulated_world *made = calloc(1, sizeof *made);
    int *all = cadre_calloc((size_t)ranks, sizeof *all);
    struct sim_world *world = made ? &made->world : NULL;
    struct sim_group *group = NULL;
    bool good = made && all;
    if (good) {
        *world = (struct sim_world){.hw = hw, .turns = turns, .who = who};
        world->rank = cadre_calloc((size_t)ranks, sizeof *world->rank);
        for (int r = 0; r < ranks; r++)
            all[r] = r;
        group = world->rank ? cadre_sim_group_create(world, all, ranks) : NULL;
        good = group != NULL;
    }
    for (int t = 0; good && t < who->n; t++)
        good = make_rank(world, group, t);
    free(all);
    if (good) {
        *out = made;
        return CADRE_OK;
    }
    cadre_simulated_world_close(made);
    return cadre_no_memory(err, "%d simulated ranks", ranks);
}

void cadre_simulated_world_close(struct cadre_simulated_world *made)
{
    if (!made)
        return;
    struct sim_world *world = &made->world;
    for (int t = 0; world->rank && t < world->who->n; t++) {
        struct sim_rank *rank = &world->rank[world->who->rank[t]];
        if (!rank->comm)
            continue;
        while (rank->ended) {
            struct sim_op *op = rank->ended;
            rank->ended = op->next;
            free(op);
        }
        cadre_comm_destroy(&rank->comm->base);
        cadre_comm_context_fini(&rank->context);
        free(rank->event);
    }
    while (world->groups) {
        struct sim_group *group = world->groups;
        world->groups = group->next;
        cadre_sim_group_destroy(group);
    }
    free(world->rank);
    free(made);
}

struct cadre_comm *cadre_simulated_world_comm(struct cadre_simulated_world *world,
                                              int rank)
{
    return &world->world.rank[rank].comm->base;
}

void cadre_simulated_world_memory(struct cadre_simulated_world *world, int rank,
                                  const struct cadre_reserve *memory,
                                  const struct cadre_reserve *pinned)
{
    world->world.rank[rank].memory = memory;
    world->world.rank[rank].pinned = pinned;
}

void cadre_simulated_world_graph(struct cadre_simulated_world *world, int rank,
                                 struct cadre_step_graph *graph)
{
    world->world.rank[rank].graph = graph;
}

struct cadre_step_group *
cadre_simulated_world_groups(const struct cadre_simulated_world *made, int *n)
{
    const struct sim_world *world = &made->world;
    struct cadre_step_group *groups =
        cadre_calloc((size_t)world->n_groups, sizeof *groups);
    bool good = groups != NULL;
    for (const struct sim_group *g = world->groups; good && g; g = g->next) {
        struct cadre_step_group *to = &groups[g->number];
        to->size = g->size;
        to->rank = cadre_calloc((size_t)g->size, sizeof *to->rank);
        good = to->rank != NULL;
        for (int m = 0; good && m < g->size; m++)
            to->rank[m] = g->all.rank[m];
    }
    for (int g = 0; groups && !good && g < world->n_groups; g++)
        free(groups[g].rank);
    if (!good) {
        free(groups);
        return NULL;
    }
    *n = world->n_groups;
    return groups;
}

void cadre_simulated_world_sent(const struct cadre_simulated_world *world, int rank,
                                uint64_t *bytes, uint64_t *between)
{
    *bytes = world->world.rank[rank].sent;
    *between = world->world.rank[rank].between;
}

uint64_t cadre_simulated_world_posted(const struct cadre_simulated_world *world,
                                      int rank)
{
    return cadre_hash_final(&world->world.rank[rank].posted);
}

uint32_t cadre_simulated_world_unlike(const struct cadre_simulated_world *world)
{
    return world->world.unlike;
}
