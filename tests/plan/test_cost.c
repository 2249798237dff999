/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/answer/cost.h"

#include <stdlib.h>
#include <string.h>

#include "tests/plan/answer_fixture.h"
#include "tests/support/check_main.h"

START_TEST(whole_steps_on_all_devices)
{
    const struct cadre_cost cost = {.tokens = 16 * 1024 * 10 + 1, .price_per_hour = 2};
    const struct cadre_cost_of c = cadre_cost_of(&cost, &question, 3600);
    ck_assert_double_eq(c.steps, 11);
    ck_assert_double_eq(c.hours, 11);
    ck_assert_double_eq(c.device_hours, 88);
    ck_assert_double_eq(c.price, 176);
}
END_TEST

START_TEST(without_a_price_it_says_how_to_give_one)
{
    const struct cadre_cost cost = {.tokens = 1e9};
    cadre_cost_print(&cost, &search, &question, NULL, 2, begin_print());
    ck_assert_ptr_nonnull(strstr(end_print(), "no price: give price_per_hour"));
    ck_assert_ptr_nonnull(strstr(printed, "not known"));
    forget_print();
    ck_assert_int_eq(
        cadre_cost_print_json(&cost, &search, &question, NULL, begin_print()),
        CADRE_OK);
    ck_assert_ptr_nonnull(strstr(end_print(), "\"price\": null"));
    forget_print();
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("cost");
    TCase *tc = tcase_create("cost");
    tcase_add_checked_fixture(tc, find_all, forget_all);
    tcase_add_test(tc, whole_steps_on_all_devices);
    tcase_add_test(tc, without_a_price_it_says_how_to_give_one);
    suite_add_tcase(s, tc);
    return s;
}
