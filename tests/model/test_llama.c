/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/check_main.h"
#include "tests/support/finite.h"

START_TEST(gradients_tied_grouped)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_LLAMA);
    config.tied = true;
    test_finite_differences(&config, 3, 7);
}
END_TEST

START_TEST(gradients_untied_grouped)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_LLAMA);
    test_finite_differences(&config, 2, 11);
}
END_TEST

START_TEST(gradients_one_kv_head)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_LLAMA);
    config.kv_heads = 1;
    test_finite_differences(&config, 1, 5);
}
END_TEST

START_TEST(gradients_all_kv_heads)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_LLAMA);
    config.kv_heads = config.heads;
    test_finite_differences(&config, 2, 3);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("llama");
    TCase *tc = tcase_create("llama");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, gradients_tied_grouped);
    tcase_add_test(tc, gradients_untied_grouped);
    tcase_add_test(tc, gradients_one_kv_head);
    tcase_add_test(tc, gradients_all_kv_heads);
    suite_add_tcase(s, tc);
    return s;
}
