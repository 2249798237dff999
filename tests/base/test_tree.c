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

Suite *test_suite(void)
{
    Suite *s = suite_create("tree");
    TCase *tc = tcase_create("tree");
    tcase_add_test(tc, tree_is_that_of_the_definition);
    tcase_add_test(tc, absent_children_are_skipped);
    suite_add_tcase(s, tc);
    return s;
}
