/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/median.h"

#include "tests/support/check_main.h"

START_TEST(the_middle_of_what_is_there)
{
    double odd[] = {3, -1, 2}, even[] = {4, 1, 3, 2}, one[] = {7};
    ck_assert_double_eq(cadre_median(odd, 3), 2);
    ck_assert_double_eq(cadre_median(even, 4), 2.5);
    ck_assert_double_eq(cadre_median(one, 1), 7);
    ck_assert_double_eq(cadre_median(NULL, 0), 0);
}
END_TEST

START_TEST(parts_lie_between_the_values)
{
    double v[] = {40, 10, 30, 20}, one[] = {7};
    cadre_sort(v, 4);
    ck_assert(v[0] == 10 && v[1] == 20 && v[2] == 30 && v[3] == 40);
    ck_assert_double_eq(cadre_quantile(v, 4, 0), 10);
    ck_assert_double_eq(cadre_quantile(v, 4, 0.25), 17.5); /* R's quantile(x, 0.25) */
    ck_assert_double_eq(cadre_quantile(v, 4, 0.5), 25);
    ck_assert_double_eq(cadre_quantile(v, 4, 1), 40);
    ck_assert_double_eq(cadre_quantile(one, 1, 0.975), 7);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("median");
    TCase *tc = tcase_create("median");
    tcase_add_test(tc, the_middle_of_what_is_there);
    tcase_add_test(tc, parts_lie_between_the_values);
    suite_add_tcase(s, tc);
    return s;
}
