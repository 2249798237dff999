/* SPDX-License-Identifier: Apache-2.0 */
#include "core/check/waivers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "tests/check/results_fixture.h"
#include "tests/support/check_main.h"

static char *dir;
static struct cadre_waivers *waivers;
static struct cadre_check_results results;

static void setup(void)
{
    dir = test_tmpdir();
    waivers = calloc(1, sizeof *waivers);
    results_of(&results, "x");
}

static void teardown(void)
{
    cadre_check_results_fini(&results);
    free(waivers);
    test_tmpdir_destroy(dir);
}

static void take(const char *text)
{
    struct cadre_error err = {0};
    const char *path = test_file_put(dir, "waivers", text, strlen(text));
    cadre_status rc = cadre_waivers_read(path, waivers, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
}

static void is_refused(const char *text, const char *want)
{
    struct cadre_error err = {0};
    const char *path = test_file_put(dir, "waivers", text, strlen(text));
    ck_assert_int_eq(cadre_waivers_read(path, waivers, &err), CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, want), "%s", err.text);
}

START_TEST(lines_are_an_id_and_a_reason)
{
    take("# accepted until 1.0\n\n  k2   sums are halved\r\n\tR1\tkeeps nothing\nK3 x");
    ck_assert_uint_eq(waivers->n, 3);
    ck_assert_str_eq(waivers->waiver[0].id, "K2");
    ck_assert_str_eq(waivers->waiver[0].reason, "sums are halved");
    ck_assert_str_eq(waivers->waiver[1].id, "R1");
    ck_assert_str_eq(waivers->waiver[1].reason, "keeps nothing");
    ck_assert_str_eq(waivers->waiver[2].reason, "x");
    take("");
    ck_assert_uint_eq(waivers->n, 0);
}
END_TEST

START_TEST(bad_lines_are_named)
{
    is_refused("K2 so\n\nQ7 so\n", "waivers:3: there is no check 'Q7'");
    is_refused("contract all of it\n", "waivers:1: there is no check 'contract'");
    is_refused("# why\nK2\n", "waivers:2: the waiver of K2 has no reason");
    is_refused("K2   \t\n", "waivers:1: the waiver of K2 has no reason");
}
END_TEST

START_TEST(there_is_a_limit)
{
    struct cadre_text text = {0};
    for (int i = 0; i < 64; i++)
        cadre_text_printf(&text, "K2 so\n");
    take(cadre_text_str(&text));
    ck_assert_uint_eq(waivers->n, 64);
    cadre_text_printf(&text, "K3 so\n");
    is_refused(cadre_text_str(&text), "waivers:65: more than 64 waivers");
    cadre_text_fini(&text);
}
END_TEST

START_TEST(what_cannot_be_read_is_wrong_input)
{
    struct cadre_error err = {0};
    ck_assert_int_eq(cadre_waivers_read("/no/such", waivers, &err), CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, "/no/such"), "%s", err.text);
    err = (struct cadre_error){0};
    ck_assert_int_eq(cadre_waivers_read(dir, waivers, &err), CADRE_E_INVALID);
}
END_TEST

/* Every way to fail is accepted where somebody has said so, and shows why. */
START_TEST(a_failure_is_accepted)
{
    static const enum cadre_check_status bad[] = {CADRE_CHECK_FAIL, CADRE_CHECK_CRASH,
                                                  CADRE_CHECK_TIMEOUT,
                                                  CADRE_CHECK_HOST_FAULT};
    static const char *const want[] = {"known (fail: it is)", "known (crash: it is)",
                                       "known (timeout: it is)",
                                       "known (host fault: it is)"};
    take("K2 known\n");
    for (size_t i = 0; i < 4; i++) {
        struct cadre_check_result *result =
            results_say(&results, "K2", bad[i], "it is");
        cadre_waivers_apply(waivers, result);
        ck_assert_int_eq(result->verdict.status, CADRE_CHECK_WAIVED);
        ck_assert_str_eq(result->verdict.text, want[i]);
        result = results_say(&results, "K3", bad[i], "it is");
        cadre_waivers_apply(waivers, result);
        ck_assert_int_eq(result->verdict.status, bad[i]);
        ck_assert_str_eq(result->verdict.text, "it is");
    }
}
END_TEST

START_TEST(a_waiver_that_nothing_needs_is_told)
{
    take("K2 known\n");
    struct cadre_check_result *result =
        results_say(&results, "K2", CADRE_CHECK_PASS, "");
    cadre_waivers_apply(waivers, result);
    ck_assert_int_eq(result->verdict.status, CADRE_CHECK_PASS);
    ck_assert_str_eq(result->verdict.text,
                     "its waiver is not needed (known): remove it from the file");
    result = results_say(&results, "K2", CADRE_CHECK_UNSUPPORTED, "not here");
    cadre_waivers_apply(waivers, result);
    ck_assert_int_eq(result->verdict.status, CADRE_CHECK_UNSUPPORTED);
    ck_assert_str_eq(
        result->verdict.text,
        "not here; its waiver is not needed (known): remove it from the file");
}
END_TEST

/* The longest texts fit, cut. */
START_TEST(long_texts_are_cut)
{
    char line[600] = "K2 ", said[sizeof results.result->verdict.text];
    memset(line + 3, 'r', sizeof line - 4);
    memset(said, 's', sizeof said - 1);
    said[sizeof said - 1] = 0;
    take(line);
    struct cadre_check_result *result =
        results_say(&results, "K2", CADRE_CHECK_FAIL, said);
    cadre_waivers_apply(waivers, result);
    ck_assert_int_eq(result->verdict.status, CADRE_CHECK_WAIVED);
    ck_assert_msg(strstr(result->verdict.text, "rrr (fail: sss"), "%s",
                  result->verdict.text);
    ck_assert_uint_lt(strlen(result->verdict.text), sizeof said);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("check/waivers");
    TCase *t = tcase_create("waivers");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, lines_are_an_id_and_a_reason);
    tcase_add_test(t, bad_lines_are_named);
    tcase_add_test(t, there_is_a_limit);
    tcase_add_test(t, what_cannot_be_read_is_wrong_input);
    tcase_add_test(t, a_failure_is_accepted);
    tcase_add_test(t, a_waiver_that_nothing_needs_is_told);
    tcase_add_test(t, long_texts_are_cut);
    suite_add_tcase(s, t);
    return s;
}
