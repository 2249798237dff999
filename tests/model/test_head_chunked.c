/* SPDX-License-Identifier: Apache-2.0 */
/* The head in chunks of rows against the whole head, in fp64. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/model/head.h"
#include "core/model/unit.h"
#include "tests/support/check_main.h"
#include "tests/support/finite.h"
#include "tests/support/trainer.h"

enum { B = 3, T = 7, ROWS = B * T };

static void run(const struct cadre_model_config *config, bool split,
                struct test_trainer *t, double *loss)
{
    test_trainer_open(t, config, 0, 1, B, T);
    test_trainer_scramble(t, 1, 0.3);
    test_trainer_random_batch(t, 2, B, T);
    *loss = test_trainer_forward(t, B, T);
    test_trainer_backward(t, split);
    t->beta = 1; /* and once more on top */
    test_trainer_forward(t, B, T);
    test_trainer_backward(t, split);
}

/* Largest difference of gradients over the largest gradient. */
static double difference(const struct test_trainer *a, const struct test_trainer *b)
{
    double most = 0, largest = 0;
    for (uint32_t i = 0; i < a->model->n_params; i++)
        for (uint64_t e = 0; e < test_trainer_count(a, i); e++) {
            double x = test_trainer_get(a, a->grads[i], e);
            double y = test_trainer_get(b, b->grads[i], e);
            most = fmax(most, fabs(x - y));
            largest = fmax(largest, fabs(x));
        }
    return most / largest;
}

/* Chunks of one row, of a number that does not divide the rows, of all rows, of more.
 */
START_TEST(the_same_as_the_whole)
{
    static const int64_t rows[] = {1, 4, 20, ROWS, 100};
    for (int arch = CADRE_ARCH_GPT2; arch <= CADRE_ARCH_LLAMA; arch++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            struct cadre_model_config config = test_small_model((enum cadre_arch)arch);
            struct test_trainer whole, chunked;
            double expected, loss;
            config.tied = arch == CADRE_ARCH_GPT2;
            run(&config, _i, &whole, &expected);
            config.head_rows = rows[i];
            run(&config, _i, &chunked, &loss);
            ck_assert_double_eq_tol(loss, expected, 1e-14);
            for (int r = 0; r < ROWS; r++)
                ck_assert_double_eq_tol(chunked.loss_rows[r], whole.loss_rows[r],
                                        1e-13);
            ck_assert_double_lt(difference(&whole, &chunked), 1e-14);
            test_trainer_close(&whole);
            test_trainer_close(&chunked);
        }
}
END_TEST

/* WEIGHT separate from INPUT has the same bits as BOTH. */
START_TEST(splitting_changes_no_bit)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_GPT2);
    struct test_trainer both, separate;
    double a, b;
    config.head_rows = 4;
    run(&config, false, &both, &a);
    run(&config, true, &separate, &b);
    ck_assert(a == b);
    for (uint32_t i = 0; i < both.model->n_params; i++)
        ck_assert_mem_eq(both.grads[i], separate.grads[i],
                         test_trainer_count(&both, i) * both.element);
    test_trainer_close(&both);
    test_trainer_close(&separate);
}
END_TEST

START_TEST(gradients_are_right)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_LLAMA);
    config.head_rows = 5;
    test_finite_differences(&config, 3, 4);
}
END_TEST

/* No buffer grows with the rows times the vocabulary. */
START_TEST(memory_is_that_of_a_chunk)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_GPT2);
    struct cadre_model *model;
    struct cadre_error err;
    size_t logits, bytes[2];
    config.vocab = 4096;
    for (int i = 0; i < 2; i++) {
        config.head_rows = i ? 4 : 0;
        ck_assert_int_eq(cadre_model_create(&config, 0, 1, &model, &err), CADRE_OK);
        uint32_t head = model->n_units - 1;
        bytes[i] = cadre_unit_saved_bytes(model, head, B, T) +
                   cadre_unit_scratch_bytes(model, head, B, T);
        cadre_model_destroy(model);
    }
    logits = (size_t)config.vocab * cadre_dtype_bytes(config.dtype);
    ck_assert_uint_le(bytes[1] + (ROWS - 4) * logits, bytes[0] + 4096);
    ck_assert_uint_ge(bytes[1], 4 * logits);
}
END_TEST

/* Requested logits come in the same chunks. */
START_TEST(logits_are_computed_again)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_GPT2);
    struct test_trainer whole, chunked;
    test_trainer_open(&whole, &config, 0, 1, B, T);
    config.head_rows = 8;
    test_trainer_open(&chunked, &config, 0, 1, B, T);
    struct test_trainer *both[] = {&whole, &chunked};
    for (int i = 0; i < 2; i++) {
        test_trainer_scramble(both[i], 1, 0.3);
        test_trainer_random_batch(both[i], 2, B, T);
        test_trainer_forward(both[i], B, T);
    }
    struct cadre_pass pass = {
        .device = chunked.device,
        .batch = B,
        .time = T,
        .targets = chunked.targets,
        .loss_rows = chunked.loss_rows,
        .saved = chunked.saved[chunked.model->n_units - 1],
        .scratch = chunked.scratch,
    };
    const double *expected = test_trainer_logits(&whole);
    int64_t rows = 0, sizes[3], n = 0;
    for (int64_t at = 0; at < ROWS; at += rows) {
        const void *got;
        ck_assert_int_eq(cadre_head_logits(chunked.model, &pass, at, &rows, &got),
                         CADRE_OK);
        for (int64_t e = 0; e < rows * config.vocab; e++)
            ck_assert_double_eq_tol(((const double *)got)[e],
                                    expected[at * config.vocab + e], 1e-13);
        ck_assert_int_lt(n, 3);
        sizes[n++] = rows;
    }
    ck_assert(sizes[0] == 8 && sizes[1] == 8 && sizes[2] == 5);
    test_trainer_close(&whole);
    test_trainer_close(&chunked);
}
END_TEST

START_TEST(what_is_asked_for)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_GPT2);
    config.dtype = CADRE_F32;
    config.vocab = 65536; /* 2 GiB are 8192 rows */
    ck_assert_int_eq(cadre_model_head_rows(&config, 8192, 1), 0);
    ck_assert_int_eq(cadre_model_head_rows(&config, 8193, 1), 8192);
    ck_assert_int_eq(cadre_model_head_rows(&config, 8193, 2), 0);
    config.vocab = 50257;
    ck_assert_int_eq(cadre_model_head_rows(&config, 1 << 20, 1), 10624);
    config.dtype = CADRE_BF16;
    ck_assert_int_eq(cadre_model_head_rows(&config, 1 << 20, 1), 21312);
    config.head_rows = 100;
    ck_assert_int_eq(cadre_model_head_rows(&config, 101, 1), 100);
    ck_assert_int_eq(cadre_model_head_rows(&config, 100, 1), 0);
    config.classes = 2;
    ck_assert_int_eq(cadre_model_head_rows(&config, 101, 1), 0);
}
END_TEST

START_TEST(a_split_vocabulary_is_refused)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_GPT2);
    struct cadre_model *model = NULL;
    struct cadre_error err;
    config.heads = config.kv_heads = 2;
    config.vocab = 12;
    config.head_rows = 4;
    ck_assert_int_eq(cadre_model_create(&config, 0, 2, &model, &err),
                     CADRE_E_UNSUPPORTED);
    ck_assert_ptr_null(model);
    ck_assert_ptr_nonnull(strstr(err.text, "model.head_rows = 4, expected 0"));
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("head_chunked");
    TCase *tc = tcase_create("head_chunked");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, the_same_as_the_whole, 0, 2);
    tcase_add_test(tc, splitting_changes_no_bit);
    tcase_add_test(tc, gradients_are_right);
    tcase_add_test(tc, memory_is_that_of_a_chunk);
    tcase_add_test(tc, logits_are_computed_again);
    tcase_add_test(tc, what_is_asked_for);
    tcase_add_test(tc, a_split_vocabulary_is_refused);
    suite_add_tcase(s, tc);
    return s;
}
