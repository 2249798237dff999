/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/forecast.h"

#include <math.h>

#include "tests/plan/plan_fixture.h"
#include "tests/support/check_main.h"

static struct cadre_candidate c;
static struct cadre_hardware hw;

static void setup(void)
{
    c = one_rank;
    hw = round_machine;
}

static struct cadre_forecast forecast(void)
{
    return cadre_forecast(&small_model, &c, &hw);
}

START_TEST(a_step_is_the_sum_of_its_causes)
{
    hw.software.straggle = 0.01;
    c.tensor = 2, c.pipeline = 4, c.data = 4, c.chunks = 2, c.zero = _i;
    c.recompute = CADRE_PLAN_RECOMPUTE_FULL;
    const struct cadre_forecast f = forecast();
    double sum = 0;
    for (int i = 0; i < CADRE_PLAN_CAUSES; i++) {
        ck_assert(isfinite(f.cause[i]) && f.cause[i] >= 0);
        sum += f.cause[i];
    }
    ck_assert_double_gt(f.step, 0);
    ck_assert_double_eq_tol(sum / f.step, 1, 1e-12);
}
END_TEST

START_TEST(one_rank_computes_and_updates_alone)
{
    const struct cadre_forecast f = forecast();
    ck_assert_double_eq_tol(f.cause[CADRE_PLAN_COMPUTE] + f.cause[CADRE_PLAN_OPTIMIZER],
                            f.step, 1e-12);
}
END_TEST

/* (p - 1) / (v m) of the work of equal stages. */
START_TEST(the_bubble_of_a_pipeline)
{
    struct cadre_transformer t = small_model;
    t.vocab = 1; /* no head, so that stages are equal */
    hw.node.bandwidth_gb_s = hw.cluster.bandwidth_gb_s = 1e9;
    c.pipeline = 4, c.chunks = 1 + _i;
    const struct cadre_forecast f = cadre_forecast(&t, &c, &hw);
    ck_assert_double_eq_tol(f.cause[CADRE_PLAN_BUBBLE] / f.cause[CADRE_PLAN_COMPUTE],
                            3.0 / 16 / (1 + _i), 0.002);
}
END_TEST

START_TEST(recomputing_all_costs_a_forward)
{
    const double none = forecast().cause[CADRE_PLAN_AGAIN];
    c.recompute = CADRE_PLAN_RECOMPUTE_FULL;
    const struct cadre_forecast f = forecast();
    ck_assert_double_eq(none, 0);
    ck_assert_double_gt(f.cause[CADRE_PLAN_AGAIN], 0.25 * f.cause[CADRE_PLAN_COMPUTE]);
    ck_assert_double_lt(f.cause[CADRE_PLAN_AGAIN], 0.40 * f.cause[CADRE_PLAN_COMPUTE]);
}
END_TEST

/* A sum over two nodes of 8: 2 x 15/16 of 4 B a parameter over 8 links of 10 GB/s. */
START_TEST(gradients_that_nothing_hides)
{
    c.data = 16;
    const double parameters = cadre_transformer_parameters(&small_model);
    ck_assert_double_eq_tol(forecast().cause[CADRE_PLAN_DATA],
                            2 * 15.0 / 16 * 4 * parameters / 80e9, 1e-9);
    hw.software.overlap_data = 0.5;
    ck_assert_double_eq_tol(forecast().cause[CADRE_PLAN_DATA],
                            15.0 / 16 * 4 * parameters / 80e9, 1e-9);
}
END_TEST

START_TEST(gathers_of_zero_3_beyond_the_work)
{
    c.data = 16, c.zero = 3;
    hw.software.gather_gb_s = 1;
    const struct cadre_forecast f = forecast();
    const double gathers = (4 + 4) * cadre_transformer_parameters(&small_model) / 1e9;
    ck_assert_double_eq_tol(f.cause[CADRE_PLAN_DATA],
                            gathers - f.cause[CADRE_PLAN_COMPUTE], 1e-9);
    hw.software.gather_gb_s = 1e6;
    hw.cluster.bandwidth_gb_s = 1e6;
    ck_assert_double_eq(forecast().cause[CADRE_PLAN_DATA], 0);
}
END_TEST

/* Of 4 micro-batches Cadre scatters gradients once, others 4 times. */
START_TEST(gradients_of_zero_3_by_accounting)
{
    c.data = 4, c.zero = 3;
    hw.software.gather_gb_s = 1;
    hw.software.overlap_gather = 0;
    const double parameters = cadre_transformer_parameters(&small_model) / 1e9;
    ck_assert_double_eq_tol(forecast().cause[CADRE_PLAN_DATA], 20 * parameters, 1e-9);
    hw.accounting = CADRE_ACCOUNTING_MEGATRON;
    ck_assert_double_eq_tol(forecast().cause[CADRE_PLAN_DATA], 32 * parameters, 1e-9);
}
END_TEST

/* In fp32 gradients, parameters and activations take twice the bytes of bf16. */
START_TEST(bytes_on_the_wire_are_those_of_the_type)
{
    static const enum cadre_plan_cause cause[] = {
        CADRE_PLAN_DATA, CADRE_PLAN_DATA, CADRE_PLAN_TENSOR, CADRE_PLAN_PIPELINE};
    hw.software.gradient_bytes = 2;
    hw.software.overlap_gather = 0;
    hw.accounting = _i == 3 ? CADRE_ACCOUNTING_MEGATRON : CADRE_ACCOUNTING_CADRE;
    c.global_batch = 64;
    c.data = _i < 2 ? 4 : 1, c.zero = _i == 1 ? 3 : 0;
    c.tensor = _i == 2 ? 4 : 1, c.pipeline = _i == 3 ? 4 : 1;
    const double narrow = forecast().cause[cause[_i]];
    c.dtype = CADRE_PLAN_FP32;
    ck_assert_double_gt(narrow, 0);
    ck_assert_double_eq_tol(forecast().cause[cause[_i]] / narrow, 2, 1e-9);
}
END_TEST

/* 16 micro-batches: 8 blocks, embedding and head, gathered twice for each and scattered
 * once, in 3 turns; the formula of one gather has one of those operations. */
START_TEST(each_block_that_is_gathered_takes_turns)
{
    c.data = 4, c.zero = 3, c.global_batch = 64;
    hw.software.overlap_gather = 0;
    const double without = forecast().cause[CADRE_PLAN_DATA];
    hw.node.latency_us = 10;
    ck_assert_double_eq_tol(forecast().cause[CADRE_PLAN_DATA] - without,
                            10 * (2 * 16 + 1) * 3 * 10e-6, 1e-9);
}
END_TEST

/* 32000 x 1024 values of bf16 and their gradients in fp32, over 100 GB/s; no other
 * program is taken to, and stages that turn back have both ends. */
START_TEST(tied_weights_of_two_stages)
{
    struct cadre_transformer t = small_model;
    c.pipeline = 4, c.chunks = 2, c.schedule = CADRE_PLAN_BREADTH_FIRST;
    const double tied = cadre_forecast(&t, &c, &hw).cause[CADRE_PLAN_PIPELINE];
    t.tied = false;
    const double own = cadre_forecast(&t, &c, &hw).cause[CADRE_PLAN_PIPELINE];
    ck_assert_double_eq_tol(tied - own, 6 * 32000.0 * 1024 / 100e9, 1e-9);
    t.tied = true;
    hw.accounting = CADRE_ACCOUNTING_MEGATRON;
    ck_assert_double_eq(cadre_forecast(&t, &c, &hw).cause[CADRE_PLAN_PIPELINE], own);
}
END_TEST

/* 4 stages, a message of s: 6 s where they travel beside computing and all
 * micro-batches are on their way; 1f1b has 4 of them, whose 6 messages are waited for.
 */
START_TEST(messages_beside_computing)
{
    c.pipeline = 4, c.global_batch = 64;
    hw.accounting = CADRE_ACCOUNTING_MEGATRON; /* no tied weights */
    const double each = forecast().cause[CADRE_PLAN_PIPELINE] / 64 / 2;
    hw.software.pipeline_beside = true;
    c.schedule = CADRE_PLAN_GPIPE;
    ck_assert_double_eq_tol(forecast().cause[CADRE_PLAN_PIPELINE], 6 * each, 1e-12);
    c.schedule = CADRE_PLAN_1F1B;
    ck_assert_double_eq_tol(forecast().cause[CADRE_PLAN_PIPELINE],
                            6 * each + 64 * 6 * each / 4, 1e-9);
    c.schedule = CADRE_PLAN_ZB_H1; /* weights are on the way once, and hide the rest */
    ck_assert_double_eq_tol(forecast().cause[CADRE_PLAN_PIPELINE], 6 * each, 1e-12);
    hw.node.bandwidth_gb_s = 1e-3; /* the link is what there is to wait for */
    c.schedule = CADRE_PLAN_GPIPE;
    ck_assert_double_gt(forecast().cause[CADRE_PLAN_PIPELINE],
                        60 * 2.0 * 1024 * 1024 / 1e6);
}
END_TEST

START_TEST(a_rank_alone_is_faster)
{
    const double busy = forecast().step;
    hw.device.alone_speedup = 1.25;
    ck_assert_double_eq_tol(busy / forecast().step, 1.25, 1e-9);
    c.data = 2;
    const double two = forecast().cause[CADRE_PLAN_COMPUTE];
    hw.device.alone_speedup = 1;
    ck_assert_double_eq(forecast().cause[CADRE_PLAN_COMPUTE], two);
}
END_TEST

START_TEST(straggling_grows_with_the_nodes)
{
    hw.software.straggle = 0.01;
    ck_assert_double_eq(forecast().cause[CADRE_PLAN_STRAGGLE], 0);
    c.data = 16;
    const struct cadre_forecast f = forecast();
    ck_assert_double_eq_tol(f.cause[CADRE_PLAN_STRAGGLE] / f.step, 0.01 / 1.01, 1e-9);
}
END_TEST

/* plugins/pipeline/README.md: of equal times, gpipe idles as 1f1b, v chunks idle v
 * times less, backward in parts less, and chunks that turn back the least. */
START_TEST(bubbles_of_all_schedules)
{
    c.pipeline = 4, c.global_batch = 64;
    const double plain = forecast().cause[CADRE_PLAN_BUBBLE];
    c.schedule = CADRE_PLAN_GPIPE;
    ck_assert_double_eq(forecast().cause[CADRE_PLAN_BUBBLE], plain);
    c.schedule = CADRE_PLAN_ZB_H1;
    const double split = forecast().cause[CADRE_PLAN_BUBBLE];
    ck_assert_double_lt(split, 0.7 * plain);
    c.chunks = 2;
    c.schedule = CADRE_PLAN_BREADTH_FIRST;
    ck_assert_double_eq_tol(forecast().cause[CADRE_PLAN_BUBBLE], plain / 2, plain / 20);
    c.schedule = CADRE_PLAN_ZB_V;
    ck_assert_double_lt(forecast().cause[CADRE_PLAN_BUBBLE], split);
    c.schedule = CADRE_PLAN_DUALPIPEV;
    ck_assert_double_lt(forecast().cause[CADRE_PLAN_BUBBLE], split);
}
END_TEST

/* Shards stay in a node; their sums alone cross to the other one. */
START_TEST(groups_of_shards_gather_in_their_node)
{
    hw.software.overlap_gather = 0;
    c.data = 16, c.zero = 3, c.global_batch = 128;
    const double whole = forecast().cause[CADRE_PLAN_DATA];
    c.replicas = 2;
    ck_assert_double_lt(forecast().cause[CADRE_PLAN_DATA], whole);
    ck_assert_double_gt(forecast().cause[CADRE_PLAN_DATA], 0);
}
END_TEST

START_TEST(what_limits_is_the_largest_cause)
{
    struct cadre_forecast f = {0};
    f.cause[CADRE_PLAN_COMPUTE] = 1;
    ck_assert_int_eq(cadre_forecast_limit(&f), CADRE_PLAN_COMPUTE);
    f.cause[CADRE_PLAN_BUBBLE] = 1; /* the first of equal ones */
    ck_assert_int_eq(cadre_forecast_limit(&f), CADRE_PLAN_COMPUTE);
    f.cause[CADRE_PLAN_STRAGGLE] = 2;
    ck_assert_int_eq(cadre_forecast_limit(&f), CADRE_PLAN_STRAGGLE);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("forecast");
    TCase *tc = tcase_create("forecast");
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_loop_test(tc, a_step_is_the_sum_of_its_causes, 0, 4);
    tcase_add_test(tc, one_rank_computes_and_updates_alone);
    tcase_add_loop_test(tc, the_bubble_of_a_pipeline, 0, 2);
    tcase_add_test(tc, recomputing_all_costs_a_forward);
    tcase_add_test(tc, gradients_that_nothing_hides);
    tcase_add_test(tc, gathers_of_zero_3_beyond_the_work);
    tcase_add_test(tc, gradients_of_zero_3_by_accounting);
    tcase_add_loop_test(tc, bytes_on_the_wire_are_those_of_the_type, 0, 4);
    tcase_add_test(tc, each_block_that_is_gathered_takes_turns);
    tcase_add_test(tc, tied_weights_of_two_stages);
    tcase_add_test(tc, messages_beside_computing);
    tcase_add_test(tc, a_rank_alone_is_faster);
    tcase_add_test(tc, straggling_grows_with_the_nodes);
    tcase_add_test(tc, bubbles_of_all_schedules);
    tcase_add_test(tc, groups_of_shards_gather_in_their_node);
    tcase_add_test(tc, what_limits_is_the_largest_cause);
    suite_add_tcase(s, tc);
    return s;
}
