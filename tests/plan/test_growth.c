/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/answer/growth.h"

#include <stdlib.h>
#include <string.h>

#include "tests/plan/answer_fixture.h"
#include "tests/support/check_main.h"

START_TEST(powers_of_two)
{
    static struct cadre_growth_point points[CADRE_GROWTH_POINTS];
    size_t n;
    ck_assert_int_eq(cadre_growth(points, &n, question, (const int64_t[]){1, 16},
                                  &round_machine, &err),
                     CADRE_OK);
    ck_assert_uint_eq(n, 5);
    ck_assert_int_eq(points[3].ranks, 8);
    ck_assert_double_eq(points[0].efficiency, 1);
    ck_assert_double_eq(points[3].best.forecast.step, search.found[0].forecast.step);
    ck_assert_double_eq_tol(points[3].efficiency,
                            points[3].tokens_s / 8 / points[0].tokens_s, 1e-12);
    cadre_growth_print(points, n, NULL, begin_print());
    ck_assert_ptr_nonnull(strstr(end_print(), "efficiency"));
    forget_print();
    ck_assert_int_eq(cadre_growth_print_json(points, n, NULL, begin_print()), CADRE_OK);
    ck_assert_ptr_nonnull(strstr(end_print(), "\"ranks\": 16"));
    forget_print();
}
END_TEST

/* Ranks that cannot hold the model have a reason, and the first that can is 100 %. */
START_TEST(too_few_ranks_are_told_why)
{
    static struct cadre_growth_point points[CADRE_GROWTH_POINTS];
    struct cadre_hardware hw = round_machine;
    size_t n;
    hw.device.memory_gib = 1.5;
    ck_assert_int_eq(
        cadre_growth(points, &n, question, (const int64_t[]){1, 16}, &hw, &err),
        CADRE_OK);
    ck_assert_uint_eq(points[0].legal, 0);
    ck_assert_ptr_nonnull(strstr(points[0].best.refused, "needs at least"));
    size_t first = 0;
    while (first < n && points[first].legal == 0)
        first++;
    ck_assert_uint_lt(first, n);
    ck_assert_double_eq(points[first].efficiency, 1);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("growth");
    TCase *tc = tcase_create("growth");
    tcase_add_checked_fixture(tc, find_all, forget_all);
    tcase_add_test(tc, powers_of_two);
    tcase_add_test(tc, too_few_ranks_are_told_why);
    suite_add_tcase(s, tc);
    return s;
}
