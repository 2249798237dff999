/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "core/data/image/idx.h"
#include "tests/support/check_main.h"

static char *dir;
static char path[1200];

static void setup(void)
{
    dir = test_tmpdir();
    snprintf(path, sizeof path, "%s/f", dir);
}

static void teardown(void)
{
    test_tmpdir_destroy(dir);
}

/* 2 x 3 x 4 bytes 0, 1, ...: the first `n` bytes of the file, then `more` others. */
static void put(bool gz, size_t n, size_t more)
{
    unsigned char bytes[64] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4};
    for (unsigned i = 16; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i - 16);
    gzFile f = gzopen(path, gz ? "wb" : "wbT");
    ck_assert_int_eq(gzwrite(f, bytes, (unsigned)(n + more)), (int)(n + more));
    gzclose(f);
}

START_TEST(reads_both_forms)
{
    struct cadre_idx idx;
    put(_i, 40, 0);
    ck_assert_int_eq(cadre_idx_init(path, 3, 4, &idx, NULL), CADRE_OK);
    ck_assert_int_eq(idx.n_dims, 3);
    ck_assert_uint_eq(idx.count, 24);
    ck_assert_uint_eq(idx.dim[0], 2);
    ck_assert_uint_eq(idx.dim[2], 4);
    for (int i = 0; i < 24; i++)
        ck_assert_int_eq(idx.bytes[i], i);
    cadre_idx_fini(&idx);
    ck_assert_ptr_null(idx.bytes);
}
END_TEST

static void refused(int least, int most, const char *says)
{
    struct cadre_idx idx = {.count = 77};
    struct cadre_error err = {0};
    ck_assert_int_eq(cadre_idx_init(path, least, most, &idx, &err), CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, says), "%s", err.text);
    ck_assert_msg(strstr(err.text, path), "%s", err.text);
    ck_assert_uint_eq(idx.count, 77);
}

START_TEST(refuses_wrong_files)
{
    put(_i, 39, 0);
    refused(3, 3, "found 23: the file is cut off");
    put(_i, 40, 1);
    refused(3, 3, "found more");
    put(_i, 10, 0);
    refused(3, 3, "cut off");
    put(_i, 3, 0);
    refused(3, 3, "cut off");
    put(_i, 0, 0);
    refused(3, 3, "cut off");
    put(_i, 40, 0);
    refused(1, 1, "0x00000801");
}
END_TEST

static void put_raw(const unsigned char *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    ck_assert_uint_eq(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

/* Every cut of a compressed file is seen, also that of its checksum; so is damage. */
START_TEST(refuses_cut_gzip)
{
    unsigned char bytes[256];
    struct cadre_idx idx;
    put(true, 40, 0);
    FILE *f = fopen(path, "rb");
    const size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    for (size_t cut = 3; cut < n; cut++) {
        put_raw(bytes, cut);
        ck_assert_msg(cadre_idx_init(path, 3, 3, &idx, NULL) == CADRE_E_INVALID,
                      "%zu of %zu bytes", cut, n);
    }
    bytes[n - 6] ^= 1; /* the checksum */
    put_raw(bytes, n);
    refused(3, 3, "damaged");
}
END_TEST

START_TEST(refuses_wild_sizes)
{
    static const unsigned char wild[] = {0,    0,    8,    3,    0xff, 0xff, 0xff, 0xff,
                                         0xff, 0xff, 0xff, 0xff, 0,    0,    0,    9};
    static const unsigned char none[] = {0, 0, 8, 1, 0, 0, 0, 0};
    put_raw(wild, sizeof wild);
    refused(3, 3, "dimension 1");
    put_raw(none, sizeof none);
    refused(1, 1, "dimension 0");
    /* 2^38 bytes that are not there take no memory */
    static const unsigned char large[] = {0, 0, 8, 2, 0, 8, 0, 0, 0, 8, 0, 0};
    put_raw(large, sizeof large);
    refused(2, 2, "cut off");
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("idx");
    TCase *tc = tcase_create("idx");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, reads_both_forms, 0, 2);
    tcase_add_loop_test(tc, refuses_wrong_files, 0, 2);
    tcase_add_test(tc, refuses_cut_gzip);
    tcase_add_test(tc, refuses_wild_sizes);
    suite_add_tcase(suite, tc);
    return suite;
}
