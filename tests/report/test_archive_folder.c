/* SPDX-License-Identifier: Apache-2.0 */
#include "core/report/archive_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/path.h"
#include "core/report/archive.h"
#include "tests/report/report_fixture.h"
#include "tests/support/check_main.h"

static char *dir, at[1024], packed[1024];
static struct cadre_error err;
static struct cadre_text text;

/* Two runs in an archive, and what that unpacks to. */
static void setup(void)
{
    const struct report_run one = {.name = "one"}, two = {.name = "two"};
    struct cadre_runs runs = {0};
    char command[4096];
    dir = test_tmpdir();
    char *const folders[] = {(char *)(uintptr_t)report_run(dir, &one),
                             (char *)(uintptr_t)report_run(dir, &two)};
    snprintf(packed, sizeof packed, "%s/paper.tar", dir);
    snprintf(at, sizeof at, "%s/paper", dir);
    ck_assert_int_eq(cadre_runs_read(folders, 2, &runs, &err), CADRE_OK);
    cadre_status rc = cadre_archive_write(&runs, NULL, packed, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    cadre_runs_fini(&runs);
    snprintf(command, sizeof command, "cd '%s' && tar -xf paper.tar", dir);
    ck_assert_int_eq(system(command), 0);
}

static void teardown(void)
{
    cadre_text_fini(&text);
    test_tmpdir_destroy(dir);
}

static void has(const char *part)
{
    ck_assert_msg(strstr(cadre_text_str(&text), part) != NULL, "no '%s' in:\n%s", part,
                  cadre_text_str(&text));
}

START_TEST(it_is_recognised)
{
    char runs[1100];
    snprintf(runs, sizeof runs, "%s/runs", at);
    ck_assert(cadre_archive_folder_is(at));
    ck_assert(!cadre_archive_folder_is(runs));
    ck_assert(!cadre_archive_folder_is(packed));
    ck_assert(!cadre_archive_folder_is("/nowhere"));
    ck_assert(cadre_archive_file_is(packed));
    ck_assert(!cadre_archive_file_is(at));
    ck_assert(!cadre_archive_file_is("/nowhere"));
    test_file_put(dir, "README.txt", "Training runs, of mine", 22);
    ck_assert(!cadre_archive_folder_is(dir));
    ck_assert_int_eq(truncate(packed, 700), 0);
    ck_assert(!cadre_archive_file_is(packed));
}
END_TEST

START_TEST(what_it_holds)
{
    cadre_status rc = cadre_archive_folder_describe(at, &text, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    has("archive of 2 runs, written by cadre ");
    has("\n  runs/1-one: ddp:2, finished\n");
    has("\n  runs/2-two: ddp:2, finished\n");
    ck_assert_ptr_null(strstr(cadre_text_str(&text), "comparison"));
    ck_assert_ptr_null(strstr(cadre_text_str(&text), "report.html"));
    cadre_text_reset(&text);
    cadre_archive_file_describe(packed, &text);
    has("packed: `tar -xf ");
    has("makes the folder 'paper'");
}
END_TEST

/* Runs are called as before they were packed, and comparisons are found again. */
START_TEST(its_runs_are_read)
{
    struct cadre_runs runs = {0};
    char comparison[1100];
    char *const folders[] = {at};
    snprintf(comparison, sizeof comparison, "%s/comparison-1", at);
    ck_assert_int_eq(mkdir(comparison, 0755), 0);
    cadre_status rc = cadre_runs_read(folders, 1, &runs, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    ck_assert_uint_eq(runs.n, 2);
    ck_assert_str_eq(runs.run[0]->folder, "one");
    ck_assert_str_eq(runs.run[1]->folder, "two");
    ck_assert_uint_eq(runs.n_comparisons, 1);
    ck_assert_str_eq(runs.comparison[0], comparison);
    cadre_runs_fini(&runs);
}
END_TEST

START_TEST(what_is_missing_is_said)
{
    char command[2048];
    char *const tar[] = {packed};
    struct cadre_runs runs = {0};
    snprintf(command, sizeof command, "rm -r '%s/runs'", at);
    ck_assert_int_eq(system(command), 0);
    ck_assert_int_eq(cadre_archive_folder_describe(at, &text, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "without runs/"));
    ck_assert_int_eq(cadre_runs_read(tar, 1, &runs, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "unpack it by `tar -xf`"));
    cadre_runs_fini(&runs);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("archive_folder");
    TCase *tc = tcase_create("archive_folder");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, it_is_recognised);
    tcase_add_test(tc, what_it_holds);
    tcase_add_test(tc, its_runs_are_read);
    tcase_add_test(tc, what_is_missing_is_said);
    suite_add_tcase(s, tc);
    return s;
}
