/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/tree.h"

#include <math.h>
#include <stdlib.h>

#include "tests/support/check_main.h"

/* Level by level, as in the definition of the design. */
static double by_levels(const double *values, size_t n)
{
    double *level = malloc(n * sizeof *level);
    for (size_t i = 0; i < n; i++)
        level[i] = values[i];
    for (; n > 1; n = (n + 1) / 2)
        for (size_t j = 0; j < (n + 1) / 2; j++)
            level[j] = 2 * j + 1 < n ? level[2 * j] + level[2 * j + 1] : level[2 * j];
    double sum = level[0];
    free(level);
    return sum;
}

START_TEST(tree_is_that_of_the_definition)
{
    double values[300];
    for (int i = 0; i < 300; i++)
        values[i] = sin(i * 12.9898) * exp2(i % 40);
    int plain_differs = 0;
    for (size_t n = 1; n <= 300; n++) {
        double expected = by_levels(values, n), got = cadre_tree_sum(values, n),
               left = 0;
        ck_assert_mem_eq(&got, &expected, sizeof got);
        for (size_t i = 0; i < n; i++)
            left += values[i];
        plain_differs += left != expected;
    }
    ck_assert_int_gt(plain_differs, 100);
    ck_assert(cadre_tree_sum(values, 0) == 0);
}
END_TEST

/* An absent child is skipped: adding it as zero would turn -0 into 0. */
START_TEST(absent_children_are_skipped)
{
    double values[3] = {-0.0, -0.0, -0.0};
    ck_assert(signbit(cadre_tree_sum(values, 3)));
    ck_assert(signbit(cadre_tree_sum(values, 1)));
}
END_TEST

/* Nodes cover their leaves once, in order, and no two of them have a parent within. */
START_TEST(ranges_are_few_whole_nodes)
{
    struct cadre_tree_node node[CADRE_TREE_NODES];
    for (int64_t begin = 0; begin < 70; begin++)
        for (int64_t end = begin; end < 140; end++) {
            int n = cadre_tree_nodes(begin, end, node);
            int64_t at = begin;
            ck_assert_int_eq(n, cadre_tree_nodes(begin, end, NULL));
            ck_assert_int_le(n, 14); /* 2 log2 of the range */
            for (int i = 0; i < n; i++) {
                ck_assert_int_eq(node[i].index << node[i].level, at);
                at += (int64_t)1 << node[i].level;
                if (i > 0)
                    ck_assert(!cadre_tree_siblings(&node[i - 1], &node[i]));
            }
            ck_assert_int_eq(at, end);
        }
    ck_assert_int_eq(cadre_tree_nodes(0, (int64_t)1 << 62, node), 1);
    ck_assert_int_eq(node[0].level, 62);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("tree");
    TCase *tc = tcase_create("tree");
    tcase_add_test(tc, tree_is_that_of_the_definition);
    tcase_add_test(tc, absent_children_are_skipped);
    tcase_add_test(tc, ranges_are_few_whole_nodes);
    suite_add_tcase(s, tc);
    return s;
}
