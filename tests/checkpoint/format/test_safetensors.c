/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/check_main.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cadre/types.h>

#include "core/base/memory.h"
#include "core/checkpoint/format/file.h"
#include "core/checkpoint/format/safetensors.h"

static struct cadre_error err;
static char *dir;
static char *path;

static void setup(void)
{
    dir = test_tmpdir();
    path = cadre_format("%s/x.safetensors", dir);
}

static void teardown(void)
{
    test_tmpdir_destroy(dir);
    free(path);
}

/* A file of this header, `data_bytes` bytes of data follow: 0, 1, 2, ... */
static void write_file(const char *header, size_t data_bytes)
{
    uint64_t length = strlen(header);
    FILE *file = fopen(path, "wb");
    fwrite(&length, 1, sizeof length, file);
    fwrite(header, 1, length, file);
    for (size_t i = 0; i < data_bytes; i++)
        fputc((int)(i & 0xff), file);
    fclose(file);
}

static cadre_status open_status(void)
{
    struct cadre_safetensors *file = NULL;
    cadre_status rc = cadre_safetensors_open(path, false, &file, &err);
    ck_assert((rc == CADRE_OK) == (file != NULL));
    ck_assert(rc == CADRE_OK || strstr(err.text, path));
    cadre_safetensors_close(file);
    return rc;
}

START_TEST(the_reference_cases_are_judged_alike)
{
    const char *list = test_sample("safetensors_cases/EXPECTED.tsv");
    char line[512];
    char name[256];
    char verdict[64];
    int n = 0;
    FILE *file = fopen(list, "r");
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%255[^\t]\t%*[^\t]\t%*[^\t]\t%63s", name, verdict) != 2 ||
            strcmp(name, "file") == 0)
            continue;
        char *folder = cadre_format("safetensors_cases/%s", name);
        const char *found = test_sample(folder);
        struct cadre_safetensors *opened = NULL;
        err.text[0] = '\0';
        cadre_status rc = cadre_safetensors_open(found, false, &opened, &err);
        printf("%s: %s %s\n", name, rc == CADRE_OK ? "accepted" : "rejected", err.text);
        if (strcmp(verdict, "accept") == 0)
            ck_assert_msg(rc == CADRE_OK, "%s: %s", name, err.text);
        if (strcmp(verdict, "reject") == 0)
            ck_assert_msg(rc == CADRE_E_INVALID, "%s", name);
        cadre_safetensors_close(opened);
        free(folder);
        n++;
    }
    fclose(file);
    ck_assert_int_eq(n, 22);
}
END_TEST

#define INFO(type, shape, begin, end)                                                  \
    "{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}"

/* Headers that must be refused, the data they come with, and a word of the refusal. */
static const struct {
    const char *header;
    size_t data_bytes;
    const char *word;
} bad[] = {
    {"{\"a\":" INFO("F32", "[1]", "0", "4") ",\"a\":" INFO("F32", "[1]", "0", "4") "}",
     4, "duplicate"},
    {"{\"a\":" INFO("F32", "[1]", "0", "4") ",\"b\":" INFO("F32", "[1]", "2", "6") "}",
     6, "overlap"},
    {"{\"a\":" INFO("F32", "[1]", "0", "4") ",\"b\":" INFO("F32", "[1]", "5", "9") "}",
     9, "hole"},
    {"{\"a\":" INFO("F32", "[1]", "1", "5") "}", 5, "hole"},
    {"{\"a\":" INFO("F32", "[1]", "0", "4") "}", 5, "end with its last tensor"},
    {"{\"a\":" INFO("F32", "[1]", "0", "4") "}", 3, "truncated"},
    {"{\"a\":" INFO("F32", "[2]", "0", "4") "}", 4, "expected 8 bytes"},
    {"{\"a\":" INFO("F32", "[1]", "4", "0") "}", 4, "data_offsets"},
    {"{\"a\":" INFO("F32", "[1]", "-4", "0") "}", 4, "data_offsets"},
    {"{\"a\":" INFO("F32", "[1]", "0.0", "4") "}", 4, "data_offsets"},
    {"{\"a\":" INFO("F32", "[-1]", "0", "4") "}", 4, "shape"},
    {"{\"a\":" INFO("F32", "[1.5]", "0", "4") "}", 4, "shape"},
    {"{\"a\":" INFO("F32", "7", "0", "4") "}", 4, "shape"},
    {"{\"a\":" INFO("F32", "[4294967296,4294967296]", "0", "0") "}", 0, "64 bits"},
    {"{\"a\":" INFO("F32", "[4611686018427387904]", "0", "0") "}", 0, "overflows"},
    {"{\"a\":" INFO("F32", "[99999999999999999999]", "0", "0") "}", 0, "JSON"},
    {"{\"a\":" INFO("F4", "[1]", "0", "1") "}", 1, "whole number of bytes"},
    {"{\"a\":" INFO("F33", "[1]", "0", "4") "}", 4, "known \"dtype\""},
    {"{\"a\":[1]}", 0, "exactly"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 0, "exactly"},
    {"{\"a\":null}", 0, "exactly"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "__metadata__"},
    {"{\"__metadata__\":[]}", 0, "__metadata__"},
    {"{\"a\\u0000b\":" INFO("F32", "[1]", "0", "4") "}", 4, "JSON"},
    {"[]", 0, "JSON"},
    {"{} x", 0, "JSON"},
    {" {}", 0, "begin with"},
    {"", 0, "begin with"},
};

START_TEST(a_bad_header_is_refused_in_words)
{
    write_file(bad[_i].header, bad[_i].data_bytes);
    ck_assert_int_eq(open_status(), CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, bad[_i].word), "'%s' lacks '%s'", err.text,
                  bad[_i].word);
}
END_TEST

START_TEST(depth_and_dimensions_are_limited)
{
    struct cadre_text text = {0};
    cadre_text_printf(&text, "{\"a\":");
    for (int i = 0; i < 200000; i++)
        cadre_text_append(&text, "[", 1);
    write_file(cadre_text_str(&text), 0);
    ck_assert_int_eq(open_status(), CADRE_E_INVALID);
    cadre_text_fini(&text);
    write_file("{\"a\":" INFO("F32", "[1,1,1,1,1,1,1,1,1]", "0", "4") "}", 4);
    ck_assert_int_eq(open_status(), CADRE_E_UNSUPPORTED);
    write_file("{\"a\":" INFO("F32", "[1,1,1,1,1,1,1,1]", "0", "4") "}", 4);
    ck_assert_int_eq(open_status(), CADRE_OK);
}
END_TEST

START_TEST(what_is_no_file_is_refused)
{
    struct cadre_safetensors *file = NULL;
    ck_assert_int_eq(open_status(), CADRE_E_INVALID);
    ck_assert_int_eq(cadre_safetensors_open(dir, false, &file, &err), CADRE_E_INVALID);
    ck_assert_ptr_null(file);
    ck_assert_int_eq(mkfifo(path, 0600), 0); /* without a writer */
    ck_assert_int_eq(open_status(), CADRE_E_INVALID);
}
END_TEST

START_TEST(tensors_and_metadata_are_listed)
{
    struct cadre_safetensors *file = NULL;
    write_file(
        "{\"__metadata__\":{\"format\":\"pt\"},"
        "\"z\":" INFO("U8", "[3]", "4", "7") ",\"e\":" INFO(
            "F32", "[0,5]", "4", "4") ",\"s\":" INFO("F32", "[]", "0", "4") "}   ",
        7);
    ck_assert_int_eq(cadre_safetensors_open(path, false, &file, &err), CADRE_OK);
    ck_assert_uint_eq(cadre_safetensors_count(file), 3);
    const struct cadre_safetensors_tensor *scalar = cadre_safetensors_at(file, 0);
    ck_assert_str_eq(scalar->name, "s");
    ck_assert_uint_eq(scalar->ndim, 0);
    ck_assert_uint_eq(scalar->count, 1);
    ck_assert_int_eq((int)cadre_safetensors_find(file, "e"), 1);
    ck_assert_uint_eq(cadre_safetensors_at(file, 1)->count, 0);
    ck_assert_int_eq((int)cadre_safetensors_find(file, "z"), 2);
    ck_assert_str_eq(cadre_safetensors_at(file, 2)->type, "U8");
    ck_assert_int_eq((int)cadre_safetensors_find(file, "nope"), -1);
    ck_assert_str_eq(cadre_safetensors_metadata(file, "format"), "pt");
    ck_assert_ptr_null(cadre_safetensors_metadata(file, "other"));
    cadre_safetensors_close(file);
}
END_TEST

START_TEST(ranges_are_read_and_converted)
{
    struct cadre_safetensors *file = NULL;
    uint32_t words[2];
    float f32[4];
    double f64[4];
    write_file(
        "{\"h\":" INFO("BF16", "[2,2]", "0", "8") ",\"i\":" INFO(
            "I32", "[1]", "8", "12") ",\"f\":" INFO("F32", "[2]", "12", "20") "}",
        20);
    ck_assert_int_eq(cadre_safetensors_open(path, false, &file, &err), CADRE_OK);
    ck_assert_int_eq(cadre_safetensors_read(file, 0, 1, 2, CADRE_F32, f32, &err),
                     CADRE_OK);
    memcpy(words, f32, sizeof words);
    ck_assert_uint_eq(words[0], 0x03020000);
    ck_assert_uint_eq(words[1], 0x05040000);
    ck_assert_int_eq(cadre_safetensors_read(file, 2, 0, 2, CADRE_F32, f32, &err),
                     CADRE_OK);
    memcpy(words, f32, sizeof words);
    ck_assert_uint_eq(words[0], 0x0f0e0d0c);
    ck_assert_int_eq(cadre_safetensors_read(file, 2, 0, 2, CADRE_F64, f64, &err),
                     CADRE_OK);
    ck_assert(f64[1] == (double)f32[1]);
    ck_assert_int_eq(cadre_safetensors_read(file, 0, 4, 0, CADRE_F32, f32, &err),
                     CADRE_OK);
    ck_assert_int_eq(cadre_safetensors_read(file, 0, 3, 2, CADRE_F32, f32, &err),
                     CADRE_E_INVALID);
    ck_assert_int_eq(
        cadre_safetensors_read(file, 0, UINT64_MAX, 2, CADRE_F32, f32, &err),
        CADRE_E_INVALID);
    ck_assert_int_eq(cadre_safetensors_read(file, 1, 0, 1, CADRE_F32, f32, &err),
                     CADRE_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.text, "'i'"));
    ck_assert_int_eq(cadre_safetensors_read(file, 2, 0, 1, CADRE_BF16, f32, &err),
                     CADRE_E_UNSUPPORTED);
    ck_assert_int_eq(truncate(path, 150), 0);
    ck_assert_int_eq(cadre_safetensors_read(file, 2, 0, 2, CADRE_F32, f32, &err),
                     CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "'f'"));
    cadre_safetensors_close(file);
}
END_TEST

/* A large conversion goes through several chunks. */
START_TEST(long_ranges_are_converted_whole)
{
    enum { N = 100003 };
    struct cadre_safetensors *file = NULL;
    double *out = cadre_calloc(N, sizeof *out);
    write_file("{\"h\":" INFO("F16", "[100003]", "0", "200006") "}", 2 * N);
    ck_assert_int_eq(cadre_safetensors_open(path, false, &file, &err), CADRE_OK);
    ck_assert_int_eq(cadre_safetensors_read(file, 0, 1, N - 1, CADRE_F64, out, &err),
                     CADRE_OK);
    for (size_t i = 1; i < N; i++) {
        float one;
        ck_assert_int_eq(cadre_safetensors_read(file, 0, i, 1, CADRE_F32, &one, &err),
                         CADRE_OK);
        ck_assert(out[i - 1] == (double)one || isnan(one));
        i += i % 97;
    }
    cadre_safetensors_close(file);
    free(out);
}
END_TEST

/* Flip every bit of a small file's header: open or refuse, never crash. */
START_TEST(damaged_headers_never_crash)
{
    static const char header[] = "{\"__metadata__\":{\"a\":\"b\"},\"w\":" INFO(
        "F32", "[2,3]", "0", "24") ",\"v\":" INFO("BF16", "[4]", "24", "32") "}";
    struct cadre_error ignored;
    char *data = NULL;
    size_t bytes = 0;
    int refused = 0;
    write_file(header, 32);
    ck_assert_int_eq(cadre_file_read_whole(path, 4096, &data, &bytes, &err), CADRE_OK);
    for (size_t bit = 0; bit < 8 * (sizeof header + 7); bit++) {
        struct cadre_safetensors *file = NULL;
        data[bit / 8] ^= (char)(1 << bit % 8);
        test_file_write(path, data, bytes);
        refused += cadre_safetensors_open(path, false, &file, &ignored) != CADRE_OK;
        cadre_safetensors_close(file);
        data[bit / 8] ^= (char)(1 << bit % 8);
    }
    ck_assert_int_gt(refused, 500);
    free(data);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("safetensors");
    TCase *tc = tcase_create("safetensors");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, the_reference_cases_are_judged_alike);
    tcase_add_loop_test(tc, a_bad_header_is_refused_in_words, 0,
                        sizeof bad / sizeof bad[0]);
    tcase_add_test(tc, depth_and_dimensions_are_limited);
    tcase_add_test(tc, what_is_no_file_is_refused);
    tcase_add_test(tc, tensors_and_metadata_are_listed);
    tcase_add_test(tc, ranges_are_read_and_converted);
    tcase_add_test(tc, long_ranges_are_converted_whole);
    tcase_add_test(tc, damaged_headers_never_crash);
    suite_add_tcase(suite, tc);
    return suite;
}
