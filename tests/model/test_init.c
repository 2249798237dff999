/* SPDX-License-Identifier: Apache-2.0 */
#include "core/model/init.h"
#include "tests/support/check_main.h"
#include "tests/support/finite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/rng.h"

static struct cadre_model *create(const struct cadre_model_config *config, int tp_rank,
                                  int tp_size)
{
    struct cadre_model *model = NULL;
    ck_assert_int_eq(cadre_model_create(config, tp_rank, tp_size, &model, NULL),
                     CADRE_OK);
    return model;
}

static void *values(const struct cadre_model *model, uint32_t index)
{
    uint64_t count = cadre_shape_count(&model->params[index].local);
    unsigned char *out = malloc(count * cadre_dtype_bytes(model->config.dtype));
    cadre_model_init_range(model, index, 42, 0, count, out);
    return out;
}

START_TEST(any_cut_gives_the_same_bits)
{
    static const uint64_t lengths[] = {1, 5, 63, 64, 100};
    struct cadre_model_config config = test_small_model(CADRE_ARCH_GPT2);
    struct cadre_model *model = create(&config, 0, 1);
    for (uint32_t i = 0; i < model->n_params; i++) {
        uint64_t count = cadre_shape_count(&model->params[i].local), at = 0;
        unsigned char *whole = values(model, i);
        double *parts = calloc(count, sizeof *parts);
        for (size_t c = 0; at < count; c++) {
            uint64_t n = lengths[c % 5] < count - at ? lengths[c % 5] : count - at;
            cadre_model_init_range(model, i, 42, at, n, parts + at);
            at += n;
        }
        ck_assert_mem_eq(parts, whole, count * sizeof *parts);
        free(parts);
        free(whole);
    }
    cadre_model_destroy(model);
}
END_TEST

/* Many elements are divided over threads; a few at a time are not. */
START_TEST(threads_change_no_bit)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_GPT2);
    config.vocab = 24000;
    config.dtype = CADRE_F32;
    struct cadre_model *model = create(&config, 0, 1);
    const uint64_t count = cadre_shape_count(&model->params[0].local), step = 50000;
    ck_assert_uint_gt(count, 1 << 19);
    float *whole = values(model, 0), *part = malloc(step * sizeof *part);
    for (uint64_t at = 0; at < count; at += step) {
        const uint64_t n = count - at < step ? count - at : step;
        cadre_model_init_range(model, 0, 42, at, n, part);
        ck_assert_mem_eq(part, whole + at, n * sizeof *part);
    }
    free(part);
    free(whole);
    cadre_model_destroy(model);
}
END_TEST

/* A run is as long as what is consecutive in the whole, or ends a row early. */
static void check_run(const struct cadre_param *param, int tp_rank, int tp_size,
                      uint64_t element)
{
    uint64_t first;
    const uint64_t n = cadre_param_run(param, tp_rank, tp_size, element, &first);
    ck_assert_uint_ge(n, 1);
    ck_assert_uint_le(element + n, cadre_shape_count(&param->local));
    ck_assert_uint_eq(first, cadre_param_logical(param, tp_rank, tp_size, element));
    ck_assert_uint_eq(cadre_param_logical(param, tp_rank, tp_size, element + n - 1),
                      first + n - 1);
}

/* Every logical element is held by one rank (split) or by all (replicated), with the
 * bits that a single rank has. */
static void check_tensor_split(struct cadre_model_config config, int tp_size)
{
    struct cadre_model *whole = create(&config, 0, 1);
    size_t element = cadre_dtype_bytes(config.dtype);
    for (uint32_t i = 0; i < whole->n_params; i++) {
        uint64_t count = cadre_shape_count(&whole->params[i].shape);
        unsigned char *expected = values(whole, i);
        int *seen = calloc(count, sizeof *seen);
        for (int r = 0; r < tp_size; r++) {
            struct cadre_model *part = create(&config, r, tp_size);
            const struct cadre_param *param = &part->params[i];
            unsigned char *mine = values(part, i);
            for (uint64_t e = 0; e < cadre_shape_count(&param->local); e++) {
                uint64_t at = cadre_param_logical(param, r, tp_size, e);
                ck_assert_uint_lt(at, count);
                check_run(param, r, tp_size, e);
                ck_assert_mem_eq(mine + e * element, expected + at * element, element);
                seen[at]++;
            }
            free(mine);
            cadre_model_destroy(part);
        }
        bool replicated = whole->params[i].split == CADRE_SHARD_NONE;
        for (uint64_t e = 0; e < count; e++)
            ck_assert_int_eq(seen[e], replicated ? tp_size : 1);
        free(seen);
        free(expected);
    }
    cadre_model_destroy(whole);
}

START_TEST(tensor_parallel_holds_the_same_bits)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_LLAMA);
    check_tensor_split(config, 2);
    config.dtype = CADRE_F32;
    check_tensor_split(config, 2);
    config = test_small_model(CADRE_ARCH_GPT2);
    config.vocab = 27;
    config.hidden = 42;
    check_tensor_split(config, 3);
}
END_TEST

/* Packed q, k, v: rank 1 of 3 holds the middle third of each. */
START_TEST(packed_thirds_are_sharded)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_GPT2);
    config.vocab = 27;
    config.hidden = 42;
    struct cadre_model *model = create(&config, 1, 3);
    const struct cadre_param *bias =
        &model->params[cadre_model_find(model, "transformer.h.0.attn.c_attn.bias")];
    ck_assert_uint_eq(cadre_param_logical(bias, 1, 3, 0), 8);
    ck_assert_uint_eq(cadre_param_logical(bias, 1, 3, 7), 15);
    ck_assert_uint_eq(cadre_param_logical(bias, 1, 3, 8), 32);
    ck_assert_uint_eq(cadre_param_logical(bias, 1, 3, 16), 56);
    const struct cadre_param *weight =
        &model->params[cadre_model_find(model, "transformer.h.0.attn.c_attn.weight")];
    ck_assert_uint_eq(cadre_param_logical(weight, 1, 3, 24 + 8), 72 + 32);
    cadre_model_destroy(model);
}
END_TEST

START_TEST(values_have_their_scale)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_GPT2);
    config.vocab = 5000;
    config.tied = true;
    struct cadre_model *model = create(&config, 0, 1);
    double *wte = values(model, 0), sum = 0, square = 0;
    double n = 5000 * 24;
    for (int i = 0; i < 5000 * 24; i++) {
        sum += wte[i];
        square += wte[i] * wte[i];
    }
    ck_assert_double_eq_tol(sum / n, 0, 5 * 0.02 / sqrt(n));
    ck_assert_double_eq_tol(sqrt(square / n), 0.02, 5 * 0.02 / sqrt(2 * n));
    double expected =
        0.02 * cadre_rng_normal(cadre_rng_key(42, "transformer.wte.weight"), 17);
    ck_assert(wte[17] == expected);

    uint32_t head = (uint32_t)cadre_model_find(model, "lm_head.weight");
    double *tied = values(model, head);
    ck_assert_mem_eq(tied, wte, (size_t)n * sizeof *wte);
    double *gain =
        values(model, (uint32_t)cadre_model_find(model, "transformer.ln_f.weight"));
    double *shift =
        values(model, (uint32_t)cadre_model_find(model, "transformer.ln_f.bias"));
    for (int i = 0; i < 24; i++)
        ck_assert(gain[i] == 1 && shift[i] == 0);
    free(wte);
    free(tied);
    free(gain);
    free(shift);
    cadre_model_destroy(model);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("init");
    TCase *tc = tcase_create("init");
    tcase_add_test(tc, any_cut_gives_the_same_bits);
    tcase_add_test(tc, threads_change_no_bit);
    tcase_add_test(tc, tensor_parallel_holds_the_same_bits);
    tcase_add_test(tc, packed_thirds_are_sharded);
    tcase_add_test(tc, values_have_their_scale);
    suite_add_tcase(s, tc);
    return s;
}
