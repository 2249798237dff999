/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/answer/explain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/plan/answer_fixture.h"
#include "tests/support/check_main.h"

START_TEST(places_and_stacks_name_candidates)
{
    ck_assert_ptr_eq(cadre_explain_find(&search, "1"), &search.found[0]);
    const struct cadre_plan_found *f =
        cadre_explain_find(&search, "pipeline:2,tensor:4");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(f->candidate.pipeline, 2);
    ck_assert_int_eq(f->candidate.tensor, 4);
    for (const struct cadre_plan_found *g = search.found; g < f; g++)
        ck_assert(g->candidate.pipeline != 2 || g->candidate.tensor != 4);
    ck_assert_ptr_null(cadre_explain_find(&search, "0"));
    ck_assert_ptr_null(cadre_explain_find(&search, "999999999"));
    ck_assert_ptr_null(cadre_explain_find(&search, "tensor:3"));
}
END_TEST

/* The parts of the difference sum to it, and none is larger in its direction than the
 * one that decides. */
START_TEST(the_largest_part_decides)
{
    struct cadre_explain e;
    double sum = 0;
    ck_assert_int_eq(cadre_explain(&e, &search, "1", "tensor:8", &err), CADRE_OK);
    ck_assert_double_lt(e.difference, 0);
    for (int i = 0; i < CADRE_PLAN_CAUSES; i++) {
        const double part = e.a->forecast.cause[i] - e.b->forecast.cause[i];
        sum += part;
        ck_assert_double_ge(part, e.a->forecast.cause[e.decides] -
                                      e.b->forecast.cause[e.decides]);
    }
    ck_assert_double_eq_tol(sum, e.difference, 1e-12);
    cadre_explain_print(&e, begin_print());
    ck_assert_ptr_nonnull(strstr(end_print(), "forecast, not measured"));
    ck_assert_ptr_nonnull(strstr(printed, "tensor decides"));
    forget_print();
    ck_assert_int_eq(cadre_explain_print_json(&e, begin_print()), CADRE_OK);
    ck_assert_ptr_nonnull(strstr(end_print(), "\"decides\": \"tensor\""));
    forget_print();
}
END_TEST

static const struct {
    const char *a, *b, *why;
} wrong[] = {
    {"1", "1", "are the same candidate"},
    {"1", "none:8", "no candidate 'none:8'"},
    {"-1", "2", "no candidate '-1'"},
    {"pipeline:8", "1", NULL},
};

START_TEST(refuses)
{
    struct cadre_explain e;
    const cadre_status rc = cadre_explain(&e, &search, wrong[_i].a, wrong[_i].b, &err);
    ck_assert_int_eq(rc, wrong[_i].why ? CADRE_E_INVALID : CADRE_OK);
    if (wrong[_i].why)
        ck_assert_msg(strstr(err.text, wrong[_i].why) != NULL, "%s", err.text);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("explain");
    TCase *tc = tcase_create("explain");
    tcase_add_checked_fixture(tc, find_all, forget_all);
    tcase_add_test(tc, places_and_stacks_name_candidates);
    tcase_add_test(tc, the_largest_part_decides);
    tcase_add_loop_test(tc, refuses, 0, (int)(sizeof wrong / sizeof *wrong));
    suite_add_tcase(s, tc);
    return s;
}
