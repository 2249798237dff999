/* SPDX-License-Identifier: Apache-2.0 */
/* The pace of a simulated slow rank. Sleeps are never shorter than they should be, so
 * what is owed afterwards is known without looking at the clock. */
#include "core/engine/execute/pace.h"

#include <string.h>

#include "core/base/clock.h"
#include "tests/support/check_main.h"

static struct cadre_error err;

START_TEST(each_rank_has_its_own)
{
    double pace = 0;
    ck_assert_int_eq(cadre_pace_of("", 1, 2, &pace, &err), CADRE_OK);
    ck_assert_double_eq(pace, 1);
    ck_assert_int_eq(cadre_pace_of("0.5", 3, 4, &pace, &err), CADRE_OK);
    ck_assert_double_eq(pace, 0.5);
    ck_assert_int_eq(cadre_pace_of("1, 0.25", 0, 2, &pace, &err), CADRE_OK);
    ck_assert_double_eq(pace, 1);
    ck_assert_int_eq(cadre_pace_of("1, 0.25", 1, 2, &pace, &err), CADRE_OK);
    ck_assert_double_eq(pace, 0.25);
}
END_TEST

START_TEST(other_values_are_refused)
{
    static const char *const bad[] = {"0",       "1.5",  "-1", "1, 0",
                                      "1, 1, 1", "slow", "1,"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        double pace;
        err = (struct cadre_error){0};
        ck_assert_msg(cadre_pace_of(bad[i], 0, 2, &pace, &err) == CADRE_E_INVALID, "%s",
                      bad[i]);
        ck_assert_ptr_nonnull(strstr(err.text, "device.pace = "));
    }
}
END_TEST

START_TEST(a_slow_rank_waits_for_what_it_owes)
{
    const struct cadre_timeline timeline = {0};
    struct cadre_pace pace = {.pace = 0.25};
    double begin = cadre_pace_begin(&pace);
    ck_assert_double_gt(begin, 0);
    cadre_pace_slow(&pace, &timeline, begin - 0.002, 0); /* 6 ms and more */
    ck_assert_double_le(pace.owed_s, 0);
    ck_assert_double_ge(cadre_now_s() - begin, 0.006);
}
END_TEST

/* Less than a sleep can keep is owed until it is more. */
START_TEST(short_work_adds_up)
{
    struct cadre_pace pace = {.pace = 0.5, .owed_s = -1};
    cadre_pace_slow(&pace, NULL, cadre_now_s() - 0.25, 0);
    ck_assert_double_ge(pace.owed_s, -0.75);
}
END_TEST

START_TEST(waits_are_not_slowed)
{
    struct cadre_timeline timeline = {.waited_s = 1000};
    struct cadre_pace pace = {.pace = 0.5};
    cadre_pace_slow(&pace, &timeline, cadre_now_s() - 1, 1);
    ck_assert_double_eq(pace.owed_s, 0);
}
END_TEST

START_TEST(full_speed_costs_nothing)
{
    struct cadre_pace full = {.pace = 1}, unset = {0};
    ck_assert_double_eq(cadre_pace_begin(&full), 0);
    ck_assert_double_eq(cadre_pace_begin(&unset), 0);
    ck_assert_double_eq(cadre_pace_begin(NULL), 0);
    cadre_pace_slow(&full, NULL, 0, 0);
    cadre_pace_slow(&unset, NULL, 0, 0);
    cadre_pace_slow(NULL, NULL, 0, 0);
    ck_assert_double_eq(full.owed_s, 0);
    ck_assert_double_eq(unset.owed_s, 0);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("pace");
    TCase *tc = tcase_create("pace");
    tcase_add_test(tc, each_rank_has_its_own);
    tcase_add_test(tc, other_values_are_refused);
    tcase_add_test(tc, a_slow_rank_waits_for_what_it_owes);
    tcase_add_test(tc, short_work_adds_up);
    tcase_add_test(tc, waits_are_not_slowed);
    tcase_add_test(tc, full_speed_costs_nothing);
    suite_add_tcase(s, tc);
    return s;
}
