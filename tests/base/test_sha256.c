/* SPDX-License-Identifier: Apache-2.0 */
/* The examples of FIPS 180-4 and RFC 4231. */
#include <stdio.h>
#include <string.h>

#include "core/base/sha256.h"
#include "tests/support/check_main.h"

static void is(const unsigned char *got, const char *want)
{
    char text[2 * CADRE_SHA256_BYTES + 1];
    for (int i = 0; i < CADRE_SHA256_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", got[i]);
    ck_assert_str_eq(text, want);
}

static void hash(const char *text, size_t times, size_t piece, const char *want)
{
    struct cadre_sha256 h;
    unsigned char out[CADRE_SHA256_BYTES];
    const size_t n = strlen(text);
    cadre_sha256_init(&h);
    for (size_t t = 0; t < times; t++)
        for (size_t at = 0; at < n; at += piece)
            cadre_sha256_update(&h, text + at, at + piece < n ? piece : n - at);
    cadre_sha256_final(&h, out);
    is(out, want);
}

START_TEST(the_examples_of_the_standard)
{
    static const char *const two =
        "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    for (size_t piece = 1; piece < 70; piece += 7) {
        hash("", 1, piece,
             "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        hash("abc", 1, piece,
             "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        hash(two, 1, piece,
             "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    }
    hash("aaaaaaaaaa", 100000, 10,
         "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}
END_TEST

START_TEST(the_examples_of_the_keyed_code)
{
    unsigned char key[131], out[CADRE_SHA256_BYTES];
    static const char *const long_key =
        "Test Using Larger Than Block-Size Key - Hash Key First";
    const struct cadre_sha256_part whole = {"what do ya want for nothing?", 28};
    const struct cadre_sha256_part parts[] = {
        {"what do ya ", 11}, {NULL, 0}, {"want for nothing?", 17}};
    const struct cadre_sha256_part last = {long_key, strlen(long_key)};
    cadre_sha256_hmac("Jefe", 4, &whole, 1, out);
    is(out, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    cadre_sha256_hmac("Jefe", 4, parts, 3, out);
    is(out, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key);
    cadre_sha256_hmac(key, sizeof key, &last, 1, out);
    is(out, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}
END_TEST

START_TEST(one_bit_makes_a_difference)
{
    unsigned char a[CADRE_SHA256_BYTES] = {7}, b[CADRE_SHA256_BYTES] = {7};
    ck_assert(cadre_sha256_equal(a, b));
    for (int i = 0; i < 8 * CADRE_SHA256_BYTES; i++) {
        b[i / 8] ^= (unsigned char)(1 << i % 8);
        ck_assert(!cadre_sha256_equal(a, b));
        b[i / 8] ^= (unsigned char)(1 << i % 8);
    }
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("base/sha256");
    TCase *t = tcase_create("sha256");
    tcase_add_test(t, the_examples_of_the_standard);
    tcase_add_test(t, the_examples_of_the_keyed_code);
    tcase_add_test(t, one_bit_makes_a_difference);
    suite_add_tcase(s, t);
    return s;
}
