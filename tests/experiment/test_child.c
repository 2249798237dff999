/* SPDX-License-Identifier: Apache-2.0 */
#include "core/experiment/child.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/check_main.h"

static struct cadre_child_end run(const char *script)
{
    char copy[256];
    struct cadre_child_watch watch;
    struct cadre_child_end end = {0};
    struct cadre_error err = {0};
    snprintf(copy, sizeof copy, "%s", script);
    char sh[] = "sh", flag[] = "-c";
    char *const argv[] = {sh, flag, copy, NULL};
    cadre_child_watch_open(&watch);
    cadre_status rc = cadre_child_run(&watch, "/bin/sh", argv, &end, &err);
    cadre_child_watch_close(&watch);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    return end;
}

START_TEST(tells_how_a_child_ended)
{
    struct cadre_child_end end = run("exit 7");
    ck_assert(end.status == 7 && end.signal == 0 && !end.asked);
    end = run("kill -9 $$");
    ck_assert(end.status == -1 && end.signal == SIGKILL && !end.asked);
    ck_assert_int_eq(run("exit 0").status, 0);
}
END_TEST

START_TEST(gives_it_no_input_and_no_output)
{
    ck_assert_int_eq(run("test \"$(cat)\" = ''").status, 0);
    ck_assert_int_eq(run("test \"$(readlink /proc/$$/fd/1)\" = /dev/null").status, 0);
}
END_TEST

/* The parent's pid is in PPID: the child asks the parent to stop, as a user would, and
 * is asked in turn. */
static const struct {
    const char *script;
    int status;
} passed[] = {
    {"trap 'exit 4' TERM; kill -TERM $PPID; while :; do sleep 0.02; done", 4},
    {"trap 'exit 5' INT; kill -INT $PPID; while :; do sleep 0.02; done", 5},
    {"trap 'exit 6' USR1; kill -USR1 $PPID; while :; do sleep 0.02; done", 6},
};

START_TEST(passes_signals_on)
{
    struct cadre_child_end end = run(passed[_i].script);
    ck_assert_int_eq(end.status, passed[_i].status);
    ck_assert(end.asked);
}
END_TEST

START_TEST(a_group_of_its_own_keeps_the_terminal_s_signals_away)
{
    ck_assert_int_eq(run("test \"$(ps -o pgid= -p $$ | tr -d ' ')\" = $$").status, 0);
}
END_TEST

START_TEST(names_a_program_that_cannot_start)
{
    struct cadre_child_watch watch;
    struct cadre_child_end end;
    struct cadre_error err = {0};
    char name[] = "x";
    char *const argv[] = {name, NULL};
    cadre_child_watch_open(&watch);
    ck_assert_int_eq(cadre_child_run(&watch, "/no/such/program", argv, &end, &err),
                     CADRE_E_RESOURCE);
    cadre_child_watch_close(&watch);
    ck_assert_ptr_nonnull(strstr(err.text, "cannot start '/no/such/program'"));
}
END_TEST

START_TEST(leaves_signals_as_they_were)
{
    sigset_t before, after;
    sigprocmask(SIG_SETMASK, NULL, &before);
    run("exit 0");
    sigprocmask(SIG_SETMASK, NULL, &after);
    for (int sig = 1; sig < 32; sig++)
        ck_assert_int_eq(sigismember(&before, sig), sigismember(&after, sig));
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("child");
    TCase *tc = tcase_create("child");
    tcase_set_timeout(tc, 20);
    tcase_add_test(tc, tells_how_a_child_ended);
    tcase_add_test(tc, gives_it_no_input_and_no_output);
    tcase_add_loop_test(tc, passes_signals_on, 0, 3);
    tcase_add_test(tc, a_group_of_its_own_keeps_the_terminal_s_signals_away);
    tcase_add_test(tc, names_a_program_that_cannot_start);
    tcase_add_test(tc, leaves_signals_as_they_were);
    suite_add_tcase(suite, tc);
    return suite;
}
