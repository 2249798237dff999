/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/data/tokenizer/unicode.h"
#include "tests/support/check_main.h"

START_TEST(reads_what_it_writes)
{
    for (uint32_t code = 0; code < 0x110000; code += code < 0x3000 ? 1 : 61) {
        char bytes[4];
        size_t n = cadre_unicode_write(code, bytes), again = 0;
        ck_assert_uint_eq(cadre_unicode_read(bytes, n, &again), code);
        ck_assert_uint_eq(n, again);
    }
}
END_TEST

START_TEST(knows_classes)
{
    static const uint32_t letters[] = {'a',    'Z',    0xaa,   0xe9,    0x2b0,  0x3b1,
                                       0x4e00, 0x9fff, 0xac00, 0x1d400, 0x20000};
    static const uint32_t numbers[] = {'0', 0xb2, 0xbd, 0x661, 0x2167, 0x3007, 0x1d7d8};
    static const uint32_t others[] = {0,      '@',    '[',     '`',     '{',
                                      '/',    ':',    0x300,   0x200b,  0x2581,
                                      0xe000, 0xffff, 0x1f600, 0x10ffff};
    static const uint32_t spaces[] = {9, 10, 13, 32, 0x85, 0xa0, 0x2003, 0x3000};
    for (size_t i = 0; i < sizeof letters / sizeof letters[0]; i++)
        ck_assert(cadre_unicode_is_letter(letters[i]) &&
                  !cadre_unicode_is_number(letters[i]));
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        ck_assert(cadre_unicode_is_number(numbers[i]) &&
                  !cadre_unicode_is_letter(numbers[i]));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        ck_assert(!cadre_unicode_is_number(others[i]) &&
                  !cadre_unicode_is_letter(others[i]) &&
                  !cadre_unicode_is_space(others[i]));
    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++)
        ck_assert(cadre_unicode_is_space(spaces[i]));
    ck_assert(!cadre_unicode_is_space(0x180e) && !cadre_unicode_is_space(0x1c));
}
END_TEST

/* After NormalizationTest.txt of the standard: text, and its NFC. */
static const char *const composed[][2] = {
    {"e\u0301", "\u00e9"},
    {"\u1e0a\u0323", "\u1e0c\u0307"},
    {"s\u0307\u0323", "\u1e69"},
    {"\u212b", "\u00c5"},
    {"\u0958", "\u0915\u093c"},
    {"\u1100\u1161\u11a8", "\uac01"},
    {"\uac00\u11a8", "\uac01"},
    {"\u0344", "\u0308\u0301"},
    {"\u1f82", "\u1f82"},
    {"\ufb2c", "\u05e9\u05bc\u05c1"},
    {"\uf900", "\u8c48"},
    {"a\u0334\u0301", "\u00e1\u0334"},
    {"a\u0301\u0334", "\u00e1\u0334"},
    {"\u0301a", "\u0301a"},
};

START_TEST(composes)
{
    const char *text = composed[_i][0], *want = composed[_i][1];
    char *out = NULL;
    size_t size = 0;
    ck_assert_int_eq(cadre_unicode_nfc(text, strlen(text), &out, &size), CADRE_OK);
    ck_assert_ptr_nonnull(out);
    ck_assert_uint_eq(size, strlen(want));
    ck_assert_mem_eq(out, want, size);
    free(out);
}
END_TEST

START_TEST(leaves_latin_alone)
{
    char *out = NULL;
    size_t size = 0;
    ck_assert_int_eq(cadre_unicode_nfc("caf\u00e9\n", 6, &out, &size), CADRE_OK);
    ck_assert_ptr_null(out);
    ck_assert_int_eq(cadre_unicode_nfc("", 0, &out, &size), CADRE_OK);
    ck_assert_ptr_null(out);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("unicode");
    TCase *tc = tcase_create("unicode");
    tcase_add_test(tc, reads_what_it_writes);
    tcase_add_test(tc, knows_classes);
    tcase_add_loop_test(tc, composes, 0, sizeof composed / sizeof composed[0]);
    tcase_add_test(tc, leaves_latin_alone);
    suite_add_tcase(suite, tc);
    return suite;
}
