/* SPDX-License-Identifier: Apache-2.0 */
/* The ViT form: gradients against finite differences, PyTorch's values, both layouts of
 * bytes, and the order of patches. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/model/image_golden.h"
#include "tests/support/check_main.h"
#include "tests/support/finite.h"
#include "tests/support/trainer.h"

enum {
    B = 4,
    CHANNELS = 3,
    HEIGHT = 8,
    WIDTH = 12,
    PATCH = 4,
    TOKENS = 7,
    CLASSES = 5
};
enum { PIXELS = CHANNELS * HEIGHT * WIDTH, STEPS = 3 };

static struct cadre_model_config vit(bool nhwc)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_GPT2);
    config.context = TOKENS;
    config.vocab = 2;
    config.classes = CLASSES;
    config.image = (struct cadre_image_form){
        .patch = PATCH,
        .channels = CHANNELS,
        .height = HEIGHT,
        .width = WIDTH,
        .nhwc = nhwc,
        .mean = {0.5, 0.25, 0.125},
        .std = {0.25, 0.5, 1},
    };
    return config;
}

/* The values of image_golden.py. */
static void fill(struct test_trainer *t)
{
    static const int32_t targets[B] = {0, 3, 4, 1};
    const struct cadre_model *model = t->model;
    for (uint32_t i = 0; i < model->n_params; i++) {
        const double center = model->params[i].init == CADRE_INIT_ONE ? 1 : 0;
        for (uint64_t e = 0; e < test_trainer_count(t, i); e++) {
            const double k = (double)e;
            test_trainer_set_wide(t, t->masters[i], e,
                                  center +
                                      0.3 * sin(0.7 * k + 1.3 * i + 0.011 * k * k));
        }
    }
    test_trainer_round(t);
    uint8_t *pixels = (uint8_t *)t->tokens;
    for (int i = 0; i < B * PIXELS; i++) {
        const int x = i % WIDTH, y = i / WIDTH % HEIGHT;
        const int c = i / (WIDTH * HEIGHT) % CHANNELS, b = i / PIXELS;
        const int at = model->config.image.nhwc ? (y * WIDTH + x) * CHANNELS + c
                                                : (c * HEIGHT + y) * WIDTH + x;
        pixels[b * PIXELS + at] =
            (uint8_t)((b * 97 + c * 61 + y * 31 + x * 7 + x * y) % 256);
    }
    memcpy(t->targets, targets, sizeof targets);
}

static void open_filled(struct test_trainer *t, bool nhwc)
{
    const struct cadre_model_config config = vit(nhwc);
    ck_assert_int_eq(cadre_model_inputs(&config, TOKENS), PIXELS / 4);
    test_trainer_open(t, &config, 0, 1, B, TOKENS);
    fill(t);
}

START_TEST(gradients)
{
    const struct cadre_model_config config = vit(_i);
    test_finite_differences(&config, 3, TOKENS);
}
END_TEST

static void check_near(double got, double want, double size, const char *what)
{
    ck_assert_msg(fabs(got - want) <= 1e-12 * size, "%s: %.17g, expected %.17g", what,
                  got, want);
}

static void check_grads(const struct test_trainer *t)
{
    const struct cadre_model *model = t->model;
    ck_assert_uint_eq(model->n_params, sizeof golden_grads / sizeof *golden_grads);
    for (uint32_t i = 0; i < model->n_params; i++) {
        const uint64_t n = test_trainer_count(t, i);
        double square = 0;
        for (uint64_t e = 0; e < n; e++)
            square += pow(test_trainer_get_wide(t, t->grads[i], e), 2);
        ck_assert_str_eq(model->params[i].name, golden_grads[i].name);
        check_near(sqrt(square), golden_grads[i].norm, golden_grads[i].norm,
                   golden_grads[i].name);
        check_near(test_trainer_get_wide(t, t->grads[i], n - 1), golden_grads[i].last,
                   golden_grads[i].norm, golden_grads[i].name);
    }
}

/* Losses of three steps, the logits and gradients of the first. */
START_TEST(equals_pytorch)
{
    const struct cadre_optimizer_config adamw = {.kind = CADRE_OPTIMIZER_ADAMW,
                                                 .lr = 1e-2,
                                                 .beta1 = 0.9,
                                                 .beta2 = 0.95,
                                                 .eps = 1e-8,
                                                 .weight_decay = 0.1};
    struct test_trainer t;
    open_filled(&t, _i);
    for (int step = 0; step <= STEPS; step++) {
        const double loss = test_trainer_forward(&t, B, TOKENS);
        check_near(loss, golden_losses[step], golden_losses[step], "loss");
        for (int i = 0; step == 0 && i < B * CLASSES; i++)
            check_near(test_trainer_get(&t, test_trainer_logits(&t), (uint64_t)i),
                       golden_logits[i], 1, "logit");
        test_trainer_backward(&t, step % 2);
        if (step == 0)
            check_grads(&t);
        test_trainer_step(&t, &adamw, step + 1, 1.0);
    }
    test_trainer_close(&t);
}
END_TEST

/* The same bits however the bytes lie. */
START_TEST(layouts_are_equal)
{
    struct test_trainer planes, pixels;
    open_filled(&planes, false);
    open_filled(&pixels, true);
    ck_assert(memcmp(planes.tokens, pixels.tokens, (size_t)B * PIXELS) != 0);
    ck_assert(test_trainer_forward(&planes, B, TOKENS) ==
              test_trainer_forward(&pixels, B, TOKENS));
    test_trainer_backward(&planes, false);
    test_trainer_backward(&pixels, false);
    for (uint32_t i = 0; i < planes.model->n_params; i++)
        ck_assert(memcmp(planes.grads[i], pixels.grads[i],
                         test_trainer_count(&planes, i) * planes.wide) == 0);
    test_trainer_close(&planes);
    test_trainer_close(&pixels);
}
END_TEST

/* Every patch sees every other: the first one's pixels change the class token's row
 * through the last patch, and the other way round. */
START_TEST(no_mask)
{
    struct test_trainer t;
    open_filled(&t, false);
    const double before = test_trainer_forward(&t, B, TOKENS);
    const size_t row = (size_t)t.model->config.channels * t.element;
    void *first = test_trainer_fetch(&t, t.acts[1], row);
    uint8_t *pixels = (uint8_t *)t.tokens;
    pixels[PIXELS - 1] ^= 0x7f; /* of the last patch of the first image */
    ck_assert(test_trainer_forward(&t, B, TOKENS) != before);
    void *now = test_trainer_fetch(&t, t.acts[1], row);
    ck_assert(memcmp(first, now, row) != 0);
    free(first);
    free(now);
    test_trainer_close(&t);
}
END_TEST

static void refused(struct cadre_model_config config, const char *says)
{
    struct cadre_error err = {0};
    struct cadre_model *model = NULL;
    ck_assert(cadre_model_create(&config, 0, 1, &model, &err) != CADRE_OK);
    ck_assert_msg(strstr(err.text, says), "%s", err.text);
}

START_TEST(refuses)
{
    struct cadre_model_config config = vit(false);
    config.image.patch = 5;
    refused(config, "model.patch = 5 does not divide");
    config = vit(false);
    config.context = 8;
    refused(config, "make 7 tokens");
    config = vit(false);
    config.classes = 0;
    refused(config, "model.head = lm");
    config = vit(false);
    config.experts = 2;
    refused(config, "model.experts");
    config = vit(false);
    config.image.std[1] = 0;
    refused(config, "data.std");
    config = vit(false);
    config.image.channels = 4;
    refused(config, "channels");
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("image");
    TCase *tc = tcase_create("image");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, gradients, 0, 2);
    tcase_add_loop_test(tc, equals_pytorch, 0, 2);
    tcase_add_test(tc, layouts_are_equal);
    tcase_add_test(tc, no_mask);
    tcase_add_test(tc, refuses);
    suite_add_tcase(s, tc);
    return s;
}
