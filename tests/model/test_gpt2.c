/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/check_main.h"
#include "tests/support/finite.h"

START_TEST(gradients_tied)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_GPT2);
    config.tied = true;
    test_finite_differences(&config, 3, 7);
}
END_TEST

START_TEST(gradients_untied)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_GPT2);
    test_finite_differences(&config, 2, 11);
}
END_TEST

START_TEST(gradients_of_one_token)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_GPT2);
    config.layers = 1;
    config.heads = config.kv_heads = 1;
    /* keys and queries get no gradient from a single token, so two rows */
    test_finite_differences(&config, 1, 2);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("gpt2");
    TCase *tc = tcase_create("gpt2");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, gradients_tied);
    tcase_add_test(tc, gradients_untied);
    tcase_add_test(tc, gradients_of_one_token);
    suite_add_tcase(s, tc);
    return s;
}
