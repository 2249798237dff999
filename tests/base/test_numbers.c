/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of numbers as options have them. */
#include "core/base/numbers.h"

#include <string.h>

#include "tests/support/check_main.h"

static const struct {
    const char *text;
    int n;
    double value[3];
    const char *rest;
} good[] = {
    {"", 0, {0}, ""},
    {"  ", 0, {0}, ""},
    {"0.5", 1, {0.5}, ""},
    {"1,0.5", 2, {1, 0.5}, ""},
    {" 1 ,  0.5 2. ", 3, {1, 0.5, 2}, ""},
    {"3, 1 / 4: 1", 2, {3, 1}, "/ 4: 1"},
    {"7 8 9 10", 4, {7, 8, 9}, ""},
};

START_TEST(lists_are_read)
{
    double value[3] = {0};
    const char *end = NULL;
    ck_assert_int_eq(cadre_numbers_parse(good[_i].text, "/:", value, 3, &end),
                     good[_i].n);
    for (int i = 0; i < 3; i++)
        ck_assert_double_eq(value[i], good[_i].value[i]);
    ck_assert_str_eq(end, good[_i].rest);
}
END_TEST

START_TEST(nothing_else_is)
{
    static const char *const bad[] = {"x",    "1,",  "1,,2", "-1",  "+1", "nan",
                                      "0x10", "1e3", "1;2",  ", 1", ".",  "1.2.3"};
    double value[3];
    const char *end = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(cadre_numbers_parse(bad[i], "/", value, 3, &end) == -1, "'%s'",
                      bad[i]);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("numbers");
    TCase *tc = tcase_create("numbers");
    tcase_add_loop_test(tc, lists_are_read, 0, sizeof good / sizeof *good);
    tcase_add_test(tc, nothing_else_is);
    suite_add_tcase(s, tc);
    return s;
}
