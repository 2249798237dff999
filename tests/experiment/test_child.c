/* SPDX-License-Identifier: Apache-2.0 */
#include "core/experiment/child.h"

#include <stdio.h>
#include <stdlib.h>
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
    char shell[] = "sh", command[] = "-c";
    char *const argv[] = {shell, command, copy, NULL};
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

/* Scripts at once; the end of each is in children[i].end. */
static void run_all(struct cadre_child *children, char *const (*argv)[4], size_t n)
{
    struct cadre_child_watch watch;
    struct cadre_error err = {0};
    for (size_t i = 0; i < n; i++)
        children[i].argv = argv[i];
    cadre_child_watch_open(&watch);
    cadre_status rc = cadre_child_run_all(&watch, "/bin/sh", children, n, &err);
    cadre_child_watch_close(&watch);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
}

static char sh[] = "sh", flag[] = "-c";

/* The second ends only when the first, which is killed, is gone. */
START_TEST(several_at_once_end_each_by_itself)
{
    char *path = test_tmpdir();
    char killed[256], waits[256];
    snprintf(killed, sizeof killed, "echo $$ >%s/pid; kill -9 $$", path);
    snprintf(waits, sizeof waits,
             "until test -s %s/pid && ! kill -0 $(cat %s/pid) 2>/dev/null; do "
             "sleep 0.02; done; exit 3",
             path, path);
    char *const argv[][4] = {{sh, flag, killed, NULL}, {sh, flag, waits, NULL}};
    struct cadre_child children[2] = {0};
    run_all(children, argv, 2);
    ck_assert_int_eq(children[0].end.signal, SIGKILL);
    ck_assert_int_eq(children[1].end.status, 3);
    ck_assert(!children[0].end.asked && !children[1].end.asked);
    ck_assert(children[0].pid == 0 && children[1].pid == 0);
    test_tmpdir_destroy(path);
}
END_TEST

/* Both have their traps before one asks the parent. */
START_TEST(a_signal_reaches_all)
{
    char *path = test_tmpdir();
    char asks[512], waits[512];
    snprintf(waits, sizeof waits,
             "trap 'exit 4' TERM; >%s/ready; while :; do sleep 0.02; done", path);
    snprintf(asks, sizeof asks,
             "trap 'exit 5' TERM; until test -e %s/ready; do sleep 0.02; done; "
             "kill -TERM $PPID; while :; do sleep 0.02; done",
             path);
    char *const argv[][4] = {{sh, flag, asks, NULL}, {sh, flag, waits, NULL}};
    struct cadre_child children[2] = {0};
    run_all(children, argv, 2);
    ck_assert(children[0].end.status == 5 && children[0].end.asked);
    ck_assert(children[1].end.status == 4 && children[1].end.asked);
    test_tmpdir_destroy(path);
}
END_TEST

START_TEST(begins_where_and_with_what_it_is_told)
{
    char first[] = "TEST_CHILD=of its own", script[256];
    char *const variables[] = {first, NULL};
    cpu_set_t own, one;
    int cpu = 0;
    sched_getaffinity(0, sizeof own, &own);
    while (!CPU_ISSET(cpu, &own))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    setenv("TEST_CHILD", "of the parent", 1);
    setenv("TEST_OTHER", "kept", 1);
    snprintf(script, sizeof script,
             "test \"$TEST_CHILD $TEST_OTHER\" = 'of its own kept' && grep -q "
             "'^Cpus_allowed_list:[[:space:]]*%d$' /proc/self/status",
             cpu);
    char *const argv[][4] = {{sh, flag, script, NULL}};
    struct cadre_child child = {.variables = variables, .cpus = &one};
    run_all(&child, argv, 1);
    ck_assert_int_eq(child.end.status, 0);
    ck_assert_str_eq(getenv("TEST_CHILD"), "of the parent");
}
END_TEST

START_TEST(its_output_may_be_kept)
{
    char script[] = "test \"$(readlink /proc/$$/fd/1)\" != /dev/null || "
                    "test \"$(readlink /proc/$PPID/fd/1)\" = /dev/null";
    char *const argv[][4] = {{sh, flag, script, NULL}};
    struct cadre_child child = {.keeps_stdout = true};
    run_all(&child, argv, 1);
    ck_assert_int_eq(child.end.status, 0);
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
    tcase_add_test(tc, several_at_once_end_each_by_itself);
    tcase_add_test(tc, a_signal_reaches_all);
    tcase_add_test(tc, begins_where_and_with_what_it_is_told);
    tcase_add_test(tc, its_output_may_be_kept);
    tcase_add_test(tc, names_a_program_that_cannot_start);
    tcase_add_test(tc, leaves_signals_as_they_were);
    suite_add_tcase(suite, tc);
    return suite;
}
