/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/base/rng.h"
#include "core/data/chat/packing.h"
#include "tests/support/check_main.h"

START_TEST(the_best_open_window)
{
    const int64_t lengths[] = {6, 5, 4, 5, 10, 0, 1};
    const uint64_t member[] = {0, 2, 5, 1, 3, 4, 6}, first[] = {0, 3, 5, 6, 7};
    struct cadre_packing packing;
    ck_assert_int_eq(cadre_packing_init(lengths, 7, 10, &packing), CADRE_OK);
    ck_assert_uint_eq(packing.windows, 4);
    ck_assert_mem_eq(packing.first, first, sizeof first);
    ck_assert_mem_eq(packing.member, member, sizeof member);
    cadre_packing_fini(&packing);
    ck_assert_int_eq(cadre_packing_init(lengths, 7, 0, &packing), CADRE_OK);
    ck_assert_uint_eq(packing.windows, 7);
    for (uint64_t i = 0; i < 7; i++) {
        ck_assert_uint_eq(packing.first[i], i);
        ck_assert_uint_eq(packing.member[i], i);
    }
    cadre_packing_fini(&packing);
    ck_assert_int_eq(cadre_packing_init(NULL, 0, 10, &packing), CADRE_OK);
    ck_assert_uint_eq(packing.windows, 0);
    cadre_packing_fini(&packing);
}
END_TEST

/* Of many random records each is in one window, none is overfull, and little is left.
 */
START_TEST(every_record_once)
{
    enum { N = 20000, CAPACITY = 512 };
    static int64_t lengths[N];
    static bool seen[N];
    const uint64_t key = cadre_rng_key(3, "lengths");
    struct cadre_packing packing;
    int64_t sum = 0;
    for (uint64_t i = 0; i < N; i++)
        sum += lengths[i] = 1 + (int64_t)cadre_rng_below(key, i, CAPACITY * 3 / 4);
    ck_assert_int_eq(cadre_packing_init(lengths, N, CAPACITY, &packing), CADRE_OK);
    for (uint64_t w = 0; w < packing.windows; w++) {
        int64_t used = 0;
        ck_assert_uint_lt(packing.first[w], packing.first[w + 1]);
        for (uint64_t m = packing.first[w]; m < packing.first[w + 1]; m++) {
            const uint64_t record = packing.member[m];
            ck_assert(!seen[record]);
            seen[record] = true;
            used += lengths[record];
        }
        ck_assert_int_le(used, CAPACITY);
    }
    ck_assert_uint_eq(packing.first[packing.windows], N);
    ck_assert_double_gt((double)sum / (double)packing.windows / CAPACITY, 0.95);
    cadre_packing_fini(&packing);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("packing");
    TCase *tc = tcase_create("packing");
    tcase_add_test(tc, the_best_open_window);
    tcase_add_test(tc, every_record_once);
    suite_add_tcase(s, tc);
    return s;
}
