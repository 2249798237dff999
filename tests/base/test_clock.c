/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/clock.h"

#include <math.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/check_main.h"

enum { HOUR_S = 3600 }; /* no test runs for one */

START_TEST(this_process_began_before_now)
{
    const double begin = cadre_clock_process_begin_s(getpid());
    ck_assert(begin <= cadre_now_s() && begin > cadre_now_s() - HOUR_S);
}
END_TEST

START_TEST(a_child_begins_after_its_parent)
{
    const double parent = cadre_clock_process_begin_s(getppid());
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    const double begin = cadre_clock_process_begin_s(child);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    /* both may have begun in one tick, and two clocks are not read at once */
    ck_assert(begin > parent - 1 && begin <= cadre_now_s());
}
END_TEST

START_TEST(a_name_may_look_like_fields)
{
    ck_assert_int_eq(prctl(PR_SET_NAME, "a) R 1 2 (b 3"), 0);
    const double begin = cadre_clock_process_begin_s(getpid());
    ck_assert(begin <= cadre_now_s() && begin > cadre_now_s() - HOUR_S);
}
END_TEST

START_TEST(who_has_ended_and_was_not_waited_for)
{
    siginfo_t info;
    const pid_t child = fork();
    if (child == 0)
        _exit(0);
    ck_assert_int_eq(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    ck_assert_int_eq(kill(child, 0), 0); /* which tells nothing */
    ck_assert(cadre_clock_process_ended(child));
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    ck_assert(!cadre_clock_process_ended(child));
    ck_assert(!cadre_clock_process_ended(getpid()));
}
END_TEST

START_TEST(a_process_that_is_not_there)
{
    ck_assert(isnan(cadre_clock_process_begin_s(-1)));
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("clock");
    TCase *tc = tcase_create("clock");
    tcase_add_test(tc, this_process_began_before_now);
    tcase_add_test(tc, a_child_begins_after_its_parent);
    tcase_add_test(tc, a_name_may_look_like_fields);
    tcase_add_test(tc, who_has_ended_and_was_not_waited_for);
    tcase_add_test(tc, a_process_that_is_not_there);
    suite_add_tcase(s, tc);
    return s;
}
