/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/text/token_file.h"
#include "tests/support/check_main.h"

static char *dir;
static char path[1200];

static void setup(void)
{
    dir = test_tmpdir();
    snprintf(path, sizeof path, "%s/t.bin", dir);
}

static void teardown(void)
{
    test_tmpdir_destroy(dir);
}

/* A file of llm.c: header of 256 int32, then the given tokens. */
static void write_llmc(int magic, int version, int count, size_t header, size_t bytes)
{
    int32_t head[256] = {magic, version, count};
    uint16_t tokens[64];
    for (int i = 0; i < 64; i++)
        tokens[i] = (uint16_t)(i * 1000);
    FILE *f = fopen(path, "wb");
    fwrite(head, 1, header, f);
    fwrite(tokens, 1, bytes, f);
    fclose(f);
}

START_TEST(reads_both_forms)
{
    struct cadre_token_file file = {0};
    write_llmc(20240520, 1, 10, 1024, 20);
    ck_assert_int_eq(cadre_token_file_init(path, &file, NULL), CADRE_OK);
    ck_assert_uint_eq(file.count, 10);
    ck_assert(file.tokens[0] == 0 && file.tokens[9] == 9000);
    cadre_token_file_fini(&file);
    write_llmc(0, 0, 0, 0, 20);
    ck_assert_int_eq(cadre_token_file_init(path, &file, NULL), CADRE_OK);
    ck_assert_uint_eq(file.count, 10);
    ck_assert(file.tokens[0] == 0 && file.tokens[9] == 9000);
    cadre_token_file_fini(&file);
    write_llmc(0, 0, 0, 0, 0);
    ck_assert_int_eq(cadre_token_file_init(path, &file, NULL), CADRE_OK);
    ck_assert_uint_eq(file.count, 0);
    cadre_token_file_fini(&file);
}
END_TEST

static const struct {
    int magic, version, count;
    size_t header, bytes;
    const char *says;
} wrong[] = {
    {20240520, 2, 10, 1024, 20, "version 2"}, {20240520, 1, 11, 1024, 20, "11 tokens"},
    {20240520, 1, 9, 1024, 20, "9 tokens"},   {20240520, 1, -1, 1024, 0, "-1 tokens"},
    {20240520, 1, 10, 1024, 21, "10 tokens"}, {20240520, 1, 0, 1022, 0, "1022 bytes"},
    {20240801, 7, 10, 1024, 40, "32-bit"},    {0, 0, 0, 0, 21, "odd size"},
};

START_TEST(refuses_wrong_files)
{
    struct cadre_token_file file = {0};
    struct cadre_error err = {0};
    write_llmc(wrong[_i].magic, wrong[_i].version, wrong[_i].count, wrong[_i].header,
               wrong[_i].bytes);
    ck_assert_int_eq(cadre_token_file_init(path, &file, &err), CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, wrong[_i].says), "%s", err.text);
    ck_assert_ptr_null(file.map.bytes);
    ck_assert_int_eq(cadre_token_file_init("/nowhere", &file, &err), CADRE_E_IO);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("token_file");
    TCase *tc = tcase_create("token_file");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, reads_both_forms);
    tcase_add_loop_test(tc, refuses_wrong_files, 0, sizeof wrong / sizeof wrong[0]);
    suite_add_tcase(suite, tc);
    return suite;
}
