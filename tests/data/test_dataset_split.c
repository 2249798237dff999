/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/log.h"
#include "core/data/dataset.h"
#include "tests/data/records.h"
#include "tests/support/check_main.h"

static char *dir;
static struct cadre_dataset_config config;

static void setup(void)
{
    char sub[1200];
    dir = test_tmpdir();
    cadre_log_set_level(CADRE_LOG_ERROR);
    for (int r = 0; r < 8; r++) {
        char name[24];
        snprintf(name, sizeof name, "r%d", r);
        test_write_record(dir, name, "A", 100, r);
    }
    test_write_record(dir, "other", "B", 100, 0);
    snprintf(sub, sizeof sub, "%s/sub", dir);
    ck_assert_int_eq(mkdir(sub, 0700), 0);
    test_write_record(sub, "r1", "A", 100, 9);
    config = (struct cadre_dataset_config){.format = "wfdb",
                                           .path = dir,
                                           .lead = "A",
                                           .task = "vbd",
                                           .window = 4,
                                           .levels = 8,
                                           .range_mv = 1};
}

static void teardown(void)
{
    test_tmpdir_destroy(dir);
}

/* Names of the validation records, in order, each with a blank after it. */
static void valid_names(char *text, size_t size, uint64_t *train, uint64_t *valid)
{
    struct cadre_dataset *set = NULL;
    struct cadre_dataset_info info;
    struct cadre_error err = {0};
    ck_assert_msg(cadre_dataset_open(&config, &set, &err) == CADRE_OK, "%s", err.text);
    cadre_dataset_info(set, &info);
    text[0] = '\0';
    for (uint64_t r = 0; r < info.records; r++) {
        enum cadre_data_split split = CADRE_SPLIT_TRAIN;
        const char *name = cadre_dataset_record(set, r, &split);
        size_t used = strlen(text);
        if (split == CADRE_SPLIT_VALID)
            snprintf(text + used, size - used, "%s ", name);
    }
    enum cadre_data_split split;
    ck_assert_ptr_null(cadre_dataset_record(set, info.records, &split));
    *train = info.train_samples;
    *valid = info.valid_samples;
    cadre_dataset_close(set);
}

START_TEST(by_name)
{
    char names[200];
    uint64_t train, valid;
    config.valid_records = "r3, r5";
    config.valid_fraction = 0.9; /* names win */
    valid_names(names, sizeof names, &train, &valid);
    ck_assert_str_eq(names, "r3 r5 ");
    ck_assert(train == 7 * 4 && valid == 2 * 4);
    config.valid_records = " r1,"; /* with its namesake in the folder below */
    valid_names(names, sizeof names, &train, &valid);
    ck_assert_str_eq(names, "r1 sub/r1 ");
    config.valid_records = "sub/r1";
    valid_names(names, sizeof names, &train, &valid);
    ck_assert_str_eq(names, "sub/r1 ");
}
END_TEST

START_TEST(by_fraction_and_seed)
{
    char names[200], again[200];
    uint64_t train, valid, differ = 0;
    config.valid_fraction = 0;
    valid_names(names, sizeof names, &train, &valid);
    ck_assert_str_eq(names, "");
    config.valid_fraction = 0.01; /* at least one */
    valid_names(names, sizeof names, &train, &valid);
    ck_assert_uint_eq(valid, 4);
    config.valid_fraction = 0.99; /* never all */
    valid_names(names, sizeof names, &train, &valid);
    ck_assert(train == 4 && valid == 8 * 4);
    config.valid_fraction = 0.33;
    valid_names(names, sizeof names, &train, &valid);
    ck_assert(train == 6 * 4 && valid == 3 * 4);
    valid_names(again, sizeof again, &train, &valid);
    ck_assert_str_eq(names, again);
    for (config.seed = 1; config.seed < 6; config.seed++) {
        valid_names(again, sizeof again, &train, &valid);
        ck_assert_uint_eq(valid, 3 * 4);
        differ += strcmp(names, again) != 0;
    }
    ck_assert_uint_gt(differ, 0);
}
END_TEST

START_TEST(refuses_unknown_names)
{
    static const char *const wrong[] = {"r9", "r1, nobody", "r", "other", "ub/r1"};
    for (int i = 0; i < 5; i++) {
        struct cadre_dataset *set = NULL;
        struct cadre_error err = {0};
        config.valid_records = wrong[i];
        ck_assert_int_eq(cadre_dataset_open(&config, &set, &err), CADRE_E_INVALID);
        ck_assert_msg(strstr(err.text, "data.valid_records"), "%s", err.text);
    }
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("dataset_split");
    TCase *tc = tcase_create("dataset_split");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, by_name);
    tcase_add_test(tc, by_fraction_and_seed);
    tcase_add_test(tc, refuses_unknown_names);
    suite_add_tcase(suite, tc);
    return suite;
}
