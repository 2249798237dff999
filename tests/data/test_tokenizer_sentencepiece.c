/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.model against the module `sentencepiece`, see tests/samples/tokenizers. */
#include "tests/data/odd_strings.h"

static const char *const kinds[] = {"sp-bpe", "sp-unigram", "sp-bytes"};

START_TEST(equals_sentencepiece)
{
    odd_strings_check(kinds[_i], strcmp(kinds[_i], "sp-unigram") == 0);
}
END_TEST

static cadre_status open_bytes(const char *bytes, size_t size,
                               struct cadre_tokenizer **tok, struct cadre_error *err)
{
    char *dir = test_tmpdir(), path[1200];
    snprintf(path, sizeof path, "%s/tokenizer.model", dir);
    test_file_put(dir, "tokenizer.model", bytes, size);
    cadre_status rc = cadre_tokenizer_open(path, tok, err);
    test_tmpdir_destroy(dir);
    return rc;
}

static char *read_model(size_t *size)
{
    return test_file_read(test_sample("tokenizers/sp-bpe/tokenizer.model"), size);
}

START_TEST(frames_prompts)
{
    int32_t *ids = NULL;
    size_t count = 0;
    struct cadre_tokenizer *tok = odd_open(test_sample("tokenizers/sp-bpe"));
    ck_assert_int_eq(cadre_tokenizer_bos(tok), 1);
    ck_assert_int_eq(cadre_tokenizer_eos(tok), 2);
    ck_assert_int_eq(cadre_tokenizer_frame(tok, &ids, &count, NULL), CADRE_OK);
    ck_assert(count == 1 && ids[0] == 1);
    free(ids);
    cadre_tokenizer_close(tok);
}
END_TEST

START_TEST(config_makes_the_frame)
{
    static const char json[] = "{\"add_bos_token\": false, \"add_eos_token\": true, "
                               "\"eos_token\": {\"content\": \"</s>\"}}";
    char *dir = test_tmpdir();
    size_t size = 0, count = 0;
    int32_t *ids = NULL;
    char *bytes = read_model(&size);
    test_file_put(dir, "tokenizer.model", bytes, size);
    test_file_put(dir, "tokenizer_config.json", json, sizeof json - 1);
    struct cadre_tokenizer *tok = odd_open(dir);
    ck_assert_int_eq(cadre_tokenizer_frame(tok, &ids, &count, NULL), CADRE_OK);
    ck_assert(count == 1 && ids[0] == 2);
    free(ids);
    cadre_tokenizer_close(tok);
    test_file_put(dir, "tokenizer_config.json", "{", 1);
    struct cadre_error err = {0};
    ck_assert_int_eq(cadre_tokenizer_open(dir, &tok, &err), CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, "tokenizer_config.json"), "%s", err.text);
    free(bytes);
    test_tmpdir_destroy(dir);
}
END_TEST

/* Fields behind those of a whole model replace what they said: see protobuf.h. */
static const struct {
    const char bytes[8];
    size_t size;
    const char *says;
} behind[] = {
    {"\x12\x02\x18\x03", 4, "model_type 3"},
    {"\x12\x03\xc0\x01\x01", 5, "treat_whitespace_as_suffix"},
    {"\x1a\x04\x12\x02xy", 6, "the normalizer identity is not supported"},
    {"\x1a\x02\x28\x00", 4, "escape_whitespaces"},
    {"\x12\x03\xc0\x02\x05", 5, "unk_id = 5"},
    {"\x0a\x00", 2, "a text of 1 to"},
    {"\x0a\x03\x0a\x01\x65", 5, "duplicate"},
    {"\x0a\x06\x0a\x02zz\x18\x05", 8, "UNUSED"},
    {"\x12\x05", 2, "truncated"},
    {"\x12\x01\x18", 3, "truncated"},
    {"\x07", 1, "truncated"},
};

START_TEST(refuses_other_models)
{
    size_t size = 0;
    char *model = read_model(&size), *bytes = malloc(size + 8);
    struct cadre_tokenizer *tok = NULL;
    struct cadre_error err = {0};
    memcpy(bytes, model, size);
    memcpy(bytes + size, behind[_i].bytes, behind[_i].size);
    cadre_status rc = open_bytes(bytes, size + behind[_i].size, &tok, &err);
    ck_assert(rc == CADRE_E_INVALID || rc == CADRE_E_UNSUPPORTED);
    ck_assert_msg(strstr(err.text, behind[_i].says) && !strchr(err.text, '\n'), "%s",
                  err.text);
    ck_assert_ptr_null(tok);
    free(model);
    free(bytes);
}
END_TEST

START_TEST(survives_damaged_files)
{
    size_t size = 0;
    char *bytes = read_model(&size);
    struct cadre_tokenizer *tok = NULL;
    struct cadre_error err = {0};
    unsigned state = 3;
    ck_assert_int_eq(open_bytes(bytes, 0, &tok, &err), CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, "expected the protobuf"), "%s", err.text);
    const int rounds = test_lean() ? 50 : 400;
    for (int round = 0; round < rounds; round++) {
        state = state * 1664525u + 1013904223u;
        const size_t at = (state >> 8) % size, n = round % 2 ? size : at;
        const char kept = bytes[at];
        bytes[at] = (char)(state >> 3);
        tok = NULL;
        if (open_bytes(bytes, n, &tok, NULL) == CADRE_OK) {
            int32_t *ids = NULL;
            size_t count = 0;
            if (cadre_tokenizer_encode(tok, "abba ab\n", 8, &ids, &count, NULL) ==
                CADRE_OK)
                free(ids);
            cadre_tokenizer_close(tok);
        }
        bytes[at] = kept;
    }
    free(bytes);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("tokenizer_sentencepiece");
    TCase *tc = tcase_create("tokenizer_sentencepiece");
    const int n = sizeof kinds / sizeof kinds[0];
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, equals_sentencepiece, 0, n);
    tcase_add_test(tc, frames_prompts);
    tcase_add_test(tc, config_makes_the_frame);
    tcase_add_loop_test(tc, refuses_other_models, 0, sizeof behind / sizeof behind[0]);
    tcase_add_test(tc, survives_damaged_files);
    suite_add_tcase(suite, tc);
    return suite;
}
