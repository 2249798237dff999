/* SPDX-License-Identifier: Apache-2.0 */
/* What is computed from kept keys and values against what is computed from all tokens,
 * beyond the end of the context, and both models of the samples against transformers'
 * greedy ids (golden.json). */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/rng.h"
#include "core/checkpoint/load.h"
#include "core/generate/decoder.h"
#include "tests/engine/rank_fixture.h"
#include "tests/support/check_main.h"

enum { CONTEXT = 16, TOKENS = 53, VOCAB = 96 };

static struct rank_fixture f;
static int32_t ids[TOKENS];

static void setup(void)
{
    rank_fixture_open(&f);
    f.spec.dataset = NULL;
    f.spec.global_batch = f.spec.micro_batch = 1;
    f.spec.model.vocab = VOCAB;
    for (int i = 0; i < TOKENS; i++)
        ids[i] = (i * i * 7 + i * 5) % VOCAB;
}

static void teardown(void)
{
    rank_fixture_close(&f);
}

static struct cadre_decoder *open(bool keeps)
{
    struct cadre_decoder *d = NULL;
    cadre_status rc = cadre_decoder_create(&f.rank, keeps, &d, &f.err);
    ck_assert_msg(rc == CADRE_OK, "%s", f.err.text);
    return d;
}

static const double *next(struct cadre_decoder *d, const int32_t *of, size_t n)
{
    const double *logits = NULL;
    cadre_status rc = cadre_decoder_next(d, of, n, &logits, &f.err);
    ck_assert_msg(rc == CADRE_OK, "%s", f.err.text);
    return logits;
}

/* Values at which every part of the model has an effect; norm weights around 1. */
static void scramble(void)
{
    struct cadre_device *device = f.rank.device;
    for (uint32_t i = 0; i < f.rank.model->n_params; i++) {
        const struct cadre_param *p = &f.rank.model->params[i];
        const uint64_t key = cadre_rng_key(11, p->name),
                       n = cadre_shape_count(&p->local);
        for (uint64_t e = 0; p->tied_to < 0 && e < n; e++) {
            const double value =
                (p->init == CADRE_INIT_ONE) + 0.3 * cadre_rng_normal(key, e);
            char *to = (char *)p->data + e * cadre_dtype_bytes(f.spec.model.dtype);
            ck_assert_int_eq(
                device->ops->cast(device, f.spec.model.dtype, to, CADRE_F64, &value, 1),
                CADRE_OK);
        }
    }
}

static void start(void)
{
    rank_fixture_start(&f);
    scramble();
}

/* The largest difference of the logits of all prefixes, relative to the largest logit.
 * Tokens come one at a time, the first five at once. */
static double difference(void)
{
    struct cadre_decoder *kept = open(true), *whole = open(false);
    double worst = 0, most = 0;
    for (size_t n = 5; n <= TOKENS; n++) {
        const double *a = next(kept, ids, n), *b = next(whole, ids, n);
        for (int64_t v = 0; v < VOCAB; v++) {
            ck_assert(isfinite(a[v]));
            worst = fmax(worst, fabs(a[v] - b[v]));
            most = fmax(most, fabs(b[v]));
        }
        ck_assert_uint_eq(cadre_decoder_begin(kept), cadre_decoder_begin(whole));
    }
    ck_assert_double_gt(most, 0.1);
    cadre_decoder_destroy(kept);
    cadre_decoder_destroy(whole);
    return worst / most;
}

static void check_difference(const char *what, double limit)
{
    start();
    const double worst = difference();
    if (getenv("CADRE_TEST_SHOW"))
        printf("%s %s: %g of %g\n", what, cadre_dtype_name(f.spec.model.dtype), worst,
               limit);
    ck_assert_msg(worst <= limit, "%s %s: %g over %g", what,
                  cadre_dtype_name(f.spec.model.dtype), worst, limit);
    rank_fixture_stop(&f);
}

/* Both forms, grouped queries, experts. */
static void each_form(uint32_t dtype, double limit)
{
    struct cadre_model_config *m = &f.spec.model;
    m->dtype = dtype;
    check_difference("gpt2", limit);
    m->experts = 4;
    check_difference("experts", limit);
    m->experts = 0;
    m->head_rows = 4; /* rows that the head scores at once */
    check_difference("head in chunks", limit);
    m->head_rows = 0;
    m->arch = CADRE_ARCH_LLAMA;
    m->heads = 4;
    check_difference("llama", limit);
    m->kv_heads = 1;
    m->tied = false;
    check_difference("grouped", limit);
}

static const uint32_t dtypes[] = {CADRE_F64, CADRE_F32, CADRE_BF16, CADRE_F16};

/* On a device whose products are fixed by row and column, the same bits. */
START_TEST(kept_keys_change_no_bit)
{
    f.spec.device.fixed = true;
    each_form(dtypes[_i], 0);
}
END_TEST

START_TEST(sums_in_parts_change_no_bit)
{
    f.spec.device.fixed = true;
    f.spec.model.exact_parts = 2;
    f.spec.model.dtype = dtypes[_i];
    check_difference("parts", 0);
}
END_TEST

/* Elsewhere a product of one row may be rounded in another order. */
START_TEST(kept_keys_change_rounding_alone)
{
    static const double limits[] = {1e-14, 4e-6, 2e-2, 3e-3};
    each_form(dtypes[_i], limits[_i]);
}
END_TEST

START_TEST(threads_change_no_bit)
{
    double *one = malloc(VOCAB * sizeof *one);
    for (int threads = 1; threads <= 3; threads++) {
        f.spec.device.threads = threads;
        start();
        struct cadre_decoder *d = open(true);
        const double *logits = NULL;
        for (size_t n = 3; n <= TOKENS; n++)
            logits = next(d, ids, n);
        if (threads == 1)
            memcpy(one, logits, VOCAB * sizeof *one);
        ck_assert_int_eq(memcmp(one, logits, VOCAB * sizeof *one), 0);
        cadre_decoder_destroy(d);
        rank_fixture_stop(&f);
    }
    free(one);
}
END_TEST

/* A token costs a row; where the context is full, half of it once more. */
START_TEST(a_token_costs_one_row)
{
    start();
    struct cadre_decoder *kept = open(true), *whole = open(false);
    for (size_t n = 5; n <= CONTEXT; n++) {
        next(kept, ids, n);
        next(whole, ids, n);
        ck_assert_uint_eq(cadre_decoder_rows(kept), n);
    }
    ck_assert_uint_eq(cadre_decoder_rows(whole), CONTEXT * (CONTEXT + 1) / 2 - 10);
    ck_assert_uint_eq(cadre_decoder_begin(kept), 0);
    next(kept, ids, CONTEXT + 1);
    ck_assert_uint_eq(cadre_decoder_begin(kept), CONTEXT + 1 - CONTEXT / 2);
    ck_assert_uint_eq(cadre_decoder_rows(kept), CONTEXT + CONTEXT / 2);
    for (size_t n = CONTEXT + 2; n <= CONTEXT + CONTEXT / 2; n++)
        next(kept, ids, n);
    ck_assert_uint_eq(cadre_decoder_rows(kept), 2 * CONTEXT - 1);
    cadre_decoder_destroy(kept);
    cadre_decoder_destroy(whole);
}
END_TEST

/* However many tokens come at once: the last logits are those of one at a time. */
START_TEST(tokens_may_come_in_pieces)
{
    static const size_t steps[] = {2, 3, 4, 9, 9, 12, 16};
    f.spec.device.fixed = true;
    start();
    struct cadre_decoder *kept = open(true), *whole = open(false);
    for (int again = 0; again < 2; again++) {
        for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
            const double *a = next(kept, ids + again, steps[i]);
            const double *b = next(whole, ids + again, steps[i]);
            ck_assert_int_eq(memcmp(a, b, VOCAB * sizeof *a), 0);
        }
        cadre_decoder_reset(kept);
    }
    /* a prompt longer than the context: its newest half is seen */
    const double *a = next(kept, ids, 40), *b = next(whole, ids, 40);
    ck_assert_uint_eq(cadre_decoder_begin(kept), 40 - CONTEXT / 2);
    ck_assert_int_eq(memcmp(a, b, VOCAB * sizeof *a), 0);
    cadre_decoder_destroy(kept);
    cadre_decoder_destroy(whole);
}
END_TEST

START_TEST(a_classifier_is_refused)
{
    struct cadre_decoder *d = NULL;
    f.spec.model.classes = 3;
    rank_fixture_start(&f);
    ck_assert_int_eq(cadre_decoder_create(&f.rank, true, &d, &f.err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(f.err.text, "a classification model generates"));
    ck_assert_ptr_null(d);
    cadre_decoder_destroy(NULL);
}
END_TEST

/* ---- transformers ---- */

static const struct cadre_model_config stories = {.arch = CADRE_ARCH_LLAMA,
                                                  .layers = 5,
                                                  .channels = 64,
                                                  .heads = 8,
                                                  .kv_heads = 4,
                                                  .hidden = 172,
                                                  .context = 512,
                                                  .vocab = 512,
                                                  .tied = true,
                                                  .norm_eps = 1e-5,
                                                  .rotary = {.theta = 10000}};
static const struct cadre_model_config tiny_gpt2 = {.arch = CADRE_ARCH_GPT2,
                                                    .layers = 4,
                                                    .channels = 64,
                                                    .heads = 4,
                                                    .kv_heads = 4,
                                                    .hidden = 256,
                                                    .context = 128,
                                                    .vocab = 1000,
                                                    .tied = true,
                                                    .norm_eps = 1e-5,
                                                    .rotary = {.theta = 10000}};

static size_t largest(const double *logits, int64_t vocab)
{
    size_t best = 0;
    for (size_t v = 1; v < (size_t)vocab; v++)
        if (logits[v] > logits[best])
            best = v;
    return best;
}

/* The five largest logits of the last token. */
static void check_last(const json_t *last, const double *logits, double limit)
{
    const json_t *tokens = json_array_get(last, 0), *values = json_array_get(last, 1);
    ck_assert_uint_eq(json_array_size(tokens), 5);
    for (size_t i = 0; i < 5; i++) {
        const double want = json_number_value(json_array_get(values, i));
        const int64_t token = json_integer_value(json_array_get(tokens, i));
        ck_assert_double_le(fabs(logits[token] - want), limit * fabs(want));
    }
}

static void check_case(const json_t *one, bool keeps, double limit)
{
    const json_t *list = json_object_get(one, "ids");
    const size_t count = json_array_size(list);
    const size_t prompt = (size_t)json_integer_value(json_object_get(one, "prompt"));
    int32_t *seen = calloc(count, sizeof *seen);
    struct cadre_decoder *d = open(keeps);
    ck_assert_uint_ge(count, prompt + 80);
    for (size_t n = 0; n < count; n++) {
        const int32_t want = (int32_t)json_integer_value(json_array_get(list, n));
        seen[n] = want;
        if (n < prompt)
            continue;
        const double *logits = next(d, seen, n);
        ck_assert_msg((int32_t)largest(logits, f.spec.model.vocab) == want,
                      "token %zu of %zu", n, count);
        if (n + 1 == count)
            check_last(json_object_get(one, "last"), logits, limit);
    }
    cadre_decoder_destroy(d);
    free(seen);
}

/* transformers turns queries and keys by cosines in fp32, also in fp64. */
static void check_golden(uint32_t dtype, double limit)
{
    json_t *root = json_load_file(test_sample("../generate/golden.json"), 0, NULL);
    const json_t *cases = json_object_get(root, "greedy");
    ck_assert_uint_eq(json_array_size(cases), 5);
    for (size_t c = 0; c < json_array_size(cases); c++) {
        const json_t *one = json_array_get(cases, c);
        const char *model = json_string_value(json_object_get(one, "model"));
        char path[64];
        f.spec.model = strcmp(model, "tiny_gpt2") == 0 ? tiny_gpt2 : stories;
        f.spec.model.dtype = dtype;
        f.spec.time = f.spec.model.context;
        rank_fixture_start(&f);
        snprintf(path, sizeof path, "weights/%s", model);
        cadre_status rc = cadre_load_model(&f.rank, test_sample(path), &f.err);
        ck_assert_msg(rc == CADRE_OK, "%s", f.err.text);
        const bool llama = f.spec.model.arch == CADRE_ARCH_LLAMA;
        check_case(one, true, llama ? fmax(limit, 1e-6) : limit);
        if (!test_lean())
            check_case(one, false, llama ? fmax(limit, 1e-6) : limit);
        rank_fixture_stop(&f);
    }
    json_decref(root);
}

START_TEST(greedy_ids_are_those_of_transformers)
{
    static const double limits[] = {1e-12, 1e-4};
    check_golden(dtypes[_i], limits[_i]);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("decoder");
    TCase *tc = tcase_create("decoder");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, kept_keys_change_no_bit, 0, 4);
    tcase_add_loop_test(tc, sums_in_parts_change_no_bit, 0, 4);
    tcase_add_loop_test(tc, kept_keys_change_rounding_alone, 0, 4);
    tcase_add_test(tc, threads_change_no_bit);
    tcase_add_test(tc, a_token_costs_one_row);
    tcase_add_test(tc, tokens_may_come_in_pieces);
    tcase_add_test(tc, a_classifier_is_refused);
    tcase_add_loop_test(tc, greedy_ids_are_those_of_transformers, 0, 2);
    suite_add_tcase(s, tc);
    return s;
}
