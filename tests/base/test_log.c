/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/log.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/check_main.h"

static char got[8192];
static FILE *capture;
static int kept_stderr;

/* Standard error goes to a file between these two; `got` then holds what was written.
 */
static void capture_begin(void)
{
    capture = tmpfile();
    ck_assert_ptr_nonnull(capture);
    kept_stderr = dup(STDERR_FILENO);
    ck_assert_int_ge(dup2(fileno(capture), STDERR_FILENO), 0);
}

static void capture_end(void)
{
    ck_assert_int_ge(dup2(kept_stderr, STDERR_FILENO), 0);
    close(kept_stderr);
    rewind(capture);
    size_t n = fread(got, 1, sizeof got - 1, capture);
    got[n] = '\0';
    fclose(capture);
}

START_TEST(a_line_has_time_subsystem_and_message)
{
    int hour, minute, second, end = 0;
    capture_begin();
    cadre_log(CADRE_LOG_INFO, "data", "read %d records", 7);
    capture_end();
    ck_assert_int_eq(sscanf(got, "%2d:%2d:%2d %n", &hour, &minute, &second, &end), 3);
    ck_assert_str_eq(got + end, "data: read 7 records\n");
}
END_TEST

START_TEST(below_warn_only_rank_0_logs)
{
    capture_begin();
    cadre_log_set_rank(3, 8);
    cadre_log(CADRE_LOG_INFO, "comm", "quiet");
    cadre_log(CADRE_LOG_WARN, "comm", "loud");
    cadre_log_set_rank(0, 8);
    cadre_log(CADRE_LOG_INFO, "comm", "first");
    capture_end();
    ck_assert_int_eq(cadre_log_rank(), 0);
    ck_assert_ptr_null(strstr(got, "quiet"));
    ck_assert_ptr_nonnull(strstr(got, " r3/8 warn: comm: loud\n"));
    ck_assert_ptr_nonnull(strstr(got, " r0/8 comm: first\n"));
}
END_TEST

START_TEST(a_process_may_have_a_name)
{
    capture_begin();
    cadre_log_set_process("instance 1");
    cadre_log_set_rank(0, 2);
    cadre_log(CADRE_LOG_INFO, "comm", "named");
    cadre_log_set_process(NULL);
    cadre_log(CADRE_LOG_INFO, "comm", "again");
    capture_end();
    ck_assert_ptr_nonnull(strstr(got, " instance 1: r0/2 comm: named\n"));
    ck_assert_int_eq(strncmp(strchr(strchr(got, '\n'), ' '), " r0/2 comm: again", 17),
                     0);
}
END_TEST

START_TEST(the_level_is_a_threshold)
{
    capture_begin();
    cadre_log(CADRE_LOG_DEBUG, "x", "one");
    cadre_log_set_level(CADRE_LOG_DEBUG);
    cadre_log(CADRE_LOG_DEBUG, "x", "two");
    cadre_log_set_level(CADRE_LOG_ERROR);
    cadre_log(CADRE_LOG_WARN, "x", "three");
    cadre_log(CADRE_LOG_ERROR, "x", "four");
    capture_end();
    ck_assert_ptr_null(strstr(got, "one"));
    ck_assert_ptr_nonnull(strstr(got, "two"));
    ck_assert_ptr_null(strstr(got, "three"));
    ck_assert_ptr_nonnull(strstr(got, "error: x: four\n"));
}
END_TEST

START_TEST(a_long_message_is_truncated_to_one_line)
{
    static char message[5000];
    memset(message, 'a', sizeof message - 1);
    capture_begin();
    cadre_log(CADRE_LOG_INFO, "x", "%s", message);
    capture_end();
    ck_assert_uint_lt(strlen(got), 2049);
    ck_assert_int_eq(got[strlen(got) - 1], '\n');
}
END_TEST

START_TEST(lines_are_printed_above_a_bar)
{
    capture_begin();
    cadre_log_bar("bar 1");
    cadre_log(CADRE_LOG_INFO, "x", "above");
    cadre_log_bar("bar 2");
    cadre_log_bar(NULL);
    cadre_log(CADRE_LOG_INFO, "x", "after");
    capture_end();
    ck_assert_ptr_eq(strstr(got, "\r\033[Kbar 1\r\033[K"), got);
    ck_assert_ptr_nonnull(strstr(got, "x: above\n\r\033[Kbar 1\r\033[Kbar 2\n"));
    ck_assert_ptr_null(strstr(strstr(got, "bar 2"), "bar 1"));
    ck_assert_ptr_null(strstr(strstr(got, "after"), "bar"));
}
END_TEST

START_TEST(level_names_are_parsed_strictly)
{
    enum cadre_log_level level = CADRE_LOG_INFO;
    ck_assert(cadre_log_parse_level("trace", &level));
    ck_assert_int_eq(level, CADRE_LOG_TRACE);
    ck_assert(!cadre_log_parse_level("Trace", &level));
    ck_assert(!cadre_log_parse_level("", &level));
    ck_assert_int_eq(level, CADRE_LOG_TRACE);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("log");
    TCase *tc = tcase_create("log");
    tcase_add_test(tc, a_line_has_time_subsystem_and_message);
    tcase_add_test(tc, below_warn_only_rank_0_logs);
    tcase_add_test(tc, a_process_may_have_a_name);
    tcase_add_test(tc, the_level_is_a_threshold);
    tcase_add_test(tc, a_long_message_is_truncated_to_one_line);
    tcase_add_test(tc, lines_are_printed_above_a_bar);
    tcase_add_test(tc, level_names_are_parsed_strictly);
    suite_add_tcase(suite, tc);
    return suite;
}
