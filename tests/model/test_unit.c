/* SPDX-License-Identifier: Apache-2.0 */
#include "core/model/unit.h"
#include "tests/support/check_main.h"
#include "tests/support/finite.h"
#include "tests/support/trainer.h"

#include <stdlib.h>
#include <string.h>

static void copy_grads(const struct test_trainer *t, unsigned char **out)
{
    for (uint32_t i = 0; i < t->model->n_params; i++) {
        size_t bytes = test_trainer_count(t, i) * t->element;
        out[i] = malloc(bytes);
        memcpy(out[i], t->grads[i], bytes);
    }
}

static void check_split(enum cadre_arch arch, uint32_t dtype)
{
    struct cadre_model_config config = test_small_model(arch);
    struct test_trainer t;
    unsigned char *both[64] = {0};
    config.dtype = dtype;
    config.tied = true;
    test_trainer_open(&t, &config, 0, 1, 3, 7);
    test_trainer_init(&t, 1);
    test_trainer_random_batch(&t, 2, 3, 7);
    double loss = test_trainer_forward(&t, 3, 7);
    test_trainer_backward(&t, false);
    copy_grads(&t, both);
    double again = test_trainer_forward(&t, 3, 7);
    ck_assert_mem_eq(&again, &loss, sizeof loss);
    test_trainer_backward(&t, true);
    for (uint32_t i = 0; i < t.model->n_params; i++) {
        ck_assert_mem_eq(t.grads[i], both[i], test_trainer_count(&t, i) * t.element);
        free(both[i]);
    }
    test_trainer_close(&t);
}

START_TEST(split_backward_changes_no_bit)
{
    check_split(CADRE_ARCH_GPT2, CADRE_F64);
    check_split(CADRE_ARCH_GPT2, CADRE_F32);
    check_split(CADRE_ARCH_LLAMA, CADRE_F64);
    check_split(CADRE_ARCH_LLAMA, CADRE_F32);
}
END_TEST

/* beta 1 adds to what is there, for every parameter. */
START_TEST(gradients_accumulate)
{
    for (int arch = CADRE_ARCH_GPT2; arch <= CADRE_ARCH_LLAMA; arch++) {
        struct cadre_model_config config = test_small_model((enum cadre_arch)arch);
        struct test_trainer t;
        unsigned char *once[64] = {0};
        test_trainer_open(&t, &config, 0, 1, 3, 7);
        test_trainer_scramble(&t, 1, 0.3);
        test_trainer_random_batch(&t, 2, 3, 7);
        test_trainer_forward(&t, 3, 7);
        test_trainer_backward(&t, false);
        copy_grads(&t, once);
        test_trainer_forward(&t, 3, 7);
        t.beta = 1;
        test_trainer_backward(&t, false);
        for (uint32_t i = 0; i < t.model->n_params; i++) {
            for (uint64_t e = 0; e < test_trainer_count(&t, i); e++) {
                double one = test_trainer_get(&t, once[i], e);
                ck_assert_double_eq_tol(test_trainer_get(&t, t.grads[i], e), 2 * one,
                                        1e-14);
            }
            free(once[i]);
        }
        test_trainer_close(&t);
    }
}
END_TEST

/* A model large enough for several tiles an op: the bits are those of one thread. */
static void check_threads(enum cadre_arch arch, uint32_t dtype)
{
    struct cadre_device_config three = {.kind = "cpu", .threads = 3};
    struct cadre_model_config config = test_small_model(arch);
    struct test_trainer t;
    unsigned char *single[64] = {0};
    config.channels = 96;
    config.hidden = 300;
    config.vocab = 700;
    config.context = 80;
    config.dtype = dtype;
    test_trainer_open(&t, &config, 0, 1, 5, 80);
    test_trainer_init(&t, 1);
    test_trainer_random_batch(&t, 2, 5, 80);
    double loss = test_trainer_forward(&t, 5, 80);
    test_trainer_backward(&t, false);
    copy_grads(&t, single);

    struct cadre_device *device = t.device;
    ck_assert_int_eq(cadre_device_open(&three, &t.device, NULL), CADRE_OK);
    double again = test_trainer_forward(&t, 5, 80);
    test_trainer_backward(&t, false);
    ck_assert_mem_eq(&again, &loss, sizeof loss);
    for (uint32_t i = 0; i < t.model->n_params; i++) {
        ck_assert_mem_eq(t.grads[i], single[i], test_trainer_count(&t, i) * t.element);
        free(single[i]);
    }
    cadre_device_close(t.device);
    t.device = device;
    test_trainer_close(&t);
}

START_TEST(threads_change_no_bit)
{
    check_threads(CADRE_ARCH_GPT2, CADRE_F32);
    check_threads(CADRE_ARCH_GPT2, CADRE_F64);
    check_threads(CADRE_ARCH_LLAMA, CADRE_F32);
}
END_TEST

/* Later tokens must not change earlier outputs: the mask is causal. */
START_TEST(outputs_are_causal)
{
    for (int arch = CADRE_ARCH_GPT2; arch <= CADRE_ARCH_LLAMA; arch++) {
        struct cadre_model_config config = test_small_model((enum cadre_arch)arch);
        struct test_trainer t;
        double before[26];
        test_trainer_open(&t, &config, 0, 1, 1, 8);
        test_trainer_scramble(&t, 1, 0.3);
        test_trainer_random_batch(&t, 2, 1, 8);
        test_trainer_forward(&t, 1, 8);
        for (uint64_t v = 0; v < 26; v++)
            before[v] = test_trainer_get(&t, test_trainer_logits(&t), 4 * 26 + v);
        for (int i = 5; i < 8; i++)
            t.tokens[i] = (t.tokens[i] + 1) % 26;
        test_trainer_forward(&t, 1, 8);
        for (uint64_t v = 0; v < 26; v++)
            ck_assert_double_eq_tol(
                test_trainer_get(&t, test_trainer_logits(&t), 4 * 26 + v), before[v],
                1e-13);
        test_trainer_close(&t);
    }
}
END_TEST

START_TEST(sizes_are_aligned_and_grow)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_GPT2);
    struct cadre_model *model;
    ck_assert_int_eq(cadre_model_create(&config, 0, 1, &model, NULL), CADRE_OK);
    for (uint32_t u = 0; u < model->n_units; u++) {
        size_t saved = cadre_unit_saved_bytes(model, u, 3, 7);
        size_t grad_outputs = cadre_unit_grad_outputs_bytes(model, u, 3, 7);
        size_t scratch = cadre_unit_scratch_bytes(model, u, 3, 7);
        size_t early = cadre_unit_saved_for_input_bytes(model, u, 3, 7);
        ck_assert_uint_eq((saved | early | grad_outputs | scratch) % 64, 0);
        ck_assert_int_eq(early > 0, u > 0 && u + 1 < model->n_units);
        ck_assert(early == 0 || early < saved);
        ck_assert_uint_gt(scratch, 0);
        ck_assert(u == 0 || cadre_unit_saved_bytes(model, u, 6, 7) > saved);
    }
    cadre_model_destroy(model);
}
END_TEST

START_TEST(bad_calls_are_refused)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_GPT2);
    struct cadre_model *model;
    ck_assert_int_eq(cadre_model_create(&config, 0, 1, &model, NULL), CADRE_OK);
    static const int64_t bad[][2] = {{0, 4}, {-1, 4}, {1, 0}, {1, 12}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct cadre_pass pass = {.batch = bad[i][0], .time = bad[i][1]};
        ck_assert_int_eq(cadre_unit_forward(model, 1, &pass, NULL, NULL),
                         CADRE_E_INVALID);
        ck_assert_int_eq(cadre_unit_backward_input(model, 1, &pass, NULL, NULL, NULL),
                         CADRE_E_INVALID);
        ck_assert_int_eq(cadre_unit_backward_weight(model, 1, &pass, NULL),
                         CADRE_E_INVALID);
    }
    struct cadre_pass pass = {.batch = 1, .time = 1};
    ck_assert_int_eq(cadre_unit_forward(model, 4, &pass, NULL, NULL), CADRE_E_INVALID);
    cadre_model_destroy(model);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("unit");
    TCase *tc = tcase_create("unit");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, split_backward_changes_no_bit);
    tcase_add_test(tc, gradients_accumulate);
    tcase_add_test(tc, threads_change_no_bit);
    tcase_add_test(tc, outputs_are_causal);
    tcase_add_test(tc, sizes_are_aligned_and_grow);
    tcase_add_test(tc, bad_calls_are_refused);
    suite_add_tcase(s, tc);
    return s;
}
