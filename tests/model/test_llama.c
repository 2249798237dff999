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

START_TEST(gradients_with_biases)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_LLAMA);
    config.qkv_bias = true;
    config.tied = _i;
    test_finite_differences(&config, 2, 7);
}
END_TEST

START_TEST(gradients_with_norms_of_heads)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_LLAMA);
    config.qk_norm = true;
    config.kv_heads = _i ? 1 : 2;
    config.head_size = _i ? 4 : 10; /* narrower and wider than the channels */
    test_finite_differences(&config, 2, 7);
}
END_TEST

START_TEST(gradients_with_scaled_positions)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_LLAMA);
    const struct cadre_rotary scaled[] = {
        {100, CADRE_ROTARY_LINEAR, 3, 0, 0, 0},
        {100, CADRE_ROTARY_LLAMA3, 4, 1, 4, 24},
    };
    config.rotary = scaled[_i];
    config.head_size = 8;
    test_finite_differences(&config, 2, 7);
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
    tcase_add_loop_test(tc, gradients_with_biases, 0, 2);
    tcase_add_loop_test(tc, gradients_with_norms_of_heads, 0, 2);
    tcase_add_loop_test(tc, gradients_with_scaled_positions, 0, 2);
    suite_add_tcase(s, tc);
    return s;
}
