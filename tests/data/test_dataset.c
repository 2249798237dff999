/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/data/dataset.h"
#include "core/data/tokenizer/tokenizer.h"
#include "tests/data/records.h"
#include "tests/support/check_main.h"

static char *dir;
static char path[1200];

static void setup(void)
{
    dir = test_tmpdir();
    snprintf(path, sizeof path, "%s/file", dir);
    cadre_log_set_level(CADRE_LOG_ERROR);
}

static void teardown(void)
{
    test_tmpdir_destroy(dir);
}

static struct cadre_dataset *open_or_fail(const struct cadre_dataset_config *config)
{
    struct cadre_dataset *set = NULL;
    struct cadre_error err = {0};
    ck_assert_msg(cadre_dataset_open(config, &set, &err) == CADRE_OK, "%s", err.text);
    return set;
}

static struct cadre_dataset_info info_of(const struct cadre_dataset *set)
{
    struct cadre_dataset_info info;
    cadre_dataset_info(set, &info);
    return info;
}

/* 103 tokens, 0.2 held back: 82 train, 21 validate; windows of 10 and the next. */
static void check_counting_stream(const struct cadre_dataset *set, int64_t vocab)
{
    struct cadre_dataset_info info = info_of(set);
    int32_t inputs[10], targets[10], label = 7;
    ck_assert_int_eq(info.task, CADRE_TASK_LM);
    ck_assert_int_eq(info.vocab, vocab);
    ck_assert_int_eq(info.seq_len, 10);
    ck_assert_int_eq(info.classes, 0);
    ck_assert_uint_eq(info.train_tokens, 82);
    ck_assert_uint_eq(info.valid_tokens, 21);
    ck_assert_uint_eq(info.train_samples, 8);
    ck_assert_uint_eq(info.valid_samples, 2);
    for (int split = 0; split < 2; split++) {
        uint64_t samples = split ? info.valid_samples : info.train_samples;
        for (uint64_t i = 0; i < samples; i++) {
            ck_assert_int_eq(cadre_dataset_sample(set, (enum cadre_data_split)split, i,
                                                  inputs, targets, &label),
                             CADRE_OK);
            ck_assert_int_eq(label, -1);
            for (int t = 0; t < 10; t++) {
                ck_assert_int_eq(inputs[t], (int)(split * 82 + (int)i * 10 + t));
                ck_assert_int_eq(targets[t], inputs[t] + 1);
            }
        }
        ck_assert_int_eq(cadre_dataset_sample(set, (enum cadre_data_split)split,
                                              samples, inputs, targets, &label),
                         CADRE_E_INVALID);
    }
}

START_TEST(bytes_and_tokens)
{
    uint8_t bytes[103];
    uint16_t tokens[103];
    for (int i = 0; i < 103; i++)
        tokens[i] = bytes[i] = (uint8_t)i;
    struct cadre_dataset_config config = {
        .format = "text", .path = path, .valid_fraction = 0.2, .context = 10};
    test_file_write(path, bytes, sizeof bytes);
    struct cadre_dataset *set = open_or_fail(&config);
    check_counting_stream(set, 256);
    cadre_dataset_close(set);
    test_file_write(path, tokens, sizeof tokens);
    config.format = "tokens";
    set = open_or_fail(&config);
    check_counting_stream(set, 103);
    cadre_dataset_close(set);
    config.vocab = 1000;
    set = open_or_fail(&config);
    check_counting_stream(set, 1000);
    cadre_dataset_close(set);
}
END_TEST

static void refuse_ids(int64_t vocab, const char *says)
{
    struct cadre_dataset_config config = {.format = "tokens",
                                          .path = path,
                                          .valid_fraction = 0.2,
                                          .context = 10,
                                          .vocab = vocab};
    struct cadre_dataset *set = NULL;
    struct cadre_error err = {0};
    ck_assert_int_eq(cadre_dataset_open(&config, &set, &err), CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, says) && strstr(err.text, path), "%s", err.text);
    ck_assert_ptr_null(set);
}

START_TEST(ids_outside_the_vocabulary_are_found_at_once)
{
    uint16_t tokens[103];
    int32_t inputs[10];
    for (int i = 0; i < 103; i++)
        tokens[i] = (uint16_t)i;
    test_file_write(path, tokens, sizeof tokens);
    refuse_ids(50, "token 50 has the id 50, expected ids below model.vocab = 50");
    refuse_ids(102, "token 102 has the id 102"); /* which is of the validation */
    /* a file that changes later is the error of its sample */
    struct cadre_dataset_config config = {
        .format = "tokens", .path = path, .context = 10, .vocab = 103};
    struct cadre_dataset *set = open_or_fail(&config);
    FILE *file = fopen(path, "r+");
    ck_assert_ptr_nonnull(file);
    fseek(file, 55 * (long)sizeof *tokens, SEEK_SET);
    fwrite("\xff\xff", 1, 2, file);
    fclose(file);
    ck_assert_int_eq(
        cadre_dataset_sample(set, CADRE_SPLIT_TRAIN, 3, inputs, NULL, NULL), CADRE_OK);
    ck_assert_int_eq(
        cadre_dataset_sample(set, CADRE_SPLIT_TRAIN, 5, inputs, NULL, NULL),
        CADRE_E_INVALID);
    cadre_dataset_close(set);
}
END_TEST

START_TEST(gpt2_text_counts_as_nanogpt)
{
    const char *text = test_data(_i, "text/tinyshakespeare.txt");
    const char *vocabulary = test_data(_i, "gpt2_bpe");
    static const struct {
        int64_t vocab;
        uint64_t train, valid;
    } want[] = {{4835, 13505, 1401}, {50257, 301966, 36059}};
    struct cadre_dataset_config config = {.format = "text",
                                          .path = text,
                                          .tokenizer = vocabulary,
                                          .cache_dir = dir,
                                          .valid_fraction = 0.1,
                                          .context = 64};
    struct cadre_dataset *set = open_or_fail(&config);
    struct cadre_dataset_info info = info_of(set);
    ck_assert_uint_eq(info.train_tokens, want[_i].train);
    ck_assert_uint_eq(info.valid_tokens, want[_i].valid);
    ck_assert_int_eq(info.vocab, want[_i].vocab);
    cadre_dataset_close(set);
    config.cache_dir = NULL;
    set = open_or_fail(&config);
    ck_assert_uint_eq(info_of(set).fingerprint, info.fingerprint);
    cadre_dataset_close(set);
}
END_TEST

START_TEST(order_is_a_permutation_of_each_epoch)
{
    uint8_t bytes[1001] = {0};
    struct cadre_dataset_config config = {
        .format = "text", .path = path, .context = 10, .shuffle = true, .seed = 3};
    test_file_write(path, bytes, sizeof bytes);
    struct cadre_dataset *set = open_or_fail(&config);
    int moved = 0, differ = 0;
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        bool seen[100] = {false};
        for (uint64_t i = 0; i < 100; i++) {
            uint64_t index = cadre_dataset_order(set, epoch * 100 + i);
            ck_assert_uint_lt(index, 100);
            ck_assert(!seen[index]);
            seen[index] = true;
            moved += index != i;
            differ += index != cadre_dataset_order(set, i);
        }
    }
    ck_assert_int_gt(moved, 250);
    ck_assert_int_gt(differ, 150);
    cadre_dataset_close(set);
    config.shuffle = false;
    set = open_or_fail(&config);
    ck_assert_uint_eq(cadre_dataset_order(set, 205), 5);
    cadre_dataset_close(set);
}
END_TEST

START_TEST(ecg_tasks_share_windows)
{
    int32_t inputs[4], targets[4], label = 0;
    int32_t whole[4];
    test_write_record(dir, "r1", "A", 100, 0);
    test_write_record(dir, "r2", "A", 100, 0);
    struct cadre_dataset_config config = {.format = "wfdb",
                                          .path = dir,
                                          .lead = "A",
                                          .task = "beats",
                                          .valid_records = "r2",
                                          .window = 4,
                                          .levels = 8,
                                          .range_mv = 1};
    static const int32_t aami[] = {0, 2, 4, 1}, vbd[] = {0, 1, 0, 0};
    static const char *const tasks[] = {"beats", "vbd"};
    for (int task = 0; task < 2; task++) {
        config.task = tasks[task];
        struct cadre_dataset *set = open_or_fail(&config);
        struct cadre_dataset_info info = info_of(set);
        ck_assert_int_eq(info.task, CADRE_TASK_CLASSIFY);
        ck_assert_int_eq(info.classes, task ? 2 : 5);
        ck_assert(info.seq_len == 4 && info.vocab == 8 && info.records == 2);
        ck_assert(info.train_samples == 4 && info.valid_samples == 4);
        for (uint64_t i = 0; i < 4; i++) {
            ck_assert_int_eq(cadre_dataset_sample(set, CADRE_SPLIT_VALID, i, inputs,
                                                  targets, &label),
                             CADRE_OK);
            ck_assert_int_eq(label, task ? vbd[i] : aami[i]);
            ck_assert_int_eq(targets[3], CADRE_TARGET_IGNORED);
        }
        memcpy(whole, inputs, sizeof whole);
        cadre_dataset_close(set);
    }
    config.task = NULL;
    struct cadre_dataset *set = open_or_fail(&config);
    ck_assert_int_eq(info_of(set).seq_len, 3);
    ck_assert_int_eq(
        cadre_dataset_sample(set, CADRE_SPLIT_VALID, 3, inputs, targets, &label),
        CADRE_OK);
    ck_assert_mem_eq(inputs, whole, 3 * sizeof *whole);
    ck_assert_mem_eq(targets, whole + 1, 3 * sizeof *whole);
    ck_assert_int_eq(label, -1);
    cadre_dataset_close(set);
}
END_TEST

START_TEST(fingerprint_follows_contents_and_options)
{
    uint8_t bytes[1001] = {0};
    struct cadre_dataset_config config = {
        .format = "text", .path = path, .context = 10, .shuffle = true, .seed = 3};
    uint64_t seen[5];
    for (int i = 0; i < 5; i++) {
        config.seed = i == 1 ? 4 : 3;
        config.context = i == 2 ? 20 : 10;
        bytes[500] = i == 3;
        test_file_write(path, bytes, sizeof bytes);
        struct cadre_dataset *set = open_or_fail(&config);
        seen[i] = info_of(set).fingerprint;
        cadre_dataset_close(set);
    }
    ck_assert_uint_eq(seen[0], seen[4]);
    for (int i = 1; i < 4; i++)
        ck_assert_uint_ne(seen[0], seen[i]);
}
END_TEST

static void refused(struct cadre_dataset_config config, cadre_status rc,
                    const char *says)
{
    struct cadre_dataset *set = NULL;
    struct cadre_error err = {0};
    ck_assert_int_eq(cadre_dataset_open(&config, &set, &err), rc);
    ck_assert_msg(strstr(err.text, says), "%s", err.text);
    ck_assert_ptr_null(set);
}

START_TEST(refuses_wrong_options)
{
    struct cadre_dataset_config c = {.format = "text", .path = path, .context = 10};
    refused(c, CADRE_E_IO, "cannot open");
    test_file_write(path, "", 0);
    refused(c, CADRE_E_INVALID, "empty");
    test_file_write(path, "abcdef", 6);
    c.format = "csv";
    refused(c, CADRE_E_INVALID, "data.format");
    c.format = NULL;
    refused(c, CADRE_E_INVALID, "data.format");
    c.format = "text";
    c.path = NULL;
    refused(c, CADRE_E_INVALID, "data.path");
    c.path = path;
    c.context = 0;
    refused(c, CADRE_E_INVALID, "model.context");
    c.context = INT64_MAX;
    refused(c, CADRE_E_INVALID, "model.context");
    c.context = 10;
    c.valid_fraction = 1;
    refused(c, CADRE_E_INVALID, "data.valid_fraction");
    c.valid_fraction = -0.1;
    refused(c, CADRE_E_INVALID, "data.valid_fraction");
    c.valid_fraction = 0;
    c.tokenizer = "/nowhere/x";
    refused(c, CADRE_E_INVALID, "tokenizer");
    c.tokenizer = NULL;
    struct cadre_dataset *set = open_or_fail(&c); /* shorter than a sample: none */
    ck_assert_uint_eq(info_of(set).train_samples, 0);
    cadre_dataset_close(set);
    cadre_dataset_close(NULL);
    c = (struct cadre_dataset_config){.format = "wfdb", .path = dir, .lead = "A"};
    c.task = "rhythm";
    refused(c, CADRE_E_INVALID, "data.task");
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("dataset");
    TCase *tc = tcase_create("dataset");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, bytes_and_tokens);
    tcase_add_test(tc, ids_outside_the_vocabulary_are_found_at_once);
    tcase_add_loop_test(tc, gpt2_text_counts_as_nanogpt, 0, test_data_sets("gpt2_bpe"));
    tcase_add_test(tc, order_is_a_permutation_of_each_epoch);
    tcase_add_test(tc, ecg_tasks_share_windows);
    tcase_add_test(tc, fingerprint_follows_contents_and_options);
    tcase_add_test(tc, refuses_wrong_options);
    suite_add_tcase(suite, tc);
    return suite;
}
