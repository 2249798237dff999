/* SPDX-License-Identifier: Apache-2.0 */
#include "core/check/record.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/check/results_fixture.h"
#include "tests/support/check_main.h"

static char *dir, plugin[1100], record[1100], said[4096];
static struct cadre_check_results results;

static void setup(void)
{
    dir = test_tmpdir();
    snprintf(plugin, sizeof plugin, "%s/my.so", dir);
    snprintf(record, sizeof record, "%s/my.check.json", dir);
    test_file_write(plugin, "plugin", 6);
    results_of(&results, plugin);
    results_pass(&results, CADRE_LEVEL_FAULT_TOLERANT);
}

static void teardown(void)
{
    cadre_check_results_fini(&results);
    test_tmpdir_destroy(dir);
}

static void nothing_is_written(void)
{
    cadre_check_record(&results, said, sizeof said);
    ck_assert_str_eq(said, "");
    ck_assert_int_ne(access(record, F_OK), 0);
}

START_TEST(a_whole_check_is_recorded)
{
    results_say(&results, "R1", CADRE_CHECK_FAIL, "wrong");
    cadre_check_record(&results, said, sizeof said);
    ck_assert_msg(strstr(said, record), "%s", said);
    json_t *root = json_load_file(record, 0, NULL);
    ck_assert_ptr_nonnull(root);
    ck_assert_str_eq(json_string_value(json_object_get(root, "level")), "stackable");
    ck_assert_str_eq(json_string_value(json_object_get(root, "digest")),
                     results.digest);
    json_decref(root);
}
END_TEST

START_TEST(a_part_of_it_is_not)
{
    results.quick = true;
    nothing_is_written();
    results.quick = false;
    struct cadre_check_result *left = results_say(&results, "L1", CADRE_CHECK_PASS, "");
    left->done = left->chosen = false;
    nothing_is_written();
    left->done = left->chosen = true;
    results.digest[0] = 0; /* its file could not be read */
    nothing_is_written();
}
END_TEST

/* A folder of another user: no failure, and the line says why. */
START_TEST(a_record_that_cannot_be_written_is_told)
{
    ck_assert_int_eq(unlink(plugin), 0);
    snprintf(plugin, sizeof plugin, "/dev/null/my.so");
    cadre_check_record(&results, said, sizeof said);
    ck_assert_str_eq(said, "");
    snprintf(plugin, sizeof plugin, "/proc/self/exe");
    cadre_check_record(&results, said, sizeof said);
    ck_assert_msg(strstr(said, "the level was not recorded: "), "%s", said);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("check/record");
    TCase *t = tcase_create("record");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_whole_check_is_recorded);
    tcase_add_test(t, a_part_of_it_is_not);
    tcase_add_test(t, a_record_that_cannot_be_written_is_told);
    suite_add_tcase(s, t);
    return s;
}
