/* SPDX-License-Identifier: Apache-2.0 */
#include "core/model/flops.h"
#include "tests/support/check_main.h"
#include "tests/support/finite.h"

START_TEST(counts_products_and_attention)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_GPT2);
    struct cadre_model *model;
    ck_assert_int_eq(cadre_model_create(&config, 0, 1, &model, NULL), CADRE_OK);
    double block = 24.0 * 72 + 24 * 24 + 2 * 24 * 40;
    double expected = 6 * (2 * block + 24 * 26) + 6.0 * 2 * 24 * 10;
    ck_assert_double_eq(cadre_model_flops_per_token(model, 10), expected);
    cadre_model_destroy(model);

    config = test_small_model(CADRE_ARCH_LLAMA);
    config.classes = 5;
    ck_assert_int_eq(cadre_model_create(&config, 0, 1, &model, NULL), CADRE_OK);
    block = 24.0 * 48 + 24 * 24 + 3 * 24 * 40;
    expected = 6 * (2 * block + 24 * 5 / 10.0) + 6.0 * 2 * 24 * 10;
    ck_assert_double_eq(cadre_model_flops_per_token(model, 10), expected);
    cadre_model_destroy(model);
}
END_TEST

/* A token takes one expert, after the router. */
START_TEST(one_expert_a_token)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_GPT2);
    struct cadre_model *model;
    config.experts = 6;
    ck_assert_int_eq(cadre_model_create(&config, 0, 1, &model, NULL), CADRE_OK);
    double block = 24.0 * 72 + 24 * 24 + 2 * 24 * 40 + 24 * 6;
    double expected = 6 * (2 * block + 24 * 26) + 6.0 * 2 * 24 * 10;
    ck_assert_double_eq(cadre_model_flops_per_token(model, 10), expected);
    cadre_model_destroy(model);
}
END_TEST

/* Tensor parallelism changes which rank computes, not the amount. */
START_TEST(is_that_of_the_whole_model)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_LLAMA);
    struct cadre_model *whole, *half;
    ck_assert_int_eq(cadre_model_create(&config, 0, 1, &whole, NULL), CADRE_OK);
    ck_assert_int_eq(cadre_model_create(&config, 1, 2, &half, NULL), CADRE_OK);
    ck_assert_double_eq(cadre_model_flops_per_token(whole, 7),
                        cadre_model_flops_per_token(half, 7));
    cadre_model_destroy(whole);
    cadre_model_destroy(half);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("flops");
    TCase *tc = tcase_create("flops");
    tcase_add_test(tc, counts_products_and_attention);
    tcase_add_test(tc, one_expert_a_token);
    tcase_add_test(tc, is_that_of_the_whole_model);
    suite_add_tcase(s, tc);
    return s;
}
