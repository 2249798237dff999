/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/block_fit.h"

#include "core/plan/block_cost.h"
#include "tests/plan/plan_fixture.h"
#include "tests/support/check_main.h"

enum { SAMPLES = 3 };
static struct cadre_block_sample sample[SAMPLES] = {
    {64, 2, 96, 2, 0}, {160, 5, 64, 3, 0}, {448, 7, 128, 2, 0}};

/* What the samples take on a device that reaches these parts of its rates. */
static struct cadre_hardware take(double products, double rows)
{
    struct cadre_hardware hw = round_machine;
    hw.device.memory_gb_s = 10;
    hw.device.peak_tflops[CADRE_PLAN_FP32] = 0.1;
    hw.device.product_half_gflop = 1e-4;
    hw.device.product_efficiency = products;
    hw.device.memory_efficiency = rows;
    for (int i = 0; i < SAMPLES; i++) {
        struct cadre_transformer t = small_model;
        struct cadre_candidate c = one_rank;
        t.channels = sample[i].channels, t.hidden = 4 * t.channels;
        t.heads = t.kv_heads = sample[i].heads, t.context = sample[i].time;
        c.micro_batch = sample[i].batch, c.dtype = CADRE_PLAN_FP32;
        const struct cadre_block_cost cost = cadre_block_cost(&t, &c, &hw);
        sample[i].seconds = cost.forward + cost.backward;
    }
    return hw;
}

START_TEST(finds_the_parts_that_blocks_were_made_with)
{
    static const double made[][2] = {{0.9, 0.3}, {0.5, 0.8}, {1, 1}, {0.7, 0.2}};
    struct cadre_hardware hw = take(made[_i][0], made[_i][1]);
    hw.device.product_efficiency = hw.device.memory_efficiency = 0.123;
    cadre_block_fit(&hw, sample, SAMPLES);
    ck_assert_double_eq_tol(hw.device.product_efficiency, made[_i][0], 0.011);
    ck_assert_double_eq_tol(hw.device.memory_efficiency / made[_i][1], 1, 0.05);
    ck_assert_double_eq(hw.device.peak_tflops[CADRE_PLAN_FP32], 0.1);
}
END_TEST

/* Products were measured while something slowed them to 0.8: their peak is raised. */
START_TEST(raises_a_peak_that_blocks_exceed)
{
    struct cadre_hardware hw = take(1, 0.5);
    const double attention = hw.device.attention_efficiency;
    hw.device.peak_tflops[CADRE_PLAN_FP32] *= 0.8;
    hw.device.attention_efficiency = attention / 0.8;
    cadre_block_fit(&hw, sample, SAMPLES);
    ck_assert_double_eq(hw.device.product_efficiency, 1);
    ck_assert_double_eq_tol(hw.device.peak_tflops[CADRE_PLAN_FP32], 0.1, 0.0011);
    ck_assert_double_eq_tol(hw.device.attention_efficiency, attention, 0.011);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("block_fit");
    TCase *tc = tcase_create("block_fit");
    tcase_add_loop_test(tc, finds_the_parts_that_blocks_were_made_with, 0, 4);
    tcase_add_test(tc, raises_a_peak_that_blocks_exceed);
    suite_add_tcase(s, tc);
    return s;
}
