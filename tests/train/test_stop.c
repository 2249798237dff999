/* SPDX-License-Identifier: Apache-2.0 */
/* The rest of it: tests/cli/test_train_signals.sh. */
#include "core/train/stop.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/check_main.h"

static void *sleep_on(void *arg)
{
    for (;;)
        pause();
    return NULL;
}

/* A library's thread blocks nothing, so the system may give it what main has blocked.
 */
START_TEST(what_another_thread_gets_reaches_the_holder)
{
    const struct timespec guard = {.tv_sec = 30};
    pthread_t other;
    sigset_t set;
    cadre_stop_install();
    ck_assert_int_eq(pthread_create(&other, NULL, sleep_on, NULL), 0);
    cadre_stop_hold();
    ck_assert_int_eq(pthread_kill(other, _i ? SIGINT : SIGTERM), 0);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    ck_assert_int_eq(sigtimedwait(&set, NULL, &guard), SIGTERM);
    ck_assert(cadre_stop_requested());
    cadre_stop_release();
}
END_TEST

START_TEST(what_came_before_is_kept)
{
    const struct timespec none = {0};
    sigset_t set;
    cadre_stop_install();
    ck_assert(!cadre_stop_requested());
    ck_assert_int_eq(raise(SIGUSR1), 0);
    ck_assert(cadre_stop_requested());
    cadre_stop_hold();
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    ck_assert_int_eq(sigtimedwait(&set, NULL, &none), SIGTERM);
    cadre_stop_release();
}
END_TEST

/* ---- what is said ---- */

static int heard;

static void listen(void)
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_ge(dup2(ends[1], STDERR_FILENO), 0);
    ck_assert_int_eq(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    heard = ends[0];
    cadre_stop_install();
}

static void hears(const char *words)
{
    char text[2000] = "";
    const ssize_t n = read(heard, text, sizeof text - 1);
    ck_assert_msg(n > 0 ? strcmp(text, words) == 0 : !*words, "'%s', not '%s'", text,
                  words);
}

static const struct cadre_stop_plan plan = {
    .dir = "runs/a", .first_step = 10, .last_step = 20};

/* The vote of a step is made when it begins: a signal in it counts in the next. */
START_TEST(the_step_that_is_named_is_the_step_that_stops)
{
    listen();
    cadre_stop_tell(&plan);
    ck_assert(!cadre_stop_vote(11));
    ck_assert(!cadre_stop_vote(12));
    raise(_i ? SIGUSR1 : SIGINT);
    hears("asked to stop: after step 13 at the latest a checkpoint is saved in "
          "'runs/a/checkpoints', then it ends; Ctrl-C now ends it at once, without "
          "one\n");
    ck_assert(!cadre_stop_vote(12)); /* of another rank of the process */
    ck_assert(cadre_stop_vote(13));
    ck_assert(cadre_stop_vote(13));
    raise(SIGTERM);
    hears("");
}
END_TEST

START_TEST(before_the_first_step)
{
    listen();
    cadre_stop_tell(&plan);
    raise(SIGINT);
    hears("asked to stop: after step 11 at the latest a checkpoint is saved in "
          "'runs/a/checkpoints', then it ends; Ctrl-C now ends it at once, without "
          "one\n");
    ck_assert(cadre_stop_vote(11));
}
END_TEST

START_TEST(before_there_is_anything_to_say)
{
    listen();
    raise(SIGTERM);
    hears("");
    cadre_stop_tell(&plan);
    hears("asked to stop: after step 11 at the latest a checkpoint is saved in "
          "'runs/a/checkpoints', then it ends; Ctrl-C now ends it at once, without "
          "one\n");
}
END_TEST

START_TEST(in_the_last_step_and_after_it)
{
    listen();
    cadre_stop_tell(&plan);
    ck_assert(!cadre_stop_vote(20));
    raise(SIGTERM);
    hears("asked to stop: step 20 is the last one and is finished; Ctrl-C now ends it "
          "at once\n");
}
END_TEST

START_TEST(a_benchmark_and_a_bar)
{
    struct cadre_stop_plan bench = plan;
    bench.dir = NULL;
    bench.bar = true;
    listen();
    cadre_stop_tell(&bench);
    ck_assert(!cadre_stop_vote(11));
    raise(SIGTERM);
    hears("\nasked to stop: after step 12 at the latest the benchmark ends, without a "
          "result; Ctrl-C now ends it at once\n");
}
END_TEST

START_TEST(nothing_once_the_run_is_over)
{
    listen();
    cadre_stop_tell(&plan);
    cadre_stop_tell(NULL);
    raise(SIGTERM);
    hears("");
    ck_assert(cadre_stop_requested());
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("stop");
    TCase *tc = tcase_create("stop");
    tcase_add_loop_test(tc, what_another_thread_gets_reaches_the_holder, 0, 2);
    tcase_add_test(tc, what_came_before_is_kept);
    tcase_add_loop_test(tc, the_step_that_is_named_is_the_step_that_stops, 0, 2);
    tcase_add_test(tc, before_the_first_step);
    tcase_add_test(tc, before_there_is_anything_to_say);
    tcase_add_test(tc, in_the_last_step_and_after_it);
    tcase_add_test(tc, a_benchmark_and_a_bar);
    tcase_add_test(tc, nothing_once_the_run_is_over);
    suite_add_tcase(s, tc);
    return s;
}
