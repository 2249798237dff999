/* SPDX-License-Identifier: Apache-2.0 */
#include "core/check/kit/process.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/check_main.h"

#define LONG_S 3600.0

static char *dir, output[1100];
static char sh[] = "sh", flag[] = "-c";

static void setup(void)
{
    dir = test_tmpdir();
    snprintf(output, sizeof output, "%s/output", dir);
    cadre_check_process_adopt();
}

static void teardown(void)
{
    test_tmpdir_destroy(dir);
}

/* A script, which the caller keeps. */
static struct cadre_check_process of(char *const *argv, double limit_s, bool leads)
{
    return (struct cadre_check_process){
        .program = "/bin/sh",
        .argv = argv,
        .output = output,
        .limit_s = limit_s,
        .leads = leads,
    };
}

static struct cadre_check_process run(const char *script, double limit_s, bool leads)
{
    struct cadre_error err = {0};
    char copy[512];
    snprintf(copy, sizeof copy, "%s", script);
    char *const argv[] = {sh, flag, copy, NULL};
    struct cadre_check_process process = of(argv, limit_s, leads);
    cadre_status rc = cadre_check_process_run(&process, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    ck_assert_int_eq(process.pid, 0);
    return process;
}

static void printed(const char *want)
{
    char tail[256];
    cadre_check_process_tail(output, tail, sizeof tail);
    ck_assert_str_eq(tail, want);
}

START_TEST(the_end_is_told)
{
    struct cadre_check_process process =
        run("echo out; echo err >&2; exit 7", LONG_S, true);
    ck_assert(process.status == 7 && process.signal == 0 && !process.timed_out);
    printed("out\nerr");
    process = run("kill -SEGV $$", LONG_S, true);
    ck_assert(process.status == -1 && process.signal == SIGSEGV && !process.timed_out);
    process = run("exit 0", 0, false);
    ck_assert(process.status == 0 && !process.timed_out);
    printed("");
}
END_TEST

START_TEST(the_limit_is_kept)
{
    struct cadre_check_process process = run("while :; do :; done", 0.2, true);
    ck_assert(process.timed_out && process.signal == SIGKILL);
    /* signals that it ignores do not help it */
    process = run("trap '' TERM INT HUP; echo here; while :; do :; done", 0.2, false);
    ck_assert(process.timed_out && process.signal == SIGKILL);
}
END_TEST

/* stdin is empty, signals are as they are in a shell, core files are not written. */
START_TEST(it_begins_clean)
{
    signal(SIGPIPE, SIG_IGN);
    sigset_t term;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, NULL);
    run("cat; ulimit -c; kill $$", LONG_S, true);
    printed("0");
    struct cadre_check_process process = run("kill -TERM $$; exit 3", LONG_S, true);
    ck_assert_int_eq(process.signal, SIGTERM);
    process = run("kill -PIPE $$; exit 3", LONG_S, true);
    ck_assert_int_eq(process.signal, SIGPIPE);
}
END_TEST

/* A check is its own process; a run that a check starts is as a user's. */
START_TEST(a_supervisor_is_for_runs_alone)
{
    run("echo ${CADRE_SUPERVISE-unset} ${GLIBC_TUNABLES:+tuned}", LONG_S, true);
    printed("no tuned");
    setenv("CADRE_SUPERVISE", "no", 1);
    setenv("GLIBC_TUNABLES", "x", 1);
    run("echo ${CADRE_SUPERVISE-unset} ${GLIBC_TUNABLES-unset}", LONG_S, false);
    printed("unset unset");
}
END_TEST

START_TEST(files_have_a_limit)
{
    char script[1300];
    struct stat st;
    struct cadre_error err = {0};
    snprintf(script, sizeof script,
             "head -c 100000 /dev/zero >%s/large 2>/dev/null; exit 0", dir);
    char *const argv[] = {sh, flag, script, NULL};
    struct cadre_check_process process = of(argv, LONG_S, false);
    process.file_kib = 8;
    ck_assert_int_eq(cadre_check_process_run(&process, &err), CADRE_OK);
    snprintf(script, sizeof script, "%s/large", dir);
    ck_assert_int_eq(stat(script, &st), 0);
    ck_assert_int_eq(st.st_size, 8192);
}
END_TEST

START_TEST(cpu_time_is_that_of_all)
{
    struct cadre_check_process process =
        run("sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'", LONG_S, true);
    ck_assert(process.cpu_s > 0);
}
END_TEST

/* Is the process whose id the child has printed still there? */
static bool lives(void)
{
    char tail[64];
    cadre_check_process_tail(output, tail, sizeof tail);
    pid_t pid = (pid_t)strtol(tail, NULL, 10);
    ck_assert_int_gt(pid, 0);
    return kill(pid, 0) == 0;
}

/* Killed ones are gone once their parent has noticed. */
static void dies(void)
{
    const struct timespec tick = {.tv_nsec = 5000000};
    while (lives()) {
        cadre_check_process_sweep(NULL, 0);
        nanosleep(&tick, NULL);
    }
}

START_TEST(its_group_ends_with_it)
{
    /* it has ended, it has been ended */
    run("sleep 1000 >/dev/null 2>&1 & echo $!", LONG_S, true);
    dies();
    run("sleep 1000 >/dev/null 2>&1 & echo $!; wait", 0.5, true);
    dies();
}
END_TEST

/* Out of the group, out of the session, and with a child of its own. */
START_TEST(what_it_leaves_is_swept)
{
    run("setsid sleep 1000 >/dev/null 2>&1 & echo $!", LONG_S, true);
    ck_assert(lives());
    ck_assert_int_ge(cadre_check_process_sweep(NULL, 0), 1);
    ck_assert(!lives());
    ck_assert_int_eq(cadre_check_process_sweep(NULL, 0), 0);
    char script[1400];
    snprintf(script, sizeof script,
             "setsid sh -c 'sleep 1000 >/dev/null 2>&1 & echo $!; wait' & "
             "while [ ! -s %s ]; do :; done",
             output);
    struct cadre_error err = {0};
    char *const argv[] = {sh, flag, script, NULL};
    struct cadre_check_process process = of(argv, LONG_S, true);
    ck_assert_int_eq(cadre_check_process_run(&process, &err), CADRE_OK);
    ck_assert(lives());
    ck_assert_int_ge(cadre_check_process_sweep(NULL, 0), 2);
    ck_assert(!lives());
}
END_TEST

START_TEST(those_that_run_are_not_swept)
{
    struct cadre_error err = {0};
    char script[] = "exec sleep 1000";
    char *const argv[] = {sh, flag, script, NULL};
    struct cadre_check_process process = of(argv, LONG_S, true);
    pid_t children[4];
    ck_assert_int_eq(cadre_check_process_start(&process, &err), CADRE_OK);
    ck_assert_uint_eq(cadre_check_process_children(getpid(), children, 4), 1);
    ck_assert_int_eq(children[0], process.pid);
    ck_assert_int_eq(cadre_check_process_sweep(&process.pid, 1), 0);
    ck_assert(!cadre_check_process_ended(&process));
    cadre_check_process_kill(&process);
    ck_assert(process.pid == 0 && process.signal == SIGKILL && !process.timed_out);
    cadre_check_process_kill(&process); /* once more does nothing */
    ck_assert(cadre_check_process_ended(&process));
    ck_assert_uint_eq(cadre_check_process_children(getpid(), children, 4), 0);
}
END_TEST

START_TEST(what_cannot_be_started_says_so)
{
    struct cadre_error err = {0};
    char *const argv[] = {sh, NULL};
    struct cadre_check_process process = of(argv, LONG_S, true);
    process.program = "/no/such/program";
    ck_assert_int_eq(cadre_check_process_run(&process, &err), CADRE_OK);
    ck_assert_int_eq(process.status, 127);
    process = of(argv, LONG_S, true);
    process.output = "/no/such/output";
    ck_assert_int_eq(cadre_check_process_run(&process, &err), CADRE_OK);
    ck_assert_int_eq(process.status, 127);
}
END_TEST

START_TEST(the_tail_is_the_last_text)
{
    char tail[13];
    run("printf 'first\\nsecond \\033[1m\\n\\n'", LONG_S, true);
    printed("first\nsecond ?[1m");
    cadre_check_process_tail(output, tail, sizeof tail);
    ck_assert_str_eq(tail, "econd ?[1m");
    cadre_check_process_tail("/no/such", tail, sizeof tail);
    ck_assert_str_eq(tail, "");
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("check/process");
    TCase *t = tcase_create("process");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, the_end_is_told);
    tcase_add_test(t, the_limit_is_kept);
    tcase_add_test(t, it_begins_clean);
    tcase_add_test(t, a_supervisor_is_for_runs_alone);
    tcase_add_test(t, files_have_a_limit);
    tcase_add_test(t, cpu_time_is_that_of_all);
    tcase_add_test(t, its_group_ends_with_it);
    tcase_add_test(t, what_it_leaves_is_swept);
    tcase_add_test(t, those_that_run_are_not_swept);
    tcase_add_test(t, what_cannot_be_started_says_so);
    tcase_add_test(t, the_tail_is_the_last_text);
    suite_add_tcase(s, t);
    return s;
}
