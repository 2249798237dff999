/* SPDX-License-Identifier: Apache-2.0 */
#include "core/simulate/turns.h"

#include <pthread.h>

#include "core/base/clock.h"
#include "tests/support/check_main.h"

enum { RANKS = 3 };

/* What ranks did, in the order in which they did it: one runs at a time. */
static struct {
    struct cadre_turns *turns;
    int order[64], n;
    bool alone; /* nobody was there to wake a rank */
} story;

static void note(int rank)
{
    story.order[story.n++] = rank;
}

static void run_all(void *(*rank)(void *))
{
    static int index[RANKS] = {0, 1, 2};
    pthread_t thread[RANKS];
    struct cadre_error err = {0};
    story.n = 0;
    story.alone = false;
    ck_assert_int_eq(cadre_turns_create(RANKS, 1, &story.turns, &err), CADRE_OK);
    for (int r = 0; r < RANKS; r++)
        ck_assert_int_eq(pthread_create(&thread[r], NULL, rank, &index[r]), 0);
    cadre_turns_start(story.turns, true);
    for (int r = 0; r < RANKS; r++)
        pthread_join(thread[r], NULL);
    cadre_turns_destroy(story.turns);
}

/* Rank r looks every r + 1 seconds. */
static void *look_around(void *arg)
{
    const int rank = *(int *)arg;
    if (!cadre_turns_begin(story.turns, rank))
        return NULL;
    cadre_clock_simulate(cadre_turns_clock(story.turns, rank));
    for (int i = 0; i < 4; i++) {
        cadre_turns_spend(story.turns, rank, rank + 1);
        cadre_turns_yield(story.turns, rank);
        note(rank * 100 + (int)cadre_now_s());
    }
    cadre_turns_end(story.turns, rank);
    return NULL;
}

START_TEST(ranks_run_in_the_order_of_their_clocks)
{
    run_all(look_around);
    ck_assert_int_eq(story.n, 12);
    int last = 0;
    for (int i = 0; i < story.n; i++) {
        ck_assert_int_ge(story.order[i] % 100, last);
        last = story.order[i] % 100;
    }
}
END_TEST

/* Rank 0 wakes the others, the second not before time 9. */
static void *wait_for_rank_0(void *arg)
{
    const int rank = *(int *)arg;
    if (!cadre_turns_begin(story.turns, rank))
        return NULL;
    if (rank > 0) {
        if (!cadre_turns_wait(story.turns, rank))
            story.alone = true;
    } else {
        cadre_turns_spend(story.turns, 0, 1);
        cadre_turns_yield(story.turns, 0); /* so that they wait */
        cadre_turns_wake(story.turns, 2, 9);
        cadre_turns_wake(story.turns, 1, 0);
    }
    note(rank * 100 + (int)*cadre_turns_clock(story.turns, rank));
    cadre_turns_end(story.turns, rank);
    return NULL;
}

START_TEST(a_rank_waits_until_it_is_woken)
{
    run_all(wait_for_rank_0);
    ck_assert(!story.alone);
    ck_assert_int_eq(story.n, RANKS);
    ck_assert_int_eq(story.order[0], 2); /* rank 0, at time 2 */
    ck_assert_int_eq(story.order[1], 101); /* at its own time */
    ck_assert_int_eq(story.order[2], 209);
}
END_TEST

/* Rank 0 ends, and was the only one that could have woken the others. */
static void *wait_for_the_gone(void *arg)
{
    const int rank = *(int *)arg;
    if (!cadre_turns_begin(story.turns, rank))
        return NULL;
    if (rank == 0) {
        cadre_turns_spend(story.turns, 0, 1);
        cadre_turns_yield(story.turns, 0);
    } else if (!cadre_turns_wait(story.turns, rank)) {
        story.alone = true;
        for (int r = 0; r < RANKS; r++)
            cadre_turns_wake(story.turns, r, 0);
    }
    note(rank);
    cadre_turns_end(story.turns, rank);
    return NULL;
}

START_TEST(a_rank_that_ends_leaves_nobody_waiting)
{
    run_all(wait_for_the_gone);
    ck_assert(story.alone);
    ck_assert_int_eq(story.n, RANKS);
    ck_assert_int_eq(story.order[0], 0);
}
END_TEST

static void *wait_for_nobody(void *arg)
{
    const int rank = *(int *)arg;
    if (!cadre_turns_begin(story.turns, rank))
        return NULL;
    if (!cadre_turns_wait(story.turns, rank)) {
        story.alone = true;
        for (int r = 0; r < RANKS; r++)
            cadre_turns_wake(story.turns, r, 0);
    }
    note(rank);
    cadre_turns_end(story.turns, rank);
    return NULL;
}

START_TEST(a_circle_is_seen)
{
    run_all(wait_for_nobody);
    ck_assert(story.alone);
    ck_assert_int_eq(story.n, RANKS);
}
END_TEST

static void *never(void *arg)
{
    if (cadre_turns_begin(story.turns, *(int *)arg))
        note(1);
    return NULL;
}

START_TEST(a_start_that_failed_runs_nobody)
{
    static int index = 1;
    pthread_t thread;
    struct cadre_error err = {0};
    story.n = 0;
    ck_assert_int_eq(cadre_turns_create(2, 0, &story.turns, &err), CADRE_OK);
    ck_assert_int_eq(pthread_create(&thread, NULL, never, &index), 0);
    cadre_turns_start(story.turns, false);
    pthread_join(thread, NULL);
    cadre_turns_destroy(story.turns);
    ck_assert_int_eq(story.n, 0);
}
END_TEST

/* The simulated clock is of one thread. */
START_TEST(other_threads_keep_the_real_clock)
{
    const double now_s = 5, before = cadre_now_s();
    cadre_clock_simulate(&now_s);
    ck_assert_double_eq(cadre_now_s(), 5);
    cadre_clock_simulate(NULL);
    ck_assert_double_ge(cadre_now_s(), before);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("turns");
    TCase *tc = tcase_create("turns");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, ranks_run_in_the_order_of_their_clocks);
    tcase_add_test(tc, a_rank_waits_until_it_is_woken);
    tcase_add_test(tc, a_circle_is_seen);
    tcase_add_test(tc, a_rank_that_ends_leaves_nobody_waiting);
    tcase_add_test(tc, a_start_that_failed_runs_nobody);
    tcase_add_test(tc, other_threads_keep_the_real_clock);
    suite_add_tcase(s, tc);
    return s;
}
