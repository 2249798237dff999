/* SPDX-License-Identifier: Apache-2.0 */
/* Each case is a process that splits into supervisor and run, as main does; the run
 * misbehaves. */
#include "core/launch/supervisor.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/launch/launch.h"
#include "tests/support/check_main.h"

/* How a process ended, and what it and its run wrote to stderr. */
struct outcome {
    int status; /* or -1 */
    int signal;
    char text[2048];
};

static void finish(const struct cadre_status_page *page, const char *text, int status)
{
    if (text)
        cadre_status_page_say(page, text);
    cadre_status_finished(cadre_status_current());
    _exit(status);
}

/* Start `run` under a supervisor; *err is the end of the pipe that has its stderr. */
static pid_t start(void (*run)(const struct cadre_status_page *page), int *err)
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        struct cadre_status_page page;
        int status;
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        for (int sig = 1; sig < NSIG; sig++) /* a sanitizer's own handlers */
            signal(sig, SIG_DFL);
        if (cadre_supervisor_split(&page, &status))
            _exit(status);
        run(&page);
        _exit(99);
    }
    ck_assert_int_gt(pid, 0);
    close(ends[1]);
    *err = ends[0];
    return pid;
}

/* The end of the pipe comes when supervisor and run are gone. */
static struct outcome wait_for(pid_t pid, int err)
{
    struct outcome outcome = {.status = -1};
    size_t used = 0;
    ssize_t n;
    int how = 0;
    while ((n = read(err, outcome.text + used, sizeof outcome.text - used - 1)) > 0)
        used += (size_t)n;
    close(err);
    ck_assert_int_eq(waitpid(pid, &how, 0), pid);
    if (WIFEXITED(how))
        outcome.status = WEXITSTATUS(how);
    else
        outcome.signal = WTERMSIG(how);
    return outcome;
}

static struct outcome supervise(void (*run)(const struct cadre_status_page *page))
{
    int err;
    pid_t pid = start(run, &err);
    return wait_for(pid, err);
}

static void fails_as(void (*run)(const struct cadre_status_page *page),
                     const char *expected)
{
    struct outcome outcome = supervise(run);
    char line[1100];
    snprintf(line, sizeof line, "cadre: %s\n", expected);
    ck_assert_str_eq(outcome.text, line);
    ck_assert_int_eq(outcome.status, 1);
}

/* ---- ends that are in order ---- */

static void ends_well(const struct cadre_status_page *page)
{
    finish(page, NULL, cadre_status_root(cadre_status_current()) == getppid() ? 0 : 1);
}

static void ends_with_a_reason(const struct cadre_status_page *page)
{
    finish(page, "no such thing", 2);
}

static void stopped(const struct cadre_status_page *page)
{
    finish(page, NULL, 4);
}

START_TEST(the_run_s_status_is_the_supervisor_s)
{
    struct outcome outcome = supervise(ends_well);
    ck_assert(outcome.status == 0 && !outcome.text[0]);
    outcome = supervise(stopped);
    ck_assert(outcome.status == 4 && !outcome.text[0]);
    outcome = supervise(ends_with_a_reason);
    ck_assert_int_eq(outcome.status, 2);
    ck_assert_str_eq(outcome.text, "cadre: no such thing\n");
}
END_TEST

static void interrupts_itself(const struct cadre_status_page *page)
{
    (void)page;
    raise(SIGINT);
}

static void breaks_a_pipe(const struct cadre_status_page *page)
{
    (void)page;
    raise(SIGPIPE);
}

START_TEST(a_signal_that_users_send_ends_both)
{
    struct outcome outcome = supervise(interrupts_itself);
    ck_assert(outcome.signal == SIGINT && !outcome.text[0]);
    outcome = supervise(breaks_a_pipe);
    ck_assert(outcome.signal == SIGPIPE && !outcome.text[0]);
}
END_TEST

/* ---- ends that are not ---- */

static void enter(const char *callback, uint64_t step)
{
    cadre_status_enter(cadre_status_current(), "x", callback, step);
}

static void exits(const struct cadre_status_page *page)
{
    (void)page;
    cadre_status_begin(cadre_status_current(), 0);
    enter("step", 1);
    exit(0);
}

static void exits_at_once(const struct cadre_status_page *page)
{
    (void)page;
    enter("open", 0);
    _exit(0);
}

START_TEST(an_exit_is_a_failure)
{
    fails_as(exits, "rank 0 ended without finishing: plugin 'x' called exit in step at "
                    "step 1");
    fails_as(exits_at_once,
             "the run ended without finishing: plugin 'x' called exit in open?");
}
END_TEST

static void faults(const struct cadre_status_page *page)
{
    (void)page;
    cadre_status_begin(cadre_status_current(), 0);
    enter("on_grad", 12);
    raise(SIGSEGV);
}

static void faults_in_the_core(const struct cadre_status_page *page)
{
    (void)page;
    enter("plan", 0);
    cadre_status_core(cadre_status_current());
    abort();
}

static void is_killed(const struct cadre_status_page *page)
{
    (void)page;
    enter("on_grad", 12);
    raise(SIGKILL);
}

static void faults_at_the_end(const struct cadre_status_page *page)
{
    cadre_status_page_say(page, "the reason");
    cadre_status_finished(cadre_status_current());
    raise(SIGSEGV);
}

START_TEST(a_fatal_signal_is_a_failure)
{
    fails_as(faults, "plugin 'x' in on_grad at step 12: rank 0 was killed by signal 11 "
                     "(Segmentation fault)");
    fails_as(faults_in_the_core,
             "the run was killed by signal 6 (Aborted) in the core, "
             "which plugin 'x' called in plan");
    fails_as(is_killed, "the run was killed by signal 9 (Killed)");
    fails_as(faults_at_the_end, "the reason");
}
END_TEST

/* Both ranks are inside the plugin when rank 1 fails. */
static cadre_status one_of_two(void *arg, int rank, struct cadre_local_segment *segment)
{
    pthread_barrier_t *both = arg;
    (void)segment;
    enter("sync(GRADS)", 7);
    pthread_barrier_wait(both);
    if (rank == 0)
        for (;;)
            pause();
    raise(SIGSEGV);
    return CADRE_E_INTERNAL;
}

static void faults_in_a_rank(const struct cadre_status_page *page)
{
    const struct cadre_local_config config = {.size = 2, .timeout_s = 1000};
    pthread_barrier_t both;
    pthread_barrier_init(&both, NULL, 2);
    cadre_launch_threads(&config, NULL, one_of_two, &both, NULL);
    finish(page, NULL, 0);
}

START_TEST(of_several_ranks_the_right_one_is_named)
{
    fails_as(faults_in_a_rank, "plugin 'x' in sync(GRADS) at step 7: rank 1 was killed "
                               "by signal 11 (Segmentation fault)");
}
END_TEST

/* ---- no end ---- */

/* Signals that it could end by are ignored too. */
static void hangs(const struct cadre_status_page *page)
{
    (void)page;
    signal(SIGTERM, SIG_IGN);
    cadre_status_limit(cadre_status_current(), 0.3);
    cadre_status_begin(cadre_status_current(), 0);
    enter("step", 3);
    for (;;)
        pause();
}

START_TEST(a_callback_that_does_not_return)
{
    fails_as(hangs,
             "plugin 'x' has not returned from step for 0.3 s, at step 3 on rank "
             "0; raise comm.timeout where it may take longer");
}
END_TEST

static volatile sig_atomic_t asked;

static void on_term(int sig)
{
    (void)sig;
    asked = 1;
}

/* Says that its handler is there, and ends as asked. */
static void heeds_signals(const struct cadre_status_page *page)
{
    signal(SIGTERM, on_term);
    fputs(".", stderr);
    while (!asked)
        usleep(1000);
    finish(page, "stopped by a signal", 4);
}

START_TEST(signals_are_passed_on)
{
    char one;
    int err;
    pid_t pid = start(heeds_signals, &err);
    ck_assert_int_eq((int)read(err, &one, 1), 1);
    ck_assert_int_eq(kill(pid, SIGTERM), 0);
    struct outcome outcome = wait_for(pid, err);
    ck_assert_int_eq(outcome.status, 4);
    ck_assert_str_eq(outcome.text, "cadre: stopped by a signal\n");
}
END_TEST

/* Without a limit of its own, until it is asked to end. */
static void is_deaf(const struct cadre_status_page *page)
{
    (void)page;
    signal(SIGTERM, SIG_IGN);
    enter("command", 0);
    fputs(".", stderr);
    for (;;)
        pause();
}

START_TEST(who_is_asked_and_does_not_come_is_ended)
{
    char one;
    int err;
    pid_t pid = start(is_deaf, &err);
    ck_assert_int_eq((int)read(err, &one, 1), 1);
    ck_assert_int_eq(kill(pid, SIGTERM), 0);
    struct outcome outcome = wait_for(pid, err);
    ck_assert_int_eq(outcome.status, 1);
    ck_assert_str_eq(outcome.text,
                     "cadre: stopped by a signal without a checkpoint: plugin 'x' has "
                     "not returned from command for 10 s\n");
}
END_TEST

START_TEST(the_run_ends_with_its_supervisor)
{
    char one;
    int err;
    pid_t pid = start(is_deaf, &err);
    ck_assert_int_eq((int)read(err, &one, 1), 1);
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(wait_for(pid, err).signal, SIGKILL); /* both are gone */
}
END_TEST

/* ---- nobody watches ---- */

static void is_alone(const struct cadre_status_page *page)
{
    _exit(page->shared || cadre_status_current() ? 1 : 42);
}

START_TEST(may_be_left_out)
{
    setenv("CADRE_SUPERVISE", "no", 1);
    ck_assert_int_eq(supervise(is_alone).status, 42);
    unsetenv("CADRE_SUPERVISE");
    setenv("CADRE_INIT", "fd:3", 1); /* the process of a rank has its launcher */
    ck_assert_int_eq(supervise(is_alone).status, 42);
    setenv("CADRE_INIT", "tcp://node:5000", 1); /* of an external launcher: not */
    ck_assert_int_eq(supervise(is_alone).status, 1);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("launch/supervisor");
    TCase *t = tcase_create("supervisor");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, the_run_s_status_is_the_supervisor_s);
    tcase_add_test(t, a_signal_that_users_send_ends_both);
    tcase_add_test(t, an_exit_is_a_failure);
    tcase_add_test(t, a_fatal_signal_is_a_failure);
    tcase_add_test(t, of_several_ranks_the_right_one_is_named);
    tcase_add_test(t, a_callback_that_does_not_return);
    tcase_add_test(t, signals_are_passed_on);
    tcase_add_test(t, who_is_asked_and_does_not_come_is_ended);
    tcase_add_test(t, the_run_ends_with_its_supervisor);
    tcase_add_test(t, may_be_left_out);
    suite_add_tcase(s, t);
    return s;
}
