/* SPDX-License-Identifier: Apache-2.0 */
#include "core/model/flops.h"
#include "tests/support/check_main.h"
#include "tests/support/finite.h"

static struct cadre_model *model_of(const struct cadre_model_config *config)
{
    struct cadre_model *model;
    struct cadre_error err = {0};
    ck_assert_msg(cadre_model_create(config, 0, 1, &model, &err) == CADRE_OK, "%s",
                  err.text);
    return model;
}

static struct cadre_flops flops_of(const struct cadre_model_config *config, int64_t T,
                                   bool recompute)
{
    struct cadre_model *model = model_of(config);
    struct cadre_flops flops = cadre_model_flops(model, T, NULL, recompute);
    cadre_model_destroy(model);
    return flops;
}

START_TEST(counts_products_and_attention)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_GPT2);
    double block = 24.0 * 72 + 24 * 24 + 2 * 24 * 40;
    double expected = 6 * (2 * block + 24 * 26) + 12.0 * 2 * 24 * 10;
    for (config.tied = false;; config.tied = true) {
        struct cadre_flops flops = flops_of(&config, 10, false);
        ck_assert_double_eq(flops.model, expected);
        ck_assert_double_eq(flops.hardware, expected);
        if (config.tied)
            break;
    }
    config = test_small_model(CADRE_ARCH_LLAMA);
    config.classes = 5;
    block = 24.0 * 48 + 24 * 24 + 3 * 24 * 40;
    expected = 6 * (2 * block + 24 * 5 / 10.0) + 12.0 * 2 * 24 * 10;
    ck_assert_double_eq(flops_of(&config, 10, false).model, expected);
}
END_TEST

/* GPT-2 124M at 1024 tokens: nanoGPT's transformer_sizing.ipynb counts 291,648,307,200
 * FLOPs of a forward pass of one sequence, and three times that with the backward. */
START_TEST(is_the_published_count_of_gpt2)
{
    const struct cadre_model_config config = {.arch = CADRE_ARCH_GPT2,
                                              .layers = 12,
                                              .channels = 768,
                                              .heads = 12,
                                              .kv_heads = 12,
                                              .hidden = 3072,
                                              .context = 1024,
                                              .vocab = 50257,
                                              .tied = true,
                                              .norm_eps = 1e-5,
                                              .dtype = CADRE_F32};
    struct cadre_model *model = model_of(&config);
    ck_assert_uint_eq(cadre_model_count(model), 124439808);
    ck_assert_double_eq(cadre_model_flops(model, 1024, NULL, false).model * 1024,
                        3 * 291648307200.0);
    cadre_model_destroy(model);
}
END_TEST

/* Llama 3 8B, with grouped-query attention: 8,030,261,248 parameters are published.
 * What is no product is the embedding of 128,256 x 4096 and 65 norms of 4096. */
START_TEST(is_that_of_the_published_size_of_llama)
{
    const struct cadre_model_config config = {.arch = CADRE_ARCH_LLAMA,
                                              .layers = 32,
                                              .channels = 4096,
                                              .heads = 32,
                                              .kv_heads = 8,
                                              .hidden = 14336,
                                              .context = 8192,
                                              .vocab = 128256,
                                              .norm_eps = 1e-5,
                                              .rotary.theta = 500000,
                                              .dtype = CADRE_F32};
    const double N = 8030261248.0 - 128256.0 * 4096 - 65.0 * 4096;
    const double scores = 32.0 * 4096 * 8192;
    struct cadre_model *model = model_of(&config);
    ck_assert_uint_eq(cadre_model_count(model), UINT64_C(8030261248));
    struct cadre_flops flops = cadre_model_flops(model, 8192, NULL, true);
    ck_assert_double_eq(flops.model, 6 * N + 12 * scores);
    ck_assert_double_eq(flops.hardware,
                        8 * N - 2 * 128256.0 * 4096 + 16 * scores); /* not the head */
    cadre_model_destroy(model);
}
END_TEST

/* Qwen 2.5 0.5B has 494,032,768 parameters, Qwen 3 0.6B 596,049,920: biases in one, in
 * the other norms of heads, which are twice as wide together as the channels. */
START_TEST(are_those_of_the_published_sizes_of_qwen)
{
    struct cadre_model_config config = {.arch = CADRE_ARCH_LLAMA,
                                        .layers = 24,
                                        .channels = 896,
                                        .heads = 14,
                                        .kv_heads = 2,
                                        .hidden = 4864,
                                        .context = 4096,
                                        .vocab = 151936,
                                        .tied = true,
                                        .norm_eps = 1e-6,
                                        .rotary.theta = 1e6,
                                        .qkv_bias = true,
                                        .dtype = CADRE_F32};
    struct cadre_model *model = model_of(&config);
    ck_assert_uint_eq(cadre_model_count(model), UINT64_C(494032768));
    double N = 494032768.0 - 49 * 896 - 24 * (896 + 2 * 128);
    ck_assert_double_eq(cadre_model_flops(model, 4096, NULL, false).model,
                        6 * N + 12 * 24.0 * 896 * 4096);
    cadre_model_destroy(model);
    config.layers = 28;
    config.channels = 1024;
    config.heads = 16;
    config.kv_heads = 8;
    config.head_size = 128;
    config.hidden = 3072;
    config.qkv_bias = false;
    config.qk_norm = true;
    model = model_of(&config);
    ck_assert_uint_eq(cadre_model_count(model), UINT64_C(596049920));
    N = 596049920.0 - 57 * 1024 - 28 * 2 * 128;
    ck_assert_double_eq(cadre_model_flops(model, 4096, NULL, false).model,
                        6 * N + 12 * 28.0 * 2048 * 4096);
    cadre_model_destroy(model);
}
END_TEST

/* A token takes one expert, after the router. */
START_TEST(one_expert_a_token)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_GPT2);
    config.experts = 6;
    double block = 24.0 * 72 + 24 * 24 + 2 * 24 * 40 + 24 * 6;
    double expected = 6 * (2 * block + 24 * 26) + 12.0 * 2 * 24 * 10;
    struct cadre_flops flops = flops_of(&config, 10, true);
    ck_assert_double_eq_tol(flops.model, expected, 1e-6);
    ck_assert_double_eq_tol(flops.hardware - flops.model,
                            2 * 2 * block + 4.0 * 2 * 24 * 10, 1e-6);
}
END_TEST

/* What is not trained has a gradient to its input alone. */
START_TEST(frozen_weights_count_less)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_GPT2);
    struct cadre_model *model = model_of(&config);
    bool frozen[64] = {false};
    int32_t weight = cadre_model_find(model, "transformer.h.1.attn.c_attn.weight");
    ck_assert_int_ge(weight, 0);
    ck_assert_uint_le(model->n_params, 64);
    double all = cadre_model_flops(model, 10, NULL, false).model;
    frozen[weight] = true;
    ck_assert_double_eq(cadre_model_flops(model, 10, frozen, false).model,
                        all - 2 * 24.0 * 72);
    cadre_model_destroy(model);
}
END_TEST

/* Tensor parallelism changes which rank computes, not the amount. */
START_TEST(is_that_of_the_whole_model)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_LLAMA);
    struct cadre_model *whole = model_of(&config), *half;
    ck_assert_int_eq(cadre_model_create(&config, 1, 2, &half, NULL), CADRE_OK);
    ck_assert_double_eq(cadre_model_flops(whole, 7, NULL, true).hardware,
                        cadre_model_flops(half, 7, NULL, true).hardware);
    cadre_model_destroy(whole);
    cadre_model_destroy(half);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("flops");
    TCase *tc = tcase_create("flops");
    tcase_add_test(tc, counts_products_and_attention);
    tcase_add_test(tc, is_the_published_count_of_gpt2);
    tcase_add_test(tc, is_that_of_the_published_size_of_llama);
    tcase_add_test(tc, are_those_of_the_published_sizes_of_qwen);
    tcase_add_test(tc, one_expert_a_token);
    tcase_add_test(tc, frozen_weights_count_less);
    tcase_add_test(tc, is_that_of_the_whole_model);
    suite_add_tcase(s, tc);
    return s;
}
