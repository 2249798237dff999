/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/transformer.h"

#include <string.h>

#include "tests/plan/plan_fixture.h"
#include "tests/support/check_main.h"

/* Meta's Llama 3.1 70B: 70,553,706,496 parameters, 1,318,912 of them norms. */
START_TEST(parameters_of_llama_70b)
{
    const struct cadre_transformer t = {.layers = 80,
                                        .channels = 8192,
                                        .heads = 64,
                                        .kv_heads = 8,
                                        .hidden = 28672,
                                        .vocab = 128256,
                                        .context = 8192,
                                        .gated = true};
    ck_assert_double_eq(cadre_transformer_parameters(&t), 70553706496.0 - 1318912.0);
}
END_TEST

/* Narayanan et al. 2021, Table 2: 174.6B on 384 GPUs at 144 TFLOP/s trains 300e9 tokens
 * in 90 days. */
START_TEST(equation_3_of_narayanan)
{
    const struct cadre_transformer t = {.layers = 96,
                                        .channels = 12288,
                                        .heads = 96,
                                        .kv_heads = 96,
                                        .hidden = 49152,
                                        .vocab = 51200,
                                        .context = 2048,
                                        .tied = true};
    const double step = cadre_transformer_eq3(&t, 1536) / (384 * 144e12);
    ck_assert_double_eq_tol(step * 300e9 / (1536 * 2048.0) / 86400, 90, 0.5);
}
END_TEST

/* Fedus et al. 2022, section 2.1: a token meets one expert, and the router. */
START_TEST(experts_are_weights_and_one_is_computed)
{
    struct cadre_transformer t = small_model, plain = small_model;
    t.experts = 4;
    const double mlp = 2.0 * 1024 * 4096, router = 4.0 * 1024;
    ck_assert_double_eq(cadre_transformer_block_weights(&t) -
                            cadre_transformer_block_weights(&plain),
                        3 * mlp + router);
    ck_assert_double_eq(cadre_transformer_flops(&t, 1, true) -
                            cadre_transformer_flops(&plain, 1, true),
                        1024 * 6 * 8 * router);
}
END_TEST

/* Of 10 by 6 by tensor ranks, one matrix is divided: A (4, in) where what goes in is.
 */
START_TEST(adapters_are_two_thin_matrices)
{
    struct cadre_transformer t = small_model;
    t.adapter_rank = 4;
    t.n_adapters = 2;
    t.adapter[0] = (struct cadre_plan_adapter){10, 6, false};
    t.adapter[1] = (struct cadre_plan_adapter){6, 10, true};
    ck_assert_double_eq(cadre_transformer_adapters(&t, 1), 2 * 4 * 16);
    ck_assert_double_eq(cadre_transformer_adapters(&t, 2), 4 * (10 + 3) + 4 * (3 + 10));
}
END_TEST

START_TEST(a_causal_mask_leaves_half_of_the_scores)
{
    const double all = cadre_transformer_flops(&small_model, 1, false);
    const double half = cadre_transformer_flops(&small_model, 1, true);
    ck_assert_double_eq(all - half, 6.0 * 8 * 1024 * 1024 * 1024);
}
END_TEST

START_TEST(refuses_sizes_that_cannot_be)
{
    struct cadre_error err;
    struct cadre_transformer t = small_model;
    ck_assert_int_eq(cadre_transformer_check(&t, &err), CADRE_OK);
    t.heads = 3;
    ck_assert_int_eq(cadre_transformer_check(&t, &err), CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, "3 heads must divide") != NULL, "%s", err.text);
    t = small_model;
    t.vocab = 0;
    ck_assert_int_eq(cadre_transformer_check(&t, &err), CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, "vocab is 0") != NULL, "%s", err.text);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("transformer");
    TCase *tc = tcase_create("transformer");
    tcase_add_test(tc, parameters_of_llama_70b);
    tcase_add_test(tc, equation_3_of_narayanan);
    tcase_add_test(tc, experts_are_weights_and_one_is_computed);
    tcase_add_test(tc, adapters_are_two_thin_matrices);
    tcase_add_test(tc, a_causal_mask_leaves_half_of_the_scores);
    tcase_add_test(tc, refuses_sizes_that_cannot_be);
    suite_add_tcase(s, tc);
    return s;
}
