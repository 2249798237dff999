/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/footprint.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/plan/plan_fixture.h"
#include "tests/support/check_main.h"

static const struct cadre_kept published = {.scores = true, .masks = true};
static const struct cadre_kept fused = {.masks = true};

/* Rajbhandari et al. 2019, arXiv 1910.02054, Table 1, as printed: GB of a device at
 * stage 1, 2 and 3 of models of 7.5, 128 and 1000 billion parameters. */
static const struct {
    int ranks;
    const char *cell[9];
} zero_table[] = {
    {1, {"120", "120", "120", "2048", "2048", "2048", "16000", "16000", "16000"}},
    {4, {"52.5", "41.3", "30", "896", "704", "512", "7000", "5500", "4000"}},
    {16, {"35.6", "21.6", "7.5", "608", "368", "128", "4750", "2875", "1000"}},
    {64, {"31.4", "16.6", "1.88", "536", "284", "32", "4187", "2218", "250"}},
    {256, {"30.4", "15.4", "0.47", "518", "263", "8", "4046", "2054", "62.5"}},
    {1024, {"30.1", "15.1", "0.12", "513", "257", "2", "4011", "2013", "15.6"}},
};

/* The paper rounds cells with decimals, halves upwards, and cuts those without. */
static void print_as(const char *cell, double value, char *out, size_t bytes)
{
    const char *dot = strchr(cell, '.');
    const int decimals = dot ? (int)strlen(dot + 1) : 0;
    const double unit = pow(10, decimals);
    snprintf(out, bytes, "%.*f", decimals,
             dot ? floor(value * unit + 0.5) / unit : floor(value));
}

START_TEST(table_1_of_zero_to_the_last_digit)
{
    static const double billions[] = {7.5, 128, 1000};
    double each[3];
    int cells = 0;
    cadre_accounting_bytes(CADRE_ACCOUNTING_ZERO2019, CADRE_PLAN_FP16, each);
    ck_assert_double_eq(each[0] + each[1] + each[2], 16);
    for (size_t row = 0; row < sizeof zero_table / sizeof *zero_table; row++)
        for (int i = 0; i < 9; i++) {
            char text[32];
            const struct cadre_footprint f = cadre_footprint_states(
                billions[i / 3], 1 + i % 3, zero_table[row].ranks, each);
            print_as(zero_table[row].cell[i], f.total, text, sizeof text);
            ck_assert_str_eq(text, zero_table[row].cell[i]);
            cells++;
        }
    ck_assert_int_eq(cells, 54);
}
END_TEST

/* Korthikanti et al. 2022, arXiv 2205.05198, Figure 1 and Table 3: GiB of parameters
 * and optimizer, of activations kept, and of those with selective recompute and
 * sequence parallelism. */
static const struct {
    int64_t heads, channels, layers, pipeline, chunks, micro_batch, global_batch;
    double states, none, selective;
} figure_1[] = {
    {64, 6144, 48, 1, 1, 4, 4, 45.5625, 59.25, 9.5625},
    {96, 12288, 96, 8, 3, 1, 64, 45.5625, 66.84375, 12.3515625},
    {128, 20480, 105, 35, 3, 1, 280, 31.640625, 114.0234375, 23.076171875},
    {160, 25600, 128, 64, 1, 1, 512, 32.958984375, 131.25, 26.5625},
};

START_TEST(figure_1_of_korthikanti_to_the_last_digit)
{
    double each[3];
    const struct cadre_transformer t = {
        .layers = figure_1[_i].layers,
        .channels = figure_1[_i].channels,
        .heads = figure_1[_i].heads,
        .kv_heads = figure_1[_i].heads,
        .hidden = 4 * figure_1[_i].channels,
        .vocab = 51200,
        .context = 2048,
        .tied = true,
    };
    struct cadre_candidate c = {
        .tensor = 8,
        .pipeline = figure_1[_i].pipeline,
        .context = 1,
        .data = 1,
        .chunks = figure_1[_i].chunks,
        .micro_batch = figure_1[_i].micro_batch,
        .global_batch = figure_1[_i].global_batch,
        .dtype = CADRE_PLAN_FP16,
    };
    const double GiB = 1073741824.0;
    cadre_accounting_bytes(CADRE_ACCOUNTING_MEGATRON, CADRE_PLAN_FP16, each);
    const double blocks = (double)cadre_candidate_stage_layers(&c, &t) *
                          cadre_transformer_block_weights(&t) / 8;
    ck_assert_double_eq(cadre_footprint_states(blocks, 0, 1, each).total / GiB,
                        figure_1[_i].states);
    ck_assert_double_eq_tol(cadre_footprint_activations(&t, &c, published) / GiB,
                            figure_1[_i].none, 1e-9);
    c.recompute = CADRE_PLAN_RECOMPUTE_SELECTIVE;
    c.sequence_parallel = true;
    ck_assert_double_eq_tol(cadre_footprint_activations(&t, &c, published) / GiB,
                            figure_1[_i].selective, 1e-9);
}
END_TEST

/* Cadre's blocks have no dropout: 2 bytes a channel and token less than those of
 * Korthikanti et al., on every tensor rank unless sequence parallel. */
START_TEST(masks_that_cadre_does_not_keep)
{
    struct cadre_candidate c = one_rank;
    struct cadre_hardware hw = round_machine;
    const double tokens = 1024, layers = 8, masks = 2 * 1024 * tokens * layers;
    hw.accounting = CADRE_ACCOUNTING_CADRE;
    const double without = cadre_footprint(&small_model, &c, &hw).activations;
    hw.accounting = CADRE_ACCOUNTING_MEGATRON;
    ck_assert_double_eq_tol(
        cadre_footprint(&small_model, &c, &hw).activations - without, masks, 1);
}
END_TEST

START_TEST(bytes_of_each_accounting)
{
    double each[3];
    cadre_accounting_bytes(CADRE_ACCOUNTING_CADRE, CADRE_PLAN_BF16, each);
    ck_assert_double_eq(each[0], 2);
    ck_assert_double_eq(each[1], 4);
    ck_assert_double_eq(each[2], 12);
    cadre_accounting_bytes(CADRE_ACCOUNTING_CADRE, CADRE_PLAN_FP32, each);
    ck_assert_double_eq(each[0] + each[1] + each[2], 16);
}
END_TEST

START_TEST(each_stage_divides_one_kind_more)
{
    const double each[3] = {2, 4, 12};
    const struct cadre_footprint f2 = cadre_footprint_states(100, 2, 4, each);
    ck_assert_double_eq(cadre_footprint_states(100, 0, 4, each).total, 1800);
    ck_assert_double_eq(f2.weights, 200);
    ck_assert_double_eq(f2.gradients, 100);
    ck_assert_double_eq(f2.states, 300);
    ck_assert_double_eq(cadre_footprint_states(100, 3, 4, each).weights, 50);
}
END_TEST

/* zero.reduce = step, the default, keeps whole gradients over several micro-batches. */
START_TEST(accumulated_gradients_are_whole)
{
    struct cadre_candidate c = one_rank;
    struct cadre_hardware hw = round_machine;
    c.data = 4, c.zero = 2;
    const double whole = cadre_footprint(&small_model, &c, &hw).gradients;
    hw.accounting = CADRE_ACCOUNTING_MEGATRON;
    ck_assert_double_eq_tol(whole, 4 * cadre_footprint(&small_model, &c, &hw).gradients,
                            1);
    hw.accounting = CADRE_ACCOUNTING_CADRE;
    c.global_batch = 4;
    ck_assert_double_eq_tol(whole, 4 * cadre_footprint(&small_model, &c, &hw).gradients,
                            1);
}
END_TEST

/* No more micro-batches are kept than there are; chunks that turn back keep p. */
START_TEST(what_schedules_keep)
{
    struct cadre_candidate c = one_rank;
    c.pipeline = 4, c.global_batch = 4;
    const double stage = 2 * cadre_footprint_block(&small_model, &c, fused);
    c.chunks = 2;
    ck_assert_double_eq(cadre_footprint_activations(&small_model, &c, fused),
                        4 * stage);
    c.global_batch = 16;
    ck_assert_double_eq(cadre_footprint_activations(&small_model, &c, fused),
                        5.5 * stage);
    c.schedule = CADRE_PLAN_BREADTH_FIRST;
    ck_assert_double_eq(cadre_footprint_activations(&small_model, &c, fused),
                        16 * stage);
    c.schedule = CADRE_PLAN_ZB_V;
    ck_assert_double_eq(cadre_footprint_activations(&small_model, &c, fused),
                        4.25 * stage);
}
END_TEST

START_TEST(the_reserve_does_not_hold_a_model)
{
    const struct cadre_footprint f = {.total = 70 * 1073741824.0};
    struct cadre_hardware hw = {.device = {.memory_gib = 80, .reserve_gib = 10}};
    ck_assert(cadre_footprint_fits(&f, &hw));
    hw.device.reserve_gib = 10.1;
    ck_assert(!cadre_footprint_fits(&f, &hw));
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("footprint");
    TCase *tc = tcase_create("footprint");
    tcase_add_test(tc, table_1_of_zero_to_the_last_digit);
    tcase_add_loop_test(tc, figure_1_of_korthikanti_to_the_last_digit, 0, 4);
    tcase_add_test(tc, masks_that_cadre_does_not_keep);
    tcase_add_test(tc, bytes_of_each_accounting);
    tcase_add_test(tc, each_stage_divides_one_kind_more);
    tcase_add_test(tc, accumulated_gradients_are_whole);
    tcase_add_test(tc, what_schedules_keep);
    tcase_add_test(tc, the_reserve_does_not_hold_a_model);
    suite_add_tcase(s, tc);
    return s;
}
