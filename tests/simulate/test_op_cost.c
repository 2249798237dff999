/* SPDX-License-Identifier: Apache-2.0 */
#include "core/simulate/op_cost.h"

#include "tests/plan/plan_fixture.h"
#include "tests/support/check_main.h"

/* 100 TFLOP/s in 16 bits, 1000 GB/s. */
static double product(int64_t m, int64_t n, int64_t k, bool wide, int beta)
{
    const struct cadre_gemm gemm = {
        .dtype = CADRE_BF16, .m = m, .n = n, .k = k, .wide = wide, .beta = beta};
    return cadre_op_cost_product(&round_machine, &gemm);
}

START_TEST(a_large_product_takes_its_flops)
{
    ck_assert_double_eq_tol(product(4096, 4096, 4096, false, 0),
                            2 * 4096.0 * 4096 * 4096 / 100e12, 1e-12);
}
END_TEST

/* A sum that is added to is read and written, in fp32. */
START_TEST(a_thin_product_takes_its_bytes)
{
    const double mn = 4096.0 * 4096, operands = 2 * 2 * 4096.0;
    ck_assert_double_eq_tol(product(4096, 4096, 1, false, 0),
                            (operands + 2 * mn) / 1e12, 1e-12);
    ck_assert_double_eq_tol(product(4096, 4096, 1, true, 1), (operands + 8 * mn) / 1e12,
                            1e-12);
    ck_assert_double_eq(product(0, 4096, 4096, false, 0), 0);
}
END_TEST

START_TEST(small_products_reach_a_part_of_the_peak)
{
    struct cadre_hardware hw = round_machine;
    const struct cadre_gemm gemm = {
        .dtype = CADRE_F32, .m = 1024, .n = 1024, .k = 1024};
    const double flops = 2 * 1024.0 * 1024 * 1024;
    hw.device.product_efficiency = 0.5;
    hw.device.product_half_gflop = flops / 1e9;
    ck_assert_double_eq_tol(cadre_op_cost_product(&hw, &gemm), 2 * flops / 5e12, 1e-12);
}
END_TEST

START_TEST(attention_skips_what_the_mask_hides)
{
    struct cadre_attention a = {.dtype = CADRE_BF16,
                                .batch = 2,
                                .time = 2048,
                                .heads = 16,
                                .kv_heads = 16,
                                .head_size = 128};
    const double all = 4.0 * 2 * 16 * 128 * 2048 * 2048 / 100e12;
    const double causal = all * 2049 / 2 / 2048;
    ck_assert_double_eq_tol(cadre_op_cost_attention(&round_machine, &a, false), causal,
                            1e-12);
    ck_assert_double_eq_tol(cadre_op_cost_attention(&round_machine, &a, true),
                            2.5 * causal, 1e-12);
    a.full = true;
    ck_assert_double_eq_tol(cadre_op_cost_attention(&round_machine, &a, false), all,
                            1e-12);
    /* the second half of twice as many keys */
    a.full = false;
    a.keys = 4096;
    a.position = 2048;
    ck_assert_double_eq_tol(cadre_op_cost_attention(&round_machine, &a, false),
                            all + causal, 1e-12);
}
END_TEST

START_TEST(unfused_scores_pass_through_memory)
{
    struct cadre_hardware hw = round_machine;
    const struct cadre_attention a = {.dtype = CADRE_BF16,
                                      .batch = 1,
                                      .time = 1024,
                                      .heads = 8,
                                      .kv_heads = 8,
                                      .head_size = 64};
    const double pairs = 8.0 * 1024 * 1024, flops = 4 * 64 * pairs / 100e12;
    hw.device.attention_fused = false;
    ck_assert_double_eq_tol(cadre_op_cost_attention(&hw, &a, false),
                            flops + 13 * pairs / 1e12, 1e-12);
    ck_assert_double_eq_tol(cadre_op_cost_attention(&hw, &a, true),
                            2 * flops + 21 * pairs / 1e12, 1e-12);
}
END_TEST

START_TEST(an_unknown_type_costs_nothing_and_is_told)
{
    const struct cadre_gemm gemm = {.dtype = CADRE_F64, .m = 9, .n = 9, .k = 9};
    ck_assert(!cadre_op_cost_knows(&round_machine, CADRE_F64));
    ck_assert(cadre_op_cost_knows(&round_machine, CADRE_F32));
    ck_assert_double_eq(cadre_op_cost_product(&round_machine, &gemm), 0);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("op_cost");
    TCase *tc = tcase_create("op_cost");
    tcase_add_test(tc, a_large_product_takes_its_flops);
    tcase_add_test(tc, a_thin_product_takes_its_bytes);
    tcase_add_test(tc, small_products_reach_a_part_of_the_peak);
    tcase_add_test(tc, attention_skips_what_the_mask_hides);
    tcase_add_test(tc, unfused_scores_pass_through_memory);
    tcase_add_test(tc, an_unknown_type_costs_nothing_and_is_told);
    suite_add_tcase(s, tc);
    return s;
}
