/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts of a pipeline against every possible cut. */
#include "plugins/pipeline/partition.h"
#include "tests/support/check_main.h"

#define UNITS 9

static double largest(const double *cost, const uint32_t *first, uint32_t pieces,
                      double *squares)
{
    double most = 0;
    *squares = 0;
    for (uint32_t k = 0; k < pieces; k++) {
        double sum = 0;
        ck_assert_uint_lt(first[k], first[k + 1]);
        for (uint32_t u = first[k]; u < first[k + 1]; u++)
            sum += cost[u];
        most = sum > most ? sum : most;
        *squares += sum * sum;
    }
    return most;
}

/* Over every set of cuts, a bit for each place between two units. */
static void search(const double *cost, uint32_t pieces, double *most, double *squares)
{
    *most = *squares = 1e30;
    for (uint32_t bits = 0; bits < 1u << (UNITS - 1); bits++) {
        uint32_t first[UNITS + 1] = {0}, n = 1;
        for (uint32_t u = 1; u < UNITS; u++)
            if (bits >> (u - 1) & 1)
                first[n++] = u;
        first[n] = UNITS;
        double square, found;
        if (n != pieces)
            continue;
        found = largest(cost, first, pieces, &square);
        if (found < *most || (found == *most && square < *squares)) {
            *most = found;
            *squares = square;
        }
    }
}

static void is_best(const double *cost)
{
    for (uint32_t pieces = 1; pieces <= UNITS; pieces++) {
        uint32_t first[UNITS + 1];
        double most, squares, found, square;
        ck_assert_int_eq(pipeline_partition_even(cost, UNITS, pieces, first), 0);
        ck_assert_uint_eq(first[0], 0);
        ck_assert_uint_eq(first[pieces], UNITS);
        found = largest(cost, first, pieces, &square);
        search(cost, pieces, &most, &squares);
        ck_assert_double_eq(found, most);
        ck_assert_double_eq(square, squares);
    }
}

START_TEST(no_cut_has_a_smaller_largest_piece)
{
    /* a model's: cheap embedding, equal blocks, dear head; and uneven ones */
    static const double cost[][UNITS] = {
        {1, 12, 12, 12, 12, 12, 12, 12, 40}, {0, 0, 0, 0, 0, 0, 0, 0, 0},
        {5, 1, 9, 2, 2, 8, 3, 3, 7},         {100, 1, 1, 1, 1, 1, 1, 1, 100},
        {1, 2, 3, 4, 5, 6, 7, 8, 9},
    };
    for (size_t i = 0; i < sizeof cost / sizeof *cost; i++)
        is_best(cost[i]);
}
END_TEST

START_TEST(counts_are_read_strictly)
{
    static const struct {
        const char *text;
        int rc;
        uint64_t sum;
        uint32_t n;
    } cases[] = {
        {"3 2 2 3", 0, 10, 4},
        {"1  1 7 1", 0, 10, 4},
        {"3 2 2 4", 1, 11, 4},
        {"5 5", 1, 10, 2},
        {"1 1 1 1 1 1 1 1 1 1", 1, 10, 10},
        {"4000000000 1 1 1", 1, 4000000003, 4},
        {"", -1, 0, 0},
        {" 3 2 2 3", -1, 0, 0},
        {"3,2,2,3", -1, 0, 0},
        {"3 2 0 5", -1, 0, 0},
        {"3 2 -2 7", -1, 0, 0},
        {"3 2 2 x", -1, 0, 0},
        {"99999999999999999999", -1, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t first[5], n;
        uint64_t sum;
        int rc = pipeline_partition_counts(cases[i].text, 10, 4, first, &sum, &n);
        ck_assert_msg(rc == cases[i].rc, "'%s'", cases[i].text);
        if (rc >= 0) {
            ck_assert_uint_eq(sum, cases[i].sum);
            ck_assert_uint_eq(n, cases[i].n);
        }
        if (rc == 0)
            ck_assert(first[0] == 0 && first[4] == 10 && first[1] < first[2]);
    }
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("pipeline cut");
    TCase *tc = tcase_create("cut");
    tcase_add_test(tc, no_cut_has_a_smaller_largest_piece);
    tcase_add_test(tc, counts_are_read_strictly);
    suite_add_tcase(s, tc);
    return s;
}
