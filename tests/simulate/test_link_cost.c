/* SPDX-License-Identifier: Apache-2.0 */
#include "core/simulate/link_cost.h"

#include "tests/plan/plan_fixture.h"
#include "tests/support/check_main.h"

enum { MOST = 32 };

/* 8 GB among n ranks that stand `stride` apart, on nodes of 8: 100 GB/s inside, 10
 * between. */
static double among(const struct cadre_hardware *hw, enum cadre_comm_kind kind, int n,
                    int stride)
{
    const struct cadre_comm_op op = {
        .kind = kind, .count = 2000000000, .dtype = CADRE_F32};
    int rank[MOST];
    for (int i = 0; i < n; i++)
        rank[i] = i * stride;
    return cadre_link_cost(hw, &op, rank, n);
}

START_TEST(a_ring_moves_all_but_its_own_part)
{
    const double once = 7.0 / 8 * 8e9 / 100e9;
    ck_assert_double_eq_tol(among(&round_machine, CADRE_COMM_ALL_GATHER, 8, 1), once,
                            1e-12);
    ck_assert_double_eq_tol(among(&round_machine, CADRE_COMM_REDUCE_SCATTER, 8, 1),
                            once, 1e-12);
    ck_assert_double_eq_tol(among(&round_machine, CADRE_COMM_ALL_REDUCE, 8, 1),
                            2 * once, 1e-12);
    ck_assert_double_eq_tol(among(&round_machine, CADRE_COMM_BROADCAST, 8, 1), 0.08,
                            1e-12);
    ck_assert_double_eq(among(&round_machine, CADRE_COMM_ALL_REDUCE, 1, 1), 0);
    ck_assert_double_eq(among(&round_machine, CADRE_COMM_SPLIT, 8, 1), 0);
}
END_TEST

START_TEST(between_nodes_links_are_those_of_the_ranks_inside)
{
    ck_assert_double_eq_tol(among(&round_machine, CADRE_COMM_ALL_GATHER, 16, 1),
                            15.0 / 16 * 8e9 / 80e9, 1e-12);
    ck_assert_double_eq_tol(among(&round_machine, CADRE_COMM_ALL_GATHER, 2, 8),
                            1.0 / 2 * 8e9 / 10e9, 1e-12);
    ck_assert_double_eq_tol(among(&round_machine, CADRE_COMM_ALL_GATHER, 4, 4),
                            3.0 / 4 * 8e9 / 20e9, 1e-12);
}
END_TEST

START_TEST(latency_counts_turns)
{
    struct cadre_hardware hw = round_machine;
    hw.node.latency_us = 10;
    hw.cluster.latency_us = 100;
    const double more = among(&hw, CADRE_COMM_ALL_GATHER, 8, 1) -
                        among(&round_machine, CADRE_COMM_ALL_GATHER, 8, 1);
    ck_assert_double_eq_tol(more, 70e-6, 1e-12);
    ck_assert_double_eq_tol(among(&hw, CADRE_COMM_BARRIER, 8, 1), 140e-6, 1e-12);
    ck_assert_double_eq_tol(among(&hw, CADRE_COMM_BARRIER, 16, 1), 200e-6, 1e-12);
    ck_assert_double_eq_tol(among(&hw, CADRE_COMM_SEND, 2, 1), 0.08 + 10e-6, 1e-12);
    ck_assert_double_eq_tol(among(&hw, CADRE_COMM_SEND, 2, 8), 0.8 + 100e-6, 1e-12);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("link_cost");
    TCase *tc = tcase_create("link_cost");
    tcase_add_test(tc, a_ring_moves_all_but_its_own_part);
    tcase_add_test(tc, between_nodes_links_are_those_of_the_ranks_inside);
    tcase_add_test(tc, latency_counts_turns);
    suite_add_tcase(s, tc);
    return s;
}
