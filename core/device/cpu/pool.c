/* SPDX-License-Identifier: Apache-2.0 */
/* A job is open while tiles may be left. Workers that wake in time join it; the caller
 * runs tiles too, closes the job when the counter has run out, and waits only for the
 * workers that joined, so a worker that the kernel has not scheduled causes no
 * delay. */
#include "core/device/cpu/pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "core/base/memory.h"
#include "core/base/relax.h"

#define SPIN_ROUNDS 3000 /* some 10 to 40 microseconds */

/* Threads of all pools of this process: they spin only where each has a core. */
static atomic_int pool_threads_total;

struct worker {
    struct cadre_pool *pool;
    int index;
    pthread_t thread;
};

struct cadre_pool {
    int threads, started, cores;
    struct worker *workers;
    void (*start)(void);

    pthread_mutex_t lock;
    pthread_cond_t wake, done;
    bool open, stop;
    int joined;
    atomic_uint generation; /* written under the lock, read by spinners without it */
    atomic_int running; /* mirrors `joined` for the spinning caller */

    cadre_pool_fn *fn;
    void *arg;
    int64_t tiles;
    _Atomic int64_t next;
};

static bool may_spin(const struct cadre_pool *pool)
{
    return atomic_load_explicit(&pool_threads_total, memory_order_relaxed) <=
           pool->cores;
}

static void run_tiles(struct cadre_pool *pool, int worker)
{
    for (;;) {
        int64_t tile = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
        if (tile >= pool->tiles)
            return;
        pool->fn(pool->arg, tile, worker);
    }
}

static void spin_for_job(struct cadre_pool *pool, unsigned seen)
{
    if (!may_spin(pool))
        return;
    for (int i = 0; i < SPIN_ROUNDS; i++) {
        if (atomic_load_explicit(&pool->generation, memory_order_relaxed) != seen)
            return;
        cadre_relax();
    }
}

/* Generated code of the GEMM library (oneDNN 2.6.3, gemm:jit) leaves its heap blocks
 * damaged when a signal handler runs in the middle of it. Faults are still
 * delivered. */
static void hold_signals(sigset_t *before)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
    sigset_t all;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        sigdelset(&all, faults[i]);
    pthread_sigmask(SIG_BLOCK, &all, before);
}

static void *worker_main(void *arg)
{
    struct worker *self = arg;
    struct cadre_pool *pool = self->pool;
    unsigned seen = 0;
    hold_signals(NULL);
    if (pool->start)
        pool->start();
    for (;;) {
        spin_for_job(pool, seen);
        pthread_mutex_lock(&pool->lock);
        while (!pool->stop && atomic_load(&pool->generation) == seen)
            pthread_cond_wait(&pool->wake, &pool->lock);
        seen = atomic_load(&pool->generation);
        bool stop = pool->stop, join = pool->open;
        if (join && !stop) {
            pool->joined++;
            atomic_store(&pool->running, pool->joined);
        }
        pthread_mutex_unlock(&pool->lock);
        if (stop)
            return NULL;
        if (!join)
            continue;
        run_tiles(pool, self->index);
        pthread_mutex_lock(&pool->lock);
        pool->joined--;
        atomic_store(&pool->running, pool->joined);
        if (pool->joined == 0)
            pthread_cond_signal(&pool->done);
        pthread_mutex_unlock(&pool->lock);
    }
}

static int count_cores(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    return CPU_COUNT(&set);
}

cadre_status cadre_pool_create(int threads, void (*start)(void),
                               struct cadre_pool **out, struct cadre_error *err)
{
    struct cadre_pool *pool = cadre_calloc(1, sizeof *pool);
    if (!pool)
        return cadre_no_memory(err, "a thread pool");
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pthread_cond_init(&pool->done, NULL);
    pool->threads = threads;
    pool->start = start;
    pool->cores = count_cores();
    atomic_fetch_add(&pool_threads_total, threads);
    pool->workers = cadre_calloc((size_t)threads, sizeof *pool->workers);
    if (!pool->workers) {
        cadre_pool_destroy(pool);
        return cadre_no_memory(err, "%d threads", threads);
    }
    for (int i = 1; i < threads; i++) {
        struct worker *worker = &pool->workers[i];
        worker->pool = pool;
        worker->index = i;
        int errnum = pthread_create(&worker->thread, NULL, worker_main, worker);
        if (errnum) {
            cadre_pool_destroy(pool);
            return cadre_fail_errno(err, CADRE_E_RESOURCE, errnum,
                                    "thread %d of %d cannot be started: use a smaller "
                                    "device.threads",
                                    i + 1, threads);
        }
        pool->started = i;
    }
    *out = pool;
    return CADRE_OK;
}

void cadre_pool_destroy(struct cadre_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->stop = true;
    atomic_fetch_add(&pool->generation, 1);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 1; i <= pool->started; i++)
        pthread_join(pool->workers[i].thread, NULL);
    atomic_fetch_sub(&pool_threads_total, pool->threads);
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    free(pool->workers);
    free(pool);
}

int cadre_pool_threads(const struct cadre_pool *pool)
{
    return pool->threads;
}

static void wait_for_joined(struct cadre_pool *pool)
{
    if (may_spin(pool)) {
        for (int i = 0; i < SPIN_ROUNDS && atomic_load(&pool->running) > 0; i++)
            cadre_relax();
    }
    pthread_mutex_lock(&pool->lock);
    pool->open = false;
    while (pool->joined > 0)
        pthread_cond_wait(&pool->done, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

static void run_job(struct cadre_pool *pool, int64_t tiles, cadre_pool_fn *fn,
                    void *arg)
{
    if (pool->threads == 1 || tiles <= 1) {
        for (int64_t tile = 0; tile < tiles; tile++)
            fn(arg, tile, 0);
        return;
    }
    pthread_mutex_lock(&pool->lock);
    pool->fn = fn;
    pool->arg = arg;
    pool->tiles = tiles;
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    pool->open = true;
    atomic_fetch_add(&pool->generation, 1);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    run_tiles(pool, 0);
    wait_for_joined(pool);
}

void cadre_pool_run(struct cadre_pool *pool, int64_t tiles, cadre_pool_fn *fn,
                    void *arg)
{
    sigset_t before;
    hold_signals(&before);
    run_job(pool, tiles, fn, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}
