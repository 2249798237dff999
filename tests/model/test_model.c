/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/check_main.h"
#include "tests/support/finite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct cadre_model *create(const struct cadre_model_config *config, int tp_rank,
                                  int tp_size)
{
    struct cadre_model *model = NULL;
    struct cadre_error err = {0};
    ck_assert_msg(cadre_model_create(config, tp_rank, tp_size, &model, &err) ==
                      CADRE_OK,
                  "%s", err.text);
    return model;
}

static const struct cadre_param *find(const struct cadre_model *model, const char *name)
{
    int32_t index = cadre_model_find(model, name);
    ck_assert_msg(index >= 0, "no %s", name);
    return &model->params[index];
}

static void check_shape(const struct cadre_shape *shape, uint64_t rows, uint64_t cols)
{
    ck_assert_uint_eq(shape->dim[0], rows);
    ck_assert_uint_eq(shape->ndim, cols ? 2 : 1);
    if (cols)
        ck_assert_uint_eq(shape->dim[1], cols);
}

/* GPT-2 small: 124,439,808 parameters (Hugging Face, tied head). */
START_TEST(gpt2_small_has_its_count)
{
    struct cadre_model_config config = {
        .arch = CADRE_ARCH_GPT2,
        .layers = 12,
        .channels = 768,
        .heads = 12,
        .kv_heads = 12,
        .hidden = 3072,
        .context = 1024,
        .vocab = 50257,
        .tied = true,
        .norm_eps = 1e-5,
        .dtype = CADRE_F32,
    };
    struct cadre_model *model = create(&config, 0, 1);
    ck_assert_uint_eq(cadre_model_count(model), 124439808);
    ck_assert_uint_eq(model->n_units, 14);
    ck_assert_uint_eq(model->n_params, 2 + 12 * 12 + 3);
    check_shape(&find(model, "transformer.h.11.attn.c_attn.weight")->shape, 768, 2304);
    check_shape(&find(model, "transformer.h.0.mlp.c_proj.weight")->shape, 3072, 768);
    check_shape(&find(model, "transformer.wpe.weight")->shape, 1024, 768);
    const struct cadre_param *head = find(model, "lm_head.weight");
    ck_assert_int_eq(head->tied_to, cadre_model_find(model, "transformer.wte.weight"));
    ck_assert_uint_eq(head->unit, 13);
    ck_assert_int_eq(cadre_model_find(model, "transformer.h.12.ln_1.weight"), -1);
    cadre_model_destroy(model);
}
END_TEST

/* TinyLlama 1.1B: 1,100,048,384 parameters. */
START_TEST(tinyllama_has_its_count)
{
    struct cadre_model_config config = {
        .arch = CADRE_ARCH_LLAMA,
        .layers = 22,
        .channels = 2048,
        .heads = 32,
        .kv_heads = 4,
        .hidden = 5632,
        .context = 2048,
        .vocab = 32000,
        .norm_eps = 1e-5,
        .rotary.theta = 10000,
        .dtype = CADRE_F32,
    };
    struct cadre_model *model = create(&config, 0, 1);
    ck_assert_uint_eq(cadre_model_count(model), 1100048384);
    check_shape(&find(model, "model.layers.21.self_attn.k_proj.weight")->shape, 256,
                2048);
    check_shape(&find(model, "model.layers.0.mlp.down_proj.weight")->shape, 2048, 5632);
    ck_assert_int_eq(find(model, "lm_head.weight")->tied_to, -1);
    cadre_model_destroy(model);
}
END_TEST

START_TEST(units_are_in_order)
{
    for (int arch = CADRE_ARCH_GPT2; arch <= CADRE_ARCH_LLAMA; arch++) {
        struct cadre_model_config config = test_small_model((enum cadre_arch)arch);
        struct cadre_model *model = create(&config, 0, 1);
        uint32_t unit = 0;
        for (uint32_t i = 0; i < model->n_params; i++) {
            const struct cadre_param *param = &model->params[i];
            ck_assert(param->unit == unit || param->unit == unit + 1);
            unit = param->unit;
            ck_assert_int_eq(param->decay, param->shape.ndim >= 2);
            ck_assert_int_eq(cadre_model_find(model, param->name), (int)i);
            ck_assert_ptr_null(param->data);
        }
        ck_assert_uint_eq(unit, model->n_units - 1);
        cadre_model_destroy(model);
    }
}
END_TEST

START_TEST(initial_scales)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_GPT2);
    struct cadre_model *model = create(&config, 0, 1);
    ck_assert(find(model, "transformer.wte.weight")->init_std == 0.02);
    ck_assert(find(model, "transformer.h.1.mlp.c_fc.weight")->init_std == 0.02);
    double residual = 0.02 / sqrt(4.0); /* 2 layers */
    ck_assert(find(model, "transformer.h.1.mlp.c_proj.weight")->init_std == residual);
    ck_assert(find(model, "transformer.h.0.attn.c_proj.weight")->init_std == residual);
    ck_assert_int_eq(find(model, "transformer.h.0.ln_1.weight")->init, CADRE_INIT_ONE);
    ck_assert_int_eq(find(model, "transformer.h.0.ln_1.bias")->init, CADRE_INIT_ZERO);
    cadre_model_destroy(model);
}
END_TEST

START_TEST(classifier_has_scores_and_no_tie)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_LLAMA);
    config.classes = 5;
    config.tied = true;
    config.vocab = 27; /* not split, so it need not divide */
    struct cadre_model *model = create(&config, 1, 2);
    check_shape(&find(model, "score.weight")->local, 5, 24);
    ck_assert_int_eq(cadre_model_find(model, "lm_head.weight"), -1);
    const struct cadre_param *wte = find(model, "model.embed_tokens.weight");
    ck_assert_int_eq(wte->split, CADRE_SHARD_NONE);
    check_shape(&wte->local, 27, 24);
    ck_assert_int_eq(model->vocab, 27);
    ck_assert_int_eq(model->vocab_begin, 0);
    cadre_model_destroy(model);
}
END_TEST

START_TEST(local_shapes_under_a_split)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_LLAMA);
    struct cadre_model *model = create(&config, 1, 2);
    ck_assert_int_eq(model->vocab_begin, 13);
    ck_assert_int_eq(model->heads, 2);
    ck_assert_int_eq(model->kv_heads, 1);
    ck_assert_int_eq(model->hidden, 20);
    check_shape(&find(model, "model.layers.0.self_attn.q_proj.weight")->local, 12, 24);
    check_shape(&find(model, "model.layers.0.self_attn.k_proj.weight")->local, 6, 24);
    check_shape(&find(model, "model.layers.0.self_attn.o_proj.weight")->local, 24, 12);
    check_shape(&find(model, "model.layers.0.mlp.up_proj.weight")->local, 20, 24);
    check_shape(&find(model, "model.layers.0.mlp.down_proj.weight")->local, 24, 20);
    check_shape(&find(model, "lm_head.weight")->local, 13, 24);
    check_shape(&find(model, "model.norm.weight")->local, 24, 0);
    cadre_model_destroy(model);
    config = test_small_model(CADRE_ARCH_GPT2);
    config.vocab = 27;
    config.hidden = 42;
    model = create(&config, 2, 3);
    ck_assert_int_eq(model->vocab_begin, 18);
    check_shape(&find(model, "transformer.h.0.attn.c_attn.weight")->local, 24, 24);
    check_shape(&find(model, "transformer.h.0.attn.c_attn.bias")->local, 24, 0);
    check_shape(&find(model, "transformer.h.0.attn.c_proj.weight")->local, 8, 24);
    check_shape(&find(model, "transformer.h.0.attn.c_proj.bias")->local, 24, 0);
    check_shape(&find(model, "transformer.h.0.mlp.c_fc.bias")->local, 14, 0);
    check_shape(&find(model, "transformer.wpe.weight")->local, 11, 24);
    cadre_model_destroy(model);
}
END_TEST

/* One wrong value each: the error names the key and the numbers. */
static void check_refused(struct cadre_model_config config, int tp_size,
                          cadre_status status, const char *key, const char *number)
{
    struct cadre_model *model = NULL;
    struct cadre_error err = {0};
    ck_assert_int_eq(cadre_model_create(&config, 0, tp_size, &model, &err), status);
    ck_assert_ptr_null(model);
    ck_assert_msg(strstr(err.text, key) && strstr(err.text, number),
                  "'%s' names not %s and %s", err.text, key, number);
    ck_assert_int_eq(cadre_model_create(&config, 0, tp_size, &model, NULL), status);
}

/* The router, then each expert; every one is held by one rank of those that share them.
 * */
START_TEST(experts_are_in_order)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_GPT2);
    config.experts = 6;
    struct cadre_model *model = create(&config, 0, 1);
    const uint32_t first = cadre_model_first_param(model, 2);
    ck_assert_uint_eq(first, 2 + 8 + 1 + 6 * 4);
    ck_assert_uint_eq(cadre_model_first_param(model, 3), first + 8 + 1 + 6 * 4);
    ck_assert_str_eq(model->params[first].name, "transformer.h.1.ln_1.weight");
    const struct cadre_param *router = &model->params[first + 8];
    ck_assert_str_eq(router->name, "transformer.h.1.mlp.router.weight");
    check_shape(&router->shape, 24, 6);
    ck_assert_int_eq(router->expert, -1);
    for (int32_t e = 0; e < 6; e++) {
        const struct cadre_param *fc = &model->params[first + 9 + 4 * (uint32_t)e];
        char name[80];
        snprintf(name, sizeof name, "transformer.h.1.mlp.experts.%d.c_fc.weight", e);
        ck_assert_str_eq(fc->name, name);
        check_shape(&fc[0].shape, 24, 40);
        check_shape(&fc[1].shape, 40, 0);
        check_shape(&fc[2].shape, 40, 24);
        check_shape(&fc[3].shape, 24, 0);
        ck_assert_double_lt(fc[2].init_std, fc[0].init_std); /* onto the residual */
        for (int i = 0; i < 4; i++)
            ck_assert_int_eq(fc[i].expert, e);
    }
    model->ep_size = 3;
    model->ep_rank = 1;
    for (uint32_t i = 0; i < model->n_params; i++) {
        const int32_t e = model->params[i].expert;
        ck_assert(cadre_model_holds(model, i) == (e < 0 || e == 2 || e == 3));
    }
    cadre_model_destroy(model);
}
END_TEST

/* What a model with experts cannot be. */
START_TEST(bad_experts_are_refused)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_GPT2);
    struct cadre_model *model = NULL;
    struct cadre_error err = {0};
    config.experts = CADRE_MAX_EXPERTS + 1;
    ck_assert_int_eq(cadre_model_create(&config, 0, 1, &model, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "model.experts = 1025, expected 0 to 1024"));
    config.experts = 2;
    config.heads = config.kv_heads = 4;
    memset(&err, 0, sizeof err);
    ck_assert_int_eq(cadre_model_create(&config, 1, 2, &model, &err),
                     CADRE_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.text, "with tensor parallelism"));
    config = test_small_model(CADRE_ARCH_LLAMA);
    config.experts = 2;
    memset(&err, 0, sizeof err);
    ck_assert_int_eq(cadre_model_create(&config, 0, 1, &model, &err),
                     CADRE_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.text, "with model.arch = llama"));
}
END_TEST

START_TEST(bad_sizes_are_refused)
{
    const struct cadre_model_config good = test_small_model(CADRE_ARCH_GPT2);
    struct cadre_model_config bad;
    bad = good, bad.layers = 0;
    check_refused(bad, 1, CADRE_E_INVALID, "model.layers", "0");
    bad = good, bad.layers = INT64_MAX;
    check_refused(bad, 1, CADRE_E_INVALID, "model.layers", "9223372036854775807");
    bad = good, bad.channels = -24;
    check_refused(bad, 1, CADRE_E_INVALID, "model.channels", "-24");
    bad = good, bad.channels = 25;
    check_refused(bad, 1, CADRE_E_INVALID, "model.channels", "25");
    bad = good, bad.heads = 0;
    check_refused(bad, 1, CADRE_E_INVALID, "model.heads", "0");
    bad = good, bad.kv_heads = 2;
    check_refused(bad, 1, CADRE_E_INVALID, "model.kv_heads", "2");
    bad = good, bad.kv_heads = 1;
    check_refused(bad, 1, CADRE_E_INVALID, "gpt2", "1");
    bad = good, bad.vocab = INT64_MAX;
    check_refused(bad, 1, CADRE_E_INVALID, "model.vocab", "9223372036854775807");
    bad = good, bad.context = 0;
    check_refused(bad, 1, CADRE_E_INVALID, "model.context", "0");
    bad = good, bad.classes = -1;
    check_refused(bad, 1, CADRE_E_INVALID, "model.classes", "-1");
    bad = good, bad.hidden = 0;
    check_refused(bad, 1, CADRE_E_INVALID, "model.hidden", "0");
    bad = good, bad.norm_eps = NAN;
    check_refused(bad, 1, CADRE_E_INVALID, "model.norm_eps", "nan");
    bad = good, bad.dtype = CADRE_I32;
    check_refused(bad, 1, CADRE_E_UNSUPPORTED, "bf16", "f32");
    bad = good, bad.arch = (enum cadre_arch)7;
    check_refused(bad, 1, CADRE_E_INVALID, "model.arch", "7");
}
END_TEST

START_TEST(bad_llama_is_refused)
{
    const struct cadre_model_config good = test_small_model(CADRE_ARCH_LLAMA);
    struct cadre_model_config bad;
    bad = good, bad.channels = 12;
    check_refused(bad, 1, CADRE_E_INVALID, "rotary", "3");
    bad = good, bad.rotary.theta = 0;
    check_refused(bad, 1, CADRE_E_INVALID, "model.rope_theta", "0");
}
END_TEST

START_TEST(bad_splits_are_refused)
{
    const struct cadre_model_config good = test_small_model(CADRE_ARCH_LLAMA);
    struct cadre_model_config bad;
    struct cadre_model *model = NULL;
    check_refused(good, 3, CADRE_E_INVALID, "model.heads = 4", "3");
    check_refused(good, 4, CADRE_E_INVALID, "model.kv_heads = 2", "4");
    bad = good, bad.hidden = 41;
    check_refused(bad, 2, CADRE_E_INVALID, "model.hidden = 41", "2");
    bad = good, bad.vocab = 27;
    check_refused(bad, 2, CADRE_E_INVALID, "model.vocab = 27", "2");
    check_refused(good, 0, CADRE_E_INVALID, "rank 0", "0");
    ck_assert_int_eq(cadre_model_create(&good, 2, 2, &model, NULL), CADRE_E_INVALID);
    ck_assert_int_eq(cadre_model_create(&good, -1, 2, &model, NULL), CADRE_E_INVALID);
    cadre_model_destroy(NULL);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("model");
    TCase *tc = tcase_create("model");
    tcase_add_test(tc, gpt2_small_has_its_count);
    tcase_add_test(tc, tinyllama_has_its_count);
    tcase_add_test(tc, units_are_in_order);
    tcase_add_test(tc, initial_scales);
    tcase_add_test(tc, classifier_has_scores_and_no_tie);
    tcase_add_test(tc, local_shapes_under_a_split);
    tcase_add_test(tc, experts_are_in_order);
    tcase_add_test(tc, bad_experts_are_refused);
    tcase_add_test(tc, bad_sizes_are_refused);
    tcase_add_test(tc, bad_llama_is_refused);
    tcase_add_test(tc, bad_splits_are_refused);
    suite_add_tcase(s, tc);
    return s;
}
