/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/check_main.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cadre/types.h>

#include "core/base/memory.h"
#include "core/checkpoint/format/file.h"
#include "core/checkpoint/format/hf.h"

static struct cadre_error err;
static char *dir;

static void setup(void)
{
    dir = test_tmpdir();
}

static void teardown(void)
{
    test_tmpdir_destroy(dir);
}

/* A one-dimensional f32 tensor per name, `first`, `first` + 1, ... as values. */
static void make_shard(const char *file, const char *const *names, size_t n,
                       float first)
{
    struct cadre_safetensors_spec specs[8];
    struct cadre_safetensors *out = NULL;
    char *path = cadre_format("%s/%s", dir, file);
    for (size_t i = 0; i < n; i++)
        specs[i] = (struct cadre_safetensors_spec){names[i], CADRE_F32, 1, {2}};
    ck_assert_int_eq(cadre_safetensors_create(path, specs, n, &err), CADRE_OK);
    ck_assert_int_eq(cadre_safetensors_open(path, true, &out, &err), CADRE_OK);
    for (size_t i = 0; i < n; i++) {
        const float values[2] = {first + (float)i, -1.0f};
        size_t at = (size_t)cadre_safetensors_find(out, names[i]);
        ck_assert_int_eq(cadre_safetensors_write_range(out, at, 0, 2, values, &err),
                         CADRE_OK);
    }
    cadre_safetensors_close(out);
    free(path);
}

static void make_index(const char *text)
{
    char *path = cadre_format("%s/model.safetensors.index.json", dir);
    ck_assert_int_eq(cadre_file_write_whole(path, text, strlen(text), &err), CADRE_OK);
    free(path);
}

static float first_value(const struct cadre_hf *hf, const char *name)
{
    float value = 0.0f;
    ck_assert_msg(cadre_hf_read(hf, name, 0, 1, CADRE_F32, &value, &err) == CADRE_OK,
                  "%s", err.text);
    return value;
}

START_TEST(real_folders_answer_to_canonical_names)
{
    static const struct {
        const char *path;
        const char *name;
        uint64_t count;
    } cases[] = {
        {"weights/tiny_gpt2", "transformer.h.3.attn.c_attn.weight", 64 * 192},
        {"weights/tiny_gpt2", "h.3.attn.c_attn.weight", 64 * 192},
        {"weights/tiny_gpt2", "wte.weight", 64000},
        {"weights/stories260K-hf", "model.layers.4.self_attn.k_proj.weight", 2048},
        {"weights/stories260K-hf", "embed_tokens.weight", 32768},
        {"weights/nutllm/nutllm_tiny.safetensors", "lm_head.weight", 16},
        {"weights/nutllm/nutllm_tiny.safetensors", "layers.1.input_layernorm.weight",
         4},
    };
    const char *path = test_sample(cases[_i].path);
    struct cadre_hf *hf = NULL;
    ck_assert_msg(cadre_hf_open(path, &hf, &err) == CADRE_OK, "%s", err.text);
    const struct cadre_safetensors_tensor *tensor = cadre_hf_find(hf, cases[_i].name);
    ck_assert_ptr_nonnull(tensor);
    ck_assert_uint_eq(tensor->count, cases[_i].count);
    float *values = cadre_calloc(tensor->count, sizeof *values);
    ck_assert_int_eq(
        cadre_hf_read(hf, cases[_i].name, 0, tensor->count, CADRE_F32, values, &err),
        CADRE_OK);
    double squares = 0.0;
    for (uint64_t i = 0; i < tensor->count; i++)
        squares += (double)values[i] * (double)values[i];
    ck_assert(squares > 0.0 && squares < 1e6);
    ck_assert_ptr_null(cadre_hf_find(hf, "h.9.attn.c_attn.weight"));
    free(values);
    cadre_hf_close(hf);
}
END_TEST

START_TEST(shards_are_one_folder)
{
    static const char *const one[] = {"model.a", "model.b"};
    static const char *const two[] = {"model.c"};
    struct cadre_hf *hf = NULL;
    make_shard("s1.safetensors", one, 2, 1.0f);
    make_shard("s2.safetensors", two, 1, 3.0f);
    make_index("{\"metadata\":{\"total_size\":24},\"weight_map\":{"
               "\"model.a\":\"s1.safetensors\",\"model.b\":\"s1.safetensors\","
               "\"model.c\":\"s2.safetensors\"}}");
    ck_assert_msg(cadre_hf_open(dir, &hf, &err) == CADRE_OK, "%s", err.text);
    ck_assert(first_value(hf, "model.a") == 1.0f);
    ck_assert(first_value(hf, "b") == 2.0f);
    ck_assert(first_value(hf, "model.c") == 3.0f);
    ck_assert_int_eq(cadre_hf_read(hf, "model.d", 0, 1, CADRE_F32, NULL, &err),
                     CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "model.d"));
    cadre_hf_close(hf);
}
END_TEST

START_TEST(a_lying_index_is_refused)
{
    static const char *const names[] = {"a", "b"};
    static const struct {
        const char *text;
        const char *word;
    } cases[] = {
        {"{\"weight_map\":{\"a\":\"s1.safetensors\"}}", "as many tensors"},
        {"{\"weight_map\":{\"a\":\"s1.safetensors\",\"c\":\"s1.safetensors\"}}", "'c'"},
        {"{\"weight_map\":{\"a\":\"../s1.safetensors\"}}", "same folder"},
        {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", "same folder"},
        {"{\"weight_map\":{\"a\":\"..\"}}", "same folder"},
        {"{\"weight_map\":{\"a\":7}}", "no text"},
        {"{\"weight_map\":{\"a\":\"missing.safetensors\"}}", "missing.safetensors"},
        {"{\"weight_map\":{\"a\":\"s1.safetensors\",\"a\":\"s1.safetensors\"}}",
         "duplicate"},
        {"{\"weight_map\":{\"a\":\"s1.safetensors\",\"b\":\"s2.safetensors\"}}",
         "as many tensors"},
        {"{\"weight_map\":[]}", "weight_map"},
        {"{}", "weight_map"},
        {"nonsense", "JSON"},
    };
    struct cadre_hf *hf = NULL;
    make_shard("s1.safetensors", names, 2, 1.0f);
    make_shard("s2.safetensors", names, 2, 1.0f);
    make_index(cases[_i].text);
    ck_assert_int_eq(cadre_hf_open(dir, &hf, &err), CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, cases[_i].word), "'%s' lacks '%s'", err.text,
                  cases[_i].word);
    ck_assert_ptr_null(hf);
}
END_TEST

START_TEST(an_empty_folder_is_refused)
{
    struct cadre_hf *hf = NULL;
    ck_assert_int_eq(cadre_hf_open(dir, &hf, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "model.safetensors"));
    ck_assert_int_eq(cadre_hf_open("/nonexistent", &hf, &err), CADRE_E_INVALID);
}
END_TEST

START_TEST(a_folder_is_held_to_the_model)
{
    static const char *const names[] = {"a", "b", "lm_head.weight", "h.0.attn.bias"};
    const struct cadre_safetensors_spec wanted[] = {
        {"transformer.a", CADRE_F64, 1, {2}},
        {"transformer.b", CADRE_F64, 1, {2}},
        {"transformer.c", CADRE_F64, 1, {2}},
    };
    const struct cadre_safetensors_spec other = {"a", CADRE_F32, 2, {2, 1}};
    struct cadre_hf *hf = NULL;
    make_shard("model.safetensors", names, 4, 1.0f);
    ck_assert_int_eq(cadre_hf_open(dir, &hf, &err), CADRE_OK);
    ck_assert_msg(cadre_hf_check(hf, wanted, 2, true, &err) == CADRE_OK, "%s",
                  err.text);
    ck_assert_int_eq(cadre_hf_check(hf, wanted, 2, false, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "lm_head.weight"));
    ck_assert_int_eq(cadre_hf_check(hf, wanted, 3, true, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "transformer.c"));
    ck_assert_int_eq(cadre_hf_check(hf, wanted, 1, true, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "'b'"));
    ck_assert_int_eq(cadre_hf_check(hf, &other, 1, true, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "expected shape [2, 1], found [2]"));
    cadre_hf_close(hf);
}
END_TEST

/* The first values of make_shard are the order of the names. */
START_TEST(a_tied_head_is_a_copy_of_the_embedding)
{
    static const char *const names[] = {"lm_head.weight", "transformer.wte.weight"};
    const struct cadre_safetensors_spec wanted[] = {
        {"transformer.wte.weight", CADRE_F64, 1, {2}},
        {"lm_head.weight", CADRE_F64, 1, {2}},
    };
    struct cadre_hf *hf = NULL;
    make_shard("model.safetensors", names, 2, 1.0f);
    ck_assert_int_eq(cadre_hf_open(dir, &hf, &err), CADRE_OK);
    ck_assert_int_eq(cadre_hf_check(hf, wanted, 1, true, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "model.tied = no"));
    ck_assert_int_eq(cadre_hf_check(hf, wanted, 2, false, &err), CADRE_OK);
    cadre_hf_close(hf);
    make_shard("model.safetensors", names, 1, 1.0f);
    make_shard("s.safetensors", names + 1, 1, 1.0f);
    char *whole = cadre_format("%s/model.safetensors", dir);
    char *part = cadre_format("%s/h.safetensors", dir);
    ck_assert_int_eq(rename(whole, part), 0);
    make_index("{\"weight_map\":{\"lm_head.weight\":\"h.safetensors\","
               "\"transformer.wte.weight\":\"s.safetensors\"}}");
    ck_assert_int_eq(cadre_hf_open(dir, &hf, &err), CADRE_OK);
    ck_assert_msg(cadre_hf_check(hf, wanted, 1, true, &err) == CADRE_OK, "%s",
                  err.text);
    cadre_hf_close(hf);
    free(whole);
    free(part);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("hf");
    TCase *tc = tcase_create("hf");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, real_folders_answer_to_canonical_names, 0, 7);
    tcase_add_test(tc, shards_are_one_folder);
    tcase_add_loop_test(tc, a_lying_index_is_refused, 0, 12);
    tcase_add_test(tc, an_empty_folder_is_refused);
    tcase_add_test(tc, a_folder_is_held_to_the_model);
    tcase_add_test(tc, a_tied_head_is_a_copy_of_the_embedding);
    suite_add_tcase(suite, tc);
    return suite;
}
