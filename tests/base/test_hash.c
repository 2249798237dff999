/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/hash.h"

#include <string.h>

#include "tests/support/check_main.h"

static const uint64_t PRIME32 = 2654435761u;

/* The buffer of xxHash's own sanity check. */
static void sanity_buffer(unsigned char *buffer, size_t n)
{
    uint64_t generator = PRIME32;
    for (size_t i = 0; i < n; i++) {
        buffer[i] = (unsigned char)(generator >> 56);
        generator *= 11400714785074694797ull;
    }
}

START_TEST(published_vectors)
{
    unsigned char buffer[222];
    sanity_buffer(buffer, sizeof buffer);
    ck_assert_uint_eq(cadre_hash_of(NULL, 0, 0), 0xEF46DB3751D8E999u);
    ck_assert_uint_eq(cadre_hash_of(NULL, 0, PRIME32), 0xAC75FDA2929B17EFu);
    ck_assert_uint_eq(cadre_hash_of(buffer, 1, 0), 0xE934A84ADB052768u);
    ck_assert_uint_eq(cadre_hash_of(buffer, 1, PRIME32), 0x5014607643A9B4C3u);
    ck_assert_uint_eq(cadre_hash_of(buffer, 4, 0), 0x9136A0DCA57457EEu);
    ck_assert_uint_eq(cadre_hash_of(buffer, 14, 0), 0x8282DCC4994E35C8u);
    ck_assert_uint_eq(cadre_hash_of(buffer, 14, PRIME32), 0xC3BD6BF63DEB6DF0u);
    ck_assert_uint_eq(cadre_hash_of(buffer, 222, 0), 0xB641AE8CB691C174u);
    ck_assert_uint_eq(cadre_hash_of(buffer, 222, PRIME32), 0x20CB8AB7AE10C14Au);
    ck_assert_uint_eq(cadre_hash_of("abc", 3, 0), 0x44BC2CF5AD770999u);
}
END_TEST

START_TEST(any_division_gives_the_same)
{
    unsigned char buffer[150];
    sanity_buffer(buffer, sizeof buffer);
    uint64_t whole = cadre_hash_of(buffer, sizeof buffer, 5);
    for (size_t a = 0; a <= sizeof buffer; a++)
        for (size_t b = a; b <= sizeof buffer; b += 7) {
            struct cadre_hash h;
            cadre_hash_init(&h, 5);
            cadre_hash_update(&h, buffer, a);
            cadre_hash_update(&h, buffer + a, b - a);
            cadre_hash_final(&h);
            cadre_hash_update(&h, buffer + b, sizeof buffer - b);
            ck_assert_uint_eq(cadre_hash_final(&h), whole);
        }
}
END_TEST

START_TEST(adjacent_strings_stay_distinct)
{
    struct cadre_hash a, b;
    cadre_hash_init(&a, 0);
    cadre_hash_init(&b, 0);
    cadre_hash_update_string(&a, "ab");
    cadre_hash_update_string(&a, "c");
    cadre_hash_update_string(&b, "a");
    cadre_hash_update_string(&b, "bc");
    ck_assert_uint_ne(cadre_hash_final(&a), cadre_hash_final(&b));
}
END_TEST

START_TEST(hex_is_sixteen_digits)
{
    char text[17];
    ck_assert_str_eq(cadre_hash_hex(0xabcu, text), "0000000000000abc");
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("hash");
    TCase *tc = tcase_create("hash");
    tcase_add_test(tc, published_vectors);
    tcase_add_test(tc, any_division_gives_the_same);
    tcase_add_test(tc, adjacent_strings_stay_distinct);
    tcase_add_test(tc, hex_is_sixteen_digits);
    suite_add_tcase(s, tc);
    return s;
}
