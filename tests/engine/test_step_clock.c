/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/step_clock.h"

#include <math.h>

#include "tests/engine/rank_fixture.h"
#include "tests/support/check_main.h"

static void expect(const double *found, const double *wanted, int n)
{
    for (int i = 0; i < n; i++)
        ck_assert_double_eq_tol(found[i], wanted[i], 1e-15);
}

/* world, dp, pp; pp is the schedule's where there is one. */
START_TEST(parts_are_the_whole)
{
    double plain[] = {1, 2, 3}, missing[] = {1, 2, 3}, nothing[] = {0, 0, 0};
    cadre_step_clock_divide(6, -1, plain, 3);
    expect(plain, (const double[]){1, 2, 3}, 3);
    cadre_step_clock_divide(7, 2, missing, 3); /* of one that is not listed */
    expect(missing, (const double[]){2, 2, 3}, 3);
    cadre_step_clock_divide(0, 2, nothing, 3);
    expect(nothing, (const double[]){0, 0, 0}, 3);
    cadre_step_clock_divide(1, -1, nothing, 0);
}
END_TEST

START_TEST(what_lay_in_the_bubble_is_the_schedules)
{
    double some[] = {1, 2, 3}, more[] = {1, 2, 3}, none[] = {1, 2, 3};
    cadre_step_clock_divide(5, 2, some, 3);
    expect(some, (const double[]){1, 2, 2}, 3);
    cadre_step_clock_divide(1.5, 2, more, 3); /* other waits lay in it too */
    expect(more, (const double[]){0.5, 1, 0}, 3);
    cadre_step_clock_divide(3, -1, none, 3);
    expect(none, (const double[]){0.5, 1, 1.5}, 3);
}
END_TEST

/* Counters may be read while another thread counts. */
START_TEST(no_part_is_below_zero)
{
    double part[] = {-1e-9, 1, 0};
    cadre_step_clock_divide(1, -1, part, 3);
    expect(part, (const double[]){0, 1, 0}, 3);
}
END_TEST

START_TEST(one_rank_computes)
{
    struct rank_fixture f = {0};
    rank_fixture_open(&f);
    rank_fixture_start(&f);
    const struct cadre_step_report report = rank_fixture_step(&f, 1);
    const struct cadre_step_times *t = &report.times;
    ck_assert_int_eq(t->n_exposed, 0);
    ck_assert_double_gt(t->compute_s, 0);
    ck_assert_double_eq(t->optim_wait_s, 0);
    ck_assert_double_le(t->compute_s + t->optim_s + t->wait_data_s, t->step_s);
    rank_fixture_close(&f);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("engine/step_clock");
    TCase *tc = tcase_create("step_clock");
    tcase_add_test(tc, parts_are_the_whole);
    tcase_add_test(tc, what_lay_in_the_bubble_is_the_schedules);
    tcase_add_test(tc, no_part_is_below_zero);
    tcase_add_test(tc, one_rank_computes);
    suite_add_tcase(suite, tc);
    return suite;
}
