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

Suite *test_suite(void)
{
    Suite *s = suite_create("median");
    TCase *tc = tcase_create("median");
    tcase_add_test(tc, the_middle_of_what_is_there);
    suite_add_tcase(s, tc);
    return s;
}
