/* SPDX-License-Identifier: Apache-2.0 */
/* Groups: their queues, splits, their end. MPI's own communicators live until
 * MPI_Finalize: freeing them is a collective. */
#include <stdio.h>
#include <stdlib.h>

#include "core/base/clock.h"
#include "core/comm/mpi/private.h"

#define SENT_S 5.0 /* wait for a message's completion */

static void group_free(struct mpi_group *g)
{
    free(g->world_ranks);
    free(g->send);
    free(g->recv);
    free(g);
}

/* Ranks of the world itself. */
static int *everybody(int size)
{
    int *ranks = malloc((size_t)size * sizeof *ranks);
    for (int r = 0; ranks && r < size; r++)
        ranks[r] = r;
    return ranks;
}

struct mpi_group *cadre_mpi_group_make(struct mpi_world *w, uint64_t id,
                                       const struct mpi_split *from)
{
    struct mpi_group *g = calloc(1, sizeof *g);
    size_t size = (size_t)(from ? from->size : w->context.size);
    int *ranks = from ? from->world_ranks : everybody(w->context.size);
    if (!g) {
        free(ranks);
        return NULL;
    }
    g->base.backend = &cadre_mpi_backend;
    g->base.context = &w->context;
    g->base.rank = from ? from->rank : w->context.rank;
    g->base.size = (int)size;
    g->world = w;
    g->is_world = !from;
    g->id = id;
    g->comm = from ? from->comm : w->comm;
    g->world_ranks = ranks;
    g->send = calloc(size, sizeof *g->send);
    g->recv = calloc(size, sizeof *g->recv);
    if (!g->send || !g->recv || !ranks) {
        group_free(g);
        return NULL;
    }
    pthread_mutex_lock(&w->lock);
    g->next = w->groups;
    w->groups = g;
    pthread_mutex_unlock(&w->lock);
    return g;
}

/* The same on all members, different for each split: splitmix64's mixing. */
static uint64_t id_of(const struct mpi_group *parent, int color)
{
    uint64_t x = parent->id + parent->splits * 0x9e3779b97f4a7c15u;
    for (int i = 0; i < 2; i++) {
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
        x = (x ^ (x >> 31)) + (uint64_t)color + 1;
    }
    return x;
}

cadre_status cadre_mpi_split(struct cadre_comm *comm, int color, int key,
                             struct cadre_comm **out, struct cadre_error *err)
{
    struct mpi_group *parent = (struct mpi_group *)comm, *g = NULL;
    struct mpi_world *w = parent->world;
    struct mpi_split *split = calloc(1, sizeof *split);
    const struct cadre_comm_op from = {
        .kind = CADRE_COMM_SPLIT, .dtype = CADRE_U8, .out = split};
    struct cadre_comm_op *op = split ? cadre_comm_op_create(comm, &from) : NULL;
    cadre_event done = 0;
    if (!op) {
        free(split);
        return cadre_fail(err, CADRE_E_RESOURCE, "rank %d: no memory", w->context.rank);
    }
    split->color = color;
    split->key = key;
    split->comm = MPI_COMM_NULL;
    parent->splits++;
    cadre_status rc = cadre_mpi_enqueue(comm, op, &done);
    if (rc == CADRE_OK)
        rc = cadre_mpi_event_wait(w, done);
    if (rc != CADRE_OK) {
        /* `split` is left: the engine may be inside it */
        if (cadre_failure_get(&w->failure, err) == CADRE_OK)
            cadre_fail(err, rc, "rank %d cannot split: %s", w->context.rank,
                       cadre_strerror(rc));
        return rc;
    }
    if (split->comm != MPI_COMM_NULL) {
        g = cadre_mpi_group_make(w, id_of(parent, color), split);
        if (!g)
            rc = cadre_fail(err, CADRE_E_RESOURCE, "rank %d: no memory",
                            w->context.rank);
    }
    free(split);
    if (rc == CADRE_OK)
        *out = g ? &g->base : NULL;
    return rc;
}

/* Under the lock: the first operation of the group that is pending; a send alone where
 * there is nothing else. */
static const struct mpi_op *pending(const struct mpi_group *g)
{
    const struct mpi_op *found = NULL;
    for (const struct mpi_op *op = g->world->pending; op; op = op->next)
        if (op->group == g && (!found || found->base.kind == CADRE_COMM_SEND))
            found = op;
    return found;
}

/* Under the lock: what is pending when the group ends. The data of a send may have
 * arrived already while its completion is still on its way. */
static const struct mpi_op *left_over(const struct mpi_group *g)
{
    struct mpi_world *w = g->world;
    double until = cadre_now_s() + SENT_S;
    const struct mpi_op *left = pending(g);
    while (left && left->base.kind == CADRE_COMM_SEND &&
           !cadre_failure_is_set(&w->failure) && cadre_now_s() < until) {
        cadre_mpi_sleep(w);
        left = pending(g);
    }
    return left;
}

static void forget(struct mpi_group *g)
{
    struct mpi_group **at = &g->world->groups;
    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
}

static void close_world(struct mpi_world *w)
{
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    w->news++;
    pthread_cond_signal(&w->work);
    while (!w->ended && !w->stuck)
        cadre_mpi_sleep(w);
    bool ended = w->ended;
    pthread_mutex_unlock(&w->lock);
    if (!ended) { /* inside MPI forever; what it may touch is leaked */
        pthread_detach(w->engine);
        return;
    }
    pthread_join(w->engine, NULL);
    cadre_mpi_world_free(w);
}

void cadre_mpi_destroy(struct cadre_comm *comm)
{
    struct mpi_group *g = (struct mpi_group *)comm;
    struct mpi_world *w = g->world;
    bool is_world = g->is_world;
    char text[256], who[96], why[512];
    pthread_mutex_lock(&w->lock);
    const struct mpi_op *left = left_over(g);
    if (left && !cadre_failure_is_set(&w->failure)) {
        cadre_mpi_op_text(left, text, sizeof text);
        cadre_mpi_rank_text(w, w->context.rank, who, sizeof who);
        snprintf(why, sizeof why, "%s: %s was pending when its communicator ended", who,
                 text);
        cadre_mpi_fail_locked(w, left, CADRE_E_COMM, why);
    }
    if (cadre_failure_is_set(&w->failure))
        cadre_mpi_await_quiet(w);
    forget(g);
    pthread_mutex_unlock(&w->lock);
    group_free(g);
    if (is_world)
        close_world(w);
}
