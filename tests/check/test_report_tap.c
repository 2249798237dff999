/* SPDX-License-Identifier: Apache-2.0 */
#include "core/check/report.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/utf8.h"
#include "tests/check/results_fixture.h"
#include "tests/support/check_main.h"

static struct cadre_check_results results;

static void setup(void)
{
    results_of(&results, "./my.so");
}

static void teardown(void)
{
    cadre_check_results_fini(&results);
}

/* The lines of one verdict. The caller frees. */
static char *line_of(const char *id, enum cadre_check_status status, const char *text)
{
    char *out = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&out, &bytes);
    const struct cadre_check_result *result = results_say(&results, id, status, text);
    cadre_tap_put(file, 3, &results, result);
    fclose(file);
    return out;
}

/* The verdict is "ok 3 - L1 TITLE" and the rest. */
static void says(enum cadre_check_status status, const char *text, const char *rest)
{
    char *out = line_of("L1", status, text), want[512];
    snprintf(want, sizeof want, "ok 3 - L1 %s%s", results.result[0].check->title, rest);
    ck_assert_str_eq(out, want);
    free(out);
}

START_TEST(good_verdicts_are_ok_lines)
{
    says(CADRE_CHECK_PASS, "", "\n");
    says(CADRE_CHECK_PASS, "37 trials", "\n  # 37 trials\n");
    says(CADRE_CHECK_UNSUPPORTED, "no GPU\nand no more",
         " # SKIP unsupported: no GPU\n");
    says(CADRE_CHECK_REFUSED, "at most 2 ranks", " # SKIP refused: at most 2 ranks\n");
}
END_TEST

/* TAP's word for a known failure: it is no failure of the file. */
START_TEST(a_waiver_is_a_known_failure)
{
    char *out = line_of("L1", CADRE_CHECK_WAIVED, "old (fail: no)");
    ck_assert_int_eq(strncmp(out, "not ok 3 - L1 ", 14), 0);
    const char *directive = strstr(out, " # T");
    ck_assert_ptr_nonnull(directive);
    ck_assert_str_eq(directive + 7, " waived: old (fail: no)\n");
    free(out);
}
END_TEST

static void has(const char *text, const char *want)
{
    ck_assert_msg(strstr(text, want), "'%s' lacks '%s'", text, want);
}

/* All that is needed to act on it, in a block of YAML. */
START_TEST(a_failure_has_diagnostics)
{
    char *out = line_of("K2", CADRE_CHECK_FAIL, "2 ranks: \"x\" is \\ wrong\nand y");
    ck_assert_int_eq(strncmp(out, "not ok 3 - K2 ", 14), 0);
    has(out, "\n  ---\n  status: \"fail\"\n");
    has(out, "\n  text: \"2 ranks: \\\"x\\\" is \\\\ wrong\\nand y\"\n");
    has(out, "\n  why: \"");
    has(out, "\n  reproduce: \"cadre check ./my.so --only K2 --seed 7\"\n");
    has(out, "\n  see: \"docs/");
    ck_assert_str_eq(out + strlen(out) - 7, "\n  ...\n");
    free(out);
    out = line_of("K2", CADRE_CHECK_WARNING, "slow");
    ck_assert_int_eq(strncmp(out, "ok 3 - K2 ", 10), 0);
    has(out, "\n  status: \"warning\"\n  text: \"slow\"\n");
    free(out);
    static const enum cadre_check_status bad[] = {
        CADRE_CHECK_CRASH, CADRE_CHECK_TIMEOUT, CADRE_CHECK_HOST_FAULT};
    for (size_t i = 0; i < 3; i++) {
        out = line_of("K2", bad[i], "");
        ck_assert_int_eq(strncmp(out, "not ok 3 - K2 ", 14), 0);
        has(out, cadre_check_status_name(bad[i]));
        free(out);
    }
}
END_TEST

/* "#" begins a directive, and a plugin may print anything. */
START_TEST(texts_cannot_break_a_line)
{
    says(CADRE_CHECK_UNSUPPORTED, "a # b \\ c",
         " # SKIP unsupported: a \\# b \\\\ c\n");
    says(CADRE_CHECK_PASS, "\xff and \xc3\xa9", "\n  # \xef\xbf\xbd and \xc3\xa9\n");
    char *out = line_of("L1", CADRE_CHECK_CRASH, "\x1b[31mred\xc3");
    has(out, "  text: \"[31mred\xef\xbf\xbd\"\n");
    free(out);
}
END_TEST

START_TEST(a_whole_file)
{
    char *out = NULL;
    size_t bytes = 0, lines = 0, number = 0;
    FILE *file = open_memstream(&out, &bytes);
    results_awkward(&results);
    cadre_tap_begin(file, CADRE_CHECK_STATUSES);
    for (size_t i = 0; i < CADRE_CHECK_STATUSES; i++)
        cadre_tap_put(file, i + 1, &results, &results.result[i]);
    cadre_tap_end(file, &results);
    fclose(file);
    ck_assert_int_eq(strncmp(out, "TAP version 14\n1..9\n", 20), 0);
    for (size_t i = 0; i < bytes; lines += out[i] == '\n', i++) {
        size_t n = cadre_utf8_char(out + i, bytes - i);
        ck_assert_uint_gt(n, 0);
        i += n - 1;
    }
    ck_assert_uint_gt(lines, 20);
    char *rest = out, *line;
    while ((line = strsep(&rest, "\n"))) {
        bool is_result =
            strncmp(line, "ok ", 3) == 0 || strncmp(line, "not ok ", 7) == 0;
        number += is_result;
        /* what is no result is indented, a comment, or a line of the frame */
        ck_assert_msg(is_result || *line == ' ' || *line == '#' || *line == 0 ||
                          strcmp(line, "TAP version 14") == 0 ||
                          strcmp(line, "1..9") == 0,
                      "'%s'", line);
    }
    ck_assert_uint_eq(number, CADRE_CHECK_STATUSES);
    free(out);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("check/report_tap");
    TCase *t = tcase_create("tap");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, good_verdicts_are_ok_lines);
    tcase_add_test(t, a_waiver_is_a_known_failure);
    tcase_add_test(t, a_failure_has_diagnostics);
    tcase_add_test(t, texts_cannot_break_a_line);
    tcase_add_test(t, a_whole_file);
    suite_add_tcase(s, t);
    return s;
}
