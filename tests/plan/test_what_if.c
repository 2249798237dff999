/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/answer/what_if.h"

#include <stdlib.h>
#include <string.h>

#include "tests/plan/answer_fixture.h"
#include "tests/support/check_main.h"

START_TEST(each_change_alone_and_all_together)
{
    char narrow[] = "link.bandwidth=x0.001",
         slower[] = "device.product_efficiency=-50%";
    char *changes[] = {narrow, slower, NULL};
    struct cadre_what_if *w;
    size_t n;
    ck_assert_int_eq(
        cadre_what_if(&w, &n, &search, &question, &round_machine, changes, &err),
        CADRE_OK);
    ck_assert_uint_eq(n, 3);
    ck_assert_double_eq(w[0].before, search.found[0].forecast.step);
    ck_assert_double_gt(w[0].after, w[0].before);
    ck_assert_double_gt(w[1].after, 1.5 * w[1].before);
    ck_assert_double_gt(w[2].after, w[1].after);
    ck_assert_ptr_null(w[2].change);
    for (size_t i = 0; i < n; i++) {
        ck_assert_double_le(w[i].best.forecast.step, w[i].after);
        ck_assert_uint_le(w[i].overtaken, w[i].pairs);
    }
    cadre_what_if_print(w, n, begin_print());
    ck_assert_ptr_nonnull(strstr(end_print(), "all together"));
    forget_print();
    ck_assert_int_eq(cadre_what_if_print_json(w, n, begin_print()), CADRE_OK);
    ck_assert_ptr_nonnull(strstr(end_print(), "\"change\": \"link.bandwidth=x0.001\""));
    forget_print();
    free(w);
}
END_TEST

START_TEST(a_change_that_is_none_is_refused)
{
    char word[] = "link.bandwidth=more";
    char *changes[] = {word, NULL};
    struct cadre_what_if *w = NULL;
    size_t n;
    ck_assert_int_eq(
        cadre_what_if(&w, &n, &search, &question, &round_machine, changes, &err),
        CADRE_E_INVALID);
    ck_assert_ptr_null(w);
}
END_TEST

/* What a plugin refused is not the best then; what asked for too many bytes may be. */
START_TEST(what_plugins_refused_stays_refused)
{
    char same[] = "device.memory_gib=80", more[] = "device.memory_gib=160";
    char *changes[] = {same, more, NULL};
    struct cadre_what_if *w;
    size_t n;
    const struct cadre_plan_found best = search.found[0];
    search.found[0] = search.found[--search.legal];
    search.found[search.legal] = best;
    struct cadre_plan_found *refused = &search.found[search.legal];
    snprintf(refused->refused, sizeof refused->refused, "a plugin says no");
    refused->asked = 100 * 1073741824.0;
    ck_assert_int_eq(
        cadre_what_if(&w, &n, &search, &question, &round_machine, changes, &err),
        CADRE_OK);
    ck_assert(!cadre_candidate_equal(&w[0].best.candidate, &best.candidate));
    ck_assert(cadre_candidate_equal(&w[1].best.candidate, &best.candidate));
    free(w);
}
END_TEST

START_TEST(nothing_can_run_then)
{
    char small[] = "device.memory_gib=0.01";
    char *changes[] = {small, NULL};
    struct cadre_what_if *w = NULL;
    size_t n;
    ck_assert_int_eq(
        cadre_what_if(&w, &n, &search, &question, &round_machine, changes, &err),
        CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, "nothing can run") != NULL, "%s", err.text);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("what_if");
    TCase *tc = tcase_create("what_if");
    tcase_add_checked_fixture(tc, find_all, forget_all);
    tcase_add_test(tc, each_change_alone_and_all_together);
    tcase_add_test(tc, a_change_that_is_none_is_refused);
    tcase_add_test(tc, what_plugins_refused_stays_refused);
    tcase_add_test(tc, nothing_can_run_then);
    suite_add_tcase(s, tc);
    return s;
}
