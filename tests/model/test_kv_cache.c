/* SPDX-License-Identifier: Apache-2.0 */
/* Several sequences in pieces over a cache against the whole at once. */
#include "core/model/kv_cache.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "tests/support/check_main.h"
#include "tests/support/trainer.h"

enum { B = 3, T = 12, VOCAB = 20 };

static const struct cadre_model_config gpt2 = {.arch = CADRE_ARCH_GPT2,
                                               .layers = 2,
                                               .channels = 16,
                                               .heads = 4,
                                               .kv_heads = 4,
                                               .hidden = 40,
                                               .context = T,
                                               .vocab = VOCAB,
                                               .norm_eps = 1e-5,
                                               .rotary = {.theta = 1e4},
                                               .dtype = CADRE_F64};

static struct cadre_model_config form(bool llama)
{
    struct cadre_model_config config = gpt2;
    config.arch = llama ? CADRE_ARCH_LLAMA : CADRE_ARCH_GPT2;
    config.kv_heads = llama ? 2 : 4;
    return config;
}

static struct cadre_kv_cache *create(struct test_trainer *t, int64_t batch,
                                     int64_t room)
{
    struct cadre_kv_cache *cache = NULL;
    struct cadre_error err = {0};
    cadre_status rc =
        cadre_kv_cache_create(t->model, t->device, batch, room, &cache, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    return cache;
}

/* Tokens [from, to) of each sequence of `all`, behind those that the cache keeps. */
static void feed(struct test_trainer *t, struct cadre_kv_cache *cache,
                 const int32_t *all, int64_t to)
{
    const int64_t from = cache->n, n = to - from;
    for (int64_t i = 0; i < B * n; i++) {
        t->tokens[i] = all[i / n * T + from + i % n];
        t->targets[i] = 0;
    }
    t->kv_cache = cache;
    test_trainer_forward(t, B, n);
    cache->n = to;
}

static void check_pieces(bool llama, const int64_t *ends)
{
    const struct cadre_model_config config = form(llama);
    struct test_trainer whole, t;
    int32_t all[B * T];
    test_trainer_open(&whole, &config, 0, 1, B, T);
    test_trainer_open(&t, &config, 0, 1, B, T);
    test_trainer_scramble(&whole, 3, 0.3);
    test_trainer_scramble(&t, 3, 0.3);
    test_trainer_random_batch(&whole, 5, B, T);
    memcpy(all, whole.tokens, sizeof all);
    test_trainer_forward(&whole, B, T);
    struct cadre_kv_cache *cache = create(&t, B, T);
    for (; cache->n < T; ends++) {
        const int64_t from = cache->n, n = *ends - from;
        feed(&t, cache, all, *ends);
        for (int64_t i = 0; i < B * n * VOCAB; i++) {
            const int64_t row = i / VOCAB, at = row / n * T + from + row % n;
            ck_assert_double_eq_tol(
                test_trainer_get(&t, test_trainer_logits(&t), (uint64_t)i),
                test_trainer_get(&whole, test_trainer_logits(&whole),
                                 (uint64_t)(at * VOCAB + i % VOCAB)),
                1e-12);
        }
    }
    cadre_kv_cache_destroy(cache);
    test_trainer_close(&t);
    test_trainer_close(&whole);
}

START_TEST(pieces_give_the_logits_of_the_whole)
{
    static const int64_t ones[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, T};
    static const int64_t some[] = {5, 6, 10, T}, all[] = {T};
    check_pieces(_i, ones);
    check_pieces(_i, some);
    check_pieces(_i, all);
}
END_TEST

/* What is behind the kept tokens is not read: the cache may be cut and filled again. */
START_TEST(a_cut_cache_is_as_new)
{
    const struct cadre_model_config config = form(_i);
    struct test_trainer t;
    int32_t all[B * T];
    double first[B * VOCAB];
    test_trainer_open(&t, &config, 0, 1, B, T);
    test_trainer_scramble(&t, 3, 0.3);
    test_trainer_random_batch(&t, 5, B, T);
    memcpy(all, t.tokens, sizeof all);
    struct cadre_kv_cache *cache = create(&t, B, T);
    feed(&t, cache, all, 4);
    feed(&t, cache, all, 5);
    memcpy(first, test_trainer_logits(&t), sizeof first);
    feed(&t, cache, all, T);
    cache->n = 4;
    feed(&t, cache, all, 5);
    ck_assert_int_eq(memcmp(first, test_trainer_logits(&t), sizeof first), 0);
    cadre_kv_cache_destroy(cache);
    test_trainer_close(&t);
}
END_TEST

START_TEST(bytes_are_those_of_keys_and_values)
{
    const struct cadre_model_config config = form(true);
    struct test_trainer t;
    test_trainer_open(&t, &config, 0, 1, 1, T);
    ck_assert_uint_eq(cadre_kv_cache_bytes(t.model, 2, 7), 2 * 2 * 2 * 7 * 8 * 8);
    struct cadre_kv_cache *cache = create(&t, 2, 7);
    ck_assert_ptr_eq(cadre_kv_cache_rows(cache, 1, true),
                     (char *)cache->blocks + 3 * 2 * 7 * 8 * 8);
    cadre_kv_cache_destroy(cache);
    cadre_kv_cache_destroy(NULL);
    test_trainer_close(&t);
}
END_TEST

START_TEST(what_a_cache_cannot_do_is_refused)
{
    const struct cadre_model_config config = form(false);
    struct cadre_error err = {0};
    struct cadre_kv_cache *none = NULL;
    struct test_trainer t;
    cadre_log_set_level(CADRE_LOG_ERROR);
    test_trainer_open(&t, &config, 0, 1, B, T);
    ck_assert_int_eq(cadre_kv_cache_create(t.model, t.device, 1, T + 1, &none, &err),
                     CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "at most model.context = 12 tokens"));
    t.model->time_ranks = 2;
    ck_assert_int_eq(cadre_kv_cache_create(t.model, t.device, 1, T, &none, &err),
                     CADRE_E_INVALID);
    t.model->time_ranks = 1;
    struct cadre_kv_cache *cache = create(&t, B, 6);
    const struct cadre_pass pass = {.device = t.device,
                                    .batch = B,
                                    .time = 3,
                                    .tokens = t.tokens,
                                    .scratch = t.scratch,
                                    .kv_cache = cache};
    cache->n = 4;
    ck_assert_int_eq(cadre_unit_forward(t.model, 0, &pass, NULL, t.acts[0]),
                     CADRE_E_INVALID);
    cache->n = 3;
    ck_assert_int_eq(cadre_unit_forward(t.model, 0, &pass, NULL, t.acts[0]), CADRE_OK);
    ck_assert_int_eq(
        cadre_unit_backward_input(t.model, 0, &pass, NULL, t.acts[0], NULL),
        CADRE_E_INVALID);
    ck_assert_int_eq(cadre_unit_backward_weight(t.model, 0, &pass, NULL),
                     CADRE_E_INVALID);
    cadre_kv_cache_destroy(cache);
    test_trainer_close(&t);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("kv_cache");
    TCase *tc = tcase_create("kv_cache");
    tcase_add_loop_test(tc, pieces_give_the_logits_of_the_whole, 0, 2);
    tcase_add_loop_test(tc, a_cut_cache_is_as_new, 0, 2);
    tcase_add_test(tc, bytes_are_those_of_keys_and_values);
    tcase_add_test(tc, what_a_cache_cannot_do_is_refused);
    suite_add_tcase(s, tc);
    return s;
}
