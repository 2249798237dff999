/* SPDX-License-Identifier: Apache-2.0 */
/* The rule by which micro-batches are dealt again, on seconds that are known. */
#include "core/engine/balance.h"

#include <math.h>
#include <string.h>

#include "core/engine/layout/division.h"
#include "tests/support/check_main.h"

#define RANKS 3
#define FIRST_DEAL (1 + CADRE_BALANCE_WINDOW + CADRE_BALANCE_STREAK - 1)

static struct cadre_error err;
static struct cadre_balance balance;
static uint64_t now[RANKS + 1], next[RANKS + 1];

/* 12 micro-batches over three ranks, 8 at most on one. */
static void setup(void)
{
    const uint64_t even[RANKS + 1] = {0, 4, 8, 12};
    memcpy(now, even, sizeof now);
    ck_assert_int_eq(cadre_balance_init(&balance, RANKS, 12, 8, &err), CADRE_OK);
}

static void teardown(void)
{
    cadre_balance_fini(&balance);
}

static bool judge(double a, double b, double c)
{
    const double seconds[RANKS] = {a, b, c};
    if (!cadre_balance_judge(&balance, seconds, now, next))
        return false;
    memcpy(now, next, sizeof now);
    return true;
}

/* Steps until a deal, 0: none in `most`. */
static int steps_to_deal(double a, double b, double c, int most)
{
    for (int step = 1; step <= most; step++)
        if (judge(a, b, c))
            return step;
    return 0;
}

START_TEST(a_slow_rank_gets_fewer)
{
    const uint64_t want[RANKS + 1] = {0, 5, 7, 12};
    ck_assert_int_eq(steps_to_deal(1, 2, 1, 50), FIRST_DEAL);
    ck_assert_mem_eq(now, want, sizeof want);
    ck_assert_int_eq(steps_to_deal(1, 2, 1, 100), 0);
}
END_TEST

/* All ranks judge alike. */
START_TEST(the_same_seconds_give_the_same_deals)
{
    struct cadre_balance other;
    uint64_t mine[RANKS + 1], theirs[RANKS + 1], at[RANKS + 1], deals = 0;
    unsigned x = 3;
    memcpy(at, now, sizeof at);
    ck_assert_int_eq(cadre_balance_init(&other, RANKS, 12, 8, &err), CADRE_OK);
    for (int step = 0; step < 400; step++) {
        double seconds[RANKS];
        for (int r = 0; r < RANKS; r++) {
            x = x * 1664525u + 1013904223u;
            seconds[r] = ((step / 40 + r) % RANKS ? 1 : 2) * (1 + (x >> 16) / 1e6);
        }
        bool a = cadre_balance_judge(&balance, seconds, at, mine);
        ck_assert_int_eq(cadre_balance_judge(&other, seconds, at, theirs), a);
        if (!a)
            continue;
        deals++;
        ck_assert_mem_eq(mine, theirs, sizeof mine);
        ck_assert_mem_ne(mine, at, sizeof mine);
        memcpy(at, mine, sizeof at);
        ck_assert_uint_eq(at[RANKS], 12);
        for (int r = 0; r < RANKS; r++) {
            ck_assert_uint_gt(at[r + 1], at[r]);
            ck_assert_uint_le(at[r + 1] - at[r], 8);
        }
    }
    ck_assert_uint_ge(deals, 8); /* the slow rank changes every 40 steps */
    ck_assert_uint_le(deals, 20);
    cadre_balance_fini(&other);
}
END_TEST

/* A late step now and then moves nothing, nor does a difference that is too small. */
START_TEST(noise_moves_nothing)
{
    for (int step = 0; step < 200; step++)
        ck_assert(!judge(step % 7 == 0 ? 9 : 1, step % 5 == 1 ? 4 : 1, 1));
    ck_assert_int_eq(steps_to_deal(1, 1.01, 0.99, 100), 0);
}
END_TEST

/* The median of five is slow in two steps of each round, which are too few. */
START_TEST(a_deal_takes_a_streak)
{
    static const double second[] = {2, 2, 1, 2, 1, 1, 1, 1, 1, 1};
    for (int step = 0; step < 200; step++)
        ck_assert(!judge(1, second[step % 10], 1));
}
END_TEST

START_TEST(a_deal_is_followed_by_a_rest)
{
    ck_assert_int_eq(steps_to_deal(1, 2, 1, 50), FIRST_DEAL);
    ck_assert_int_eq(steps_to_deal(2, 1, 1, 50), CADRE_BALANCE_REST +
                                                     CADRE_BALANCE_WINDOW +
                                                     CADRE_BALANCE_STREAK - 1);
}
END_TEST

START_TEST(the_limit_holds)
{
    const uint64_t want[RANKS + 1] = {0, 8, 10, 12};
    ck_assert_int_eq(steps_to_deal(1, 100, 100, 50), FIRST_DEAL);
    ck_assert_mem_eq(now, want, sizeof want);
}
END_TEST

START_TEST(what_is_not_known_is_left_out)
{
    ck_assert_int_eq(steps_to_deal(1, 0, 1, 50), 0);
    ck_assert_int_eq(steps_to_deal(1, (double)NAN, 1, 50), 0);
    ck_assert_int_eq(steps_to_deal(1, (double)INFINITY, 1, 50), 0);
    ck_assert_int_eq(steps_to_deal(1, 2, 1, 50),
                     CADRE_BALANCE_WINDOW + CADRE_BALANCE_STREAK - 1);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("balance");
    TCase *tc = tcase_create("balance");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_slow_rank_gets_fewer);
    tcase_add_test(tc, the_same_seconds_give_the_same_deals);
    tcase_add_test(tc, noise_moves_nothing);
    tcase_add_test(tc, a_deal_takes_a_streak);
    tcase_add_test(tc, a_deal_is_followed_by_a_rest);
    tcase_add_test(tc, the_limit_holds);
    tcase_add_test(tc, what_is_not_known_is_left_out);
    suite_add_tcase(s, tc);
    return s;
}
