/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/refusals.h"

#include <string.h>

#include "tests/plan/plan_fixture.h"
#include "tests/support/check_main.h"

static struct cadre_plan_found found[200];
static struct cadre_plan_search search;
static struct cadre_plan_refusals refusals;

static void setup(void)
{
    memset(found, 0, sizeof found);
    search = (struct cadre_plan_search){.found = found};
}

static void add(int64_t tensor, double bytes, const char *why)
{
    struct cadre_plan_found *f = &found[search.n++];
    f->candidate = one_rank;
    f->candidate.tensor = tensor;
    f->footprint.total = bytes;
    snprintf(f->refused, sizeof f->refused, "%s", why);
}

/* tensor 2 runs in one form, 4 needs least in its second, 8 and 16 have one reason. */
START_TEST(a_stack_counts_once_by_the_form_that_needs_least)
{
    add(2, 5, "");
    search.legal = 1;
    add(2, 9, "too much");
    add(4, 9, "needs 9");
    add(4, 7, "needs 7");
    add(8, 0, "does not divide");
    add(16, 0, "does not divide");
    cadre_plan_refusals_count(&refusals, &search);
    ck_assert_uint_eq(refusals.n, 2);
    ck_assert_str_eq(refusals.of[0].why, "needs 7");
    ck_assert_uint_eq(refusals.of[0].stacks, 1);
    ck_assert_uint_eq(refusals.of[0].example, 3);
    ck_assert_str_eq(refusals.of[1].why, "does not divide");
    ck_assert_uint_eq(refusals.of[1].stacks, 2);
    ck_assert_uint_eq(refusals.of[1].example, 4);
    ck_assert_uint_eq(refusals.left_out, 0);
}
END_TEST

START_TEST(reasons_beyond_the_room_are_counted)
{
    char why[16];
    for (int i = 0; i < CADRE_PLAN_REASONS + 3; i++) {
        snprintf(why, sizeof why, "reason %d", i);
        add(i + 1, 0, why);
    }
    cadre_plan_refusals_count(&refusals, &search);
    ck_assert_uint_eq(refusals.n, CADRE_PLAN_REASONS);
    ck_assert_uint_eq(refusals.left_out, 3);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("refusals");
    TCase *tc = tcase_create("refusals");
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, a_stack_counts_once_by_the_form_that_needs_least);
    tcase_add_test(tc, reasons_beyond_the_room_are_counted);
    suite_add_tcase(s, tc);
    return s;
}
