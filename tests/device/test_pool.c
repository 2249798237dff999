/* SPDX-License-Identifier: Apache-2.0 */
#include "core/device/cpu/pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "tests/support/check_main.h"

enum { MAX_TILES = 1000, MAX_THREADS = 8 };

struct job {
    atomic_int ran[MAX_TILES];
    atomic_int busy[MAX_THREADS];
    atomic_int wrong;
    int threads;
    double out[MAX_TILES];
};

static void count_tile(void *arg, int64_t tile, int worker)
{
    struct job *job = arg;
    bool wrong = worker < 0 || worker >= job->threads ||
                 atomic_exchange(&job->busy[worker], 1) != 0;
    if (wrong)
        atomic_fetch_add(&job->wrong, 1);
    atomic_fetch_add(&job->ran[tile], 1);
    job->out[tile] = (double)tile * 2;
    atomic_store(&job->busy[worker], 0);
}

static void run_many(struct cadre_pool *pool, int repeats)
{
    static const int64_t tiles[] = {0, 1, 2, 3, 7, 64, MAX_TILES};
    static _Thread_local struct job job;
    for (int i = 0; i < repeats; i++) {
        const int64_t n = tiles[(size_t)i % (sizeof tiles / sizeof *tiles)];
        memset(&job, 0, sizeof job);
        job.threads = cadre_pool_threads(pool);
        cadre_pool_run(pool, n, count_tile, &job);
        int wrong = atomic_load(&job.wrong);
        for (int64_t tile = 0; tile < MAX_TILES; tile++) {
            wrong += atomic_load(&job.ran[tile]) != (tile < n);
            wrong += tile < n && job.out[tile] != (double)tile * 2;
        }
        ck_assert_int_eq(wrong, 0);
    }
}

static struct cadre_pool *create(int threads, void (*start)(void))
{
    struct cadre_pool *pool = NULL;
    struct cadre_error err = {0};
    ck_assert_msg(cadre_pool_create(threads, start, &pool, &err) == CADRE_OK, "%s",
                  err.text);
    ck_assert_int_eq(cadre_pool_threads(pool), threads);
    return pool;
}

START_TEST(every_tile_once)
{
    struct cadre_pool *pool = create(_i, NULL);
    run_many(pool, 700);
    cadre_pool_destroy(pool);
}
END_TEST

static bool is_held(int signal)
{
    sigset_t now;
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    return sigismember(&now, signal);
}

static void look_at_signals(void *arg, int64_t tile, int worker)
{
    struct job *job = arg;
    (void)tile, (void)worker;
    if (!is_held(SIGTERM) || !is_held(SIGPROF) || is_held(SIGSEGV))
        atomic_fetch_add(&job->wrong, 1);
}

/* A handler in the middle of the GEMM library's code would damage its memory. */
START_TEST(no_handler_during_tiles)
{
    static struct job job;
    struct cadre_pool *pool = create(_i, NULL);
    for (int64_t tiles = 1; tiles < 100; tiles++)
        cadre_pool_run(pool, tiles, look_at_signals, &job);
    ck_assert_int_eq(atomic_load(&job.wrong), 0);
    ck_assert(!is_held(SIGTERM));
    cadre_pool_destroy(pool);
}
END_TEST

static void *rank_main(void *arg)
{
    struct cadre_pool *pool = create(3, NULL);
    run_many(pool, 200);
    cadre_pool_destroy(pool);
    return arg;
}

/* Ranks as threads: each has its pool, together more threads than cores. */
START_TEST(several_pools)
{
    pthread_t ranks[4];
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&ranks[i], NULL, rank_main, NULL), 0);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_join(ranks[i], NULL), 0);
}
END_TEST

static atomic_int starts;

static void note_start(void)
{
    atomic_fetch_add(&starts, 1);
}

START_TEST(start_and_stop)
{
    cadre_pool_destroy(NULL);
    atomic_store(&starts, 0);
    cadre_pool_destroy(create(4, note_start));
    ck_assert_int_eq(atomic_load(&starts), 3);
    cadre_pool_destroy(create(1, note_start));
    ck_assert_int_eq(atomic_load(&starts), 3);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("pool");
    TCase *tc = tcase_create("pool");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, every_tile_once, 1, MAX_THREADS + 1);
    tcase_add_loop_test(tc, no_handler_during_tiles, 1, 4);
    tcase_add_test(tc, several_pools);
    tcase_add_test(tc, start_and_stop);
    suite_add_tcase(suite, tc);
    return suite;
}
