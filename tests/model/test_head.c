/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/check_main.h"
#include "tests/support/finite.h"
#include "tests/support/trainer.h"

#include <math.h>

START_TEST(classification_gradients)
{
    for (int arch = CADRE_ARCH_GPT2; arch <= CADRE_ARCH_LLAMA; arch++) {
        struct cadre_model_config config = test_small_model((enum cadre_arch)arch);
        config.classes = 5;
        config.tied = true; /* has no meaning here */
        test_finite_differences(&config, 6, 7);
    }
}
END_TEST

/* Loss of a row recomputed from its logits. */
static double row_loss(const struct test_trainer *t, int64_t row, int64_t width)
{
    const double *logits = (const double *)test_trainer_logits(t) + row * width;
    double sum = exp(logits[0]);
    for (int64_t c = 1; c < width; c++)
        sum += exp(logits[c]);
    return log(sum) - logits[t->targets[row]];
}

static void check_losses(const struct cadre_model_config *config, int64_t rows,
                         int64_t width)
{
    struct test_trainer t;
    double total = 0, count = 0;
    test_trainer_open(&t, config, 0, 1, 6, 7);
    test_trainer_scramble(&t, 1, 0.3);
    test_trainer_random_batch(&t, 2, 6, 7);
    double loss = test_trainer_forward(&t, 6, 7);
    for (int64_t row = 0; row < rows; row++) {
        double expected = t.targets[row] < 0 ? 0 : row_loss(&t, row, width);
        ck_assert_double_eq_tol(t.loss_rows[row], expected, 1e-13);
        total += expected;
        count += t.targets[row] >= 0;
    }
    ck_assert_double_eq_tol(loss, total / count, 1e-13);
    test_trainer_close(&t);
}

START_TEST(loss_is_that_of_the_logits)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_GPT2);
    check_losses(&config, 6 * 7, config.vocab);
    config.classes = 5;
    check_losses(&config, 6, 5);
}
END_TEST

/* Targets that are all ignored: no loss, no gradient, nothing that is not finite. */
START_TEST(all_targets_ignored)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_LLAMA);
    struct test_trainer t;
    test_trainer_open(&t, &config, 0, 1, 2, 5);
    test_trainer_scramble(&t, 1, 0.3);
    test_trainer_random_batch(&t, 2, 2, 5);
    for (int i = 0; i < 10; i++)
        t.targets[i] = -1;
    ck_assert(test_trainer_forward(&t, 2, 5) == 0);
    test_trainer_backward(&t, false);
    ck_assert(test_trainer_grad_norm(&t) == 0);
    test_trainer_close(&t);
}
END_TEST

enum { SEQUENCES = 3, TIME = 5 };
static const double seeds[SEQUENCES] = {0.75, -0.5, 0.125};

/* What backward is the gradient of, with seeds of its own for each sequence. */
static double seeded_loss(struct test_trainer *t)
{
    double sum = 0;
    test_trainer_forward(t, SEQUENCES, TIME);
    for (int row = 0; row < SEQUENCES * TIME; row++)
        sum += seeds[row / TIME] * t->loss_rows[row];
    return sum;
}

static void check_seeds(int64_t head_rows, bool split)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_LLAMA);
    struct test_trainer t;
    config.head_rows = head_rows;
    test_trainer_open(&t, &config, 0, 1, SEQUENCES, TIME);
    test_trainer_scramble(&t, 1, 0.3);
    test_trainer_random_batch(&t, 2, SEQUENCES, TIME);
    t.loss_seeds = seeds;
    seeded_loss(&t);
    test_trainer_backward(&t, split);
    for (uint32_t i = 0; i < t.model->n_params; i++) {
        const uint64_t e = test_trainer_count(&t, i) / 2;
        double *value = t.values[i] ? (double *)t.values[i] + e : NULL;
        const double h = 1e-3, grad = test_trainer_get(&t, t.grads[i], e);
        double at[5], x;
        if (!value)
            continue; /* tied: with its owner */
        x = *value;
        for (int k = -2; k <= 2; k++) {
            *value = x + k * h;
            at[k + 2] = seeded_loss(&t);
        }
        *value = x;
        ck_assert_double_eq_tol(
            grad, (at[0] - 8 * at[1] + 8 * at[3] - at[4]) / (12 * h), 1e-8);
    }
    test_trainer_close(&t);
}

/* As the loss of pairs has: also where chunks of rows end within a sequence. */
START_TEST(seeds_of_sequences)
{
    check_seeds(0, false);
    check_seeds(0, true);
    check_seeds(4, false);
    check_seeds(4, true);
}
END_TEST

/* A classifier sees the last token alone, so what follows from earlier rows of the norm
 * must not leak: the score of a prefix is the score of the same tokens as a batch. */
START_TEST(classifier_reads_the_last_row)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_GPT2);
    struct test_trainer t;
    double scores[3];
    config.classes = 3;
    test_trainer_open(&t, &config, 0, 1, 2, 6);
    test_trainer_scramble(&t, 1, 0.3);
    test_trainer_random_batch(&t, 2, 2, 6);
    test_trainer_forward(&t, 2, 6);
    for (uint64_t c = 0; c < 3; c++)
        scores[c] = test_trainer_get(&t, test_trainer_logits(&t), 3 + c);
    for (int i = 0; i < 6; i++)
        t.tokens[i] = t.tokens[6 + i];
    test_trainer_forward(&t, 1, 6);
    for (uint64_t c = 0; c < 3; c++)
        ck_assert_double_eq_tol(test_trainer_get(&t, test_trainer_logits(&t), c),
                                scores[c], 1e-13);
    test_trainer_close(&t);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("head");
    TCase *tc = tcase_create("head");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, classification_gradients);
    tcase_add_test(tc, loss_is_that_of_the_logits);
    tcase_add_test(tc, all_targets_ignored);
    tcase_add_test(tc, seeds_of_sequences);
    tcase_add_test(tc, classifier_reads_the_last_row);
    suite_add_tcase(s, tc);
    return s;
}
