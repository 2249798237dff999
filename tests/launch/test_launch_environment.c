/* SPDX-License-Identifier: Apache-2.0 */
/* Each test runs in a process of its own, so what it sets is gone afterwards. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/launch/launch.h"
#include "core/launch/status_page.h"
#include "tests/support/check_main.h"

static void clear(void)
{
    unsetenv("CADRE_INIT");
    unsetenv("CADRE_RANK");
    unsetenv("CADRE_WORLD_SIZE");
    unsetenv("CADRE_LOCAL_RANK");
}

START_TEST(child_environment_is_checked)
{
    struct cadre_error err;
    bool is_child;
    int rank, size, fd;
    unsetenv("CADRE_INIT");
    ck_assert_int_eq(cadre_launch_child(&is_child, &rank, &size, &fd, &err), CADRE_OK);
    ck_assert(!is_child);
    setenv("CADRE_INIT", "fd:x", 1);
    ck_assert_int_eq(cadre_launch_child(&is_child, &rank, &size, &fd, &err),
                     CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "CADRE_INIT"));
    setenv("CADRE_INIT", "fd:3", 1);
    setenv("CADRE_WORLD_SIZE", "2", 1);
    setenv("CADRE_RANK", "2", 1);
    ck_assert_int_eq(cadre_launch_child(&is_child, &rank, &size, &fd, &err),
                     CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "CADRE_RANK"));
    setenv("CADRE_RANK", "1", 1);
    ck_assert_int_eq(cadre_launch_child(&is_child, &rank, &size, &fd, &err), CADRE_OK);
    ck_assert(is_child && rank == 1 && size == 2 && fd == 3);
}
END_TEST

/* The launcher's page: none, one that is not, one that is too small, one that is. */
START_TEST(child_enters_the_status_page)
{
    struct cadre_status_page one, two;
    struct cadre_error err;
    char place[32];
    bool is_child;
    int rank, size, fd;
    setenv("CADRE_INIT", "fd:3", 1);
    setenv("CADRE_WORLD_SIZE", "2", 1);
    setenv("CADRE_RANK", "1", 1);
    setenv("CADRE_STATUS", "page", 1);
    ck_assert_int_eq(cadre_launch_child(&is_child, &rank, &size, &fd, &err),
                     CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "CADRE_STATUS is \"page\""));
    ck_assert_int_eq(cadre_status_page_create(1, &one, &err), CADRE_OK);
    snprintf(place, sizeof place, "fd:%d", one.fd);
    setenv("CADRE_STATUS", place, 1);
    ck_assert_int_eq(cadre_launch_child(&is_child, &rank, &size, &fd, &err),
                     CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "no place in the status page of 1 ranks"));
    ck_assert_ptr_null(cadre_status_current());
    ck_assert_int_eq(cadre_status_page_create(2, &two, &err), CADRE_OK);
    snprintf(place, sizeof place, "fd:%d", two.fd);
    setenv("CADRE_STATUS", place, 1);
    ck_assert_int_eq(cadre_launch_child(&is_child, &rank, &size, &fd, &err), CADRE_OK);
    ck_assert_ptr_nonnull(cadre_status_current());
    ck_assert_int_eq(atomic_load(&two.slot[1].state), CADRE_STATUS_RUNNING);
    ck_assert_int_eq(atomic_load(&two.slot[1].rank), 1);
    unsetenv("CADRE_STATUS");
}
END_TEST

/* init, rank, size and local rank ("-" is unset), and the error text, NULL where they
 * are valid. */
static const char *const external[][5] = {
    {"tcp://node:5000", "3", "8", "1", NULL},
    {"file:///tmp/x", "0", "1", "0", NULL},
    {"file://x", "0", "1", "0", "expected tcp://host:port or file:///path"},
    {"node:5000", "0", "1", "0", "CADRE_INIT is \"node:5000\""},
    {"tcp://node:5000", "-", "8", "1", "CADRE_RANK is not set"},
    {"tcp://node:5000", "8", "8", "1", "CADRE_RANK is \"8\""},
    {"tcp://node:5000", "-1", "8", "1", "CADRE_RANK is \"-1\""},
    {"tcp://node:5000", "1", "-", "1", "CADRE_WORLD_SIZE is not set"},
    {"tcp://node:5000", "1", "0", "1", "CADRE_WORLD_SIZE is \"0\""},
    {"tcp://node:5000", "1", "2x", "1", "CADRE_WORLD_SIZE is \"2x\""},
    {"tcp://node:5000", "1", "99999999999999999999", "1", "CADRE_WORLD_SIZE is"},
    {"tcp://node:5000", "1", "2", "-", "CADRE_LOCAL_RANK is not set"},
    {"tcp://node:5000", "1", "2", "2", "CADRE_LOCAL_RANK is \"2\""},
    {"-", "0", "-", "-", "CADRE_RANK is set, but CADRE_INIT is not"},
    {"-", "-", "2", "-", "CADRE_WORLD_SIZE is set, but CADRE_INIT is not"},
    {"", "-", "-", "0", "CADRE_LOCAL_RANK is set, but CADRE_INIT is not"},
};

START_TEST(external_ranks_set_all_variables)
{
    static const char *const names[] = {"CADRE_INIT", "CADRE_RANK", "CADRE_WORLD_SIZE",
                                        "CADRE_LOCAL_RANK"};
    const char *const *row = external[_i];
    struct cadre_launch_external found;
    struct cadre_error err;
    clear();
    for (int i = 0; i < 4; i++)
        if (strcmp(row[i], "-") != 0)
            setenv(names[i], row[i], 1);
    cadre_status rc = cadre_launch_external(&found, &err);
    if (row[4]) {
        ck_assert_int_eq(rc, CADRE_E_INVALID);
        ck_assert_msg(strstr(err.text, row[4]), "'%s' lacks '%s'", err.text, row[4]);
        ck_assert_ptr_null(found.launcher);
        return;
    }
    ck_assert_int_eq(rc, CADRE_OK);
    ck_assert_str_eq(found.launcher, "CADRE_INIT");
    ck_assert_str_eq(found.where, row[0]);
    ck_assert_int_eq(found.rank, atoi(row[1]));
    ck_assert_int_eq(found.size, atoi(row[2]));
    ck_assert_int_eq(found.local_rank, atoi(row[3]));
}
END_TEST

START_TEST(no_launcher_started_this_one)
{
    struct cadre_launch_external found;
    struct cadre_error err;
    clear();
    ck_assert_int_eq(cadre_launch_external(&found, &err), CADRE_OK);
    ck_assert(!found.launcher && found.size == 0);
    setenv("CADRE_INIT", "fd:3", 1); /* one of our own */
    setenv("CADRE_RANK", "0", 1);
    ck_assert_int_eq(cadre_launch_external(&found, &err), CADRE_OK);
    ck_assert(!found.launcher && found.size == 0);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("launch/launch_environment");
    TCase *t = tcase_create("environment");
    tcase_add_test(t, child_environment_is_checked);
    tcase_add_test(t, child_enters_the_status_page);
    tcase_add_loop_test(t, external_ranks_set_all_variables, 0,
                        (int)(sizeof external / sizeof external[0]));
    tcase_add_test(t, no_launcher_started_this_one);
    suite_add_tcase(s, t);
    return s;
}
