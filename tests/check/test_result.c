/* SPDX-License-Identifier: Apache-2.0 */
#include "core/check/result.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/check/catalogue.h"
#include "tests/check/results_fixture.h"
#include "tests/support/check_main.h"

static void level_is(const struct cadre_check_results *results, const char *want)
{
    ck_assert_str_eq(cadre_check_results_level(results), want);
}

START_TEST(a_level_needs_those_below)
{
    static const char *const names[] = {"loadable",  "correct",   "exact",
                                        "stackable", "resumable", "fault-tolerant"};
    struct cadre_check_results results;
    results_of(&results, "x");
    level_is(&results, "none");
    for (int level = 0; level < CADRE_CHECK_LEVELS; level++) {
        results_pass(&results, (enum cadre_check_level)level);
        level_is(&results, names[level]);
    }
    results_say(&results, "S1", CADRE_CHECK_FAIL, "wrong");
    level_is(&results, "exact");
    results_say(&results, "K2", CADRE_CHECK_CRASH, "dead");
    level_is(&results, "loadable");
    results_say(&results, "L1", CADRE_CHECK_HOST_FAULT, "no disk");
    level_is(&results, "none");
    cadre_check_results_fini(&results);
}
END_TEST

/* Skips, warnings and accepted failures keep nobody from a level; a check that was not
 * carried out does, and so does a level of which nothing passed. */
START_TEST(what_counts_for_a_level)
{
    static const enum cadre_check_status good[] = {
        CADRE_CHECK_WARNING, CADRE_CHECK_REFUSED, CADRE_CHECK_UNSUPPORTED,
        CADRE_CHECK_WAIVED};
    struct cadre_check_results results;
    results_of(&results, "x");
    results_pass(&results, CADRE_LEVEL_STACKABLE);
    for (size_t i = 0; i < 4; i++) {
        results_say(&results, "S1", good[i], "so");
        level_is(&results, "stackable");
    }
    results_say(&results, "S1", CADRE_CHECK_TIMEOUT, "long");
    level_is(&results, "exact");
    results_say(&results, "S1", CADRE_CHECK_PASS, "")->done = false;
    level_is(&results, "exact");
    for (size_t i = 0; i < results.n; i++)
        if (strcmp(results.result[i].check->group, "stack") == 0)
            results_say(&results, results.result[i].check->id, CADRE_CHECK_REFUSED,
                        "no");
    level_is(&results, "exact");
    cadre_check_results_fini(&results);
}
END_TEST

START_TEST(verdicts_are_counted)
{
    struct cadre_check_results results;
    results_of(&results, "x");
    ck_assert_uint_eq(results.n, cadre_catalogue_size());
    ck_assert_uint_eq(cadre_check_results_chosen(&results), 0);
    ck_assert_uint_eq(cadre_check_results_count(&results, CADRE_CHECK_PASS), 0);
    results_awkward(&results);
    ck_assert_uint_eq(cadre_check_results_chosen(&results), CADRE_CHECK_STATUSES);
    for (int status = 0; status < CADRE_CHECK_STATUSES; status++)
        ck_assert_uint_eq(
            cadre_check_results_count(&results, (enum cadre_check_status)status), 1);
    ck_assert_uint_eq(cadre_check_results_bad(&results), 4);
    results.result[20].chosen = true; /* and not done */
    ck_assert_uint_eq(cadre_check_results_chosen(&results), CADRE_CHECK_STATUSES + 1);
    ck_assert_uint_eq(cadre_check_results_count(&results, CADRE_CHECK_PASS), 1);
    cadre_check_results_fini(&results);
}
END_TEST

static void summary_has(const struct cadre_check_results *results, const char *want)
{
    char text[256];
    cadre_check_results_summary(results, text, sizeof text);
    ck_assert_msg(strstr(text, want), "'%s' lacks '%s'", text, want);
}

START_TEST(the_summary_is_one_line)
{
    struct cadre_check_results results;
    results_of(&results, "x");
    results_pass(&results, CADRE_LEVEL_LOADABLE);
    size_t n = cadre_check_results_chosen(&results);
    char want[64], text[256];
    snprintf(want, sizeof want, "%zu pass, 0 fail: conforms to cadre.strategy/0.", n);
    summary_has(&results, want);
    summary_has(&results, " level loadable");
    results.quick = true;
    summary_has(&results, "level loadable; higher ones need a run without --quick");
    results_say(&results, "L1", CADRE_CHECK_WAIVED, "known");
    results_say(&results, "L2", CADRE_CHECK_UNSUPPORTED, "no");
    results_say(&results, "L3", CADRE_CHECK_FAIL, "wrong");
    snprintf(want, sizeof want, "%zu pass, 1 unsupported, 1 waived, 1 fail: reaches no",
             n - 3);
    summary_has(&results, want);
    /* what does not fit is cut, not written beyond */
    for (size_t bytes = 1; bytes < 40; bytes++) {
        memset(text, 'x', sizeof text);
        cadre_check_results_summary(&results, text, bytes);
        ck_assert_uint_lt(strnlen(text, sizeof text), bytes);
        ck_assert_int_eq(text[bytes], 'x');
    }
    cadre_check_results_fini(&results);
}
END_TEST

START_TEST(checks_left_out_are_told_apart_from_failures)
{
    struct cadre_check_results results;
    results_of(&results, "x");
    results_say(&results, "L1", CADRE_CHECK_PASS, "");
    summary_has(&results, "reaches no level of cadre.strategy/");
    summary_has(&results, ", as checks were left out");
    results_say(&results, "L2", CADRE_CHECK_FAIL, "wrong");
    char text[256];
    cadre_check_results_summary(&results, text, sizeof text);
    ck_assert_ptr_null(strstr(text, "left out"));
    cadre_check_results_fini(&results);
}
END_TEST

START_TEST(a_failure_can_be_repeated)
{
    struct cadre_check_results results;
    char text[256];
    results_of(&results, "./my.so");
    cadre_check_results_reproduce(&results, cadre_catalogue_find("K3"), text,
                                  sizeof text);
    ck_assert_str_eq(text, "cadre check ./my.so --only K3 --seed 7");
    results.quick = true;
    cadre_check_results_reproduce(&results, cadre_catalogue_find("K3"), text,
                                  sizeof text);
    ck_assert_str_eq(text, "cadre check ./my.so --only K3 --seed 7 --quick");
    cadre_check_results_fini(&results);
}
END_TEST

START_TEST(the_file_is_known_by_its_hash)
{
    struct cadre_check_results results;
    char *dir = test_tmpdir(), want[32];
    const char *path = test_file_put(dir, "my.so", "plugin", 6);
    results_of(&results, path);
    snprintf(want, sizeof want, "%016" PRIx64, cadre_hash_of("plugin", 6, 0));
    ck_assert_str_eq(results.digest, want);
    cadre_check_results_fini(&results);
    results_of(&results, "./no/such.so");
    ck_assert_str_eq(results.digest, "");
    cadre_check_results_fini(&results);
    test_tmpdir_destroy(dir);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("check/result");
    TCase *t = tcase_create("result");
    tcase_add_test(t, a_level_needs_those_below);
    tcase_add_test(t, what_counts_for_a_level);
    tcase_add_test(t, verdicts_are_counted);
    tcase_add_test(t, the_summary_is_one_line);
    tcase_add_test(t, checks_left_out_are_told_apart_from_failures);
    tcase_add_test(t, a_failure_can_be_repeated);
    tcase_add_test(t, the_file_is_known_by_its_hash);
    suite_add_tcase(s, t);
    return s;
}
