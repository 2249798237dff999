/* SPDX-License-Identifier: Apache-2.0 */
#include "core/page/escape.h"

#include "tests/support/check_main.h"

static struct cadre_text text;

static void teardown(void)
{
    cadre_text_fini(&text);
}

START_TEST(markdown_shows_markup_as_it_is)
{
    cadre_escape_markdown(&text, "a|b *c* <d> [e](f) g_h\n[i] (j)");
    ck_assert_str_eq(cadre_text_str(&text),
                     "a\\|b \\*c\\* \\<d\\> [e]\\(f) g\\_h [i] (j)");
}
END_TEST

START_TEST(markdown_keeps_code_in_a_block)
{
    cadre_escape_markdown_code(&text, NULL);
    cadre_escape_markdown_code(&text, "a_b `*c*`\n# d");
    ck_assert_str_eq(cadre_text_str(&text), "    a_b `*c*`\n    # d\n\n");
}
END_TEST

START_TEST(csv_quotes_what_must_be)
{
    cadre_escape_csv(&text, "plain");
    cadre_escape_csv(&text, " a,b");
    cadre_escape_csv(&text, "say \"x\"");
    cadre_escape_csv(&text, "=1+2");
    cadre_escape_csv(&text, "");
    ck_assert_str_eq(cadre_text_str(&text), "plain\" a,b\"\"say \"\"x\"\"\"'=1+2");
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("escape");
    TCase *tc = tcase_create("escape");
    tcase_add_checked_fixture(tc, NULL, teardown);
    tcase_add_test(tc, markdown_shows_markup_as_it_is);
    tcase_add_test(tc, markdown_keeps_code_in_a_block);
    tcase_add_test(tc, csv_quotes_what_must_be);
    suite_add_tcase(s, tc);
    return s;
}
