/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/format.h"

#include <math.h>

#include "tests/support/check_main.h"

START_TEST(seconds_have_three_digits)
{
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {
        {0, "0 s"},          {1.234, "1.23 s"},     {12.34, "12.3 s"},
        {123.4, "123 s"},    {0.99951, "1.00 s"},   {0.0456, "45.6 ms"},
        {7.8e-6, "7.80 us"}, {-0.0205, "-20.5 ms"}, {9.996e-3, "10.0 ms"},
        {NAN, "-"},          {INFINITY, "-"},       {3600, "3600 s"},
    };
    char text[32];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ck_assert_str_eq(cadre_format_seconds(cases[i].seconds, text, sizeof text),
                         cases[i].text);
}
END_TEST

START_TEST(counts_are_cut_in_threes)
{
    char text[32], small[4];
    ck_assert_str_eq(cadre_format_count(0, text, sizeof text), "0");
    ck_assert_str_eq(cadre_format_count(999, text, sizeof text), "999");
    ck_assert_str_eq(cadre_format_count(1000, text, sizeof text), "1 000");
    ck_assert_str_eq(cadre_format_count(1234567.4, text, sizeof text), "1 234 567");
    ck_assert_str_eq(cadre_format_count(-123, text, sizeof text), "-123");
    ck_assert_str_eq(cadre_format_count(-1234, text, sizeof text), "-1 234");
    ck_assert_str_eq(cadre_format_count(NAN, text, sizeof text), "-");
    ck_assert_str_eq(cadre_format_count(1e300, text, sizeof text), "-");
    cadre_format_count(1234567, small, sizeof small); /* truncated, not overrun */
    ck_assert_int_eq(small[sizeof small - 1], 0);
}
END_TEST

START_TEST(bytes_take_a_unit)
{
    char text[32];
    ck_assert_str_eq(cadre_format_bytes(0, text, sizeof text), "0 B");
    ck_assert_str_eq(cadre_format_bytes(1023, text, sizeof text), "1023 B");
    ck_assert_str_eq(cadre_format_bytes(1536, text, sizeof text), "1.50 KiB");
    ck_assert_str_eq(cadre_format_bytes(5362688, text, sizeof text), "5.11 MiB");
    ck_assert_str_eq(cadre_format_bytes(0x1p60, text, sizeof text), "1048576 TiB");
    ck_assert_str_eq(cadre_format_bytes(NAN, text, sizeof text), "-");
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("format");
    TCase *tc = tcase_create("format");
    tcase_add_test(tc, seconds_have_three_digits);
    tcase_add_test(tc, counts_are_cut_in_threes);
    tcase_add_test(tc, bytes_take_a_unit);
    suite_add_tcase(suite, tc);
    return suite;
}
