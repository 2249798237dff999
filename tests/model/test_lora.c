/* SPDX-License-Identifier: Apache-2.0 */
#include "core/model/lora.h"
#include "tests/support/check_main.h"
#include "tests/support/finite.h"
#include "tests/support/trainer.h"

#include <math.h>
#include <string.h>

enum { ALL_LLAMA = 0x3a2a, ALL_GPT2 = 0x514 };

static struct cadre_model_config with_adapters(enum cadre_arch arch, uint32_t targets)
{
    struct cadre_model_config config = test_small_model(arch);
    config.lora = (struct cadre_lora_config){
        .rank = 3, .targets = targets, .alpha = 0.75, .scale = 0.25, .seed = 11};
    return config;
}

static uint32_t all_of(enum cadre_arch arch)
{
    return arch == CADRE_ARCH_LLAMA ? ALL_LLAMA : ALL_GPT2;
}

START_TEST(table)
{
    const struct cadre_model_config config =
        with_adapters(CADRE_ARCH_LLAMA, 1U << LLAMA_V_W | 1U << LLAMA_DOWN_W);
    struct cadre_model *model;
    ck_assert_int_eq(cadre_model_create(&config, 0, 1, &model, NULL), CADRE_OK);
    const int32_t a = cadre_model_find(
        model, "base_model.model.model.layers.1.mlp.down_proj.lora_A.weight");
    const int32_t w = cadre_model_find(model, "model.layers.1.mlp.down_proj.weight");
    ck_assert_int_ge(a, 0);
    ck_assert_int_eq(model->params[w].adapter, a);
    ck_assert_int_eq(model->params[a].adapts, w);
    ck_assert_int_eq(model->params[a + 1].adapts, w);
    ck_assert_uint_eq(model->params[a].shape.dim[0], 3);
    ck_assert_uint_eq(model->params[a].shape.dim[1], (uint64_t)config.hidden);
    ck_assert_uint_eq(model->params[a + 1].shape.dim[0], (uint64_t)config.channels);
    ck_assert_uint_eq(model->params[a + 1].shape.dim[1], 3);
    uint64_t trained = 0;
    for (uint32_t i = 0; i < model->n_params; i++) {
        ck_assert_int_eq(model->params[i].frozen, model->params[i].adapts < 0);
        if (!model->params[i].frozen)
            trained += cadre_shape_count(&model->params[i].shape);
    }
    ck_assert_uint_eq(trained, cadre_model_count_trained(model));
    cadre_model_destroy(model);
}
END_TEST

/* Of each pair one is cut like the weight, and the other's gradient is a sum. */
START_TEST(cut_like_the_weight)
{
    struct cadre_model_config config = with_adapters(CADRE_ARCH_GPT2, ALL_GPT2);
    struct cadre_model *model;
    config.heads = config.kv_heads = 2;
    config.channels = 12;
    config.hidden = 20;
    config.vocab = 24;
    ck_assert_int_eq(cadre_model_create(&config, 1, 2, &model, NULL), CADRE_OK);
    for (uint32_t i = 0; i < model->n_params; i++) {
        const struct cadre_param *w = &model->params[i];
        if (w->adapter < 0)
            continue;
        const struct cadre_param *a = &model->params[w->adapter], *b = a + 1;
        const bool rows = w->split == CADRE_SHARD_ROW;
        ck_assert_uint_eq(rows ? a->split : b->split, w->split);
        ck_assert_uint_eq(rows ? b->split : a->split, CADRE_SHARD_NONE);
        ck_assert_int_eq(a->partial, !rows);
        ck_assert_int_eq(b->partial, rows);
        ck_assert_uint_eq(a->local.dim[1], w->local.dim[0]);
        ck_assert_uint_eq(b->local.dim[0], w->local.dim[1]);
    }
    cadre_model_destroy(model);
}
END_TEST

/* Of all parameters, also those that a run would freeze. */
START_TEST(gradients)
{
    const enum cadre_arch arch = _i ? CADRE_ARCH_LLAMA : CADRE_ARCH_GPT2;
    const struct cadre_model_config config = with_adapters(arch, all_of(arch));
    test_finite_differences(&config, 2, 7);
}
END_TEST

static double loss_of(const struct cadre_model_config *config, bool training)
{
    struct test_trainer t;
    test_trainer_open(&t, config, 0, 1, 2, 6);
    test_trainer_init(&t, 3);
    t.training = training;
    test_trainer_random_batch(&t, 9, 2, 6);
    const double loss = test_trainer_forward(&t, 2, 6);
    test_trainer_close(&t);
    return loss;
}

/* B begins with zero: the values are those of the model alone, to the bit. */
START_TEST(starts_as_the_model)
{
    const enum cadre_arch arch = _i % 2 ? CADRE_ARCH_LLAMA : CADRE_ARCH_GPT2;
    struct cadre_model_config config = with_adapters(arch, all_of(arch));
    config.dtype = _i / 2 ? CADRE_F32 : CADRE_F64;
    const double ours = loss_of(&config, false);
    config.lora.dropout = 0.5;
    const double dropped = loss_of(&config, true);
    config.lora = (struct cadre_lora_config){0};
    const double alone = loss_of(&config, false);
    ck_assert(memcmp(&ours, &alone, sizeof ours) == 0);
    ck_assert(memcmp(&dropped, &alone, sizeof ours) == 0);
}
END_TEST

/* The loss under dropout is a function whose gradient is computed with the same masks:
 * along the gradient of the adapters, by central differences. */
START_TEST(gradients_under_dropout)
{
    const enum cadre_arch arch = _i ? CADRE_ARCH_LLAMA : CADRE_ARCH_GPT2;
    struct cadre_model_config config = with_adapters(arch, all_of(arch));
    struct test_trainer t;
    const double h = 1e-5;
    double square = 0, side[2], without;
    config.lora.dropout = 0.4;
    test_trainer_open(&t, &config, 0, 1, 2, 6);
    test_trainer_scramble(&t, 3, 0.3);
    test_trainer_random_batch(&t, 9, 2, 6);
    without = test_trainer_forward(&t, 2, 6);
    t.training = true;
    t.sample = 4;
    ck_assert(fabs(test_trainer_forward(&t, 2, 6) - without) > 1e-6);
    test_trainer_backward(&t, _i);
    for (int k = -1; k <= 1; k += 2) {
        for (uint32_t i = 0; i < t.model->n_params; i++)
            for (uint64_t e = 0;
                 t.model->params[i].adapts >= 0 && e < test_trainer_count(&t, i); e++) {
                const double g = test_trainer_get_wide(&t, t.grads[i], e);
                const double at = test_trainer_get_wide(&t, t.masters[i], e);
                square += k < 0 ? g * g : 0;
                test_trainer_set_wide(&t, t.masters[i], e,
                                      at + (k < 0 ? -h : 2 * h) * g);
            }
        side[k > 0] = test_trainer_forward(&t, 2, 6);
    }
    ck_assert_double_gt(square, 0);
    const double found = (side[1] - side[0]) / (2 * h);
    ck_assert_msg(fabs(found / square - 1) < 1e-6, "%.17g, expected %.17g", found,
                  square);
    test_trainer_close(&t);
}
END_TEST

START_TEST(refused)
{
    struct cadre_model_config config = with_adapters(CADRE_ARCH_GPT2, ALL_GPT2);
    struct cadre_model *model;
    struct cadre_error err;
    config.classes = 3;
    ck_assert_int_eq(cadre_model_create(&config, 0, 1, &model, &err),
                     CADRE_E_UNSUPPORTED);
    ck_assert(strstr(err.text, "classify"));
    config.classes = 0;
    config.exact_parts = 2;
    config.lora.dropout = 0.1;
    ck_assert_int_eq(cadre_lora_check(&config, &err), CADRE_E_UNSUPPORTED);
    ck_assert(strstr(err.text, "run.exact_parts = 2"));
    config.lora.dropout = 0;
    ck_assert_int_eq(cadre_lora_check(&config, &err), CADRE_OK);
    config.exact_parts = 1;
    config.lora.targets = 0;
    ck_assert_int_eq(cadre_lora_check(&config, &err), CADRE_E_INVALID);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("lora");
    TCase *tc = tcase_create("lora");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, table);
    tcase_add_test(tc, cut_like_the_weight);
    tcase_add_loop_test(tc, gradients, 0, 2);
    tcase_add_loop_test(tc, starts_as_the_model, 0, 4);
    tcase_add_loop_test(tc, gradients_under_dropout, 0, 2);
    tcase_add_test(tc, refused);
    suite_add_tcase(s, tc);
    return s;
}
