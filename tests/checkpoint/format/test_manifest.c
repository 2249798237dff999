/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/check_main.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cadre/types.h>

#include "core/base/hash.h"
#include "core/base/memory.h"
#include "core/checkpoint/format/file.h"
#include "core/checkpoint/format/manifest.h"

static struct cadre_error err;
static char *dir;
static char *path;
static char *small;
static struct cadre_tensor_file file;

static const struct cadre_manifest_value values[] = {{"a", "1"}, {"b", "\ttwo\n"}};
static const struct cadre_manifest example = {
    .step = 100,
    .samples = (uint64_t)INT64_MAX,
    .seed = UINT64_MAX,
    .options = "[run]\nname = x\n",
    .n_values = 2,
    .values = values,
};

#define OK(call) ck_assert_msg((call) == CADRE_OK, "%s", err.text)

static void setup(void)
{
    static const struct cadre_safetensors_spec specs[] = {
        {"w", CADRE_F32, 1, {300000}},
        {"none", CADRE_F32, 1, {0}},
    };
    dir = test_tmpdir();
    path = cadre_format("%s/state.json", dir);
    small = cadre_format("%s/config.json", dir);
    char *weights = cadre_format("%s/w.safetensors", dir);
    OK(cadre_safetensors_create(weights, specs, 2, &err));
    file = (struct cadre_tensor_file){0};
    OK(cadre_tensor_file_open(&file, dir, "w.safetensors", false, &err));
    for (size_t i = 0; i < file.sums.n; i++)
        file.sums.sum[i] = 0xfedcba9876543210u + i;
    OK(cadre_file_write_whole(small, "{}", 2, &err));
    const struct cadre_tensor_file files[] = {file, {.name = "absent"}};
    OK(cadre_manifest_write(dir, &example, files, 2, &err));
    free(weights);
}

static void teardown(void)
{
    cadre_tensor_file_close(&file);
    test_tmpdir_destroy(dir);
    free(path);
    free(small);
}

static cadre_status open_status(void)
{
    struct cadre_manifest_reader *reader = NULL;
    cadre_status rc = cadre_manifest_open(dir, &reader, &err);
    cadre_manifest_close(reader);
    return rc;
}

START_TEST(a_manifest_comes_back)
{
    struct cadre_manifest_reader *reader = NULL;
    struct cadre_tensor_file read = {0};
    OK(cadre_manifest_open(dir, &reader, &err));
    const struct cadre_manifest *got = cadre_manifest_get(reader);
    ck_assert_uint_eq(got->step, example.step);
    ck_assert_uint_eq(got->samples, example.samples);
    ck_assert_uint_eq(got->seed, example.seed);
    ck_assert_str_eq(got->options, example.options);
    ck_assert_uint_eq(got->n_values, 2);
    ck_assert_str_eq(got->values[1].key, "b");
    ck_assert_str_eq(got->values[1].value, "\ttwo\n");
    ck_assert(cadre_manifest_lists(reader, "w.safetensors"));
    ck_assert(!cadre_manifest_lists(reader, "config.json"));
    ck_assert(!cadre_manifest_lists(reader, "other"));
    ck_assert(!cadre_manifest_lists(reader, "absent"));
    OK(cadre_tensor_file_open(&read, dir, "w.safetensors", false, &err));
    OK(cadre_manifest_sums(reader, &read, &err));
    ck_assert_mem_eq(read.sums.sum, file.sums.sum, read.sums.n * sizeof *read.sums.sum);
    read.name = "other";
    ck_assert_int_eq(cadre_manifest_sums(reader, &read, &err), CADRE_E_INVALID);
    cadre_tensor_file_close(&read);
    cadre_manifest_close(reader);
}
END_TEST

START_TEST(every_bit_of_the_manifest_is_guarded)
{
    char *text = NULL;
    size_t bytes = 0;
    OK(cadre_file_read_whole(path, 1 << 20, &text, &bytes, &err));
    for (size_t bit = 0; bit < 8 * bytes; bit += 11) {
        text[bit / 8] ^= (char)(1 << bit % 8);
        test_file_write(path, text, bytes);
        text[bit / 8] ^= (char)(1 << bit % 8);
        ck_assert_int_eq(open_status(), CADRE_E_INVALID);
        ck_assert_ptr_nonnull(strstr(err.text, "state.json"));
    }
    for (size_t n = 0; n < bytes; n += 37) {
        ck_assert_int_eq(truncate(path, (off_t)n), 0);
        ck_assert_int_eq(open_status(), CADRE_E_INVALID);
    }
    free(text);
}
END_TEST

START_TEST(small_files_are_guarded)
{
    OK(cadre_file_write_whole(small, "[]", 2, &err));
    ck_assert_int_eq(open_status(), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "config.json"));
    unlink(small);
    ck_assert_int_eq(open_status(), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "config.json"));
}
END_TEST

/* A text with a valid hash, as a faulty program could write. */
static void write_sealed(const char *text)
{
    struct cadre_text out = {0};
    char hex[17];
    cadre_text_printf(&out, "%s,\n  \"state_xxh64\": \"%s\"\n}\n", text,
                      cadre_hash_hex(cadre_hash_of(text, strlen(text), 0), hex));
    OK(cadre_file_write_whole(path, out.data, out.len, &err));
    cadre_text_fini(&out);
}

#define HEAD "{\"format\": \"cadre checkpoint\", \"version\": 1"
#define BODY HEAD ", \"step\": 1, \"samples\": 2, \"seed\": \"3\", \"options\": \"\""

START_TEST(sealed_nonsense_is_refused_too)
{
    static const struct {
        const char *text;
        const char *word;
    } cases[] = {
        {"{\"format\": \"cadre checkpoint\", \"version\": 2", "version 1, found 2"},
        {"{\"format\": \"other\", \"version\": 1", "format"},
        {"{\"version\": 1", "format"},
        {"{\"a\": 1, \"a\": 1", "duplicate"},
        {"[1", "JSON"},
        {HEAD ", \"step\": -1", "step"},
        {BODY, "files"},
        {BODY ", \"files\": {}, \"values\": {\"a\": 1}", "values"},
        {BODY ", \"files\": {\"../config.json\": {\"bytes\": 2}}", "config.json"},
        {BODY ", \"files\": {\"config.json\": {\"xxh64\": \"12\"}}", "config.json"},
    };
    write_sealed(cases[_i].text);
    ck_assert_int_eq(open_status(), CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, cases[_i].word), "'%s' lacks '%s'", err.text,
                  cases[_i].word);
}
END_TEST

START_TEST(sums_must_fit_the_file)
{
    static const char *const texts[] = {
        "{\"w.safetensors\": {\"bytes\": 1, \"pieces\": {}}}",
        "{\"w.safetensors\": {\"bytes\": 1200168, \"pieces\": {}}}",
        "{\"w.safetensors\": {\"pieces\": []}}",
    };
    struct cadre_manifest_reader *reader = NULL;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char *text = cadre_format(BODY ", \"files\": %s", texts[i]);
        write_sealed(text);
        OK(cadre_manifest_open(dir, &reader, &err));
        ck_assert_int_eq(cadre_manifest_sums(reader, &file, &err), CADRE_E_INVALID);
        cadre_manifest_close(reader);
        free(text);
    }
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("manifest");
    TCase *tc = tcase_create("manifest");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, a_manifest_comes_back);
    tcase_add_test(tc, every_bit_of_the_manifest_is_guarded);
    tcase_add_test(tc, small_files_are_guarded);
    tcase_add_loop_test(tc, sealed_nonsense_is_refused_too, 0, 10);
    tcase_add_test(tc, sums_must_fit_the_file);
    suite_add_tcase(suite, tc);
    return suite;
}
