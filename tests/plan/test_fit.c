/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/answer/fit.h"

#include <stdlib.h>
#include <string.h>

#include "tests/plan/answer_fixture.h"
#include "tests/support/check_main.h"

/* One step more than the largest does not fit; it itself does. */
START_TEST(the_largest_fits_and_one_more_does_not)
{
    struct cadre_fit fit[CADRE_FIT_KINDS];
    struct cadre_transformer t = small_model;
    struct cadre_candidate c = one_rank;
    cadre_fit(fit, &t, &c, &round_machine);
    ck_assert_int_eq(fit[CADRE_FIT_LAYERS].now, 8);
    t.layers = fit[CADRE_FIT_LAYERS].most;
    struct cadre_footprint f = cadre_footprint(&t, &c, &round_machine);
    ck_assert(cadre_footprint_fits(&f, &round_machine));
    ck_assert_double_eq(f.total, fit[CADRE_FIT_LAYERS].bytes);
    t.layers++;
    f = cadre_footprint(&t, &c, &round_machine);
    ck_assert(!cadre_footprint_fits(&f, &round_machine));
    t = small_model;
    c.micro_batch = fit[CADRE_FIT_MICRO_BATCH].most + 1;
    c.global_batch = 16 * c.micro_batch;
    f = cadre_footprint(&t, &c, &round_machine);
    ck_assert(!cadre_footprint_fits(&f, &round_machine));
}
END_TEST

START_TEST(sizes_are_such_that_ranks_divide_them)
{
    struct cadre_fit fit[CADRE_FIT_KINDS];
    struct cadre_candidate c = one_rank;
    c.tensor = 4, c.pipeline = 2, c.chunks = 2;
    cadre_fit(fit, &small_model, &c, &round_machine);
    ck_assert_int_eq(fit[CADRE_FIT_LAYERS].most % 4, 0);
    ck_assert_int_eq(fit[CADRE_FIT_CHANNELS].most % (64 * 4), 0);
    ck_assert_int_eq(fit[CADRE_FIT_CONTEXT].most % 64, 0);
    for (int i = 0; i < CADRE_FIT_KINDS; i++)
        ck_assert(fit[i].most > fit[i].now && !fit[i].more);
}
END_TEST

START_TEST(nothing_fits)
{
    struct cadre_fit fit[CADRE_FIT_KINDS];
    struct cadre_hardware hw = round_machine;
    hw.device.memory_gib = 0.1;
    cadre_fit(fit, &small_model, &one_rank, &hw);
    ck_assert_int_eq(fit[CADRE_FIT_LAYERS].most, 0);
    ck_assert_int_eq(fit[CADRE_FIT_MICRO_BATCH].most, 0);
}
END_TEST

START_TEST(prints_the_smallest_form_besides)
{
    cadre_fit_print(&search, &search.found[0], &question, &round_machine,
                    begin_print());
    ck_assert_ptr_nonnull(strstr(end_print(), "forecast, not measured"));
    ck_assert_ptr_nonnull(strstr(printed, "micro_batch"));
    forget_print();
    ck_assert_int_eq(cadre_fit_print_json(&search, &search.found[0], &question,
                                          &round_machine, begin_print()),
                     CADRE_OK);
    ck_assert_ptr_nonnull(strstr(end_print(), "\"at_most\""));
    forget_print();
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("fit");
    TCase *tc = tcase_create("fit");
    tcase_add_checked_fixture(tc, find_all, forget_all);
    tcase_add_test(tc, the_largest_fits_and_one_more_does_not);
    tcase_add_test(tc, sizes_are_such_that_ranks_divide_them);
    tcase_add_test(tc, nothing_fits);
    tcase_add_test(tc, prints_the_smallest_form_besides);
    suite_add_tcase(s, tc);
    return s;
}
