/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/check_main.h"

#include <stdlib.h>
#include <string.h>

#include <cadre/types.h>

#include "core/base/memory.h"
#include "core/checkpoint/format/checksum.h"

static struct cadre_error err;

/* Word 0 of value 0 is SplitMix64's first output from state 0, as published with its
 * reference code. */
START_TEST(the_mix_is_splitmix64)
{
    const uint32_t zero = 0;
    ck_assert_uint_eq(cadre_checksum_of(&zero, 1, 0), 0xe220a8397b1dcdafu);
    ck_assert_uint_eq(cadre_checksum_of(&zero, 0, 0), 0);
}
END_TEST

START_TEST(every_bit_and_every_place_counts)
{
    enum { WORDS = 37 };
    unsigned char data[4 * WORDS + 1];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 37);
    uint64_t sum = cadre_checksum_of(data + 1, WORDS, 5);
    ck_assert_uint_eq(cadre_checksum_of(data + 1, WORDS, 5), sum);
    ck_assert_uint_ne(cadre_checksum_of(data + 1, WORDS, 6), sum);
    for (size_t bit = 8; bit < 8 * sizeof data; bit++) {
        data[bit / 8] ^= (unsigned char)(1 << bit % 8);
        ck_assert_uint_ne(cadre_checksum_of(data + 1, WORDS, 5), sum);
        data[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    uint32_t words[2] = {1, 2};
    uint64_t forth = cadre_checksum_of(words, 2, 0);
    words[0] = 2;
    words[1] = 1;
    ck_assert_uint_ne(cadre_checksum_of(words, 2, 0), forth);
    memset(words, 0, sizeof words);
    ck_assert_uint_ne(cadre_checksum_of(words, 2, 0), cadre_checksum_of(words, 1, 0));
}
END_TEST

/* However a tensor is divided and in whatever order, the sums are the same. */
START_TEST(parts_add_up)
{
    static const struct cadre_safetensors_spec specs[] = {
        {"a", CADRE_F32, 1, {(1 << 19) + 3}},
        {"none", CADRE_F32, 1, {0}},
        {"b", CADRE_F64, 1, {5}},
    };
    struct cadre_safetensors *file = NULL;
    struct cadre_checksums whole;
    struct cadre_checksums parts;
    size_t count = specs[0].dim[0];
    char *dir = test_tmpdir();
    char *path = cadre_format("%s/x", dir);
    float *data = cadre_calloc(count, sizeof *data);
    for (size_t i = 0; i < count; i++)
        data[i] = (float)(i * i % 1009);
    ck_assert_int_eq(cadre_safetensors_create(path, specs, 3, &err), CADRE_OK);
    ck_assert_int_eq(cadre_safetensors_open(path, false, &file, &err), CADRE_OK);
    ck_assert_int_eq(cadre_checksums_init(&whole, file, &err), CADRE_OK);
    ck_assert_int_eq(cadre_checksums_init(&parts, file, &err), CADRE_OK);
    size_t b = (size_t)cadre_safetensors_find(file, "b");
    ck_assert_uint_eq(whole.n, 4);
    ck_assert_uint_eq(whole.first[b + 1] - whole.first[b], 1);
    ck_assert_uint_eq(cadre_checksum_bytes(4 * count, 1), 1 << 20);
    ck_assert_uint_eq(cadre_checksum_bytes(4 * count, 2), 12);
    cadre_checksums_add(&whole, 0, 0, data, 4 * count);
    for (size_t first = 3; first-- > 0;)
        for (size_t at = first * 1001; at < count; at += 3 * 1001) {
            size_t n = count - at < 1001 ? count - at : 1001;
            cadre_checksums_add(&parts, 0, 4 * at, data + at, 4 * n);
        }
    ck_assert_mem_eq(whole.sum, parts.sum, 4 * sizeof *whole.sum);
    ck_assert_mem_eq(whole.bytes, parts.bytes, 4 * sizeof *whole.bytes);
    ck_assert_uint_eq(parts.bytes[2], 12);
    ck_assert_uint_eq(parts.bytes[3], 0);
    cadre_checksums_fini(&whole);
    cadre_checksums_fini(&parts);
    cadre_safetensors_close(file);
    free(data);
    free(path);
    test_tmpdir_destroy(dir);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("checksum");
    TCase *tc = tcase_create("checksum");
    tcase_add_test(tc, the_mix_is_splitmix64);
    tcase_add_test(tc, every_bit_and_every_place_counts);
    tcase_add_test(tc, parts_add_up);
    suite_add_tcase(suite, tc);
    return suite;
}
