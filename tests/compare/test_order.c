/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/timing/order.h"

#include <string.h>

#include "tests/support/check_main.h"

START_TEST(rounds_that_holm_needs)
{
    static const int wanted[] = {8, 8, 8, 8, 8, 8, 8, 8, 9, 9};
    for (size_t runs = 0; runs < 10; runs++)
        ck_assert_int_eq(cadre_rounds_wanted(runs, 0.05), wanted[runs]);
    ck_assert_int_eq(cadre_rounds_wanted(64, 0.05), 12);
    ck_assert_int_eq(cadre_rounds_needed(1, 0.05), 6);
    ck_assert_int_eq(cadre_rounds_needed(2, 0.05), 6);
    ck_assert_int_eq(cadre_rounds_needed(3, 0.05), 7); /* 2^-6 <= 0.025 */
    ck_assert_int_eq(cadre_rounds_needed(64, 0.05), 12);
}
END_TEST

START_TEST(every_run_twice_in_mirror)
{
    for (size_t n = 1; n <= 9; n++)
        for (int round = 0; round < 20; round++) {
            size_t order[18], one_way[9];
            int seen[9] = {0};
            cadre_round_order(7, round, n, true, order);
            cadre_round_order(7, round, n, false, one_way);
            ck_assert_mem_eq(order, one_way, n * sizeof *order);
            for (size_t i = 0; i < n; i++) {
                ck_assert_uint_lt(order[i], n);
                seen[order[i]]++;
                ck_assert_uint_eq(order[i], order[2 * n - 1 - i]);
            }
            for (size_t i = 0; i < n; i++)
                ck_assert_int_eq(seen[i], 1);
        }
}
END_TEST

/* Each of the 24 orders of four runs as often as the others: chi-squared of 23 degrees
 * of freedom, 49.7 is its 99.9 % point. The seeds are fixed. */
START_TEST(every_order_as_likely)
{
    int seen[256] = {0}, orders = 0;
    double chi = 0;
    for (int round = 1; round <= 2400; round++) {
        size_t o[4];
        cadre_round_order(15, round, 4, false, o);
        seen[o[0] | o[1] << 2 | o[2] << 4 | o[3] << 6]++;
    }
    for (int i = 0; i < 256; i++)
        if (seen[i]) {
            orders++;
            chi += (seen[i] - 100) * (seen[i] - 100) / 100.0;
        }
    ck_assert_int_eq(orders, 24);
    ck_assert_double_lt(chi, 49.7);
}
END_TEST

START_TEST(seed_and_round_decide)
{
    size_t a[16], b[16];
    cadre_round_order(1, 3, 16, false, a);
    cadre_round_order(1, 3, 16, false, b);
    ck_assert_mem_eq(a, b, sizeof a);
    cadre_round_order(2, 3, 16, false, b);
    ck_assert(memcmp(a, b, sizeof a) != 0);
    cadre_round_order(1, 4, 16, false, b);
    ck_assert(memcmp(a, b, sizeof a) != 0);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("order");
    TCase *tc = tcase_create("order");
    tcase_add_test(tc, rounds_that_holm_needs);
    tcase_add_test(tc, every_run_twice_in_mirror);
    tcase_add_test(tc, every_order_as_likely);
    tcase_add_test(tc, seed_and_round_decide);
    suite_add_tcase(s, tc);
    return s;
}
