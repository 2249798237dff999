/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/block_cost.h"

#include "tests/plan/plan_fixture.h"
#include "tests/support/check_main.h"

START_TEST(a_large_product_runs_at_its_rate_and_a_thin_one_at_the_memorys)
{
    const double large[] = {4096, 4096, 4096}, thin[] = {1, 4096, 4096};
    ck_assert_double_eq_tol(
        cadre_product_seconds(&round_machine, CADRE_PLAN_BF16, large, 0),
        2.0 * 4096 * 4096 * 4096 / 100e12, 1e-12);
    ck_assert_double_eq_tol(
        cadre_product_seconds(&round_machine, CADRE_PLAN_BF16, thin, 0),
        2.0 * (4096 + 4096.0 * 4096 + 4096) / 1000e9, 1e-12);
}
END_TEST

START_TEST(a_product_of_the_half_size_reaches_half)
{
    struct cadre_hardware hw = round_machine;
    const double mkn[] = {1000, 1000, 1000};
    hw.device.product_half_gflop = 2;
    hw.device.memory_gb_s = 1e6;
    ck_assert_double_eq_tol(cadre_product_seconds(&hw, CADRE_PLAN_BF16, mkn, 0),
                            2 * 2e9 / 100e12, 1e-15);
}
END_TEST

/* Without memory's part a block is its products: 24 t h^2 forward, and causal scores.
 */
START_TEST(a_block_is_its_flops_where_memory_is_free)
{
    struct cadre_hardware hw = round_machine;
    hw.device.memory_gb_s = 1e9;
    const struct cadre_block_cost cost = cadre_block_cost(&small_model, &one_rank, &hw);
    const double products = 24.0 * 1024 * 1024 * 1024,
                 scores = 2.0 * 1024 * 1024 * 1024;
    ck_assert_double_eq_tol(cost.forward * 100e12 / (products + scores), 1, 1e-3);
    ck_assert_double_eq_tol(cost.backward * 100e12 / (2 * products + 2.5 * scores), 1,
                            1e-3);
    ck_assert_double_eq_tol(cost.core_forward * 100e12 / scores, 1, 1e-9);
}
END_TEST

/* Each expert has as many rows, so where memory is free experts cost their router
 * alone; where products have a size that halves them, each expert has it. */
START_TEST(experts_compute_one_mlp_in_smaller_products)
{
    struct cadre_hardware hw = round_machine;
    struct cadre_transformer t = small_model;
    hw.device.memory_gb_s = 1e9;
    const double plain = cadre_block_cost(&small_model, &one_rank, &hw).forward;
    t.experts = 8;
    const double router = 2.0 * 1024 * 1024 * 8 / 100e12;
    ck_assert_double_eq_tol(
        cadre_block_cost(&t, &one_rank, &hw).forward / (plain + router), 1, 1e-3);
    hw.device.product_half_gflop = 1;
    const double half = 1e9 / 100e12;
    ck_assert_double_eq_tol(cadre_block_cost(&t, &one_rank, &hw).forward /
                                (plain + router + (2 + 2 * 8 + 1) * half),
                            1, 1e-3);
}
END_TEST

START_TEST(unfused_scores_cost_memory_and_both_halves)
{
    struct cadre_hardware hw = round_machine;
    const double fused = cadre_block_cost(&small_model, &one_rank, &hw).core_forward;
    hw.device.attention_fused = false;
    const double unfused = cadre_block_cost(&small_model, &one_rank, &hw).core_forward;
    ck_assert_double_eq_tol(unfused, 2 * fused + 13 * 16.0 * 1024 * 1024 / 1000e9,
                            1e-12);
}
END_TEST

START_TEST(tensor_ranks_divide_the_products)
{
    struct cadre_candidate c = one_rank;
    struct cadre_hardware hw = round_machine;
    hw.device.memory_gb_s = 1e9;
    const double one = cadre_block_cost(&small_model, &c, &hw).forward;
    const double head = cadre_head_cost(&small_model, &c, &hw).forward;
    c.tensor = 4;
    ck_assert_double_eq_tol(cadre_block_cost(&small_model, &c, &hw).forward / one, 0.25,
                            1e-3);
    ck_assert_double_eq_tol(cadre_head_cost(&small_model, &c, &hw).forward / head, 0.25,
                            1e-3);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("block_cost");
    TCase *tc = tcase_create("block_cost");
    tcase_add_test(tc, a_large_product_runs_at_its_rate_and_a_thin_one_at_the_memorys);
    tcase_add_test(tc, a_product_of_the_half_size_reaches_half);
    tcase_add_test(tc, a_block_is_its_flops_where_memory_is_free);
    tcase_add_test(tc, experts_compute_one_mlp_in_smaller_products);
    tcase_add_test(tc, unfused_scores_cost_memory_and_both_halves);
    tcase_add_test(tc, tensor_ranks_divide_the_products);
    suite_add_tcase(s, tc);
    return s;
}
