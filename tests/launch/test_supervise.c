/* SPDX-License-Identifier: Apache-2.0 */
#include "core/launch/supervise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/check_main.h"

static char sh[] = "sh", flag[] = "-c";

/* Runs scripts at once; the end of each is in children[i].end. */
static cadre_status supervise(const struct cadre_supervise_policy *policy,
                              struct cadre_process *children, char *const (*argv)[4],
                              size_t n, struct cadre_error *err)
{
    struct cadre_supervise_watch watch;
    for (size_t i = 0; i < n; i++)
        children[i].argv = argv[i];
    cadre_supervise_open(&watch);
    cadre_status rc = cadre_supervise_run(&watch, policy, "/bin/sh", children, n, err);
    cadre_supervise_close(&watch);
    return rc;
}

static void run_all(struct cadre_process *children, char *const (*argv)[4], size_t n)
{
    struct cadre_error err = {0};
    cadre_status rc = supervise(&cadre_supervise_independent, children, argv, n, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
}

/* One script without input and output. */
static struct cadre_process_end run(const char *script)
{
    char copy[256];
    snprintf(copy, sizeof copy, "%s", script);
    char *const argv[][4] = {{sh, flag, copy, NULL}};
    struct cadre_process child = {.no_stdin = true, .no_stdout = true};
    run_all(&child, argv, 1);
    return child.end;
}

START_TEST(reports_how_a_child_ended)
{
    struct cadre_process_end end = run("exit 7");
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

/* The parent's pid is in PPID: the child signals the parent to stop, as a user would,
 * and gets the signal back. */
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
    struct cadre_process_end end = run(passed[_i].script);
    ck_assert_int_eq(end.status, passed[_i].status);
    ck_assert(end.asked);
}
END_TEST

START_TEST(a_group_of_its_own_keeps_the_terminal_s_signals_away)
{
    ck_assert_int_eq(run("test \"$(ps -o pgid= -p $$ | tr -d ' ')\" = $$").status, 0);
}
END_TEST

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
    struct cadre_process children[2] = {0};
    run_all(children, argv, 2);
    ck_assert_int_eq(children[0].end.signal, SIGKILL);
    ck_assert_int_eq(children[1].end.status, 3);
    ck_assert(!children[0].end.asked && !children[1].end.asked);
    ck_assert(children[0].pid == 0 && children[1].pid == 0);
    test_tmpdir_destroy(path);
}
END_TEST

/* Both have their traps before one signals the parent. */
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
    struct cadre_process children[2] = {0};
    run_all(children, argv, 2);
    ck_assert(children[0].end.status == 5 && children[0].end.asked);
    ck_assert(children[1].end.status == 4 && children[1].end.asked);
    test_tmpdir_destroy(path);
}
END_TEST

START_TEST(starts_with_given_cpus_and_variables)
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
    struct cadre_process child = {.variables = variables, .cpus = &one};
    run_all(&child, argv, 1);
    ck_assert_int_eq(child.end.status, 0);
    ck_assert_str_eq(getenv("TEST_CHILD"), "of the parent");
}
END_TEST

START_TEST(its_input_and_output_may_be_kept)
{
    char script[] = "for i in 0 1; do test \"$(readlink /proc/$$/fd/$i)\" = "
                    "\"$(readlink /proc/$PPID/fd/$i)\" || exit 1; done";
    char *const argv[][4] = {{sh, flag, script, NULL}};
    struct cadre_process child = {0};
    run_all(&child, argv, 1);
    ck_assert_int_eq(child.end.status, 0);
}
END_TEST

/* The first runs when the second cannot start, and is signalled to stop. */
START_TEST(names_what_cannot_start)
{
    char waits[] = "exec sleep 1000";
    char *const argv[][4] = {{sh, flag, waits, NULL}, {sh, flag, waits, NULL}};
    cpu_set_t none;
    CPU_ZERO(&none);
    struct cadre_process children[2] = {{0}, {.cpus = &none, .name = "rank 1"}};
    struct cadre_error err = {0};
    ck_assert_int_eq(supervise(&cadre_supervise_independent, children, argv, 2, &err),
                     CADRE_E_RESOURCE);
    ck_assert_msg(strstr(err.text, "cannot start rank 1 on its CPUs: "), "%s",
                  err.text);
    ck_assert_int_eq(children[0].end.signal, SIGTERM);
    ck_assert(children[0].pid == 0 && children[1].pid == 0);
}
END_TEST

START_TEST(names_a_program_that_cannot_start)
{
    struct cadre_supervise_watch watch;
    struct cadre_error err = {0};
    char *const argv[] = {sh, NULL};
    struct cadre_process child = {.argv = argv};
    cadre_supervise_open(&watch);
    ck_assert_int_eq(cadre_supervise_run(&watch, &cadre_supervise_independent,
                                         "/no/such/program", &child, 1, &err),
                     CADRE_E_RESOURCE);
    cadre_supervise_close(&watch);
    ck_assert_ptr_nonnull(strstr(err.text, "cannot start '/no/such/program': "));
}
END_TEST

/* Here the supervisor is a separate process, and is killed. */
START_TEST(the_policy_s_signal_comes_where_the_parent_is_gone)
{
    char *path = test_tmpdir();
    char waits[512], said[256];
    snprintf(waits, sizeof waits,
             "trap '>%s/told; exit' TERM; >%s/ready; while :; do sleep 0.02; done",
             path, path);
    char *const argv[][4] = {{sh, flag, waits, NULL}};
    pid_t pid = fork();
    if (pid == 0) {
        run_all(&(struct cadre_process){0}, argv, 1);
        _exit(0);
    }
    ck_assert_int_gt(pid, 0);
    snprintf(said, sizeof said, "%s/ready", path);
    while (access(said, F_OK) != 0)
        usleep(10000);
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    snprintf(said, sizeof said, "%s/told", path);
    while (access(said, F_OK) != 0)
        usleep(10000);
    test_tmpdir_destroy(path);
}
END_TEST

/* Children that fail as a group, as soon as one has a failing status. */
struct crew {
    int ended;
    bool failed;
};

static bool crew_failed(void *h)
{
    const struct crew *crew = h;
    return crew->failed;
}

static void crew_ended(void *h, size_t i, const struct cadre_process_end *end)
{
    struct crew *crew = h;
    crew->ended++;
    crew->failed = crew->failed || end->status != 0;
    ck_assert_int_lt((int)i, 2);
}

/* The one that does not end by itself is killed, which is not its own failure. */
START_TEST(others_are_killed_after_the_grace)
{
    char fails[] = "exit 3", waits[] = "exec sleep 1000";
    char *const argv[][4] = {{sh, flag, fails, NULL}, {sh, flag, waits, NULL}};
    struct crew crew = {0};
    const struct cadre_supervise_policy policy = {
        .signal = SIGKILL,
        .failed = crew_failed,
        .grace_s = 0.05,
        .ended = crew_ended,
        .h = &crew,
    };
    struct cadre_process children[2] = {0};
    struct cadre_error err = {0};
    ck_assert_int_eq(supervise(&policy, children, argv, 2, &err), CADRE_OK);
    ck_assert(children[0].end.status == 3 && !children[0].end.killed);
    ck_assert(children[1].end.signal == SIGKILL && children[1].end.killed);
    ck_assert(!children[1].end.asked);
    ck_assert_int_eq(crew.ended, 2);
}
END_TEST

/* Within the grace period one may end by itself, as by a signal of its own. */
START_TEST(the_grace_is_kept)
{
    char fails[] = "exit 3", ends[] = "sleep 0.3; exit 4";
    char *const argv[][4] = {{sh, flag, fails, NULL}, {sh, flag, ends, NULL}};
    struct crew crew = {0};
    const struct cadre_supervise_policy policy = {
        .signal = SIGKILL,
        .failed = crew_failed,
        .grace_s = 1000,
        .ended = crew_ended,
        .h = &crew,
    };
    struct cadre_process children[2] = {0};
    struct cadre_error err = {0};
    ck_assert_int_eq(supervise(&policy, children, argv, 2, &err), CADRE_OK);
    ck_assert(children[1].end.status == 4 && !children[1].end.killed);
}
END_TEST

/* A process that ignores SIGCHLD passes that on to what it starts. */
START_TEST(ends_are_seen_where_they_were_ignored)
{
    signal(SIGCHLD, SIG_IGN);
    ck_assert_int_eq(run("exit 7").status, 7);
    ck_assert(signal(SIGCHLD, SIG_DFL) == SIG_IGN);
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
    Suite *suite = suite_create("launch/supervise");
    TCase *tc = tcase_create("supervise");
    tcase_set_timeout(tc, 20);
    tcase_add_test(tc, reports_how_a_child_ended);
    tcase_add_test(tc, gives_it_no_input_and_no_output);
    tcase_add_loop_test(tc, passes_signals_on, 0, 3);
    tcase_add_test(tc, a_group_of_its_own_keeps_the_terminal_s_signals_away);
    tcase_add_test(tc, several_at_once_end_each_by_itself);
    tcase_add_test(tc, a_signal_reaches_all);
    tcase_add_test(tc, starts_with_given_cpus_and_variables);
    tcase_add_test(tc, its_input_and_output_may_be_kept);
    tcase_add_test(tc, names_what_cannot_start);
    tcase_add_test(tc, names_a_program_that_cannot_start);
    tcase_add_test(tc, others_are_killed_after_the_grace);
    tcase_add_test(tc, the_grace_is_kept);
    tcase_add_test(tc, the_policy_s_signal_comes_where_the_parent_is_gone);
    tcase_add_test(tc, ends_are_seen_where_they_were_ignored);
    tcase_add_test(tc, leaves_signals_as_they_were);
    suite_add_tcase(suite, tc);
    return suite;
}
