/* SPDX-License-Identifier: Apache-2.0 */
#include "core/top/snapshot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/path.h"
#include "tests/support/check_main.h"
#include "tests/top/run_fixture.h"

static struct cadre_top_snapshot s;
static struct cadre_error err;

static void teardown(void)
{
    cadre_top_snapshot_fini(&s);
}

/* ---- what follows ---- */

START_TEST(rates_and_time_left)
{
    run_fixture_make(&s, 2, 20);
    s.rank[0].seen.times[19].step_s = 0.2;
    cadre_top_snapshot_conclude(&s);
    ck_assert_int_eq(s.step, 20);
    ck_assert_int_eq(s.last_step, 100);
    ck_assert_double_eq_tol(s.tokens_per_s, 5000, 1e-6);
    ck_assert_double_eq_tol(s.tokens_per_s_median, 10000, 1e-6);
    ck_assert_double_eq_tol(s.left_s, 8, 1e-6); /* 80 steps of 0.1 s */
    ck_assert_int_eq(s.state, CADRE_TOP_RUNNING);
}
END_TEST

START_TEST(before_the_first_step)
{
    run_fixture_make(&s, 2, 0);
    ck_assert_int_eq(s.step, 0);
    ck_assert(isnan(s.left_s) && isnan(s.tokens_per_s));
    ck_assert(isnan(s.tokens_per_s_median));
    ck_assert_int_eq(s.slowest, -1);
    ck_assert_ptr_null(cadre_top_last_step(&s.rank[0]));
}
END_TEST

/* One step of ten that takes long is chance; all ten are not. */
START_TEST(the_slowest_rank_is_no_chance)
{
    run_fixture_make(&s, 4, 15);
    for (int k = 0; k < 15; k++)
        for (int r = 0; r < 4; r++)
            run_fixture_slow(&s, r, k, 0.001 * ((k * 7 + r * 3) % 5));
    run_fixture_slow(&s, 2, 12, 0.05);
    cadre_top_snapshot_conclude(&s);
    ck_assert_int_eq(s.slowest, -1);
    for (int k = 5; k < 15; k++)
        run_fixture_slow(&s, 1, k, 0.03);
    cadre_top_snapshot_conclude(&s);
    ck_assert_int_eq(s.slowest, 1);
    ck_assert(s.slower_by > 0.3 && s.slower_by < 0.6);
}
END_TEST

START_TEST(fewer_steps_show_no_slowest)
{
    run_fixture_make(&s, 2, CADRE_TOP_STEPS - 1);
    for (int k = 0; k < CADRE_TOP_STEPS - 1; k++)
        run_fixture_slow(&s, 1, k, 1);
    cadre_top_snapshot_conclude(&s);
    ck_assert_int_eq(s.slowest, -1);
}
END_TEST

/* Ranks that are a step ahead are compared over the steps that all have done. */
START_TEST(ranks_at_different_steps)
{
    run_fixture_make(&s, 2, 20);
    s.rank[0].seen.n_times = 19;
    for (int k = 0; k < 20; k++)
        run_fixture_slow(&s, 1, k, 0.02);
    cadre_top_snapshot_conclude(&s);
    ck_assert_int_eq(s.slowest, 1);
}
END_TEST

START_TEST(the_state_of_the_run)
{
    run_fixture_make(&s, 2, 3);
    s.rank[1].seen.alive = CADRE_RANK_GONE;
    cadre_top_snapshot_conclude(&s);
    ck_assert(s.rank[1].died && !s.rank[0].died);
    ck_assert_int_eq(s.state, CADRE_TOP_RUNNING);
    s.rank[0].seen.state = CADRE_RANK_FAILED;
    cadre_top_snapshot_conclude(&s);
    ck_assert_int_eq(s.state, CADRE_TOP_DIED);
    s.rank[1].seen.state = CADRE_RANK_STOPPED;
    cadre_top_snapshot_conclude(&s);
    ck_assert(!s.rank[1].died);
    ck_assert_int_eq(s.state, CADRE_TOP_FAILED);
    s.rank[0].seen.state = CADRE_RANK_STOPPED;
    cadre_top_snapshot_conclude(&s);
    ck_assert_int_eq(s.state, CADRE_TOP_STOPPED);
    s.rank[0].seen.state = s.rank[1].seen.state = CADRE_RANK_ENDED;
    cadre_top_snapshot_conclude(&s);
    ck_assert_int_eq(s.state, CADRE_TOP_ENDED);
    ck_assert(isnan(s.left_s));
    ck_assert_str_eq(cadre_top_state_name(s.state), "ended");
}
END_TEST

/* Whose processes are not seen from here: they train until another rank has failed. */
START_TEST(the_state_of_ranks_on_other_hosts)
{
    run_fixture_make(&s, 2, 3);
    s.rank[0].seen.alive = s.rank[1].seen.alive = CADRE_RANK_ELSEWHERE;
    cadre_top_snapshot_conclude(&s);
    ck_assert(!s.rank[0].died && !s.rank[1].died);
    ck_assert_int_eq(s.state, CADRE_TOP_RUNNING);
    s.rank[0].seen.state = CADRE_RANK_ENDED; /* the other's page comes a second later */
    cadre_top_snapshot_conclude(&s);
    ck_assert_int_eq(s.state, CADRE_TOP_RUNNING);
    s.rank[0].seen.state = CADRE_RANK_FAILED;
    cadre_top_snapshot_conclude(&s);
    ck_assert_int_eq(s.state, CADRE_TOP_FAILED);
    s.rank[1].seen.alive = CADRE_RANK_ALIVE; /* that one is seen */
    cadre_top_snapshot_conclude(&s);
    ck_assert_int_eq(s.state, CADRE_TOP_RUNNING);
}
END_TEST

/* ---- pages ---- */

static char *dir;

static struct cadre_rank_page *write_page(int rank, int ranks)
{
    struct cadre_rank_page *page = NULL;
    const struct cadre_rank_page_request request = {.dir = dir,
                                                    .rank = rank,
                                                    .ranks = ranks,
                                                    .name = "n",
                                                    .stack = "ddp:3",
                                                    .last_step = 9};
    ck_assert_int_eq(cadre_rank_page_create(&request, &page, &err), CADRE_OK);
    return page;
}

static void setup_pages(void)
{
    dir = test_tmpdir();
}

static void teardown_pages(void)
{
    cadre_top_snapshot_fini(&s);
    test_tmpdir_destroy(dir);
}

START_TEST(pages_that_are_not_there_or_wrong)
{
    struct cadre_rank_page *zero = write_page(0, 3), *two = write_page(2, 3);
    two->shared->head.version = 9;
    ck_assert_int_eq(cadre_top_snapshot_take(dir, &s, &err), CADRE_OK);
    ck_assert_int_eq(s.n, 3);
    ck_assert(s.rank[0].known && !s.rank[1].known && !s.rank[2].known);
    ck_assert_str_eq(s.rank[1].why, "no status page yet");
    ck_assert_ptr_nonnull(strstr(s.rank[2].why, "version 9"));
    ck_assert_ptr_eq(s.lead, &s.rank[0]);
    ck_assert(s.time_s > 1e9);
    cadre_rank_page_close(zero);
    cadre_rank_page_close(two);
}
END_TEST

START_TEST(a_page_in_the_place_of_another)
{
    struct cadre_rank_page *page[3];
    for (int r = 0; r < 3; r++)
        page[r] = write_page(r, 3);
    char *from = cadre_rank_page_path(dir, 0), *to = cadre_rank_page_path(dir, 1);
    ck_assert_int_eq(rename(from, to), 0);
    ck_assert_int_eq(cadre_top_snapshot_take(dir, &s, &err), CADRE_OK);
    ck_assert(!s.rank[0].known && !s.rank[1].known && s.rank[2].known);
    ck_assert_ptr_nonnull(strstr(s.rank[1].why, "of rank 0 of 3, not of 1 of 3"));
    free(from);
    free(to);
    for (int r = 0; r < 3; r++)
        cadre_rank_page_close(page[r]);
}
END_TEST

START_TEST(no_page_at_all)
{
    ck_assert_int_eq(cadre_top_snapshot_take(dir, &s, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "has no status of a run"));
    struct cadre_rank_page *only = write_page(0, 1);
    only->shared->head.version = 9;
    ck_assert_int_eq(cadre_top_snapshot_take(dir, &s, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "version 9"));
    cadre_rank_page_close(only);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("snapshot");
    TCase *tc = tcase_create("conclusions");
    tcase_add_checked_fixture(tc, NULL, teardown);
    tcase_add_test(tc, rates_and_time_left);
    tcase_add_test(tc, before_the_first_step);
    tcase_add_test(tc, the_slowest_rank_is_no_chance);
    tcase_add_test(tc, fewer_steps_show_no_slowest);
    tcase_add_test(tc, ranks_at_different_steps);
    tcase_add_test(tc, the_state_of_the_run);
    tcase_add_test(tc, the_state_of_ranks_on_other_hosts);
    suite_add_tcase(suite, tc);
    tc = tcase_create("pages");
    tcase_add_checked_fixture(tc, setup_pages, teardown_pages);
    tcase_add_test(tc, pages_that_are_not_there_or_wrong);
    tcase_add_test(tc, a_page_in_the_place_of_another);
    tcase_add_test(tc, no_page_at_all);
    suite_add_tcase(suite, tc);
    return suite;
}
