/* SPDX-License-Identifier: Apache-2.0 */
/* Shares of the data ranks: what the option says, and the deal against every other one.
 */
#include "core/engine/layout/division.h"

#include <string.h>

#include "core/base/tree.h"
#include "tests/support/check_main.h"

static struct cadre_error err;
static struct cadre_division division;

static void teardown(void)
{
    cadre_division_fini(&division);
}

static void read_text(const char *text, double limit)
{
    cadre_division_fini(&division);
    cadre_status rc = cadre_division_init(&division, text, limit, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
}

static void is_division(const uint64_t *first, int n, uint64_t m, uint64_t most)
{
    ck_assert_uint_eq(first[0], 0);
    ck_assert_uint_eq(first[n], m);
    for (int r = 0; r < n; r++) {
        ck_assert_uint_gt(first[r + 1], first[r]); /* nobody starves */
        ck_assert_uint_le(first[r + 1] - first[r], most);
    }
}

static double longest(const double *speed, int n, const uint64_t *first)
{
    double most = 0;
    for (int r = 0; r < n; r++) {
        double s = (double)(first[r + 1] - first[r]) / speed[r];
        most = s > most ? s : most;
    }
    return most;
}

/* The shortest longest rank of all divisions of m over ranks r to n - 1. */
static double least(const double *speed, int n, int r, int64_t m, int64_t most)
{
    double best = 1e300;
    if (r == n - 1)
        return m >= 1 && m <= most ? (double)m / speed[r] : best;
    for (int64_t own = 1; own <= most && own < m; own++) {
        double rest = least(speed, n, r + 1, m - own, most);
        double s = (double)own / speed[r];
        s = s > rest ? s : rest;
        best = s < best ? s : best;
    }
    return best;
}

START_TEST(no_other_deal_is_shorter)
{
    unsigned x = 7;
    for (int i = 0; i < 400; i++) {
        double speed[4];
        uint64_t first[5], again[5];
        int n = 1 + i % 4;
        for (int r = 0; r < n; r++) {
            x = x * 1664525u + 1013904223u;
            speed[r] = 0.1 + (double)(x >> 20) / 4096;
        }
        int64_t m = n + (int64_t)(x >> 8) % 13;
        int64_t most = (m + n - 1) / n + (int64_t)(x >> 4) % 5;
        cadre_division_deal(speed, n, m, most, first);
        is_division(first, n, (uint64_t)m, (uint64_t)most);
        ck_assert_double_eq(longest(speed, n, first), least(speed, n, 0, m, most));
        cadre_division_deal(speed, n, m, most, again);
        ck_assert_mem_eq(first, again, sizeof *first * (size_t)(n + 1));
    }
}
END_TEST

/* A scale of all speeds changes nothing; among equals the first rank is first. */
START_TEST(speeds_are_relative)
{
    const double slow[3] = {1, 0.5, 1}, fast[3] = {8, 4, 8}, same[3] = {1, 1, 1};
    const uint64_t want[4] = {0, 3, 4, 7}, even[4] = {0, 3, 5, 7};
    uint64_t first[4];
    cadre_division_deal(slow, 3, 7, 7, first);
    ck_assert_mem_eq(first, want, sizeof want);
    cadre_division_deal(fast, 3, 7, 7, first);
    ck_assert_mem_eq(first, want, sizeof want);
    cadre_division_deal(same, 3, 7, 7, first);
    ck_assert_mem_eq(first, even, sizeof even);
}
END_TEST

START_TEST(shares_hold_from_their_steps)
{
    const uint64_t a[3] = {0, 6, 8}, b[3] = {0, 2, 8}, c[3] = {0, 4, 8};
    const uint64_t *want[] = {a, a, a, b, b, b, b, c, c};
    uint64_t first[3];
    read_text("3, 1 / 4: 1 3 /8:1,1", 2);
    ck_assert(cadre_division_changes(&division));
    for (uint64_t step = 1; step < 10; step++) {
        ck_assert_int_eq(cadre_division_at(&division, step, 8, 2, first, &err),
                         CADRE_OK);
        ck_assert_mem_eq(first, want[step - 1], sizeof first);
    }
    ck_assert_int_eq(cadre_division_most(&division, 8, 2), 6);
    read_text("3, 1", 2);
    ck_assert(!cadre_division_changes(&division));
}
END_TEST

START_TEST(measured_begins_evenly_and_has_a_limit)
{
    const uint64_t want[4] = {0, 3, 5, 7};
    uint64_t first[4];
    read_text("measured", 1.5);
    ck_assert(cadre_division_changes(&division));
    ck_assert_int_eq(cadre_division_at(&division, 5, 7, 3, first, &err), CADRE_OK);
    ck_assert_mem_eq(first, want, sizeof want);
    ck_assert_int_eq(cadre_division_most(&division, 7, 3), 4);
    ck_assert_int_eq(cadre_division_most(&division, 8, 2), 6);
    read_text("measured", 1);
    ck_assert_int_eq(cadre_division_most(&division, 7, 3), 3);
    read_text("measured", 1e6);
    ck_assert_int_eq(cadre_division_most(&division, 7, 3), 5);
    read_text("off", 2);
    ck_assert_int_eq(division.kind, CADRE_DIVISION_OFF);
    ck_assert(!cadre_division_changes(&division));
}
END_TEST

START_TEST(other_values_are_refused)
{
    static const char *const bad[] = {
        "",        "on",      "1, 0",      "1, -1",
        "1, x",    "1, 2 /",  "1, 2 / 4",  "1, 2 / 1: 2, 1",
        "1,2/4:1", "1/x:2",   "1/4:2/4:1", "1/5:2/4:1",
        "nan",     "1, 2 3:", "1e3, 1",    "1, 2000000000"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        err = (struct cadre_error){0};
        ck_assert_msg(cadre_division_init(&division, bad[i], 2, &err) != CADRE_OK,
                      "'%s'", bad[i]);
        ck_assert_ptr_nonnull(strstr(err.text, "balance.micro_batches = "));
        ck_assert_ptr_null(division.share);
    }
}
END_TEST

START_TEST(sizes_must_fit)
{
    uint64_t first[5];
    read_text("2, 1", 2);
    ck_assert_int_ne(cadre_division_at(&division, 1, 8, 4, first, &err), CADRE_OK);
    ck_assert_ptr_nonnull(
        strstr(err.text, "has 2 shares, expected one for each of the 4"));
    err = (struct cadre_error){0};
    ck_assert_int_ne(cadre_division_at(&division, 1, 1, 2, first, &err), CADRE_OK);
    ck_assert_ptr_nonnull(strstr(err.text, "over 2 data ranks"));
}
END_TEST

/* Of all ranges of at most `most` leaves: what memory is planned for is enough, and
 * is reached. */
START_TEST(nodes_of_a_range_are_bounded)
{
    for (int64_t most = 1; most <= 70; most++) {
        struct cadre_tree_node node[CADRE_TREE_NODES];
        int nodes = 0, level = 0;
        for (int64_t begin = 0; begin <= 256; begin++)
            for (int64_t end = begin + 1; end <= begin + most; end++) {
                int n = cadre_tree_nodes(begin, end, node);
                nodes = n > nodes ? n : nodes;
                for (int i = 0; i < n; i++)
                    level = node[i].level > level ? node[i].level : level;
            }
        ck_assert_int_eq(cadre_division_nodes(most), nodes);
        ck_assert_int_eq(cadre_division_levels(most), level);
    }
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("division");
    TCase *tc = tcase_create("division");
    tcase_add_checked_fixture(tc, NULL, teardown);
    tcase_add_test(tc, no_other_deal_is_shorter);
    tcase_add_test(tc, speeds_are_relative);
    tcase_add_test(tc, shares_hold_from_their_steps);
    tcase_add_test(tc, measured_begins_evenly_and_has_a_limit);
    tcase_add_test(tc, other_values_are_refused);
    tcase_add_test(tc, sizes_must_fit);
    tcase_add_test(tc, nodes_of_a_range_are_bounded);
    suite_add_tcase(s, tc);
    return s;
}
