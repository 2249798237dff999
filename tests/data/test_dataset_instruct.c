/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/data/loader.h"
#include "tests/support/check_main.h"

enum { T = 512, B = 2 };

static struct cadre_dataset_config config;

static void setup(void)
{
    cadre_log_set_level(CADRE_LOG_ERROR);
    config = (struct cadre_dataset_config){
        .format = "instruct",
        .path = test_sample("instruct/alpaca_en_demo.json"),
        .valid_fraction = 0.25,
        .context = T,
        .shuffle = true,
        .seed = 5};
}

static struct cadre_dataset *open_or_fail(struct cadre_dataset_info *info)
{
    struct cadre_dataset *set = NULL;
    struct cadre_error err = {0};
    ck_assert_msg(cadre_dataset_open(&config, &set, &err) == CADRE_OK, "%s", err.text);
    cadre_dataset_info(set, info);
    return set;
}

static uint64_t fingerprint(void)
{
    struct cadre_dataset_info info;
    cadre_dataset_close(open_or_fail(&info));
    return info.fingerprint;
}

START_TEST(what_a_set_says)
{
    struct cadre_dataset_info info;
    struct cadre_dataset *set = open_or_fail(&info);
    double nats;
    ck_assert_int_eq(info.task, CADRE_TASK_LM);
    ck_assert_int_eq(info.vocab, 256);
    ck_assert_int_eq(info.seq_len, T);
    ck_assert_uint_eq(info.train_samples, 18);
    ck_assert_uint_eq(info.valid_samples, 6);
    ck_assert(info.masked && !info.packed && !info.pairs);
    ck_assert_int_eq(cadre_dataset_bigram_entropy(set, CADRE_SPLIT_TRAIN, &nats, NULL),
                     CADRE_E_UNSUPPORTED);
    cadre_dataset_close(set);
    const uint64_t plain = fingerprint();
    ck_assert_uint_eq(fingerprint(), plain);
    config.pack = true;
    const uint64_t packed = fingerprint();
    config.pack = false;
    config.train_on_prompt = true;
    const uint64_t prompts = fingerprint();
    config.train_on_prompt = false;
    config.template_name = "chatml";
    const uint64_t chatml = fingerprint();
    ck_assert(plain != packed && plain != prompts && plain != chatml &&
              packed != prompts && packed != chatml && prompts != chatml);
}
END_TEST

/* The targets of a step are those of its samples, whatever reads them; and the loader
 * gives the positions of its samples. */
START_TEST(steps_are_counted)
{
    struct cadre_dataset_info info;
    config.pack = _i;
    struct cadre_dataset *set = open_or_fail(&info);
    struct cadre_loader_config loads = {.dataset = set,
                                        .global_batch = 2 * B,
                                        .micro_batch = B,
                                        .microbatch_stride = 1,
                                        .n_microbatches = 2,
                                        .prefetch = 2};
    struct cadre_loader *loader = NULL;
    int32_t x[B * T], y[B * T] = {0}, at[B * T], want[T];
    struct cadre_batch batch = {.inputs = x, .targets = y, .positions = at};
    ck_assert_int_eq(cadre_loader_create(&loads, &loader, NULL), CADRE_OK);
    for (uint64_t step = 0; step < 8; step++) {
        uint64_t n = 0;
        for (int64_t m = 0; m < 2; m++) {
            ck_assert_int_eq(cadre_loader_next(loader, step, m, &batch), CADRE_OK);
            for (int i = 0; i < B * T; i++)
                n += y[i] >= 0;
            for (int b = 0; b < B; b++) {
                const uint64_t index = cadre_dataset_order(
                    set, step * 2 * B + (uint64_t)m * B + (uint64_t)b);
                ck_assert_int_eq(
                    cadre_dataset_positions(set, CADRE_SPLIT_TRAIN, index, want),
                    CADRE_OK);
                ck_assert_mem_eq(at + b * T, want, sizeof want);
            }
        }
        ck_assert_uint_gt(n, 0);
        ck_assert_uint_eq(cadre_dataset_targets(set, step * 2 * B, 2 * B), n);
    }
    cadre_loader_destroy(loader);
    cadre_dataset_close(set);
}
END_TEST

/* Shuffled pairs stay together, chosen first; an epoch has each once. */
START_TEST(pairs_are_shuffled_together)
{
    struct cadre_dataset_info info;
    bool seen[64] = {false}, moved = false;
    config.path = test_sample("instruct/dpo_en_demo.json");
    config.context = 1024;
    struct cadre_dataset *set = open_or_fail(&info);
    ck_assert(info.pairs);
    ck_assert_uint_eq(info.train_samples, 6);
    for (uint64_t p = 0; p < 600; p++) {
        const uint64_t index = cadre_dataset_order(set, p);
        ck_assert_uint_lt(index, info.train_samples);
        ck_assert_uint_eq(index % 2, p % 2);
        if (p % 2)
            ck_assert_uint_eq(index, cadre_dataset_order(set, p - 1) + 1);
        moved = moved || index != p % info.train_samples;
        if (p < info.train_samples) {
            ck_assert(!seen[index]);
            seen[index] = true;
        }
    }
    ck_assert(moved);
    cadre_dataset_close(set);
}
END_TEST

START_TEST(what_is_refused)
{
    struct cadre_dataset *set = NULL;
    struct cadre_error err = {0};
    config.template_name = "vicuna";
    ck_assert_int_eq(cadre_dataset_open(&config, &set, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "data.template"));
    config.template_name = NULL;
    config.context = 0;
    ck_assert_int_eq(cadre_dataset_open(&config, &set, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "model.context"));
    ck_assert_ptr_null(set);
    config.context = T;
    struct cadre_dataset_info info;
    int32_t positions[T];
    set = open_or_fail(&info);
    ck_assert_int_eq(
        cadre_dataset_positions(set, CADRE_SPLIT_VALID, info.valid_samples, positions),
        CADRE_E_INVALID);
    ck_assert_int_eq(cadre_dataset_sample(set, CADRE_SPLIT_VALID, info.valid_samples,
                                          positions, NULL, NULL),
                     CADRE_E_INVALID);
    cadre_dataset_close(set);
}
END_TEST

/* ---- the ids of transformers' apply_chat_template ---- */

/* A model's folder of one of the sample tokenizers, its chat_template that of `one`. */
static void make_folder(const char *dir, const json_t *one)
{
    char name[128];
    size_t size = 0;
    snprintf(name, sizeof name, "tokenizers/%s/tokenizer.json",
             json_string_value(json_object_get(one, "tokenizer")));
    char *text = test_file_read(test_sample(name), &size);
    test_file_put(dir, "tokenizer.json", text, size);
    free(text);
    snprintf(name, sizeof name, "templates/%s",
             json_string_value(json_object_get(one, "template")));
    text = test_file_read(test_sample(name), &size);
    while (size > 0 && text[size - 1] == '\n') /* of the file, not of the template */
        text[--size] = 0;
    json_t *kept = json_copy(json_object_get(one, "config"));
    json_object_set_new(kept, "chat_template", json_string(text));
    free(text);
    text = json_dumps(kept, 0);
    test_file_put(dir, "tokenizer_config.json", text, strlen(text));
    free(text);
    json_decref(kept);
}

static void gives_ids(const json_t *one)
{
    char *dir = test_tmpdir(), *what = json_dumps(one, 0);
    const json_t *want = json_object_get(one, "ids");
    const size_t n = json_array_size(want);
    json_t *record = json_pack("{sO}", "messages", json_object_get(one, "messages"));
    char *text = json_dumps(record, 0);
    struct cadre_dataset_info info;
    int32_t x[T], y[T];
    make_folder(dir, one);
    config.path = test_file_put(dir, "chat.jsonl", text, strlen(text));
    config.tokenizer = dir;
    config.template_name = "model";
    config.valid_fraction = 0;
    config.train_on_prompt = true;
    struct cadre_dataset *set = open_or_fail(&info);
    ck_assert_int_eq(cadre_dataset_sample(set, CADRE_SPLIT_TRAIN, 0, x, y, NULL),
                     CADRE_OK);
    ck_assert_uint_lt(n, T);
    for (size_t i = 0; i < n; i++) {
        const int32_t id = i == 0 ? x[0] : y[i - 1];
        const json_int_t expected = json_integer_value(json_array_get(want, i));
        ck_assert_msg(id == expected, "id %zu is %d, not %lld, of %.2000s", i, id,
                      (long long)expected, what);
    }
    ck_assert_msg(y[n - 1] == CADRE_TARGET_IGNORED, "more ids than %zu: %.2000s", n,
                  what);
    cadre_dataset_close(set);
    json_decref(record);
    free(text);
    free(what);
    test_tmpdir_destroy(dir);
}

START_TEST(ids_are_those_of_transformers)
{
    json_t *cases = json_load_file(test_sample("templates/ids.json"), 0, NULL);
    ck_assert_uint_ge(json_array_size(cases), 59);
    for (size_t i = 0; i < json_array_size(cases); i++)
        gives_ids(json_array_get(cases, i));
    json_decref(cases);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("dataset_instruct");
    TCase *tc = tcase_create("dataset_instruct");
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, what_a_set_says);
    tcase_add_loop_test(tc, steps_are_counted, 0, 2);
    tcase_add_test(tc, pairs_are_shuffled_together);
    tcase_add_test(tc, what_is_refused);
    tcase_add_test(tc, ids_are_those_of_transformers);
    suite_add_tcase(s, tc);
    return s;
}
