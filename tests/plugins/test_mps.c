/* SPDX-License-Identifier: Apache-2.0 */
/* Against a stand-in of nvidia-cuda-mps-control in a folder that PATH names. */
#include "plugins/mig/mps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/check_main.h"

static char dir[64], path[128], why[256];

static void setup(void)
{
    char all[4096];
    snprintf(dir, sizeof dir, "/tmp/test_mps.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/nvidia-cuda-mps-control", dir);
    snprintf(all, sizeof all, "%s:/usr/bin:/bin", dir);
    setenv("PATH", all, 1);
    why[0] = '\0';
}

static void teardown(void)
{
    unlink(path);
    rmdir(dir);
}

static void stand_in(const char *script)
{
    test_file_write(path, script, strlen(script));
    ck_assert_int_eq(chmod(path, 0700), 0);
}

START_TEST(a_daemon_that_answers_runs)
{
    stand_in("#!/bin/sh\nread q && test \"$q\" = get_server_list && echo 4242\n");
    ck_assert_msg(mig_mps_runs(why, sizeof why), "%s", why);
    ck_assert_str_eq(why, "");
}
END_TEST

START_TEST(no_daemon)
{
    stand_in("#!/bin/sh\necho Cannot find MPS control daemon process\nexit 1\n");
    ck_assert(!mig_mps_runs(why, sizeof why));
    ck_assert_str_eq(why, "its control daemon does not run");
}
END_TEST

START_TEST(no_program)
{
    ck_assert(!mig_mps_runs(why, sizeof why));
    ck_assert_ptr_nonnull(
        strstr(why, "nvidia-cuda-mps-control cannot be run (No such file"));
}
END_TEST

START_TEST(a_program_that_crashes)
{
    stand_in("#!/bin/sh\nkill -9 $$\n");
    ck_assert(!mig_mps_runs(why, sizeof why));
    ck_assert_str_eq(why, "nvidia-cuda-mps-control gives no answer");
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("mps");
    TCase *tc = tcase_create("mps");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_daemon_that_answers_runs);
    tcase_add_test(tc, no_daemon);
    tcase_add_test(tc, no_program);
    tcase_add_test(tc, a_program_that_crashes);
    suite_add_tcase(suite, tc);
    return suite;
}
