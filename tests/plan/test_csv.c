/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/csv.h"

#include <string.h>

#include "tests/support/check_main.h"

static char *dir;
static struct cadre_csv csv;
static struct cadre_error err;

static void setup(void)
{
    dir = test_tmpdir();
}

static void teardown(void)
{
    cadre_csv_fini(&csv);
    test_tmpdir_destroy(dir);
}

static cadre_status load(const char *text, char separator)
{
    return cadre_csv_load(&csv, test_file_put(dir, "t.csv", text, strlen(text)),
                          separator, &err);
}

START_TEST(fields_and_names)
{
    ck_assert_int_eq(load("a,b,c\r\n# a comment\n\n1,\"x, \"\"y\"\"\",\n,2 , 3", ','),
                     CADRE_OK);
    ck_assert_uint_eq(csv.columns, 3);
    ck_assert_uint_eq(csv.rows, 2);
    ck_assert_int_eq(cadre_csv_column(&csv, "c"), 2);
    ck_assert_int_eq(cadre_csv_column(&csv, "d"), -1);
    ck_assert_str_eq(cadre_csv_at(&csv, 0, 0), "1");
    ck_assert_str_eq(cadre_csv_at(&csv, 0, 1), "x, \"y\"");
    ck_assert_str_eq(cadre_csv_at(&csv, 0, 2), "");
    ck_assert_str_eq(cadre_csv_at(&csv, 1, 0), "");
    ck_assert_str_eq(cadre_csv_at(&csv, 1, 1), "2");
    ck_assert_str_eq(cadre_csv_at(&csv, 1, 2), "3");
    ck_assert_str_eq(cadre_csv_at(&csv, 1, -1), "");
    ck_assert_int_eq(csv.line[1], 4);
    ck_assert_int_eq(csv.line[2], 5);
}
END_TEST

START_TEST(tabs_separate_too)
{
    ck_assert_int_eq(load("a\tb\nx, y\tz\n", '\t'), CADRE_OK);
    ck_assert_str_eq(cadre_csv_at(&csv, 0, 0), "x, y");
}
END_TEST

/* Short and long lines are kept, and told; a byte order mark is none of a name. */
START_TEST(ragged_rows_are_kept)
{
    static const char text[] = "\xef\xbb\xbf"
                               "a,b\n1\n1,2,3\n1,2\n";
    ck_assert_int_eq(
        cadre_csv_load_ragged(&csv, test_file_put(dir, "t.csv", text, strlen(text)),
                              ',', &err),
        CADRE_OK);
    ck_assert_uint_eq(csv.rows, 3);
    ck_assert_int_eq(cadre_csv_column(&csv, "a"), 0);
    ck_assert_int_eq(csv.fields[1], 1);
    ck_assert_int_eq(csv.fields[2], 3);
    ck_assert_int_eq(csv.fields[3], 2);
    ck_assert_str_eq(cadre_csv_at(&csv, 0, 1), "");
    ck_assert_str_eq(cadre_csv_at(&csv, 1, 1), "2");
}
END_TEST

static const struct {
    const char *text, *why;
} wrong[] = {
    {"", "empty, expected a line of column names"},
    {"a,b\n1\n", "t.csv:2: 1 fields, the line of names has 2"},
    {"a,b\n1,2,3\n", "t.csv:2: 3 fields"},
    {"a\n\"x\n", "t.csv:2: a quote"},
    {"a\n\"x\"y\n", "t.csv:2: a quote"},
};

START_TEST(refuses)
{
    ck_assert_int_eq(load(wrong[_i].text, ','), CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, wrong[_i].why) != NULL, "%s", err.text);
    ck_assert_ptr_null(csv.field);
}
END_TEST

START_TEST(no_file_is_wrong_input)
{
    ck_assert_int_eq(cadre_csv_load(&csv, "none.csv", ',', &err), CADRE_E_INVALID);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("csv");
    TCase *tc = tcase_create("csv");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, fields_and_names);
    tcase_add_test(tc, tabs_separate_too);
    tcase_add_test(tc, ragged_rows_are_kept);
    tcase_add_loop_test(tc, refuses, 0, (int)(sizeof wrong / sizeof *wrong));
    tcase_add_test(tc, no_file_is_wrong_input);
    suite_add_tcase(s, tc);
    return s;
}
