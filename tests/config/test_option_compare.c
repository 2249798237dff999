/* SPDX-License-Identifier: Apache-2.0 */
#include "core/config/option_compare.h"

#include <stddef.h>

#include "tests/support/check_main.h"

START_TEST(numbers_are_not_texts)
{
    ck_assert(cadre_option_same("0.001", "1e-3") && cadre_option_same("a", "a"));
    ck_assert(!cadre_option_same("", "0") && !cadre_option_same("1", "1 2"));
}
END_TEST

START_TEST(what_is_trained_is_told_from_how)
{
    static const char *const trained[][2] = {{"model", "layers"}, {"data", "path"},
                                             {"train", "steps"},  {"optim", "lr"},
                                             {"tune", "method"},  {"run", "seed"}};
    static const char *const layout[][2] = {
        {"strategy", "stack"}, {"run", "name"},   {"data", "cache"},
        {"device", "kind"},    {"zero", "stage"}, {"train", "recompute"}};
    for (size_t i = 0; i < sizeof trained / sizeof *trained; i++)
        ck_assert_msg(!cadre_option_is_layout(trained[i][0], trained[i][1]), "%s.%s",
                      trained[i][0], trained[i][1]);
    for (size_t i = 0; i < sizeof layout / sizeof *layout; i++)
        ck_assert_msg(cadre_option_is_layout(layout[i][0], layout[i][1]), "%s.%s",
                      layout[i][0], layout[i][1]);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("option_compare");
    TCase *tc = tcase_create("option_compare");
    tcase_add_test(tc, numbers_are_not_texts);
    tcase_add_test(tc, what_is_trained_is_told_from_how);
    suite_add_tcase(s, tc);
    return s;
}
