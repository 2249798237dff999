/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules as published, with durations of one, two or three units of time, against
 * their formulas (Narayanan et al. 2021; Qi et al. 2024). */
#include "core/compare/verdict/replay.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "tests/support/check_main.h"

enum { MOST = 512 };
static struct cadre_replay schedule;
static struct cadre_replay_result result;
static struct cadre_error err;
static enum cadre_replay_times times = CADRE_REPLAY_MEDIANS;

/* p ranks with `chunks` each, assigned in turn; every unit is a chunk. */
static void open_schedule(size_t p, size_t chunks, const double seconds[4])
{
    schedule.rank = cadre_calloc(p, sizeof *schedule.rank);
    schedule.n = p;
    for (size_t r = 0; r < p; r++) {
        struct cadre_replay_rank *rank = &schedule.rank[r];
        rank->rank = (int)r;
        rank->chunk = cadre_calloc(chunks, sizeof *rank->chunk);
        rank->pass = cadre_calloc(MOST, sizeof *rank->pass);
        rank->n_chunks = chunks;
        for (size_t c = 0; c < chunks; c++) {
            rank->chunk[c].begin = (uint32_t)(c * p + r);
            rank->chunk[c].end = rank->chunk[c].begin + 1;
            memcpy(rank->chunk[c].seconds, seconds, 4 * sizeof *seconds);
        }
    }
}

static void teardown(void)
{
    cadre_replay_fini(&schedule);
    memset(&err, 0, sizeof err);
    times = CADRE_REPLAY_MEDIANS;
}

static void add(size_t r, enum cadre_replay_kind kind, uint32_t chunk, uint32_t m)
{
    struct cadre_replay_rank *rank = &schedule.rank[r];
    ck_assert_uint_lt(rank->n_passes, MOST);
    rank->pass[rank->n_passes++] =
        (struct cadre_replay_pass){.kind = kind, .chunk = chunk, .microbatch = m};
}

static void run(void)
{
    cadre_status rc = cadre_replay_run(&schedule, times, &result, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
}

static void refused(const char *why)
{
    ck_assert_int_eq(cadre_replay_run(&schedule, times, &result, &err),
                     CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, why) != NULL, "%s", err.text);
}

static void gpipe(size_t p, uint32_t m)
{
    static const double seconds[4] = {1, 2, 0, 0};
    open_schedule(p, 1, seconds);
    for (size_t r = 0; r < p; r++) {
        for (uint32_t i = 0; i < m; i++)
            add(r, CADRE_REPLAY_FORWARD, 0, i);
        for (uint32_t i = 0; i < m; i++)
            add(r, CADRE_REPLAY_BACKWARD, 0, i);
    }
}

/* Warm-up forwards, then one of each, then the rest; split: the parts of a backward
 * one after the other. */
static void one_f_one_b(size_t p, uint32_t m, bool split)
{
    static const double seconds[4] = {1, 2, 1, 1};
    open_schedule(p, 1, seconds);
    for (size_t r = 0; r < p; r++) {
        uint32_t ahead = (uint32_t)(p - r), f = 0;
        for (; f < ahead && f < m; f++)
            add(r, CADRE_REPLAY_FORWARD, 0, f);
        for (uint32_t b = 0; b < m; b++) {
            add(r, split ? CADRE_REPLAY_INPUT : CADRE_REPLAY_BACKWARD, 0, b);
            if (split)
                add(r, CADRE_REPLAY_WEIGHT, 0, b);
            if (f < m)
                add(r, CADRE_REPLAY_FORWARD, 0, f++);
        }
    }
}

START_TEST(gpipe_has_its_formula)
{
    for (size_t p = 1; p <= 5; p++)
        for (uint32_t m = 1; m <= 9; m++) {
            gpipe(p, m);
            run();
            double span = 3.0 * (double)(m + p - 1);
            ck_assert_double_eq_tol(result.span_s, span, 1e-12);
            ck_assert_double_eq_tol(result.bubble_fraction,
                                    (double)(p - 1) / (double)(m + p - 1), 1e-12);
            teardown();
        }
}
END_TEST

START_TEST(one_f_one_b_has_the_same)
{
    for (size_t p = 2; p <= 4; p++)
        for (uint32_t m = (uint32_t)p; m <= 9; m++) {
            one_f_one_b(p, m, false);
            run();
            ck_assert_double_eq_tol(result.bubble_fraction,
                                    (double)(p - 1) / (double)(m + p - 1), 1e-12);
            teardown();
        }
}
END_TEST

/* Splitting backward alone lets the previous stage continue earlier: less idle than
 * 1F1B. */
START_TEST(split_backward_idles_less)
{
    one_f_one_b(4, 8, true);
    run();
    ck_assert_double_lt(result.bubble_fraction, 3.0 / 11);
    ck_assert_double_gt(result.bubble_fraction, 0);
    teardown();
    /* zb-h1 by hand: p = 2, m = 2; bubble (p-1)(F + B - W) = 1 of 3 m + 1 */
    static const double seconds[4] = {1, 0, 1, 1};
    open_schedule(2, 1, seconds);
    for (uint32_t i = 0; i < 2; i++)
        add(0, CADRE_REPLAY_FORWARD, 0, i);
    add(0, CADRE_REPLAY_INPUT, 0, 0);
    add(0, CADRE_REPLAY_WEIGHT, 0, 0);
    add(0, CADRE_REPLAY_INPUT, 0, 1);
    add(0, CADRE_REPLAY_WEIGHT, 0, 1);
    add(1, CADRE_REPLAY_FORWARD, 0, 0);
    add(1, CADRE_REPLAY_INPUT, 0, 0);
    add(1, CADRE_REPLAY_FORWARD, 0, 1);
    add(1, CADRE_REPLAY_INPUT, 0, 1);
    add(1, CADRE_REPLAY_WEIGHT, 0, 0);
    add(1, CADRE_REPLAY_WEIGHT, 0, 1);
    run();
    ck_assert_double_eq(result.span_s, 7);
    ck_assert_double_eq_tol(result.bubble_fraction, 1.0 / 7, 1e-12);
}
END_TEST

/* All forwards, then all backwards, of two chunks a rank: the fill is half as long. */
START_TEST(chunks_shorten_the_fill)
{
    static const double seconds[4] = {1, 2, 0, 0};
    const uint32_t m = 4;
    open_schedule(2, 2, seconds);
    for (size_t r = 0; r < 2; r++) {
        for (uint32_t c = 0; c < 2; c++)
            for (uint32_t i = 0; i < m; i++)
                add(r, CADRE_REPLAY_FORWARD, c, i);
        for (uint32_t c = 2; c-- > 0;)
            for (uint32_t i = 0; i < m; i++)
                add(r, CADRE_REPLAY_BACKWARD, c, i);
    }
    run();
    ck_assert_double_eq_tol(result.bubble_fraction, 1.0 / (2 * m + 1), 1e-12);
}
END_TEST

/* The slow stage sets the pace, and its own bubble is the fill alone. */
START_TEST(stages_may_differ)
{
    gpipe(2, 3);
    schedule.rank[1].chunk[0].seconds[CADRE_REPLAY_FORWARD] = 4;
    run();
    /* forwards end at 1 + 3 * 4; backwards: 2 more on rank 1, the last 2 on rank 0 */
    ck_assert_double_eq_tol(result.span_s, 13 + 3 * 2 + 2, 1e-12);
    double busy = 3 * (1 + 2) + 3 * (4 + 2);
    ck_assert_double_eq_tol(result.bubble_fraction, 1 - busy / (2 * 21), 1e-12);
}
END_TEST

START_TEST(wrong_schedules_are_refused)
{
    gpipe(2, 3);
    schedule.rank[0].n_passes--;
    refused("backward of micro-batch 2 of chunk 0 on rank 0 is missing");
    teardown();
    gpipe(2, 3);
    schedule.rank[1].pass[1].microbatch = 0;
    refused("forward of micro-batch 0 of chunk 0 on rank 1 is made twice");
    teardown();
    gpipe(2, 3);
    schedule.rank[1].pass[5].kind = CADRE_REPLAY_INPUT;
    schedule.rank[1].pass[5].microbatch = 1;
    refused("input backward of micro-batch 1 of chunk 0 on rank 1 is made twice");
    teardown();
    gpipe(2, 3);
    schedule.rank[1].pass[5].kind = CADRE_REPLAY_WEIGHT;
    refused("of micro-batch 2 of chunk 0 on rank 0 waits for ever");
    teardown();
    gpipe(2, 3);
    schedule.rank[0].pass[0].kind = CADRE_REPLAY_BACKWARD;
    schedule.rank[0].pass[3].kind = CADRE_REPLAY_FORWARD;
    refused("waits for ever");
    teardown();
    gpipe(2, 3);
    schedule.rank[0].pass[0].microbatch = 1000000;
    refused("the rank has no such pass");
    teardown();
    gpipe(2, 3);
    schedule.rank[0].pass[0].chunk = 1;
    refused("the rank has no such pass");
}
END_TEST

START_TEST(wrong_chunks_are_refused)
{
    gpipe(2, 3);
    schedule.rank[1].chunk[0].begin = 2;
    refused("expected chunks that make up the model");
    schedule.rank[1].chunk[0].begin = schedule.rank[1].chunk[0].end = 1;
    refused("chunk 0 of rank 1, units 1 to 1");
    schedule.rank[1].chunk[0].begin = 0; /* as rank 0's */
    schedule.rank[1].chunk[0].end = 1;
    refused("is made twice");
    teardown();
    gpipe(2, 3);
    schedule.rank[0].chunk[0].seconds[0] = -1;
    refused("with seconds of at least 0");
}
END_TEST

START_TEST(nothing_takes_no_time)
{
    static const double zero[4] = {0, 0, 0, 0};
    open_schedule(2, 1, zero);
    run();
    ck_assert_double_eq(result.span_s, 0);
    ck_assert_double_eq(result.bubble_fraction, 0);
    ck_assert_double_eq(cadre_replay_measured(&schedule), 0);
}
END_TEST

/* Two stages and one micro-batch, measured: rank 0 gets its gradient a second late. */
static void open_measured(void)
{
    gpipe(2, 1);
    schedule.rank[0].pass[0].end = 1;
    schedule.rank[1].pass[0].begin = 1;
    schedule.rank[1].pass[0].end = 2;
    schedule.rank[1].pass[1].begin = 2;
    schedule.rank[1].pass[1].end = 4;
    schedule.rank[0].pass[1].begin = 5;
    schedule.rank[0].pass[1].end = 8;
}

START_TEST(measured_is_idle_over_span)
{
    open_measured();
    ck_assert_double_eq_tol(cadre_replay_measured(&schedule), 1 - 7.0 / 16, 1e-12);
}
END_TEST

/* The same step: only the second that rank 0 waited for its gradient is gone. */
START_TEST(a_step_replayed_keeps_its_passes)
{
    open_measured();
    times = CADRE_REPLAY_STEP;
    run();
    ck_assert_double_eq_tol(result.span_s, 7, 1e-12);
    ck_assert_double_eq_tol(result.bubble_fraction, 1 - 7.0 / 14, 1e-12);
    times = CADRE_REPLAY_MEDIANS; /* 1 and 2 a pass */
    run();
    ck_assert_double_eq_tol(result.span_s, 6, 1e-12);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("replay");
    TCase *tc = tcase_create("replay");
    tcase_add_checked_fixture(tc, NULL, teardown);
    tcase_add_test(tc, gpipe_has_its_formula);
    tcase_add_test(tc, one_f_one_b_has_the_same);
    tcase_add_test(tc, split_backward_idles_less);
    tcase_add_test(tc, chunks_shorten_the_fill);
    tcase_add_test(tc, stages_may_differ);
    tcase_add_test(tc, wrong_schedules_are_refused);
    tcase_add_test(tc, wrong_chunks_are_refused);
    tcase_add_test(tc, nothing_takes_no_time);
    tcase_add_test(tc, measured_is_idle_over_span);
    tcase_add_test(tc, a_step_replayed_keeps_its_passes);
    suite_add_tcase(s, tc);
    return s;
}
