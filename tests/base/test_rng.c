/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/check_main.h"

/* The known-answer vectors published with Random123 (kat_vectors, philox4x32 10). */
START_TEST(philox_known_answers)
{
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } kat[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof kat / sizeof kat[0]; i++) {
        uint32_t out[4];
        cadre_rng_philox(kat[i].key, kat[i].counter, out);
        ck_assert_mem_eq(out, kat[i].out, sizeof out);
    }
    uint32_t out[4];
    cadre_rng_block(0, 0, out);
    ck_assert_mem_eq(out, kat[0].out, sizeof out);
}
END_TEST

START_TEST(keys_differ_by_seed_and_name)
{
    ck_assert_uint_ne(cadre_rng_key(1, "wte"), cadre_rng_key(2, "wte"));
    ck_assert_uint_ne(cadre_rng_key(1, "wte"), cadre_rng_key(1, "wpe"));
    ck_assert_uint_eq(cadre_rng_key(1, "wte"), cadre_rng_key(1, "wte"));
}
END_TEST

START_TEST(uniform_is_open_and_flat)
{
    enum { N = 200000, BINS = 16 };
    uint64_t key = cadre_rng_key(7, "uniform");
    int count[BINS] = {0};
    double sum = 0;
    for (int i = 0; i < N; i++) {
        double u = cadre_rng_uniform(key, (uint64_t)i);
        ck_assert(u > 0 && u < 1);
        sum += u;
        count[(int)(u * BINS)]++;
    }
    ck_assert_double_eq_tol(sum / N, 0.5, 5 * sqrt(1.0 / 12 / N));
    double chi2 = 0;
    for (int b = 0; b < BINS; b++)
        chi2 += pow(count[b] - N / BINS, 2) / (N / BINS);
    ck_assert_double_lt(chi2, 45); /* 15 degrees of freedom: p < 1e-4 */
}
END_TEST

START_TEST(normal_has_its_moments)
{
    enum { N = 200000 };
    uint64_t key = cadre_rng_key(7, "normal");
    double m[5] = {0};
    for (int i = 0; i < N; i++) {
        double z = cadre_rng_normal(key, (uint64_t)i);
        ck_assert(isfinite(z));
        for (int p = 1; p <= 4; p++)
            m[p] += pow(z, p) / N;
    }
    ck_assert_double_eq_tol(m[1], 0, 5 / sqrt(N));
    ck_assert_double_eq_tol(m[2], 1, 5 * sqrt(2.0 / N));
    ck_assert_double_eq_tol(m[3], 0, 5 * sqrt(15.0 / N));
    ck_assert_double_eq_tol(m[4], 3, 5 * sqrt(96.0 / N));
}
END_TEST

/* Elements may be drawn in any order and from any shard. */
START_TEST(element_alone_decides)
{
    uint64_t key = cadre_rng_key(3, "order");
    double forward[64];
    for (uint64_t i = 0; i < 64; i++)
        forward[i] = cadre_rng_normal(key, i);
    for (uint64_t i = 64; i-- > 0;) {
        double again = cadre_rng_normal(key, i);
        ck_assert_mem_eq(&again, &forward[i], sizeof again);
    }
}
END_TEST

START_TEST(below_is_in_range_and_flat)
{
    static const uint64_t sizes[] = {1,         2, 3, 10, 1000003, (1ull << 63) + 1,
                                     UINT64_MAX};
    uint64_t key = cadre_rng_key(5, "below");
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (uint64_t i = 0; i < 2000; i++)
            ck_assert_uint_lt(cadre_rng_below(key, i, sizes[s]), sizes[s]);
    int count[3] = {0};
    for (uint64_t i = 0; i < 30000; i++)
        count[cadre_rng_below(key, i, 3)]++;
    for (int b = 0; b < 3; b++)
        ck_assert_int_lt(abs(count[b] - 10000), 500);
}
END_TEST

START_TEST(permute_is_a_bijection)
{
    enum { MAX = 5000 };
    static unsigned char seen[MAX];
    for (uint64_t n = 1; n <= MAX; n = n < 70 ? n + 1 : n * 3 / 2) {
        uint64_t key = cadre_rng_key(n, "permute");
        memset(seen, 0, sizeof seen);
        for (uint64_t i = 0; i < n; i++) {
            uint64_t j = cadre_rng_permute(key, i, n);
            ck_assert_uint_lt(j, n);
            ck_assert_uint_eq(seen[j], 0);
            seen[j] = 1;
        }
    }
}
END_TEST

/* Over keys, every index reaches every position about equally often; large n works. */
START_TEST(permute_mixes)
{
    enum { N = 10, KEYS = 20000 };
    int count[N][N] = {{0}};
    for (uint64_t k = 0; k < KEYS; k++)
        for (uint64_t i = 0; i < N; i++)
            count[i][cadre_rng_permute(cadre_rng_key(k, "mix"), i, N)]++;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            ck_assert_int_lt(abs(count[i][j] - KEYS / N), 260);

    uint64_t n = 50000000000ull;
    double moved = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t j = cadre_rng_permute(9, i, n);
        ck_assert_uint_lt(j, n);
        moved += (double)j / (double)n / 1000;
    }
    ck_assert_double_eq_tol(moved, 0.5, 0.05);
    ck_assert_uint_lt(cadre_rng_permute(9, 12345, UINT64_MAX), UINT64_MAX);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("rng");
    TCase *tc = tcase_create("rng");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, philox_known_answers);
    tcase_add_test(tc, keys_differ_by_seed_and_name);
    tcase_add_test(tc, uniform_is_open_and_flat);
    tcase_add_test(tc, normal_has_its_moments);
    tcase_add_test(tc, element_alone_decides);
    tcase_add_test(tc, below_is_in_range_and_flat);
    tcase_add_test(tc, permute_is_a_bijection);
    tcase_add_test(tc, permute_mixes);
    suite_add_tcase(s, tc);
    return s;
}
