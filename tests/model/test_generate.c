/* SPDX-License-Identifier: Apache-2.0 */
/* 200 greedy steps of stories260K from the start token reproduce llama2.c's published
 * text. */
#include "tests/support/check_main.h"
#include "tests/support/trainer.h"

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 200, VOCAB = 512, BOS = 1 };

static int32_t argmax(const struct test_trainer *t, const void *logits, int64_t row)
{
    int32_t best = 0;
    for (int32_t v = 1; v < VOCAB; v++)
        if (test_trainer_get(t, logits, (uint64_t)(row * VOCAB + v)) >
            test_trainer_get(t, logits, (uint64_t)(row * VOCAB + best)))
            best = v;
    return best;
}

/* ids has STEPS + 1 entries, the first is the start token. */
static void decode_greedily(uint32_t dtype, const char *weights, int32_t *ids)
{
    struct cadre_model_config config = {
        .arch = CADRE_ARCH_LLAMA,
        .layers = 5,
        .channels = 64,
        .heads = 8,
        .kv_heads = 4,
        .hidden = 172,
        .context = 512,
        .vocab = VOCAB,
        .tied = true,
        .norm_eps = 1e-5,
        .rotary.theta = 10000,
        .dtype = dtype,
    };
    struct test_trainer t;
    test_trainer_open(&t, &config, 0, 1, 1, STEPS);
    test_trainer_load(&t, weights);
    for (int i = 0; i < STEPS; i++)
        t.targets[i] = -1;
    ids[0] = BOS;
    for (int n = 1; n <= STEPS; n++) {
        t.tokens[n - 1] = ids[n - 1];
        test_trainer_forward(&t, 1, n);
        ids[n] = argmax(&t, test_trainer_logits(&t), n - 1);
    }
    test_trainer_close(&t);
}

/* Append the tokens' texts of tok512.bin: int32 longest, then float score, int32 bytes,
 * text. */
static void write_text(const char *tokenizer, const int32_t *ids, char *text,
                       size_t room)
{
    char texts[VOCAB][32] = {{0}};
    int32_t header;
    size_t used = 0;
    FILE *file = fopen(tokenizer, "rb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fread(&header, sizeof header, 1, file), 1);
    for (int i = 0; i < VOCAB; i++) {
        float score;
        int32_t bytes;
        ck_assert_uint_eq(fread(&score, sizeof score, 1, file), 1);
        ck_assert_uint_eq(fread(&bytes, sizeof bytes, 1, file), 1);
        ck_assert(bytes >= 0 && bytes < 32);
        ck_assert_uint_eq(fread(texts[i], 1, (size_t)bytes, file), (size_t)bytes);
    }
    fclose(file);
    for (int n = 1; n <= STEPS; n++) {
        const char *token = texts[ids[n]];
        unsigned byte;
        char raw[2] = {0};
        if (ids[n - 1] == BOS && token[0] == ' ')
            token++;
        if (sscanf(token, "<0x%02X>", &byte) == 1) {
            raw[0] = (char)byte;
            token = raw;
        }
        ck_assert_uint_lt(used + strlen(token), room);
        memcpy(text + used, token, strlen(token) + 1);
        used += strlen(token);
    }
}

static void check_text(const char *text, const char *path)
{
    size_t bytes;
    char *expected = test_file_read(path, &bytes);
    ck_assert_uint_gt(bytes, 400);
    ck_assert_str_eq(text, expected);
    free(expected);
}

static void check_dtype(uint32_t dtype)
{
    const char *weights = test_sample("weights/stories260K-hf/model.safetensors");
    const char *tokenizer = test_sample("weights/stories260K/tok512.bin");
    const char *published = test_sample("weights/stories260K/expected_greedy_200.txt");
    const char *list = test_sample("weights/stories260K/stories260K_greedy_ids.json");
    int32_t ids[STEPS + 1];
    char text[2048] = {0};
    decode_greedily(dtype, weights, ids);
    json_t *expected = json_load_file(list, 0, NULL);
    ck_assert_uint_eq(json_array_size(expected), STEPS + 1);
    for (size_t n = 0; n <= STEPS; n++)
        ck_assert_int_eq(ids[n], json_integer_value(json_array_get(expected, n)));
    json_decref(expected);
    write_text(tokenizer, ids, text, sizeof text);
    check_text(text, published);
}

START_TEST(greedy_f32)
{
    check_dtype(CADRE_F32);
}
END_TEST

START_TEST(greedy_f64)
{
    check_dtype(CADRE_F64);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("generate");
    TCase *tc = tcase_create("generate");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, greedy_f32);
    tcase_add_test(tc, greedy_f64);
    suite_add_tcase(s, tc);
    return s;
}
