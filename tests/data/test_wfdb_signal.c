/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/data/wfdb/wfdb_signal.h"
#include "tests/support/check_main.h"

/* What rdsamp printed for the record that holds every format with extreme values. */
START_TEST(every_format_equals_rdsamp)
{
    const char *hea = test_sample("wfdb_vectors/binformats.hea");
    const char *gz = test_sample("wfdb_vectors/binformats.rdsamp.gz");
    struct cadre_wfdb_header h = {0};
    struct cadre_error err = {0};
    int32_t *samples[10];
    char command[1200];
    ck_assert_int_eq(cadre_wfdb_header_read(hea, &h, &err), CADRE_OK);
    ck_assert_int_eq(h.signals, 10);
    for (int s = 0; s < 10; s++) {
        int64_t count = 0;
        ck_assert_msg(cadre_wfdb_signal_read(hea, &h, s, &samples[s], &count, &err) ==
                          CADRE_OK,
                      "%s", err.text);
        ck_assert_int_eq(count, 499);
    }
    snprintf(command, sizeof command, "gzip -dc '%s'", gz);
    FILE *lines = popen(command, "r");
    ck_assert_ptr_nonnull(lines);
    for (int t = 0; t < 499; t++)
        for (int s = 0; s < 10; s++) {
            int value = 0;
            ck_assert_int_eq(fscanf(lines, "%d", &value), 1);
            ck_assert_msg(samples[s][t] == value, "signal %d sample %d: %d not %d", s,
                          t, samples[s][t], value);
        }
    ck_assert_int_eq(fgetc(lines) == EOF ? EOF : fscanf(lines, "%*d"), EOF);
    pclose(lines);
    for (int s = 0; s < 10; s++)
        free(samples[s]);
    cadre_wfdb_header_fini(&h);
}
END_TEST

/* The samples as int16 little-endian, through the system's own sha256sum. */
static void check_sha256(const int32_t *x, int64_t n, const char *want)
{
    char *dir = test_tmpdir(), path[1200], command[1300], got[65] = "";
    int16_t *raw = malloc((size_t)n * sizeof *raw);
    for (int64_t t = 0; t < n; t++)
        raw[t] = (int16_t)x[t];
    test_file_put(dir, "raw", raw, (size_t)n * sizeof *raw);
    snprintf(path, sizeof path, "%s/raw", dir);
    snprintf(command, sizeof command, "sha256sum '%s'", path);
    FILE *sum = popen(command, "r");
    ck_assert_ptr_nonnull(sum);
    ck_assert_int_eq(fscanf(sum, "%64s", got), 1);
    pclose(sum);
    ck_assert_str_eq(got, want);
    free(raw);
    test_tmpdir_destroy(dir);
}

START_TEST(mitdb_equals_expected)
{
    static const char *const names[] = {"100", "107", "109", "118",
                                        "119", "208", "209"};
    char file[64];
    const char *expected = test_data(_i / 7, "mitdb/EXPECTED.json");
    snprintf(file, sizeof file, "mitdb/%s.hea", names[_i % 7]);
    const char *hea = test_data(_i / 7, file);
    struct cadre_wfdb_header h = {0};
    struct cadre_error err = {0};
    json_t *all = json_load_file(expected, JSON_REJECT_DUPLICATES, NULL);
    json_t *want = json_object_get(all, names[_i % 7]);
    ck_assert_ptr_nonnull(want);
    ck_assert_int_eq(cadre_wfdb_header_read(hea, &h, &err), CADRE_OK);
    ck_assert_int_eq(h.samples, json_integer_value(json_object_get(want, "nsamp")));
    for (int s = 0; s < 2; s++) {
        int32_t *x = NULL;
        int64_t n = 0;
        ck_assert_msg(cadre_wfdb_signal_read(hea, &h, s, &x, &n, &err) == CADRE_OK,
                      "%s", err.text);
        int32_t low = x[0], high = x[0];
        uint32_t sum = 0;
        for (int64_t t = 0; t < n; t++) {
            low = x[t] < low ? x[t] : low;
            high = x[t] > high ? x[t] : high;
            sum += (uint32_t)x[t];
        }
        check_sha256(x, n,
                     json_string_value(json_array_get(
                         json_object_get(want, "sha256_int16le"), (size_t)s)));
#define WANT(key) json_integer_value(json_array_get(json_object_get(want, key), s))
        ck_assert_int_eq(x[0], WANT("init"));
        ck_assert_int_eq((int16_t)sum, WANT("cksum"));
        ck_assert_int_eq(low, WANT("min"));
        ck_assert_int_eq(high, WANT("max"));
        ck_assert_str_eq(
            h.signal[s].description,
            json_string_value(json_array_get(json_object_get(want, "leads"), s)));
        free(x);
    }
    cadre_wfdb_header_fini(&h);
    json_decref(all);
}
END_TEST

START_TEST(record_100_equals_rdsamp_excerpt)
{
    const char *hea = test_sample("mitdb/100.hea");
    const char *txt = test_sample("wfdb_vectors/100.sig1_f0.002_t30.rdsamp.txt");
    struct cadre_wfdb_header h = {0};
    int32_t *x = NULL;
    int64_t n = 0;
    int value = 0, t = 1, seen = 0; /* 0.002 s at 360 Hz is sample 1 */
    ck_assert_int_eq(cadre_wfdb_header_read(hea, &h, NULL), CADRE_OK);
    ck_assert_int_eq(cadre_wfdb_signal_read(hea, &h, 1, &x, &n, NULL), CADRE_OK);
    FILE *lines = fopen(txt, "r");
    ck_assert_ptr_nonnull(lines);
    for (; fscanf(lines, "%d", &value) == 1; seen++)
        ck_assert_int_eq(x[t++], value);
    ck_assert_int_eq(seen, 10799);
    fclose(lines);
    free(x);
    cadre_wfdb_header_fini(&h);
}
END_TEST

/* Two signals of format 16 in one file, behind 24 bytes, the second skewed by 3. */
START_TEST(offset_skew_and_interleaving)
{
    char *dir = test_tmpdir();
    char path[1200];
    int16_t raw[12 + 20];
    memset(raw, 0x55, sizeof raw);
    for (int t = 0; t < 10; t++) {
        raw[12 + 2 * t] = (int16_t)(t * 100);
        raw[13 + 2 * t] = (int16_t)(-t);
    }
    test_file_put(dir, "r.dat", raw, sizeof raw);
    const char *text = "r 2 100 10\nr.dat 16+24 200 12 0 0 4500 0 A\n"
                       "r.dat 16:3+24 200 12 0 0 -45 0 B\n";
    test_file_put(dir, "r.hea", text, strlen(text));
    snprintf(path, sizeof path, "%s/r.hea", dir);
    struct cadre_wfdb_header h = {0};
    struct cadre_error err = {0};
    int32_t *x = NULL;
    int64_t n = 0;
    ck_assert_int_eq(cadre_wfdb_header_read(path, &h, &err), CADRE_OK);
    ck_assert_int_eq(cadre_wfdb_signal_read(path, &h, 0, &x, &n, &err), CADRE_OK);
    ck_assert_int_eq(n, 10);
    for (int t = 0; t < 10; t++)
        ck_assert_int_eq(x[t], t * 100);
    free(x);
    ck_assert_msg(cadre_wfdb_signal_read(path, &h, 1, &x, &n, &err) == CADRE_OK, "%s",
                  err.text);
    ck_assert_int_eq(n, 7);
    for (int t = 0; t < 7; t++)
        ck_assert_int_eq(x[t], -(t + 3));
    free(x);
    h.samples = 0; /* the file's size decides */
    ck_assert_int_eq(cadre_wfdb_signal_read(path, &h, 0, &x, &n, &err), CADRE_OK);
    ck_assert_int_eq(n, 10);
    free(x);
    cadre_wfdb_header_fini(&h);
    test_tmpdir_destroy(dir);
}
END_TEST

static const struct {
    const char *header;
    cadre_status rc;
    const char *says;
} wrong[] = {
    {"r 1 100 5\nr.dat 16 200 12 0 7 10 0 A\n", CADRE_E_INVALID, "initial value"},
    {"r 1 100 5\nr.dat 16 200 12 0 0 11 0 A\n", CADRE_E_INVALID, "checksum"},
    {"r 1 100 6\nr.dat 16 200 12 0 0 10 0 A\n", CADRE_E_INVALID, "truncated"},
    {"r 1 100 281474976710656\nr.dat 16 200 12 0 0 10 0 A\n", CADRE_E_INVALID,
     "truncated"},
    {"r 1 100 5\nr.dat 16+100 200 12 0 0 10 0 A\n", CADRE_E_INVALID, "truncated"},
    {"r 1 100 0\nr.dat 16+281474976710656 200 12 0 0 10 0 A\n", CADRE_E_INVALID,
     "skew"},
    {"r 1 100 5\nr.dat 16:5 200 12 0 0 10 0 A\n", CADRE_E_INVALID, "skew"},
    {"r 1 100 5\nr.dat 16x2 200 12 0 0 10 0 A\n", CADRE_E_UNSUPPORTED, "per frame"},
    {"r 1 100 5\nr.dat 516 200 12 0 0 10 0 A\n", CADRE_E_UNSUPPORTED, "format 516"},
    {"r 1 100 5\nr.dat 0 200 12 0 0 10 0 A\n", CADRE_E_UNSUPPORTED, "format 0"},
    {"r 1 100 5\nnone.dat 16 200 12 0 0 10 0 A\n", CADRE_E_IO, "none.dat"},
    {"r 1 100 5\nsub 16 200 12 0 0 10 0 A\n", CADRE_E_INVALID, "regular file"},
    {"r 2 100 5\nr.dat 16 200 12 0 0 10 0 A\nr.dat 80 200\n", CADRE_E_INVALID, "share"},
};

START_TEST(refuses_wrong_files)
{
    static const int16_t raw[5] = {0, 1, 2, 3, 4};
    char *dir = test_tmpdir();
    char path[1200];
    struct cadre_wfdb_header h = {0};
    struct cadre_error err = {0};
    int32_t *x = NULL;
    int64_t n = 0;
    test_file_put(dir, "r.dat", raw, sizeof raw);
    test_file_put(dir, "r.hea", wrong[_i].header, strlen(wrong[_i].header));
    snprintf(path, sizeof path, "mkdir '%s/sub'", dir);
    ck_assert_int_eq(system(path), 0);
    snprintf(path, sizeof path, "%s/r.hea", dir);
    ck_assert_msg(cadre_wfdb_header_read(path, &h, &err) == CADRE_OK, "%s", err.text);
    ck_assert_int_eq(cadre_wfdb_signal_read(path, &h, 0, &x, &n, &err), wrong[_i].rc);
    ck_assert_msg(strstr(err.text, wrong[_i].says), "%s", err.text);
    ck_assert_ptr_null(x);
    cadre_wfdb_header_fini(&h);
    test_tmpdir_destroy(dir);
}
END_TEST

START_TEST(truncated_record_is_refused)
{
    const char *hea = test_sample("mitdb/100.hea");
    const char *dat = test_sample("mitdb/100.dat");
    char command[2300], path[1200];
    struct cadre_wfdb_header h = {0};
    struct cadre_error err = {0};
    int32_t *x = NULL;
    int64_t n = 0;
    char *dir = test_tmpdir();
    snprintf(command, sizeof command, "head -c 64799 '%s' > '%s/100.dat'", dat, dir);
    ck_assert_int_eq(system(command), 0);
    char *text = test_file_read(hea, NULL);
    test_file_put(dir, "100.hea", text, strlen(text));
    free(text);
    snprintf(path, sizeof path, "%s/100.hea", dir);
    ck_assert_int_eq(cadre_wfdb_header_read(path, &h, &err), CADRE_OK);
    ck_assert_int_eq(cadre_wfdb_signal_read(path, &h, 0, &x, &n, &err),
                     CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, "expected 21600 samples"), "%s", err.text);
    cadre_wfdb_header_fini(&h);
    test_tmpdir_destroy(dir);
}
END_TEST

START_TEST(missing_values)
{
    ck_assert(cadre_wfdb_is_missing(212, -2048));
    ck_assert(cadre_wfdb_is_missing(16, -32768));
    ck_assert(cadre_wfdb_is_missing(311, -512));
    ck_assert(!cadre_wfdb_is_missing(212, -2047));
    ck_assert(!cadre_wfdb_is_missing(8, -128));
    ck_assert(!cadre_wfdb_is_missing(999, 0));
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("wfdb_signal");
    TCase *tc = tcase_create("signal");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, every_format_equals_rdsamp);
    tcase_add_loop_test(tc, mitdb_equals_expected, 0, 7 * test_data_sets("mitdb"));
    tcase_add_test(tc, record_100_equals_rdsamp_excerpt);
    tcase_add_test(tc, offset_skew_and_interleaving);
    tcase_add_loop_test(tc, refuses_wrong_files, 0, sizeof wrong / sizeof wrong[0]);
    tcase_add_test(tc, truncated_record_is_refused);
    tcase_add_test(tc, missing_values);
    suite_add_tcase(suite, tc);
    return suite;
}
