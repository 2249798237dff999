/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/model/kv_cache.h"
#include "tests/engine/rank_fixture.h"
#include "tests/support/check_main.h"

static struct rank_fixture f;
static int32_t inputs[32], targets[32];

static void setup(void)
{
    rank_fixture_open(&f);
    f.spec.model.dtype = CADRE_F64;
    for (int i = 0; i < 32; i++) {
        inputs[i] = i * 7 % 256;
        targets[i] = i * 5 % 256;
    }
}

static void teardown(void)
{
    rank_fixture_close(&f);
}

static void evaluate(struct cadre_eval *eval)
{
    cadre_status rc = cadre_executor_eval(f.rank.exec, eval, &f.err);
    ck_assert_msg(rc == CADRE_OK, "%s", f.err.text);
}

/* The loss is minus the logarithm of the softmax of the logits, ignored targets left
 * out. */
START_TEST(loss_and_logits_agree)
{
    double *logits = malloc(32 * 256 * sizeof *logits), want = 0;
    struct cadre_eval eval = {
        .inputs = inputs, .targets = targets, .batch = 2, .time = 16, .logits = logits};
    targets[3] = -1;
    rank_fixture_start(&f);
    evaluate(&eval);
    ck_assert_int_eq(eval.n_targets, 31);
    for (int r = 0; r < 32; r++) {
        double sum = 0;
        for (int v = 0; v < 256; v++)
            sum += exp(logits[r * 256 + v]);
        if (targets[r] >= 0)
            want += log(sum) - logits[r * 256 + targets[r]];
    }
    ck_assert_double_eq_tol(eval.loss_sum, want, 1e-10);
    free(logits);
}
END_TEST

/* Of the last token alone, and the rest in a cache: the same as of all at once. */
START_TEST(the_last_row_behind_a_cache)
{
    double *all = malloc(16 * 256 * sizeof *all), last[256];
    struct cadre_eval eval = {
        .inputs = inputs, .targets = targets, .batch = 1, .time = 16, .logits = all};
    struct cadre_kv_cache *cache = NULL;
    rank_fixture_start(&f);
    evaluate(&eval);
    ck_assert_int_eq(
        cadre_kv_cache_create(f.rank.model, f.rank.device, 1, 16, &cache, &f.err),
        CADRE_OK);
    eval.kv_cache = cache;
    eval.last_row = true;
    eval.logits = last;
    for (int64_t n = 6; n <= 16; n += 5) {
        eval.inputs = inputs + cache->n;
        eval.time = n - cache->n;
        evaluate(&eval);
        ck_assert_int_eq(cache->n, n);
        for (int v = 0; v < 256; v++)
            ck_assert_double_eq_tol(last[v], all[(n - 1) * 256 + v], 1e-14);
    }
    ck_assert_int_eq(cadre_executor_eval(f.rank.exec, &eval, &f.err), CADRE_E_INVALID);
    ck_assert_int_eq(cache->n, 16); /* full, and as it was */
    cadre_kv_cache_destroy(cache);
    free(all);
}
END_TEST

START_TEST(results_add_up_and_nothing_is_trained)
{
    struct cadre_eval eval = {
        .inputs = inputs, .targets = targets, .batch = 2, .time = 16};
    rank_fixture_start(&f);
    uint64_t before = rank_fixture_params(&f);
    evaluate(&eval);
    double once = eval.loss_sum;
    evaluate(&eval);
    ck_assert_double_eq_tol(eval.loss_sum, 2 * once, 1e-10);
    ck_assert_int_eq(eval.n_targets, 64);
    ck_assert_uint_eq(rank_fixture_params(&f), before);
    double loss = rank_fixture_step(&f, 1).loss;
    rank_fixture_stop(&f);
    rank_fixture_start(&f);
    ck_assert_double_eq(rank_fixture_step(&f, 1).loss, loss);
}
END_TEST

/* A shorter sequence is a prefix: its rows have the loss they have in the long one. */
START_TEST(shorter_and_fewer)
{
    struct cadre_eval whole = {
        .inputs = inputs, .targets = targets, .batch = 1, .time = 16};
    struct cadre_eval part = {
        .inputs = inputs, .targets = targets, .batch = 1, .time = 5};
    for (int i = 5; i < 16; i++)
        targets[i] = -1;
    rank_fixture_start(&f);
    evaluate(&whole);
    evaluate(&part);
    ck_assert_int_eq(whole.n_targets, part.n_targets);
    ck_assert_double_eq_tol(whole.loss_sum, part.loss_sum, 1e-12);
}
END_TEST

START_TEST(more_than_was_planned_is_refused)
{
    struct cadre_eval eval = {.inputs = inputs,
                              .targets = targets,
                              .batch = _i ? 2 : 3,
                              .time = _i ? 17 : 16};
    rank_fixture_start(&f);
    ck_assert_int_eq(cadre_executor_eval(f.rank.exec, &eval, &f.err), CADRE_E_INTERNAL);
}
END_TEST

static cadre_status plan_part(struct cadre_self *self, const struct cadre_plan *abi)
{
    (void)self;
    cadre_status rc = abi->chunk(abi->h, 0, 2, 1, 0);
    return rc == CADRE_OK ? abi->chunk(abi->h, 2, 4, 1, 0) : rc;
}

START_TEST(chunks_make_the_same_model)
{
    const struct cadre_strategy_ops ops = {.plan = plan_part};
    struct cadre_eval whole = {
        .inputs = inputs, .targets = targets, .batch = 2, .time = 16};
    struct cadre_eval chunked = whole;
    rank_fixture_start(&f);
    evaluate(&whole);
    rank_fixture_stop(&f);
    rank_fixture_plug(&f, "pipe", CADRE_ROLE_SCHEDULE, 1, &ops);
    rank_fixture_start(&f);
    evaluate(&chunked);
    ck_assert_double_eq(chunked.loss_sum, whole.loss_sum);
    ck_assert_int_eq(chunked.n_targets, whole.n_targets);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("executor_eval");
    TCase *tc = tcase_create("executor_eval");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, loss_and_logits_agree);
    tcase_add_test(tc, the_last_row_behind_a_cache);
    tcase_add_test(tc, results_add_up_and_nothing_is_trained);
    tcase_add_test(tc, shorter_and_fewer);
    tcase_add_loop_test(tc, more_than_was_planned_is_refused, 0, 2);
    tcase_add_test(tc, chunks_make_the_same_model);
    suite_add_tcase(s, tc);
    return s;
}
