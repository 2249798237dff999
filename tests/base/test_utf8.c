/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/utf8.h"

#include <string.h>

#include "tests/support/check_main.h"

START_TEST(valid_characters_have_their_length)
{
    ck_assert_uint_eq(cadre_utf8_char("a", 1), 1);
    ck_assert_uint_eq(cadre_utf8_char("", 1), 1);
    ck_assert_uint_eq(cadre_utf8_char("\xc3\xbc", 2), 2);
    ck_assert_uint_eq(cadre_utf8_char("\xe9\xba\xba", 3), 3);
    ck_assert_uint_eq(cadre_utf8_char("\xf0\x9f\x98\x80", 4), 4);
    ck_assert_uint_eq(cadre_utf8_char("\xf4\x8f\xbf\xbf", 4), 4);
}
END_TEST

START_TEST(invalid_ones_have_none)
{
    static const char *const bad[] = {
        "\x80",
        "\xbf",
        "\xc0\x80",
        "\xc1\xbf",
        "\xe0\x80\x80",
        "\xed\xa0\x80",
        "\xf0\x80\x80\x80",
        "\xf4\x90\x80\x80",
        "\xf5\x80\x80",
        "\xff",
        "\xc3",
        "\xc3(",
        "\xe2\x82",
        "\xe2(\x82",
        "\xf0\x9f\x98",
        "\xfe",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(cadre_utf8_char(bad[i], strlen(bad[i])) == 0, "case %zu", i);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("utf8");
    TCase *tc = tcase_create("utf8");
    tcase_add_test(tc, valid_characters_have_their_length);
    tcase_add_test(tc, invalid_ones_have_none);
    suite_add_tcase(s, tc);
    return s;
}
