/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/terminal.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/check_main.h"

static void wraps(const char *first, int indent, const char *text, int columns,
                  const char *expected)
{
    struct cadre_text out = {0};
    cadre_terminal_wrap(&out, first, indent, text, columns);
    ck_assert_str_eq(cadre_text_str(&out), expected);
    cadre_text_fini(&out);
}

START_TEST(lines_are_broken_at_blanks)
{
    wraps("", 0, "one two three", 7, "one two\nthree\n");
    wraps("", 2, "one two three", 7, "  one\n  two\n  three\n");
    wraps("", 0, "one two", 80, "one two\n");
    wraps("", 0, "", 80, "\n");
    wraps("-a", 4, "one two three", 0, "-a  one two three\n"); /* nowhere */
}
END_TEST

START_TEST(the_first_line_has_its_own_beginning)
{
    wraps("-a", 4, "one two", 11, "-a  one two\n");
    wraps("-a", 4, "one two", 10, "-a  one\n    two\n");
    wraps("--long", 4, "one two", 10, "--long one\n    two\n");
}
END_TEST

START_TEST(a_long_word_stands_alone)
{
    wraps("", 0, "a incomprehensible b", 6, "a\nincomprehensible\nb\n");
}
END_TEST

START_TEST(breaks_and_characters_count)
{
    wraps("", 1, "one\n\ntwo", 80, " one\n \n two\n");
    wraps("", 0, "\xc3\xa4\xc3\xa4 \xc3\xa4", 4, "\xc3\xa4\xc3\xa4 \xc3\xa4\n");
}
END_TEST

START_TEST(columns_without_a_terminal)
{
    setenv("COLUMNS", "44", 1);
    ck_assert_int_eq(cadre_terminal_columns(-1), 44);
    setenv("COLUMNS", "0", 1);
    ck_assert_int_eq(cadre_terminal_columns(-1), 80);
    setenv("COLUMNS", "many", 1);
    ck_assert_int_eq(cadre_terminal_columns(-1), 80);
    unsetenv("COLUMNS");
    ck_assert_int_eq(cadre_terminal_columns(-1), 80);
}
END_TEST

/* A file is no terminal: a line for scripts, as it is. */
START_TEST(a_file_gets_one_line)
{
    char text[256], read[512];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    memcpy(text + 100, "  two blanks ", 13);
    setenv("COLUMNS", "44", 1);
    FILE *to = tmpfile();
    ck_assert_ptr_nonnull(to);
    ck_assert_int_eq(cadre_terminal_break(fileno(to)), 0);
    ck_assert(cadre_terminal_write(to, "name ", 5, text));
    rewind(to);
    ck_assert_ptr_nonnull(fgets(read, sizeof read, to));
    ck_assert_msg(strncmp(read, "name ", 5) == 0 && strlen(read) == 5 + 255 + 1 &&
                      memcmp(read + 5, text, 255) == 0,
                  "%s", read);
    ck_assert_ptr_null(fgets(read, sizeof read, to));
    fclose(to);
    unsetenv("COLUMNS");
}
END_TEST

START_TEST(a_formatted_text)
{
    char read[64];
    FILE *to = tmpfile();
    ck_assert_ptr_nonnull(to);
    ck_assert(cadre_terminal_printf(to, "%d of %s", 2, "three"));
    rewind(to);
    ck_assert_ptr_nonnull(fgets(read, sizeof read, to));
    ck_assert_str_eq(read, "2 of three\n");
    fclose(to);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("terminal");
    TCase *tc = tcase_create("terminal");
    tcase_add_test(tc, lines_are_broken_at_blanks);
    tcase_add_test(tc, the_first_line_has_its_own_beginning);
    tcase_add_test(tc, a_long_word_stands_alone);
    tcase_add_test(tc, breaks_and_characters_count);
    tcase_add_test(tc, columns_without_a_terminal);
    tcase_add_test(tc, a_file_gets_one_line);
    tcase_add_test(tc, a_formatted_text);
    suite_add_tcase(s, tc);
    return s;
}
