/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/links.h"

#include "tests/plan/plan_fixture.h"
#include "tests/support/check_main.h"

static double gather(int64_t ranks, int64_t stride)
{
    return cadre_links_gather(&round_machine, (struct cadre_plan_group){ranks, stride},
                              8e9);
}

START_TEST(a_ring_moves_all_but_its_own_part)
{
    ck_assert_double_eq(gather(1, 1), 0);
    ck_assert_double_eq_tol(gather(8, 1), 7.0 / 8 * 8e9 / 100e9, 1e-12);
    ck_assert_double_eq_tol(
        cadre_links_reduce(&round_machine, (struct cadre_plan_group){8, 1}, 8e9),
        2 * gather(8, 1), 1e-12);
}
END_TEST

/* 16 ranks beside each other leave a node over 8 links, 2 that stand 8 apart over one.
 */
START_TEST(between_nodes_links_are_those_of_the_ranks_inside)
{
    ck_assert_double_eq_tol(gather(16, 1), 15.0 / 16 * 8e9 / 80e9, 1e-12);
    ck_assert_double_eq_tol(gather(2, 8), 1.0 / 2 * 8e9 / 10e9, 1e-12);
    ck_assert_double_eq_tol(gather(4, 4), 3.0 / 4 * 8e9 / 20e9, 1e-12);
}
END_TEST

START_TEST(latency_counts_turns)
{
    struct cadre_hardware hw = round_machine;
    hw.node.latency_us = 10;
    const double with = cadre_links_gather(&hw, (struct cadre_plan_group){8, 1}, 8e9);
    ck_assert_double_eq_tol(with - gather(8, 1), 70e-6, 1e-12);
    ck_assert_double_eq_tol(cadre_links_send(&hw, 1, 1e9), 0.01 + 10e-6, 1e-12);
    ck_assert_double_eq_tol(cadre_links_send(&hw, 8, 1e9), 0.1, 1e-12);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("links");
    TCase *tc = tcase_create("links");
    tcase_add_test(tc, a_ring_moves_all_but_its_own_part);
    tcase_add_test(tc, between_nodes_links_are_those_of_the_ranks_inside);
    tcase_add_test(tc, latency_counts_turns);
    suite_add_tcase(s, tc);
    return s;
}
