/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/search.h"

#include <string.h>

#include "tests/plan/plan_fixture.h"
#include "tests/support/check_main.h"

static struct cadre_plan_search found;
static struct cadre_error err;

static void teardown(void)
{
    cadre_plan_search_fini(&found);
}

static struct cadre_plan_question question(int64_t ranks)
{
    struct cadre_plan_question q = {small_model, one_rank, false, ranks};
    q.from.global_batch = 64;
    return q;
}

START_TEST(ranked_by_the_step_then_refused)
{
    const struct cadre_plan_question q = question(16);
    ck_assert_int_eq(cadre_plan_search(&found, &q, &round_machine, &err), CADRE_OK);
    ck_assert_uint_gt(found.legal, 0);
    ck_assert_uint_gt(found.n, found.legal);
    for (size_t i = 0; i < found.n; i++) {
        const struct cadre_plan_found *f = &found.found[i];
        ck_assert_int_eq(cadre_candidate_ranks(&f->candidate), 16);
        ck_assert_int_eq(*f->refused != 0, i >= found.legal);
        if (i > 0 && i < found.legal)
            ck_assert_double_ge(f->forecast.step, f[-1].forecast.step);
    }
}
END_TEST

START_TEST(what_needs_too_much_memory_is_refused_with_how_much)
{
    struct cadre_hardware hw = round_machine;
    const struct cadre_plan_question q = question(2);
    hw.device.memory_gib = 0.01;
    ck_assert_int_eq(cadre_plan_search(&found, &q, &hw, &err), CADRE_OK);
    ck_assert_uint_eq(found.legal, 0);
    ck_assert_ptr_nonnull(strstr(found.found[0].refused, "needs at least "));
}
END_TEST

/* More ranks than anything can use: all is refused, with reasons. */
START_TEST(too_many_ranks_leave_nothing)
{
    const struct cadre_plan_question q = question(65536);
    ck_assert_int_eq(cadre_plan_search(&found, &q, &round_machine, &err), CADRE_OK);
    ck_assert_uint_eq(found.legal, 0);
    for (size_t i = 0; i < found.n; i++)
        ck_assert(found.found[i].refused[0]);
}
END_TEST

START_TEST(a_dtype_without_a_peak)
{
    struct cadre_plan_question q = question(2);
    q.from.dtype = CADRE_PLAN_FP8;
    ck_assert_int_eq(cadre_plan_search(&found, &q, &round_machine, &err),
                     CADRE_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.text, "peak_fp8_tflops"));
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("search");
    TCase *tc = tcase_create("search");
    tcase_add_checked_fixture(tc, NULL, teardown);
    tcase_add_test(tc, ranked_by_the_step_then_refused);
    tcase_add_test(tc, what_needs_too_much_memory_is_refused_with_how_much);
    tcase_add_test(tc, too_many_ranks_leave_nothing);
    tcase_add_test(tc, a_dtype_without_a_peak);
    suite_add_tcase(s, tc);
    return s;
}
