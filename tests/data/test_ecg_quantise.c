/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/data/wfdb/ecg_quantise.h"
#include "tests/support/check_main.h"

static int compare_ints(const void *a, const void *b)
{
    return *(const int32_t *)a - *(const int32_t *)b;
}

START_TEST(median_equals_sorting)
{
    unsigned state = 3;
    for (int round = 0; round < 2000; round++) {
        int32_t values[60] = {0}, sorted[60] = {0};
        int64_t n = 1 + round % 60;
        for (int64_t i = 0; i < n; i++) {
            state = state * 1664525u + 1013904223u;
            values[i] = sorted[i] = (int32_t)((state >> 16) % (round % 7 + 2)) - 2;
        }
        qsort(sorted, (size_t)n, sizeof sorted[0], compare_ints);
        double want = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0;
        ck_assert(cadre_ecg_median(values, n) == want);
    }
}
END_TEST

START_TEST(tokens_are_uniform_and_clipped)
{
    ck_assert_uint_eq(cadre_ecg_token(-9, 2.5, 64), 0);
    ck_assert_uint_eq(cadre_ecg_token(-2.5, 2.5, 64), 0);
    ck_assert_uint_eq(cadre_ecg_token(0, 2.5, 64), 32);
    ck_assert_uint_eq(cadre_ecg_token(-0.0001, 2.5, 64), 31);
    ck_assert_uint_eq(cadre_ecg_token(2.5, 2.5, 64), 63);
    ck_assert_uint_eq(cadre_ecg_token(1e300, 2.5, 64), 63);
    ck_assert_uint_eq(cadre_ecg_token(1, 1, 65536), 65535);
    for (int level = 0; level < 10; level++)
        ck_assert_uint_eq(cadre_ecg_token(-1 + 0.2 * level + 0.1, 1, 10),
                          (unsigned)level);
    for (unsigned token = 0; token < 64; token++)
        ck_assert_uint_eq(
            cadre_ecg_token(cadre_ecg_mv((uint16_t)token, 2.5, 64), 2.5, 64), token);
    ck_assert_double_eq(cadre_ecg_mv(0, 1, 2), -0.5);
    ck_assert_double_eq(cadre_ecg_mv(1, 1, 2), 0.5);
}
END_TEST

/* Values that are counted against the same ones as of a format of too many to count. */
START_TEST(counting_gives_the_tokens_of_sorting)
{
    enum { COUNT = 5003 };
    static const int32_t formats[] = {212, 310, 80, 16};
    static int32_t samples[COUNT];
    static uint16_t counted[COUNT], sorted[COUNT];
    const struct cadre_ecg_scale scale = {
        .gain = 187.3, .unit_mv = 1, .range_mv = 1.7, .levels = 333};
    unsigned state = 11 + (unsigned)_i;
    for (int f = 0; f < 4; f++) {
        struct cadre_wfdb_range range, wide;
        int64_t few = 0, many = 0, n = COUNT - 1 - _i;
        cadre_wfdb_range(formats[f], &range);
        cadre_wfdb_range(24, &wide);
        wide.missing = range.missing;
        for (int64_t t = 0; t < n; t++) {
            state = state * 1664525u + 1013904223u;
            int64_t span = _i % 2 ? range.high - range.low + 1 : 7;
            samples[t] = (int32_t)(range.low + (int64_t)(state >> 8) % span);
        }
        ck_assert_int_eq(cadre_ecg_quantise(samples, n, &range, &scale, counted, &few),
                         CADRE_OK);
        ck_assert_int_eq(cadre_ecg_quantise(samples, n, &wide, &scale, sorted, &many),
                         CADRE_OK);
        ck_assert_int_eq(few, many);
        ck_assert_mem_eq(counted, sorted, (size_t)n * sizeof *sorted);
    }
}
END_TEST

START_TEST(a_lead_may_be_missing_whole)
{
    const int32_t samples[] = {-2048, -2048, -2048};
    const struct cadre_ecg_scale scale = {200, 1, 1, 64};
    struct cadre_wfdb_range range;
    uint16_t tokens[3] = {9, 9, 9};
    int64_t missing = 0;
    cadre_wfdb_range(212, &range);
    ck_assert_int_eq(range.low, -2048);
    ck_assert_int_eq(range.high, 2047);
    ck_assert_int_eq(cadre_ecg_quantise(samples, 3, &range, &scale, tokens, &missing),
                     CADRE_OK);
    ck_assert_int_eq(missing, 3);
    ck_assert_uint_eq(tokens[2], 0);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("ecg_quantise");
    TCase *tc = tcase_create("ecg_quantise");
    tcase_add_test(tc, median_equals_sorting);
    tcase_add_test(tc, tokens_are_uniform_and_clipped);
    tcase_add_loop_test(tc, counting_gives_the_tokens_of_sorting, 0, 6);
    tcase_add_test(tc, a_lead_may_be_missing_whole);
    suite_add_tcase(suite, tc);
    return suite;
}
