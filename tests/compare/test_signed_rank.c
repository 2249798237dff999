/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/timing/signed_rank.h"

#include <math.h>
#include <string.h>

#include "tests/support/check_main.h"

static struct cadre_error err;

/* Critical values of the smaller rank sum, exact: R. L. McCornack, "Extended tables of
 * the Wilcoxon matched pair signed rank statistic", JASA 60 (1965), as reprinted in
 * Zar, Biostatistical Analysis, table B.12. -1: none. */
START_TEST(published_critical_values)
{
    static const double two_sided[] = {.10, .05, .02, .01};
    static const struct {
        size_t n;
        int w[4];
    } table[] = {
        {5, {0, -1, -1, -1}},       {6, {2, 0, -1, -1}},
        {7, {3, 2, 0, -1}},         {8, {5, 3, 1, 0}},
        {9, {8, 5, 3, 1}},          {10, {10, 8, 5, 3}},
        {11, {13, 10, 7, 5}},       {12, {17, 13, 9, 7}},
        {13, {21, 17, 12, 9}},      {14, {25, 21, 15, 12}},
        {15, {30, 25, 19, 15}},     {16, {35, 29, 23, 19}},
        {17, {41, 34, 27, 23}},     {18, {47, 40, 32, 27}},
        {19, {53, 46, 37, 32}},     {20, {60, 52, 43, 37}},
        {21, {67, 58, 49, 42}},     {22, {75, 65, 55, 48}},
        {23, {83, 73, 62, 54}},     {24, {91, 81, 69, 61}},
        {25, {100, 89, 76, 68}},    {26, {110, 98, 84, 75}},
        {27, {119, 107, 92, 83}},   {28, {130, 116, 101, 91}},
        {29, {140, 126, 110, 100}}, {30, {151, 137, 120, 109}},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        for (size_t a = 0; a < 4; a++) {
            size_t n = table[i].n, outside = (size_t)(table[i].w[a] + 1);
            ck_assert_uint_eq(cadre_signed_rank_order(n, two_sided[a]), outside);
            ck_assert(2 * cadre_signed_rank_cdf(n, outside) > two_sided[a]);
            if (outside > 0)
                ck_assert(2 * cadre_signed_rank_cdf(n, outside - 1) <= two_sided[a]);
        }
}
END_TEST

START_TEST(distribution_is_symmetric_and_whole)
{
    for (size_t n = 1; n <= 12; n++) {
        size_t most = n * (n + 1) / 2;
        ck_assert_double_eq(cadre_signed_rank_cdf(n, 0), ldexp(1, -(int)n));
        ck_assert_double_eq(cadre_signed_rank_cdf(n, most), 1);
        for (size_t w = 0; w < most; w++)
            ck_assert_double_eq_tol(cadre_signed_rank_cdf(n, w) +
                                        cadre_signed_rank_cdf(n, most - w - 1),
                                    1, 1e-15);
    }
    /* counted with integers of 200 bits */
    ck_assert_double_eq_tol(cadre_signed_rank_cdf(200, 7999), 0.006067874052143802,
                            1e-14);
    ck_assert_double_eq_tol(cadre_signed_rank_cdf(200, 10049), 0.4997571581514872,
                            1e-12);
}
END_TEST

/* What the issue of intervals needs: which Walsh averages, and their coverage. */
START_TEST(order_and_coverage)
{
    ck_assert_uint_eq(cadre_signed_rank_order(5, 0.05), 0);
    ck_assert_uint_eq(cadre_signed_rank_order(6, 0.05), 1);
    ck_assert_double_eq(1 - 2 * cadre_signed_rank_cdf(6, 0), 0.96875);
    ck_assert_uint_eq(cadre_signed_rank_order(8, 0.05), 4);
    ck_assert_double_eq(1 - 2 * cadre_signed_rank_cdf(8, 3), 0.9609375);
    ck_assert_uint_eq(cadre_signed_rank_order(0, 0.05), 0);
    ck_assert_uint_eq(cadre_signed_rank_order(CADRE_SIGNED_RANK_MAX + 1, 0.05), 0);
    ck_assert(isnan(cadre_signed_rank_cdf(CADRE_SIGNED_RANK_MAX + 1, 0)));
}
END_TEST

/* Hamilton's depression scores before and after a tranquilliser, as worked through in
 * Hollander, Wolfe and Chicken, table 3.1, examples 3.1, 3.3 and 3.4: T+ = 5, one-sided
 * p = .020, estimate -.46, interval (-.786, -.010) at 96.1 %. */
static const double depression[] = {0.878 - 1.83, 0.647 - 0.50, 0.598 - 1.62,
                                    2.05 - 2.48,  1.06 - 1.68,  1.29 - 1.88,
                                    1.06 - 1.55,  3.14 - 3.06,  1.29 - 1.30};

START_TEST(worked_example)
{
    struct cadre_interval got;
    double minus[9], p;
    ck_assert_int_eq(cadre_signed_rank_interval(depression, 9, 1 - 0.96, &got, &err),
                     CADRE_OK);
    ck_assert_double_eq_tol(got.value, -0.46, 1e-12);
    ck_assert_double_eq_tol(got.low, -0.786, 1e-12);
    ck_assert_double_eq_tol(got.high, -0.010, 1e-12);
    for (size_t i = 0; i < 9; i++)
        minus[i] = -depression[i];
    ck_assert_int_eq(cadre_signed_rank_above(minus, 9, 0, &p, &err), CADRE_OK);
    ck_assert_double_eq(p, 10.0 / 512);
    ck_assert_int_eq(cadre_signed_rank_above(depression, 9, 0, &p, &err), CADRE_OK);
    ck_assert_double_eq(p, 1 - 7.0 / 512);
}
END_TEST

START_TEST(extremes_of_six)
{
    const double x[] = {0.3, -0.1, 0.2, 0.5, 0.4, 0.1};
    struct cadre_interval got;
    ck_assert_int_eq(cadre_signed_rank_interval(x, 6, 0.05, &got, &err), CADRE_OK);
    ck_assert_double_eq(got.low, -0.1);
    ck_assert_double_eq(got.high, 0.5);
    ck_assert_double_eq_tol(got.value, 0.25, 1e-12);
    ck_assert_int_eq(cadre_signed_rank_interval(x, 5, 0.05, &got, &err), CADRE_OK);
    ck_assert(isfinite(got.value) && isnan(got.low) && isnan(got.high));
    ck_assert_int_eq(cadre_signed_rank_interval(x, 0, 0.05, &got, &err), CADRE_OK);
    ck_assert(isnan(got.value));
}
END_TEST

/* Sizes 1 1 1 2 2 3 4 5 have the ranks 2 2 2 4.5 4.5 6 7 8; of the 256 signs 32 give
 * the seen sum of 27 or more, counted one by one. The zero is dropped. */
START_TEST(ties_and_zeros)
{
    const double x[] = {1, 1, -1, 2, 2, 3, -4, 0, 5}, zeros[] = {0, 0, 0};
    double p;
    ck_assert_int_eq(cadre_signed_rank_above(x, 9, 0, &p, &err), CADRE_OK);
    ck_assert_double_eq(p, 32.0 / 256);
    ck_assert_int_eq(cadre_signed_rank_above(zeros, 3, 0, &p, &err), CADRE_OK);
    ck_assert_double_eq(p, 1);
}
END_TEST

/* The test and the interval are one: p at a centre just outside of the interval's lower
 * end is at most alpha / 2, just inside it is above. */
START_TEST(test_agrees_with_interval)
{
    double x[24], p;
    for (size_t n = 6; n <= 24; n++) {
        struct cadre_interval got;
        for (size_t i = 0; i < n; i++)
            x[i] = sin(12.9898 * (double)(i + 7 * n)) + 0.2;
        ck_assert_int_eq(cadre_signed_rank_interval(x, n, 0.05, &got, &err), CADRE_OK);
        cadre_signed_rank_above(x, n, got.low - 1e-9, &p, &err);
        ck_assert_double_le(p, 0.025);
        cadre_signed_rank_above(x, n, got.low + 1e-9, &p, &err);
        ck_assert_double_gt(p, 0.025);
    }
}
END_TEST

START_TEST(what_cannot_be_judged)
{
    double many[CADRE_SIGNED_RANK_MAX + 1] = {0}, p;
    const double broken[] = {1, NAN, 2}, endless[] = {1, INFINITY, 2};
    struct cadre_interval got;
    ck_assert_int_eq(
        cadre_signed_rank_interval(many, CADRE_SIGNED_RANK_MAX + 1, 0.05, &got, &err),
        CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "201 values, at most 200"));
    ck_assert_int_eq(
        cadre_signed_rank_above(many, CADRE_SIGNED_RANK_MAX + 1, 0, &p, &err),
        CADRE_E_INVALID);
    ck_assert_int_eq(
        cadre_signed_rank_interval(many, CADRE_SIGNED_RANK_MAX, 0.05, &got, &err),
        CADRE_OK);
    ck_assert_int_eq(cadre_signed_rank_interval(broken, 3, 0.05, &got, &err), CADRE_OK);
    ck_assert(isnan(got.value) && isnan(got.low) && isnan(got.high));
    ck_assert_int_eq(cadre_signed_rank_above(broken, 3, 0, &p, &err), CADRE_OK);
    ck_assert_double_eq(p, 1);
    ck_assert_int_eq(cadre_signed_rank_above(endless, 3, 0, &p, &err), CADRE_OK);
    ck_assert_double_eq(p, 1);
}
END_TEST

/* The example of Holm's paper in later textbooks: of .01 .04 .03 .005 at .05 two go. */
START_TEST(holm_steps_down)
{
    const double p[] = {0.01, 0.04, 0.03, 0.005}, all[] = {0.04, 0.02, 0.01};
    const double unknown[] = {NAN, 0.02};
    bool reject[4];
    cadre_holm(p, 4, 0.05, reject);
    ck_assert(reject[0] && !reject[1] && !reject[2] && reject[3]);
    cadre_holm(all, 3, 0.05, reject);
    ck_assert(reject[0] && reject[1] && reject[2]);
    cadre_holm(unknown, 2, 0.05, reject);
    ck_assert(!reject[0] && reject[1]);
    cadre_holm(all, 1, 0.05, reject);
    ck_assert(reject[0]);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("signed_rank");
    TCase *tc = tcase_create("signed_rank");
    tcase_add_test(tc, published_critical_values);
    tcase_add_test(tc, distribution_is_symmetric_and_whole);
    tcase_add_test(tc, order_and_coverage);
    tcase_add_test(tc, worked_example);
    tcase_add_test(tc, extremes_of_six);
    tcase_add_test(tc, ties_and_zeros);
    tcase_add_test(tc, test_agrees_with_interval);
    tcase_add_test(tc, what_cannot_be_judged);
    tcase_add_test(tc, holm_steps_down);
    suite_add_tcase(s, tc);
    return s;
}
