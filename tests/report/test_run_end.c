/* SPDX-License-Identifier: Apache-2.0 */
#include "core/report/run_end.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/rank_page.h"
#include "tests/support/check_main.h"

static char *dir;
static struct cadre_run_end end;

static void setup(void)
{
    dir = test_tmpdir();
}

static void teardown(void)
{
    test_tmpdir_destroy(dir);
}

/* A page of rank `rank` of 2, left in `state` with `said`. */
static void leave(int rank, enum cadre_rank_state state, const char *said)
{
    struct cadre_rank_page *page = NULL;
    struct cadre_error err = {0};
    const struct cadre_rank_page_request request = {.dir = dir,
                                                    .rank = rank,
                                                    .ranks = 2,
                                                    .name = "n",
                                                    .stack = "ddp:2",
                                                    .last_step = 9};
    ck_assert_int_eq(cadre_rank_page_create(&request, &page, &err), CADRE_OK);
    cadre_rank_page_state(page, state);
    cadre_rank_page_say(page, said);
    cadre_rank_page_close(page);
}

/* The same by a process that ends. */
static void leave_dead(int rank, enum cadre_rank_state state)
{
    pid_t child = fork();
    if (child == 0) {
        leave(rank, state, "");
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
}

static void ended(enum cadre_run_how how, const char *why)
{
    memset(&end, 1, sizeof end);
    cadre_run_end_read(dir, &end);
    ck_assert_int_eq(end.how, how);
    ck_assert_str_eq(end.why, why);
}

START_TEST(the_first_failure_is_the_cause)
{
    leave(1, CADRE_RANK_FAILED, "rank 1: the file is cut");
    usleep(2000);
    leave(0, CADRE_RANK_FAILED, "rank 0: rank 1 failed");
    ended(CADRE_RUN_FAILED, "rank 1: the file is cut");
}
END_TEST

START_TEST(ranks_that_died_are_named)
{
    leave_dead(1, CADRE_RANK_TRAINING);
    ended(CADRE_RUN_DIED, "rank 1 died without a word");
    leave_dead(0, CADRE_RANK_STARTING);
    ended(CADRE_RUN_DIED, "rank 0 and others died without a word");
    leave(0, CADRE_RANK_FAILED, "rank 1 is gone"); /* which the other one saw */
    ended(CADRE_RUN_FAILED, "rank 1 is gone");
}
END_TEST

START_TEST(a_run_at_work_has_no_end)
{
    ended(CADRE_RUN_UNKNOWN, "");
    leave(0, CADRE_RANK_TRAINING, "");
    leave(1, CADRE_RANK_FAILED, "a start before this one");
    ended(CADRE_RUN_UNKNOWN, "");
}
END_TEST

START_TEST(a_regular_end_is_no_failure)
{
    leave(0, CADRE_RANK_ENDED, "");
    leave(1, CADRE_RANK_STOPPED, "");
    ended(CADRE_RUN_UNKNOWN, "");
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("run_end");
    TCase *tc = tcase_create("run_end");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, the_first_failure_is_the_cause);
    tcase_add_test(tc, ranks_that_died_are_named);
    tcase_add_test(tc, a_run_at_work_has_no_end);
    tcase_add_test(tc, a_regular_end_is_no_failure);
    suite_add_tcase(s, tc);
    return s;
}
