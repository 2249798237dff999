/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/bytes.h"

#include "tests/support/check_main.h"

START_TEST(units_follow_the_size)
{
    char text[CADRE_BYTES_CHARS];
    ck_assert_str_eq(cadre_bytes_text(0, 1, text), "0.0 MiB");
    ck_assert_str_eq(cadre_bytes_text(1258291, 3, text), "1.200 MiB");
    ck_assert_str_eq(cadre_bytes_text(0x1p30, 3, text), "1024.000 MiB");
    ck_assert_str_eq(cadre_bytes_text(0x1p34, 1, text), "16.0 GiB");
    ck_assert_str_eq(cadre_bytes_text(52860451127132160.0, 1, text), "48076.3 TiB");
    ck_assert_str_eq(cadre_bytes_text(50411651.043 * 0x1p20, 1, text), "48.1 TiB");
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("bytes");
    TCase *tc = tcase_create("bytes");
    tcase_add_test(tc, units_follow_the_size);
    suite_add_tcase(s, tc);
    return s;
}
