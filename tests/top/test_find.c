/* SPDX-License-Identifier: Apache-2.0 */
#include "core/top/find.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/path.h"
#include "tests/support/check_main.h"

static char *dir;
static struct cadre_top_runs runs;
static struct cadre_error err;

static void setup(void)
{
    dir = test_tmpdir();
}

static void teardown(void)
{
    cadre_top_runs_fini(&runs);
    test_tmpdir_destroy(dir);
}

static void make(const char *name)
{
    char *path = cadre_path_join(dir, name);
    ck_assert_int_eq(cadre_path_make_dirs(path, &err), CADRE_OK);
    free(path);
}

static void found(size_t i, const char *name)
{
    char *path = cadre_path_join(dir, name);
    ck_assert_uint_lt(i, runs.n);
    ck_assert_str_eq(runs.dir[i], path);
    free(path);
}

START_TEST(a_run)
{
    make("status");
    make("instance-0/status"); /* of an older sweep: the folder itself is a run */
    ck_assert_int_eq(cadre_top_find(dir, &runs, &err), CADRE_OK);
    ck_assert_uint_eq(runs.n, 1);
    ck_assert_str_eq(runs.dir[0], dir);
}
END_TEST

START_TEST(a_sweep)
{
    make("instance-1/status");
    make("instance-0/status");
    make("cache");
    ck_assert_int_eq(cadre_top_find(dir, &runs, &err), CADRE_OK);
    ck_assert_uint_eq(runs.n, 2);
    found(0, "instance-0");
    found(1, "instance-1");
}
END_TEST

START_TEST(a_comparison)
{
    make("runs/b/status");
    make("runs/a/status");
    make("pieces/a/status");
    make("runs/none");
    ck_assert_int_eq(cadre_top_find(dir, &runs, &err), CADRE_OK);
    ck_assert_uint_eq(runs.n, 3);
    found(0, "pieces/a");
    found(1, "runs/a");
    found(2, "runs/b");
}
END_TEST

static void refused(const char *path, const char *words)
{
    ck_assert_int_eq(cadre_top_find(path, &runs, &err), CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, words) != NULL, "%s", err.text);
}

START_TEST(nothing_there)
{
    refused("/nonexistent", "there is no folder");
    refused("/dev/null", "is no folder");
    refused(dir, "is no folder of a run");
    test_file_put(dir, "config.ini", "", 0);
    refused(dir, "its ranks have not begun");
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("find");
    TCase *tc = tcase_create("find");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_run);
    tcase_add_test(tc, a_sweep);
    tcase_add_test(tc, a_comparison);
    tcase_add_test(tc, nothing_there);
    suite_add_tcase(s, tc);
    return s;
}
