/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/check_main.h"

START_TEST(sizes_that_overflow_are_refused)
{
    /* Volatile: the compiler would otherwise warn of the absurd size. */
    volatile size_t huge = SIZE_MAX / 2;
    ck_assert_ptr_null(cadre_calloc(huge, 4));
    ck_assert_ptr_null(cadre_realloc(NULL, huge, 4));
}
END_TEST

START_TEST(null_always_means_failure)
{
    unsigned char *p = cadre_calloc(0, 8);
    ck_assert_ptr_nonnull(p);
    free(p);
    p = cadre_calloc(3, 5);
    for (int i = 0; i < 15; i++)
        ck_assert_uint_eq(p[i], 0);
    free(p);
    ck_assert_ptr_null(cadre_strdup(NULL));
}
END_TEST

START_TEST(copies_and_formats)
{
    char *a = cadre_strdup("hello");
    char *b = cadre_strndup("hello", 3);
    char *c = cadre_format("%s-%d", "x", 7);
    ck_assert_str_eq(a, "hello");
    ck_assert_str_eq(b, "hel");
    ck_assert_str_eq(c, "x-7");
    char blank[] = " \t\n", words[] = "  a b\r\n";
    ck_assert_str_eq(cadre_strip(blank), "");
    ck_assert_str_eq(cadre_strip(words), "a b");
    free(a);
    free(b);
    free(c);
}
END_TEST

START_TEST(text_grows)
{
    struct cadre_text text = {0};
    ck_assert_str_eq(cadre_text_str(&text), "");
    for (int i = 0; i < 1000; i++)
        cadre_text_printf(&text, "%03d,", i);
    cadre_text_append(&text, "end", 3);
    ck_assert(!text.failed);
    ck_assert_uint_eq(text.len, 4003);
    ck_assert_uint_eq(strlen(text.data), 4003);
    ck_assert_str_eq(text.data + 3996, "999,end");
    cadre_text_reset(&text);
    ck_assert_str_eq(cadre_text_str(&text), "");
    cadre_text_fini(&text);
    cadre_text_fini(&text);
}
END_TEST

START_TEST(text_failure_sticks)
{
    struct cadre_text text = {0};
    cadre_text_append(&text, "a", SIZE_MAX / 2);
    ck_assert(text.failed);
    cadre_text_printf(&text, "b");
    ck_assert_uint_eq(text.len, 0);
    cadre_text_fini(&text);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("memory");
    TCase *tc = tcase_create("memory");
    tcase_add_test(tc, sizes_that_overflow_are_refused);
    tcase_add_test(tc, null_always_means_failure);
    tcase_add_test(tc, copies_and_formats);
    tcase_add_test(tc, text_grows);
    tcase_add_test(tc, text_failure_sticks);
    suite_add_tcase(s, tc);
    return s;
}
