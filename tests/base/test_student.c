/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/student.h"

#include <math.h>

#include "tests/support/check_main.h"

/* Table of the t distribution, two-sided 95 %: NIST/SEMATECH e-Handbook of Statistical
 * Methods, section 1.3.6.7.2. */
static const struct {
    int degrees;
    double t;
} table[] = {{1, 12.706}, {2, 4.303},  {3, 3.182},  {4, 2.776},  {5, 2.571},
             {6, 2.447},  {7, 2.365},  {9, 2.262},  {10, 2.228}, {15, 2.131},
             {20, 2.086}, {29, 2.045}, {30, 2.042}, {60, 2.000}, {100, 1.984}};

START_TEST(quantiles_are_those_of_the_table)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        ck_assert_msg(fabs(cadre_student_quantile(table[i].degrees) - table[i].t) <
                          5.1e-4,
                      "%d degrees: %.6f, the table has %.3f", table[i].degrees,
                      cadre_student_quantile(table[i].degrees), table[i].t);
    /* the normal distribution's, in the limit */
    ck_assert(fabs(cadre_student_quantile(2000000000) - 1.959964) < 1e-4);
    ck_assert(isnan(cadre_student_quantile(0)));
}
END_TEST

START_TEST(probabilities_are_those_of_the_closed_forms)
{
    for (int i = 0; i < 54; i++) {
        const double t = 0.37 * i;
        ck_assert(fabs(cadre_student_within(t, 1) - 2 / M_PI * atan(t)) < 1e-12);
        ck_assert(fabs(cadre_student_within(t, 2) - t / sqrt(2 + t * t)) < 1e-12);
    }
}
END_TEST

START_TEST(means_have_intervals_from_two_values_on)
{
    const double values[] = {2.0, 2.2, 2.4};
    double half;
    ck_assert(fabs(cadre_student_mean(values, 3, &half) - 2.2) < 1e-12);
    /* 4.302653 * 0.2 / sqrt(3) */
    ck_assert(fabs(half - 0.4968275) < 1e-6);
    ck_assert(cadre_student_mean(values, 1, &half) == 2.0);
    ck_assert(isnan(half));
    ck_assert(isnan(cadre_student_mean(values, 0, &half)) && isnan(half));
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("student");
    TCase *tc = tcase_create("student");
    tcase_add_test(tc, quantiles_are_those_of_the_table);
    tcase_add_test(tc, probabilities_are_those_of_the_closed_forms);
    tcase_add_test(tc, means_have_intervals_from_two_values_on);
    suite_add_tcase(s, tc);
    return s;
}
