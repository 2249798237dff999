/* SPDX-License-Identifier: Apache-2.0 */
#include "core/simulate/turns.h"

#include <pthread.h>
#include <stdlib.h>

#include "core/base/memory.h"

enum condition { READY, WAITING, GONE };

struct turn {
    double now_s;
    enum condition condition;
    bool stuck; /* it waits for a rank that has ended, as all others do */
    pthread_cond_t given;
};

/* `running` is under the lock; the rest belongs to whoever has the turn. */
struct cadre_turns {
    pthread_mutex_t lock;
    int ranks, running; /* -1: nobody */
    bool cancelled;
    struct turn *rank;
};

cadre_status cadre_turns_create(int ranks, double begin_s, struct cadre_turns **out,
                                struct cadre_error *err)
{
    struct cadre_turns *turns = calloc(1, sizeof *turns);
    struct turn *rank = cadre_calloc((size_t)ranks, sizeof *rank);
    if (!turns || !rank) {
        free(turns);
        free(rank);
        return cadre_no_memory(err, "%d simulated ranks", ranks);
    }
    pthread_mutex_init(&turns->lock, NULL);
    turns->ranks = ranks;
    turns->running = -1;
    turns->rank = rank;
    for (int r = 0; r < ranks; r++) {
        pthread_cond_init(&rank[r].given, NULL);
        rank[r].now_s = begin_s;
    }
    *out = turns;
    return CADRE_OK;
}

void cadre_turns_destroy(struct cadre_turns *turns)
{
    if (!turns)
        return;
    for (int r = 0; r < turns->ranks; r++)
        pthread_cond_destroy(&turns->rank[r].given);
    pthread_mutex_destroy(&turns->lock);
    free(turns->rank);
    free(turns);
}

/* Of equals the first. -1: nobody can go on. */
static int choose(const struct cadre_turns *turns)
{
    int best = -1;
    for (int r = 0; r < turns->ranks; r++)
        if (turns->rank[r].condition == READY &&
            (best < 0 || turns->rank[r].now_s < turns->rank[best].now_s))
            best = r;
    return best;
}

static void give(struct cadre_turns *turns, int to)
{
    turns->running = to;
    if (to >= 0)
        pthread_cond_signal(&turns->rank[to].given);
}

void cadre_turns_start(struct cadre_turns *turns, bool run)
{
    pthread_mutex_lock(&turns->lock);
    turns->cancelled = !run;
    if (run)
        give(turns, choose(turns));
    else
        for (int r = 0; r < turns->ranks; r++)
            pthread_cond_signal(&turns->rank[r].given);
    pthread_mutex_unlock(&turns->lock);
}

const double *cadre_turns_clock(const struct cadre_turns *turns, int rank)
{
    return &turns->rank[rank].now_s;
}

static void await(struct cadre_turns *turns, int rank)
{
    while (turns->running != rank && !turns->cancelled)
        pthread_cond_wait(&turns->rank[rank].given, &turns->lock);
}

bool cadre_turns_begin(struct cadre_turns *turns, int rank)
{
    pthread_mutex_lock(&turns->lock);
    await(turns, rank);
    const bool run = !turns->cancelled;
    pthread_mutex_unlock(&turns->lock);
    return run;
}

void cadre_turns_end(struct cadre_turns *turns, int rank)
{
    int to;
    turns->rank[rank].condition = GONE;
    to = choose(turns);
    for (int r = 0; to < 0 && r < turns->ranks; r++)
        if (turns->rank[r].condition == WAITING) {
            turns->rank[r].condition = READY;
            turns->rank[r].stuck = true;
            to = r;
        }
    pthread_mutex_lock(&turns->lock);
    give(turns, to);
    pthread_mutex_unlock(&turns->lock);
}

void cadre_turns_spend(struct cadre_turns *turns, int rank, double seconds)
{
    turns->rank[rank].now_s += seconds;
}

void cadre_turns_set(struct cadre_turns *turns, int rank, double now_s)
{
    turns->rank[rank].now_s = now_s;
}

static void hand_over(struct cadre_turns *turns, int rank, int to)
{
    pthread_mutex_lock(&turns->lock);
    give(turns, to);
    await(turns, rank);
    pthread_mutex_unlock(&turns->lock);
}

bool cadre_turns_wait(struct cadre_turns *turns, int rank)
{
    turns->rank[rank].condition = WAITING;
    const int to = choose(turns);
    if (to < 0) {
        turns->rank[rank].condition = READY;
        return false;
    }
    hand_over(turns, rank, to);
    const bool stuck = turns->rank[rank].stuck;
    turns->rank[rank].stuck = false;
    return !stuck;
}

void cadre_turns_wake(struct cadre_turns *turns, int other, double at_s)
{
    struct turn *turn = &turns->rank[other];
    if (turn->condition != WAITING)
        return;
    turn->condition = READY;
    if (turn->now_s < at_s)
        turn->now_s = at_s;
}

void cadre_turns_yield(struct cadre_turns *turns, int rank)
{
    const int to = choose(turns);
    if (to != rank)
        hand_over(turns, rank, to);
}
