/* SPDX-License-Identifier: Apache-2.0 */
/* Whose turn it is. One player runs at a time, so nothing here or in the services needs
 * a lock but the turn itself, and a rehearsal repeats whatever the machine does. */
#include <time.h>

#include "core/base/clock.h"
#include "core/base/rng.h"
#include "core/check/rehearsal/private.h"

uint64_t play_draw(struct rehearsal *all, uint64_t n)
{
    return cadre_rng_below(all->key, all->draws++, n);
}

static bool can_go_on(const struct rehearsal *all, const struct cadre_player *p)
{
    return p->condition == READY ||
           (p->condition == WAITING && (all->stop || p->seen != all->progress));
}

static void rest(double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds,
                         .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&t, NULL);
}

/* Of those that can go on, one that is not late; if only late ones can, the time of
 * the first passes. -1: nobody. */
static int choose(struct rehearsal *all)
{
    int able[CADRE_REHEARSAL_RANKS], n = 0, late = -1;
    double now = cadre_now_s();
    for (int r = 0; r < all->ranks; r++) {
        struct cadre_player *p = &all->player[r];
        if (!can_go_on(all, p))
            continue;
        if (p->late_until_s > now)
            late = r;
        else
            able[n++] = r;
    }
    if (n == 0 && late >= 0)
        rest(all->player[late].late_until_s - now);
    return n ? able[play_draw(all, (uint64_t)n)] : late;
}

void play_be_late(struct cadre_player *p, double seconds)
{
    p->late_until_s = cadre_now_s() + seconds;
    play_take_turns(p);
}

/* Called with the lock held. */
static void give_turn(struct rehearsal *all, int to)
{
    all->turn = to;
    pthread_cond_broadcast(&all->turned);
}

static void await_turn(struct cadre_player *p)
{
    while (p->all->turn != p->rank)
        pthread_cond_wait(&p->all->turned, &p->all->lock);
    p->condition = READY;
}

void play_take_turns(struct cadre_player *p)
{
    struct rehearsal *all = p->all;
    int next = choose(all);
    if (next == p->rank || next < 0)
        return;
    pthread_mutex_lock(&all->lock);
    give_turn(all, next);
    await_turn(p);
    pthread_mutex_unlock(&all->lock);
}

bool play_wait_turn(struct cadre_player *p)
{
    struct rehearsal *all = p->all;
    if (all->stop)
        return false;
    p->condition = WAITING;
    p->seen = all->progress;
    int next = choose(all);
    if (next < 0) {
        p->condition = READY;
        return false;
    }
    pthread_mutex_lock(&all->lock);
    if (next != p->rank)
        give_turn(all, next);
    await_turn(p);
    pthread_mutex_unlock(&all->lock);
    return !all->stop;
}

/* Player 0 has the first turn. */
void play_begin_turns(struct cadre_player *p)
{
    pthread_mutex_lock(&p->all->lock);
    await_turn(p);
    pthread_mutex_unlock(&p->all->lock);
}

/* A player that goes may be what the others wait for: they are asked once more. */
void play_leave_turns(struct cadre_player *p)
{
    struct rehearsal *all = p->all;
    p->condition = GONE;
    all->progress++;
    int next = choose(all);
    pthread_mutex_lock(&all->lock);
    if (next >= 0)
        give_turn(all, next);
    pthread_mutex_unlock(&all->lock);
}

bool play_meet(struct cadre_player *p)
{
    struct rehearsal *all = p->all;
    uint32_t meeting = all->meetings;
    if (all->stop)
        return false;
    if (++all->met == (uint32_t)all->ranks) {
        all->met = 0;
        all->meetings++;
        all->progress++;
        return true;
    }
    while (all->meetings == meeting)
        if (!play_wait_turn(p)) {
            if (!all->stop)
                play_refuse(
                    p, CADRE_RULE_ORDER,
                    "ranks wait for each other: rank %d has come to the end of a "
                    "callback that another rank never leaves",
                    p->rank);
            return false;
        }
    return true;
}
