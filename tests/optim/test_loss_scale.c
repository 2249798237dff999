/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/check_main.h"

#include <math.h>

#include "core/optim/loss_scale.h"

START_TEST(many_good_steps_double_it)
{
    struct cadre_loss_scale at = {.scale = 65536};
    for (int i = 1; i < CADRE_LOSS_SCALE_GROWS; i++)
        cadre_loss_scale_good(&at);
    ck_assert_double_eq(at.scale, 65536);
    cadre_loss_scale_good(&at);
    ck_assert_double_eq(at.scale, 131072);
    ck_assert_uint_eq(at.good, 0);
    ck_assert_uint_eq(at.skipped, 0);
}
END_TEST

START_TEST(an_overflow_halves_it_and_restarts_the_count)
{
    struct cadre_loss_scale at = {.scale = 65536, .good = 1999};
    ck_assert(cadre_loss_scale_bad(&at));
    ck_assert_double_eq(at.scale, 32768);
    ck_assert_uint_eq(at.good, 0);
    ck_assert_uint_eq(at.skipped, 1);
    cadre_loss_scale_good(&at);
    ck_assert_double_eq(at.scale, 32768);
}
END_TEST

START_TEST(it_has_bounds)
{
    struct cadre_loss_scale at = {.scale = CADRE_LOSS_SCALE_MAX, .good = 1999};
    cadre_loss_scale_good(&at);
    ck_assert_double_eq(at.scale, CADRE_LOSS_SCALE_MAX);
    int steps = 0;
    while (cadre_loss_scale_bad(&at))
        steps++;
    ck_assert_int_eq(steps, 32);
    ck_assert_double_lt(at.scale, CADRE_LOSS_SCALE_MIN);
}
END_TEST

START_TEST(powers_of_two_alone)
{
    ck_assert(cadre_loss_scale_valid(1));
    ck_assert(cadre_loss_scale_valid(65536));
    ck_assert(cadre_loss_scale_valid(CADRE_LOSS_SCALE_MAX));
    ck_assert(!cadre_loss_scale_valid(0.5));
    ck_assert(!cadre_loss_scale_valid(3));
    ck_assert(!cadre_loss_scale_valid(2 * CADRE_LOSS_SCALE_MAX));
    ck_assert(!cadre_loss_scale_valid(0));
    ck_assert(!cadre_loss_scale_valid((double)NAN));
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("loss_scale");
    TCase *tc = tcase_create("loss_scale");
    tcase_add_test(tc, many_good_steps_double_it);
    tcase_add_test(tc, an_overflow_halves_it_and_restarts_the_count);
    tcase_add_test(tc, it_has_bounds);
    tcase_add_test(tc, powers_of_two_alone);
    suite_add_tcase(s, tc);
    return s;
}
