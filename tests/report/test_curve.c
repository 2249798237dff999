/* SPDX-License-Identifier: Apache-2.0 */
#include "core/report/curve.h"

#include <math.h>
#include <string.h>

#include "tests/support/check_main.h"

static struct cadre_curve curve;
static double x[CADRE_CURVE_POINTS], y[CADRE_CURVE_POINTS];

static void setup(void)
{
    memset(&curve, 0, sizeof curve);
}

START_TEST(few_points_are_all_kept)
{
    for (int i = 1; i <= CADRE_CURVE_BUCKETS; i++)
        cadre_curve_add(&curve, i, 100 - i);
    ck_assert_uint_eq(cadre_curve_points(&curve, x, y), CADRE_CURVE_BUCKETS);
    for (int i = 0; i < CADRE_CURVE_BUCKETS; i++)
        ck_assert(x[i] == i + 1 && y[i] == 99 - i);
}
END_TEST

/* A million steps with one peak up and one down, at any place. */
START_TEST(peaks_of_many_are_kept)
{
    enum { STEPS = 1000000, UP = 1 + 77777, DOWN = STEPS - 3 };
    for (int i = 1; i <= STEPS; i++)
        cadre_curve_add(&curve, i, i == UP ? 50 : i == DOWN ? -50 : sin(i * 1e-4));
    size_t n = cadre_curve_points(&curve, x, y);
    int up = 0, down = 0;
    ck_assert(n > CADRE_CURVE_BUCKETS / 2 && n <= CADRE_CURVE_POINTS);
    for (size_t i = 0; i < n; i++) {
        ck_assert(i == 0 || x[i] > x[i - 1]);
        up += x[i] == UP && y[i] == 50;
        down += x[i] == DOWN && y[i] == -50;
        ck_assert(fabs(y[i]) == 50 || fabs(y[i] - sin(x[i] * 1e-4)) < 1e-12);
    }
    ck_assert(up == 1 && down == 1);
    ck_assert(x[0] < STEPS / 100.0 && x[n - 1] > 0.99 * STEPS);
}
END_TEST

START_TEST(what_is_not_finite_is_left_out)
{
    cadre_curve_add(&curve, 1, NAN);
    cadre_curve_add(&curve, 2, 3);
    cadre_curve_add(&curve, 3, INFINITY);
    ck_assert_uint_eq(cadre_curve_points(&curve, x, y), 1);
    ck_assert(x[0] == 2 && y[0] == 3);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("curve");
    TCase *tc = tcase_create("curve");
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, few_points_are_all_kept);
    tcase_add_test(tc, peaks_of_many_are_kept);
    tcase_add_test(tc, what_is_not_finite_is_left_out);
    suite_add_tcase(s, tc);
    return s;
}
