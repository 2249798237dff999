/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/data/dataset.h"
#include "tests/support/check_main.h"

static double entropy_of(const struct cadre_dataset_config *config,
                         enum cadre_data_split split)
{
    struct cadre_dataset *set = NULL;
    struct cadre_error err = {0};
    double nats = NAN;
    ck_assert_msg(cadre_dataset_open(config, &set, &err) == CADRE_OK, "%s", err.text);
    ck_assert_msg(cadre_dataset_bigram_entropy(set, split, &nats, &err) == CADRE_OK,
                  "%s", err.text);
    cadre_dataset_close(set);
    return nats;
}

START_TEST(entropy_of_known_streams)
{
    char *dir = test_tmpdir(), path[1200];
    struct cadre_dataset_config config = {.format = "text", .path = path, .context = 8};
    static const char *const texts[] = {"abababababababababababababababababa",
                                        "aabbaabbaabbaabbaabbaabbaabbaabba"};
    static const double want[] = {0, 0.69314718055994531};
    snprintf(path, sizeof path, "%s/t", dir);
    for (int i = 0; i < 2; i++) {
        test_file_write(path, texts[i], strlen(texts[i]));
        ck_assert_double_eq_tol(entropy_of(&config, CADRE_SPLIT_TRAIN), want[i], 1e-12);
    }
    struct cadre_dataset *set = NULL;
    struct cadre_error err = {0};
    double nats = 0;
    ck_assert_int_eq(cadre_dataset_open(&config, &set, NULL), CADRE_OK);
    ck_assert_int_eq(cadre_dataset_bigram_entropy(set, CADRE_SPLIT_VALID, &nats, &err),
                     CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, "no pair"), "%s", err.text);
    ck_assert_str_eq(cadre_dataset_class_name(set, 0), "?");
    cadre_dataset_close(set);
    test_tmpdir_destroy(dir);
}
END_TEST

/* Against a plain table over the same pairs, on real text. */
START_TEST(entropy_of_text_equals_a_table)
{
    const char *text = test_data(_i, "text/tinyshakespeare.txt");
    struct cadre_dataset_config config = {
        .format = "text", .path = text, .context = 50, .valid_fraction = 0.1};
    struct cadre_dataset *set = NULL;
    struct cadre_dataset_info info;
    static double pairs[256][256], firsts[256];
    int32_t inputs[50], targets[50];
    double sum = 0, total = 0, nats = 0;
    ck_assert_int_eq(cadre_dataset_open(&config, &set, NULL), CADRE_OK);
    cadre_dataset_info(set, &info);
    for (uint64_t i = 0; i < info.valid_samples; i++) {
        cadre_dataset_sample(set, CADRE_SPLIT_VALID, i, inputs, targets, NULL);
        for (int t = 0; t < 50; t++) {
            pairs[inputs[t]][targets[t]]++;
            firsts[inputs[t]]++;
        }
    }
    for (int a = 0; a < 256; a++)
        for (int b = 0; b < 256; b++)
            if (pairs[a][b] > 0) {
                sum -= pairs[a][b] * log(pairs[a][b] / firsts[a]);
                total += pairs[a][b];
            }
    ck_assert_int_eq(cadre_dataset_bigram_entropy(set, CADRE_SPLIT_VALID, &nats, NULL),
                     CADRE_OK);
    ck_assert_double_eq_tol(nats, sum / total, 1e-12);
    ck_assert_double_eq_tol(nats, _i ? 2.373550 : 2.255480, 1e-6);
    cadre_dataset_close(set);
}
END_TEST

START_TEST(mitdb_class_counts_and_entropy)
{
    const char *folder = test_data(_i, "mitdb");
    struct cadre_dataset_config config = {.format = "wfdb",
                                          .path = folder,
                                          .lead = "MLII",
                                          .task = "beats",
                                          .valid_records = "119, 209",
                                          .window = 256,
                                          .levels = 64,
                                          .range_mv = 2.5};
    /* N S V F Q of records 119 and 209, less the beats without a whole window. */
    static const uint64_t valid[][5] = {{248, 1, 40, 0, 0}, {4164, 383, 445, 0, 0}};
    struct cadre_dataset *set = NULL;
    uint64_t counts[5];
    ck_assert_int_eq(cadre_dataset_open(&config, &set, NULL), CADRE_OK);
    cadre_dataset_class_counts(set, CADRE_SPLIT_VALID, counts);
    ck_assert_mem_eq(counts, valid[_i], sizeof valid[_i]);
    ck_assert_str_eq(cadre_dataset_class_name(set, 4), "Q");
    ck_assert_str_eq(cadre_dataset_class_name(set, 5), "?");
    cadre_dataset_close(set);
    config.task = "vbd";
    ck_assert_int_eq(cadre_dataset_open(&config, &set, NULL), CADRE_OK);
    cadre_dataset_class_counts(set, CADRE_SPLIT_VALID, counts);
    ck_assert_uint_eq(counts[0], valid[_i][0] + valid[_i][1]);
    ck_assert_uint_eq(counts[1], valid[_i][2]);
    ck_assert_str_eq(cadre_dataset_class_name(set, 1), "ventricular");
    cadre_dataset_close(set);
    config.task = "foundation";
    double nats = entropy_of(&config, CADRE_SPLIT_VALID);
    printf("bigram entropy of 119 and 209 (256 samples, 64 levels): %.6f nats\n", nats);
    ck_assert_double_eq_tol(nats, _i ? 0.840219 : 0.813228, 1e-5);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("dataset_stats");
    TCase *tc = tcase_create("dataset_stats");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, entropy_of_known_streams);
    tcase_add_loop_test(tc, entropy_of_text_equals_a_table, 0, test_data_sets("text"));
    tcase_add_loop_test(tc, mitdb_class_counts_and_entropy, 0, test_data_sets("mitdb"));
    suite_add_tcase(suite, tc);
    return suite;
}
