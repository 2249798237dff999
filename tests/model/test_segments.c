/* SPDX-License-Identifier: Apache-2.0 */
/* Records that are packed into windows, against the same records one by one. */
#include "core/model/segments.h"
#include "tests/support/check_main.h"
#include "tests/support/finite.h"
#include "tests/support/trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { B = 2, T = 80, N = B * T };

/* Rows of each record; the first three fill the first window. One is longer than a tile
 * of queries. */
static const int64_t lengths[] = {7, 1, 72, 66, 14};
enum { RECORDS = sizeof lengths / sizeof *lengths };

static int32_t positions[N];

static void number(void)
{
    int64_t row = 0;
    for (int r = 0; r < RECORDS; r++)
        for (int64_t t = 0; t < lengths[r]; t++)
            positions[row++] = (int32_t)t;
    ck_assert_int_eq(row, N);
}

static struct cadre_model_config model_of(enum cadre_arch arch, uint32_t dtype)
{
    struct cadre_model_config config = test_small_model(arch);
    config.context = T;
    config.dtype = dtype;
    return config;
}

static void open_packed(struct test_trainer *t, const struct cadre_model_config *config)
{
    number();
    test_trainer_open(t, config, 0, 1, B, T);
    test_trainer_scramble(t, 1, 0.3);
    test_trainer_random_batch(t, 2, B, T);
    t->positions = positions;
    test_trainer_forward(t, B, T);
}

/* Logits of the packed rows are those of each record alone, and gradients their sum. */
static void check(enum cadre_arch arch, uint32_t dtype, double limit)
{
    const struct cadre_model_config config = model_of(arch, dtype);
    const uint64_t V = (uint64_t)config.vocab;
    struct test_trainer packed = {0}, alone = {0};
    uint64_t row = 0;
    open_packed(&packed, &config);
    test_trainer_open(&alone, &config, 0, 1, 1, T);
    test_trainer_scramble(&alone, 1, 0.3);
    for (int r = 0; r < RECORDS; r++) {
        const size_t bytes = (size_t)lengths[r] * sizeof(int32_t);
        memcpy(alone.tokens, packed.tokens + row, bytes);
        memcpy(alone.targets, packed.targets + row, bytes);
        test_trainer_forward(&alone, 1, lengths[r]);
        for (uint64_t i = 0; i < (uint64_t)lengths[r] * V; i++)
            ck_assert_double_eq_tol(
                test_trainer_get(&packed, test_trainer_logits(&packed), row * V + i),
                test_trainer_get(&alone, test_trainer_logits(&alone), i), limit);
        for (int64_t t = 0; t < lengths[r]; t++)
            ck_assert_double_eq_tol(packed.loss_rows[row + (uint64_t)t],
                                    alone.loss_rows[t], limit);
        alone.seed = packed.seed;
        alone.beta = r > 0;
        test_trainer_backward(&alone, false);
        row += (uint64_t)lengths[r];
    }
    test_trainer_backward(&packed, false);
    for (uint32_t p = 0; p < packed.model->n_params; p++) {
        double difference = 0, norm = 0;
        for (uint64_t e = 0; e < test_trainer_count(&packed, p); e++) {
            const double a = test_trainer_get_wide(&packed, packed.grads[p], e);
            const double b = test_trainer_get_wide(&alone, alone.grads[p], e);
            difference += (a - b) * (a - b);
            norm += b * b;
        }
        ck_assert_msg(sqrt(difference / norm) < limit, "%s: %g",
                      packed.model->params[p].name, sqrt(difference / norm));
    }
    test_trainer_close(&packed);
    test_trainer_close(&alone);
}

START_TEST(packed_is_each_alone)
{
    const enum cadre_arch arch = _i ? CADRE_ARCH_LLAMA : CADRE_ARCH_GPT2;
    check(arch, CADRE_F64, 1e-13);
    check(arch, CADRE_F32, 1e-4);
    check(arch, CADRE_BF16, 0.2);
    check(arch, CADRE_F16, 0.03);
}
END_TEST

/* A later record does not see what an earlier one has, to the bit; and its own rows do
 * change with its own tokens. */
START_TEST(records_do_not_see_each_other)
{
    const enum cadre_arch arch = _i ? CADRE_ARCH_LLAMA : CADRE_ARCH_GPT2;
    const struct cadre_model_config config = model_of(arch, CADRE_F32);
    const size_t bytes = (size_t)(N * config.vocab) * sizeof(float);
    const size_t first = (size_t)(lengths[0] * config.vocab);
    struct test_trainer t = {0};
    open_packed(&t, &config);
    float *before = test_trainer_fetch(&t, test_trainer_logits(&t), bytes);
    for (int64_t i = 0; i < lengths[0]; i++)
        t.tokens[i] = (t.tokens[i] + 1) % (int32_t)config.vocab;
    test_trainer_forward(&t, B, T);
    float *after = test_trainer_fetch(&t, test_trainer_logits(&t), bytes);
    ck_assert_int_ne(memcmp(before, after, first * sizeof *before), 0);
    ck_assert_mem_eq(before + first, after + first, bytes - first * sizeof *before);
    t.positions = NULL; /* and without positions it does */
    test_trainer_forward(&t, B, T);
    free(after);
    after = test_trainer_fetch(&t, test_trainer_logits(&t), bytes);
    ck_assert_int_ne(
        memcmp(before + first, after + first, bytes - first * sizeof *before), 0);
    free(before);
    free(after);
    test_trainer_close(&t);
}
END_TEST

/* Positions that say nothing new change no bit. */
START_TEST(whole_sequences_are_the_plain_case)
{
    const enum cadre_arch arch = _i ? CADRE_ARCH_LLAMA : CADRE_ARCH_GPT2;
    const struct cadre_model_config config = model_of(arch, CADRE_F32);
    struct test_trainer t = {0};
    int32_t whole[N];
    open_packed(&t, &config);
    t.positions = NULL;
    const double plain = test_trainer_forward(&t, B, T);
    for (int i = 0; i < N; i++)
        whole[i] = i % T;
    t.positions = whole;
    ck_assert_double_eq(test_trainer_forward(&t, B, T), plain);
    test_trainer_close(&t);
}
END_TEST

/* Nothing but masked targets: no loss, no gradient, no NaN. */
START_TEST(all_masked_is_zero)
{
    const enum cadre_arch arch = _i ? CADRE_ARCH_LLAMA : CADRE_ARCH_GPT2;
    const struct cadre_model_config config = model_of(arch, CADRE_F32);
    struct test_trainer t = {0};
    open_packed(&t, &config);
    for (int i = 0; i < N; i++)
        t.targets[i] = -1;
    ck_assert_double_eq(test_trainer_forward(&t, B, T), 0);
    t.seed = 1;
    test_trainer_backward(&t, false);
    ck_assert_double_eq(test_trainer_grad_norm(&t), 0);
    test_trainer_close(&t);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("segments");
    TCase *tc = tcase_create("segments");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, packed_is_each_alone, 0, 2);
    tcase_add_loop_test(tc, records_do_not_see_each_other, 0, 2);
    tcase_add_loop_test(tc, whole_sequences_are_the_plain_case, 0, 2);
    tcase_add_loop_test(tc, all_masked_is_zero, 0, 2);
    suite_add_tcase(s, tc);
    return s;
}
