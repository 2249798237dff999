/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/data/wfdb/ecg.h"
#include "core/data/wfdb/wfdb_annotation.h"
#include "core/data/wfdb/wfdb_header.h"
#include "core/data/wfdb/wfdb_signal.h"
#include "tests/data/records.h"
#include "tests/support/check_main.h"

static char *dir;

static void setup(void)
{
    dir = test_tmpdir();
    cadre_log_set_level(CADRE_LOG_ERROR);
}

static void teardown(void)
{
    test_tmpdir_destroy(dir);
}

static int compare_ints(const void *a, const void *b)
{
    return *(const int32_t *)a - *(const int32_t *)b;
}

/* Against the definition, from the readers: windows around every beat that has one. */
START_TEST(mitdb_windows_equal_the_definition)
{
    static const int windows[] = {128, 256, 512, 1024};
    const char *folder = test_data(_i / 4, "mitdb");
    const char *expected = test_data(_i / 4, "mitdb/EXPECTED.json");
    const int window = windows[_i % 4];
    struct cadre_ecg_config config = {folder, "MLII", window, 64, 2.5};
    struct cadre_cache cache = {0};
    struct cadre_error err = {0};
    char key[24];
    json_t *all = json_load_file(expected, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_msg(cadre_ecg_open(&config, dir, &cache, &err) == CADRE_OK, "%s",
                  err.text);
    ck_assert_uint_eq(cache.count, 7);
    snprintf(key, sizeof key, "%d", window);
    for (uint64_t r = 0; r < cache.count; r++) {
        json_t *want = json_object_get(json_object_get(all, cache.records[r].name),
                                       "beats_with_full_window");
        ck_assert_uint_eq(cache.records[r].label_count,
                          (uint64_t)json_integer_value(json_object_get(want, key)));
        ck_assert_uint_eq(cache.records[r].token_count,
                          cache.records[r].label_count * (uint64_t)window);
    }
    cadre_cache_fini(&cache);
    json_decref(all);
}
END_TEST

START_TEST(tokens_of_one_record_equal_the_definition)
{
    char path[1200];
    const char *folder = test_data(_i, "mitdb");
    snprintf(path, sizeof path, "%s/208.hea", folder);
    struct cadre_ecg_config config = {path, "V1", 256, 100, 1.5};
    struct cadre_cache cache = {0};
    struct cadre_wfdb_header h = {0};
    struct cadre_wfdb_annotations beats = {0};
    int32_t *x = NULL;
    int64_t n = 0;
    uint64_t w = 0;
    ck_assert_int_eq(cadre_ecg_open(&config, dir, &cache, NULL), CADRE_OK);
    ck_assert_uint_eq(cache.count, 1);
    ck_assert_int_eq(cadre_wfdb_header_read(path, &h, NULL), CADRE_OK);
    ck_assert_int_eq(cadre_wfdb_signal_read(path, &h, 1, &x, &n, NULL), CADRE_OK);
    int32_t *sorted = malloc((size_t)n * sizeof *sorted);
    memcpy(sorted, x, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, compare_ints);
    double median = ((sorted[n / 2 - 1] + sorted[n / 2]) / 2.0 - 1024) / 200;
    snprintf(path, sizeof path, "%s/208.atr", folder);
    ck_assert_int_eq(cadre_wfdb_annotations_read(path, &beats, NULL), CADRE_OK);
    for (size_t i = 0; i < beats.count; i++) {
        int64_t first = beats.items[i].time - 128;
        if (cadre_wfdb_aami_class(beats.items[i].code) < 0 || first < 0 ||
            first + 256 > n)
            continue;
        for (int64_t t = 0; t < 256; t++) {
            double mv = (x[first + t] - 1024) / 200.0 - median;
            mv = mv < -1.5 ? -1.5 : mv > 1.5 ? 1.5 : mv;
            double exact = (mv + 1.5) / 3 * 100;
            int want = exact >= 100 ? 99 : (int)exact;
            int got = cache.records[0].tokens[w * 256 + (uint64_t)t];
            /* At a step's edge the last bit of the millivolts decides. */
            if (fabs(exact - round(exact)) > 1e-9)
                ck_assert_int_eq(got, want);
            else
                ck_assert_int_le(abs(got - want), 1);
        }
        ck_assert_uint_eq(cache.records[0].labels[w++], beats.items[i].code);
    }
    ck_assert_uint_eq(w, cache.records[0].label_count);
    free(sorted);
    free(x);
    cadre_wfdb_annotations_fini(&beats);
    cadre_wfdb_header_fini(&h);
    cadre_cache_fini(&cache);
}
END_TEST

START_TEST(records_without_the_lead_are_skipped)
{
    const char *folder = test_sample("mitdb");
    struct cadre_ecg_config config = {folder, "V5", 256, 64, 2.5};
    struct cadre_cache cache = {0};
    struct cadre_error err = {0};
    ck_assert_int_eq(cadre_ecg_open(&config, dir, &cache, NULL), CADRE_OK);
    ck_assert_uint_eq(cache.count, 1);
    ck_assert_str_eq(cache.records[0].name, "100");
    cadre_cache_fini(&cache);
    config.lead = "aVR";
    ck_assert_int_eq(cadre_ecg_open(&config, dir, &cache, &err), CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, "aVR") && strstr(err.text, "MLII, V1"), "%s",
                  err.text);
}
END_TEST

START_TEST(cache_follows_files_and_options)
{
    struct cadre_ecg_config config = {dir, "A", 4, 8, 1};
    struct cadre_cache cache = {0};
    struct cadre_error err = {0};
    char where[1300];
    snprintf(where, sizeof where, "%s/cache", dir);
    test_write_record(dir, "r1", "A", 100, 50);
    ck_assert_msg(cadre_ecg_open(&config, where, &cache, &err) == CADRE_OK, "%s",
                  err.text);
    ck_assert_uint_eq(cache.count, 1);
    ck_assert_uint_eq(cache.records[0].label_count, 4);
    uint64_t hash = cache.content_hash;
    cadre_cache_fini(&cache);
    config.levels = 16;
    ck_assert_int_eq(cadre_ecg_open(&config, where, &cache, NULL), CADRE_OK);
    ck_assert_uint_ne(cache.content_hash, hash);
    cadre_cache_fini(&cache);
    config.levels = 8;
    test_write_record(dir, "r2", "A", 100, 60);
    ck_assert_int_eq(cadre_ecg_open(&config, where, &cache, NULL), CADRE_OK);
    ck_assert_uint_eq(cache.count, 2);
    cadre_cache_fini(&cache);
    test_write_record(dir, "r2", "B", 100, 60);
    ck_assert_int_eq(cadre_ecg_open(&config, where, &cache, NULL), CADRE_OK);
    ck_assert_uint_eq(cache.count, 1);
    ck_assert_uint_eq(cache.content_hash, hash);
    cadre_cache_fini(&cache);
}
END_TEST

START_TEST(missing_samples_drop_their_windows)
{
    struct cadre_ecg_config config = {dir, "A", 4, 8, 1};
    struct cadre_cache cache = {0};
    char path[1300];
    test_write_record(dir, "r1", "A", 100, 50);
    snprintf(path, sizeof path, "%s/r1.dat", dir);
    FILE *f = fopen(path, "r+b");
    fseek(f, 2 * 21, SEEK_SET); /* within the window of the beat at 20 */
    fwrite("\x00\x80", 1, 2, f);
    fclose(f);
    test_fix_checksum(dir, "r1", "A", 100);
    ck_assert_int_eq(cadre_ecg_open(&config, NULL, &cache, NULL), CADRE_OK);
    ck_assert_uint_eq(cache.records[0].label_count, 3);
    cadre_cache_fini(&cache);
}
END_TEST

static uint64_t hash_with(const struct cadre_ecg_config *config, int cores)
{
    struct cadre_cache cache = {0};
    struct cadre_error err = {0};
    cpu_set_t own, some;
    ck_assert_int_eq(sched_getaffinity(0, sizeof own, &own), 0);
    CPU_ZERO(&some);
    for (size_t c = 0; c < CPU_SETSIZE && CPU_COUNT(&some) < cores; c++)
        if (CPU_ISSET(c, &own))
            CPU_SET(c, &some);
    ck_assert_int_eq(sched_setaffinity(0, sizeof some, &some), 0);
    ck_assert_msg(cadre_ecg_open(config, NULL, &cache, &err) == CADRE_OK, "%s",
                  err.text);
    ck_assert_int_eq(sched_setaffinity(0, sizeof own, &own), 0);
    uint64_t hash = cache.content_hash;
    ck_assert_uint_eq(cache.count, 37);
    for (uint64_t r = 1; r < cache.count; r++)
        ck_assert_int_lt(strcmp(cache.records[r - 1].name, cache.records[r].name), 0);
    cadre_cache_fini(&cache);
    return hash;
}

START_TEST(cores_share_the_records_and_change_nothing)
{
    struct cadre_ecg_config config = {dir, "A", 4, 4096, 8};
    struct cadre_error err = {0};
    char name[16], path[1300];
    for (int r = 0; r < 40; r++) {
        snprintf(name, sizeof name, "r%02d", r);
        test_write_record(dir, name, r % 13 == 5 ? "B" : "A", 100 + 7 * r, 11 * r);
    }
    uint64_t hash = hash_with(&config, 1);
    for (int cores = 2; cores <= 4; cores++)
        ck_assert_uint_eq(hash_with(&config, cores), hash);
    for (int r = 37; r > 6; r -= 15) { /* the first error in the list is reported */
        snprintf(path, sizeof path, "%s/r%02d.atr", dir, r);
        remove(path);
        snprintf(path, sizeof path, "r%02d.atr", r);
        struct cadre_cache cache = {0};
        err = (struct cadre_error){0};
        ck_assert_int_eq(cadre_ecg_open(&config, NULL, &cache, &err), CADRE_E_IO);
        ck_assert_msg(strstr(err.text, path), "%s", err.text);
    }
}
END_TEST

static cadre_status open_with(struct cadre_ecg_config config, struct cadre_error *err)
{
    struct cadre_cache cache = {0};
    *err = (struct cadre_error){0};
    cadre_status rc = cadre_ecg_open(&config, NULL, &cache, err);
    if (rc == CADRE_OK)
        cadre_cache_fini(&cache);
    return rc;
}

START_TEST(refuses_wrong_options_and_files)
{
    struct cadre_error err;
    char path[1300], command[1400];
    test_write_record(dir, "r1", "A", 100, 50);
#define REFUSED(rc, words, ...)                                                        \
    do {                                                                               \
        ck_assert_int_eq(open_with((struct cadre_ecg_config){__VA_ARGS__}, &err), rc); \
        ck_assert_msg(strstr(err.text, words), "%s", err.text);                        \
    } while (0)
    REFUSED(CADRE_E_INVALID, "data.lead", dir, "", 4, 8, 1);
    REFUSED(CADRE_E_INVALID, "data.lead", dir, NULL, 4, 8, 1);
    REFUSED(CADRE_E_INVALID, "data.window", dir, "A", 1, 8, 1);
    REFUSED(CADRE_E_INVALID, "data.window", dir, "A", INT64_MAX, 8, 1);
    REFUSED(CADRE_E_INVALID, "data.levels", dir, "A", 4, 1, 1);
    REFUSED(CADRE_E_INVALID, "data.levels", dir, "A", 4, 65537, 1);
    REFUSED(CADRE_E_INVALID, "data.range_mv", dir, "A", 4, 8, 0);
    REFUSED(CADRE_E_INVALID, "data.range_mv", dir, "A", 4, 8, NAN);
    REFUSED(CADRE_E_INVALID, "/nowhere", "/nowhere", "A", 4, 8, 1);
    ck_assert_int_eq(open_with((struct cadre_ecg_config){dir, "A", 65536, 8, 1}, &err),
                     CADRE_OK); /* no window fits: an empty record, no error */
    test_write_record(dir, "r2", "A", 100, 50);
    snprintf(command, sizeof command, "sed -i 's/ 360 / 250 /' '%s/r2.hea'", dir);
    ck_assert_int_eq(system(command), 0);
    REFUSED(CADRE_E_INVALID, "samples per second", dir, "A", 4, 8, 1);
    snprintf(command, sizeof command, "sed -i 's/ 250 / 360 /;s/mV/mmHg/' '%s/r2.hea'",
             dir);
    ck_assert_int_eq(system(command), 0);
    REFUSED(CADRE_E_INVALID, "mmHg", dir, "A", 4, 8, 1);
    test_write_record(dir, "r2", "A", 100, 50);
    snprintf(path, sizeof path, "%s/r2.atr", dir);
    remove(path);
    REFUSED(CADRE_E_IO, "r2.atr", dir, "A", 4, 8, 1);
    test_write_record(dir, "r2", "A", 100, 50);
    snprintf(path, sizeof path, "%s/r2.dat", dir);
    remove(path);
    REFUSED(CADRE_E_IO, "r2.dat", dir, "A", 4, 8, 1);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("ecg");
    TCase *tc = tcase_create("ecg");
    const int sets = test_data_sets("mitdb");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, mitdb_windows_equal_the_definition, 0, 4 * sets);
    tcase_add_loop_test(tc, tokens_of_one_record_equal_the_definition, 0, sets);
    tcase_add_test(tc, records_without_the_lead_are_skipped);
    tcase_add_test(tc, cache_follows_files_and_options);
    tcase_add_test(tc, missing_samples_drop_their_windows);
    tcase_add_test(tc, cores_share_the_records_and_change_nothing);
    tcase_add_test(tc, refuses_wrong_options_and_files);
    suite_add_tcase(suite, tc);
    return suite;
}
