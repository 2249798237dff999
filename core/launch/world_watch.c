/* SPDX-License-Identifier: Apache-2.0 */
#include "core/launch/world_watch.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "core/base/memory.h"

/* How often the thread polls, and how long it waits for the world that knows of dead
 * ranks to report one, after the other world has failed. */
#define TICK_MS 20
#define GRACE_TICKS 20

struct cadre_world_watch {
    struct cadre_comm *first, *second;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stop;
};

static void tick(void)
{
    nanosleep(&(struct timespec){.tv_nsec = TICK_MS * 1000000L}, NULL);
}

cadre_status cadre_world_watch_failure(struct cadre_world_watch *watch,
                                       struct cadre_error *err)
{
    struct cadre_error seen = {0}, other = {0};
    if (cadre_comm_failure(watch->first, &seen) == CADRE_OK) {
        if (cadre_comm_failure(watch->second, &other) == CADRE_OK)
            return CADRE_OK;
        for (int i = 0;
             i < GRACE_TICKS && cadre_comm_failure(watch->first, &seen) == CADRE_OK;
             i++)
            tick();
        /* no effect where the first has failed by now */
        cadre_comm_abort(watch->first, other.text);
        if (cadre_comm_failure(watch->first, &seen) == CADRE_OK)
            seen = other;
    }
    cadre_comm_abort(watch->second, seen.text);
    if (err)
        *err = seen;
    return seen.code;
}

static void *watch_main(void *arg)
{
    struct cadre_world_watch *watch = arg;
    bool over = false;
    pthread_mutex_lock(&watch->lock);
    while (!watch->stop && !over) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += TICK_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        pthread_cond_timedwait(&watch->changed, &watch->lock, &until);
        pthread_mutex_unlock(&watch->lock);
        over = cadre_world_watch_failure(watch, NULL) != CADRE_OK;
        pthread_mutex_lock(&watch->lock);
    }
    pthread_mutex_unlock(&watch->lock);
    return NULL;
}

cadre_status cadre_world_watch_open(struct cadre_comm *first, struct cadre_comm *second,
                                    struct cadre_world_watch **out,
                                    struct cadre_error *err)
{
    struct cadre_world_watch *watch = cadre_calloc(1, sizeof *watch);
    pthread_condattr_t monotonic;
    if (!watch)
        return cadre_fail(err, CADRE_E_RESOURCE, "no memory to watch a communicator");
    watch->first = first;
    watch->second = second;
    pthread_mutex_init(&watch->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&watch->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int failed = pthread_create(&watch->thread, NULL, watch_main, watch);
    if (failed) {
        pthread_cond_destroy(&watch->changed);
        pthread_mutex_destroy(&watch->lock);
        free(watch);
        return cadre_fail_errno(err, CADRE_E_RESOURCE, failed,
                                "cannot start a thread that watches a communicator");
    }
    *out = watch;
    return CADRE_OK;
}

void cadre_world_watch_close(struct cadre_world_watch *watch)
{
    if (!watch)
        return;
    pthread_mutex_lock(&watch->lock);
    watch->stop = true;
    pthread_cond_signal(&watch->changed);
    pthread_mutex_unlock(&watch->lock);
    pthread_join(watch->thread, NULL);
    pthread_cond_destroy(&watch->changed);
    pthread_mutex_destroy(&watch->lock);
    free(watch);
}
