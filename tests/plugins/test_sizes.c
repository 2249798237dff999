/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/mig/sizes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/check_main.h"

static struct mig_sizes sizes;
static uint64_t first[MIG_MAX_SIZES + 1];
static char why[256];

static void set(const char *text)
{
    ck_assert_msg(mig_sizes_read(text, &sizes, why, sizeof why), "%s", why);
}

START_TEST(lists_are_read)
{
    set("3 1");
    ck_assert_uint_eq(sizes.n, 2);
    ck_assert_uint_eq(sizes.of[0], 3);
    ck_assert_uint_eq(sizes.of[1], 1);
    set(" 1024,\t2 ,1, ");
    ck_assert_uint_eq(sizes.n, 3);
    ck_assert_uint_eq(sizes.of[0], 1024);
    ck_assert_uint_eq(mig_sizes_sum(&sizes, 1, 2), 3);
    set("");
    ck_assert_uint_eq(sizes.n, 0);
    set(" ,");
    ck_assert_uint_eq(sizes.n, 0);
}
END_TEST

START_TEST(other_texts_are_refused)
{
    static const char *const wrong[] = {"0",   "3 0",   "-1", "+2",   "2x",
                                        "3;1", "1.5 2", "a",  "1025", "99999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        why[0] = '\0';
        ck_assert(!mig_sizes_read(wrong[i], &sizes, why, sizeof why));
        ck_assert_msg(strstr(why, wrong[i]) && strstr(why, "mig.sizes: expected"), "%s",
                      why);
    }
}
END_TEST

START_TEST(too_many_are_refused)
{
    char text[2 * MIG_MAX_SIZES + 3];
    for (uint32_t i = 0; i <= MIG_MAX_SIZES; i++)
        memcpy(text + (size_t)2 * i, "1 ", 3);
    ck_assert(!mig_sizes_read(text, &sizes, why, sizeof why));
    text[2 * MIG_MAX_SIZES] = '\0';
    set(text);
    ck_assert_uint_eq(sizes.n, MIG_MAX_SIZES);
}
END_TEST

/* The sizes, micro-batches, and how many each part gets. */
static const struct {
    const char *sizes;
    uint64_t m, want[4];
} divisions[] = {
    {"1", 5, {5}},      {"1 1", 8, {4, 4}},        {"1 1", 7, {4, 3}},
    {"3 1", 8, {6, 2}}, {"3 1", 7, {6, 1}}, /* as fast as 5 and 2 */
    {"3 1", 2, {1, 1}}, {"4 2 1", 7, {4, 2, 1}},   {"1 2 4", 14, {2, 4, 8}},
    {"3 4", 7, {3, 4}}, {"100 1 1", 3, {1, 1, 1}}, {"2 2 1", 9, {4, 4, 1}},
};

START_TEST(parts_are_in_proportion)
{
    uint64_t sum = 0;
    set(divisions[_i].sizes);
    ck_assert(mig_sizes_divide(&sizes, divisions[_i].m, first));
    ck_assert_uint_eq(first[0], 0);
    for (uint32_t r = 0; r < sizes.n; r++) {
        ck_assert_msg(first[r + 1] - first[r] == divisions[_i].want[r],
                      "%s: part %u has %u of %u", divisions[_i].sizes, r,
                      (unsigned)(first[r + 1] - first[r]), (unsigned)divisions[_i].m);
        sum += divisions[_i].want[r];
    }
    ck_assert_uint_eq(sum, divisions[_i].m);
}
END_TEST

static double slowest(const uint64_t *count)
{
    double most = 0;
    for (uint32_t r = 0; r < sizes.n; r++)
        most = fmax(most, (double)count[r] / sizes.of[r]);
    return most;
}

/* Against all divisions of up to 12 micro-batches over three parts. */
START_TEST(no_division_is_faster)
{
    for (uint32_t a = 1; a <= 5; a++)
        for (uint32_t b = 1; b <= 5; b++)
            for (uint64_t m = 3; m <= 12; m++) {
                double best = INFINITY;
                sizes = (struct mig_sizes){.n = 3, .of = {a, b, 2}};
                for (uint64_t x = 1; x + 2 <= m; x++)
                    for (uint64_t y = 1; x + y < m; y++)
                        best = fmin(best, slowest((uint64_t[]){x, y, m - x - y}));
                ck_assert(mig_sizes_divide(&sizes, m, first));
                const uint64_t got[] = {first[1], first[2] - first[1],
                                        first[3] - first[2]};
                ck_assert_msg(slowest(got) <= best, "%u %u 2 of %u", a, b, (unsigned)m);
            }
}
END_TEST

START_TEST(fewer_than_parts_are_refused)
{
    set("1 1 1");
    ck_assert(!mig_sizes_divide(&sizes, 2, first));
    ck_assert(mig_sizes_divide(&sizes, 3, first));
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("sizes");
    TCase *tc = tcase_create("sizes");
    tcase_add_test(tc, lists_are_read);
    tcase_add_test(tc, other_texts_are_refused);
    tcase_add_test(tc, too_many_are_refused);
    tcase_add_loop_test(tc, parts_are_in_proportion, 0,
                        sizeof divisions / sizeof *divisions);
    tcase_add_test(tc, no_division_is_faster);
    tcase_add_test(tc, fewer_than_parts_are_refused);
    suite_add_tcase(suite, tc);
    return suite;
}
