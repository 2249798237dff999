/* SPDX-License-Identifier: Apache-2.0 */
/* The rest of it: tests/cli/test_train_signals.sh. */
#include "core/train/stop.h"

#include <pthread.h>
#include <signal.h>
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

Suite *test_suite(void)
{
    Suite *s = suite_create("stop");
    TCase *tc = tcase_create("stop");
    tcase_add_loop_test(tc, what_another_thread_gets_reaches_the_holder, 0, 2);
    tcase_add_test(tc, what_came_before_is_kept);
    suite_add_tcase(s, tc);
    return s;
}
