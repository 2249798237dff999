/* SPDX-License-Identifier: Apache-2.0 */
/* Context parallelism: ranks as threads, each with its part of the time, against one
 * rank that has the whole. */
#include "core/model/keys.h"
#include "tests/support/check_main.h"
#include "tests/support/finite.h"
#include "tests/support/trainer.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RANKS 4
#define B 3
#define LIMIT 1e-12

struct group {
    pthread_barrier_t barrier;
    int size;
    const double *in[MAX_RANKS];
    int calls[2]; /* of rank 0, forward and backward */
};

struct rank {
    struct group *group;
    const struct test_trainer *whole;
    int rank;
    bool split; /* backward: all INPUT parts first */
    struct test_trainer trainer;
    double loss; /* sum over its rows */
    double *logits;
};

static cadre_status exchange(void *arg, bool backward, const void *in, void *out,
                             int64_t part)
{
    struct rank *r = arg;
    struct group *g = r->group;
    double *result = out;
    ck_assert_ptr_ne(in, out);
    g->calls[backward] += r->rank == 0;
    g->in[r->rank] = in;
    pthread_barrier_wait(&g->barrier);
    for (int64_t i = 0; backward && i < part; i++) {
        result[i] = 0;
        for (int k = 0; k < g->size; k++)
            result[i] += g->in[k][r->rank * part + i];
    }
    for (int k = 0; !backward && k < g->size; k++)
        memcpy(result + k * part, g->in[k], (size_t)part * sizeof *result);
    pthread_barrier_wait(&g->barrier);
    return CADRE_OK;
}

static double sum_rows(const struct test_trainer *t)
{
    double sum = 0;
    for (int64_t i = 0; i < B * t->T; i++)
        sum += t->loss_rows[i];
    return sum;
}

static double *copy_logits(const struct test_trainer *t)
{
    return test_trainer_fetch(t, test_trainer_logits(t),
                              (size_t)(B * t->T * t->model->config.vocab) *
                                  sizeof(double));
}

/* The part of the time of this rank: tokens and targets are those of `whole`. */
static void *run_rank(void *arg)
{
    struct rank *r = arg;
    struct test_trainer *t = &r->trainer;
    const int64_t T = t->T, K = T * r->group->size;
    test_trainer_scramble(t, 1, 0.3);
    for (int64_t i = 0; i < B * T; i++) {
        const int64_t from = i / T * K + r->rank * T + i % T;
        t->tokens[i] = r->whole->tokens[from];
        t->targets[i] = r->whole->targets[from];
    }
    t->exchange_keys = exchange;
    t->exchange_arg = r;
    test_trainer_forward(t, B, T);
    r->loss = sum_rows(t);
    r->logits = copy_logits(t);
    t->seed = r->whole->seed;
    test_trainer_backward(t, r->split);
    return NULL;
}

static void run_whole(struct rank *r, const struct cadre_model_config *config,
                      int64_t T)
{
    test_trainer_open(&r->trainer, config, 0, 1, B, T);
    test_trainer_scramble(&r->trainer, 1, 0.3);
    test_trainer_random_batch(&r->trainer, 2, B, T);
    test_trainer_forward(&r->trainer, B, T);
    r->loss = sum_rows(&r->trainer);
    r->logits = copy_logits(&r->trainer);
    test_trainer_backward(&r->trainer, false);
}

static void compare_logits(const struct rank *r, const struct rank *whole)
{
    const int64_t T = r->trainer.T, K = whole->trainer.T;
    const int64_t V = whole->trainer.model->config.vocab;
    for (int64_t i = 0; i < B * T * V; i++) {
        const int64_t row = i / V, from = row / T * K + r->rank * T + row % T;
        ck_assert_double_eq_tol(r->logits[i], whole->logits[from * V + i % V], LIMIT);
    }
}

/* Gradients of all parameters are sums over the ranks. */
static void compare_gradients(const struct rank *ranks, const struct rank *whole)
{
    const struct test_trainer *w = &whole->trainer;
    for (uint32_t p = 0; p < w->model->n_params; p++) {
        double difference = 0, norm = 0;
        for (uint64_t e = 0; e < test_trainer_count(w, p); e++) {
            double sum = 0, want = test_trainer_get(w, w->grads[p], e);
            for (int k = 0; k < ranks->group->size; k++)
                sum +=
                    test_trainer_get(&ranks[k].trainer, ranks[k].trainer.grads[p], e);
            difference += (sum - want) * (sum - want);
            norm += want * want;
        }
        ck_assert_msg(sqrt(difference / norm) < LIMIT, "%s: %g",
                      w->model->params[p].name, sqrt(difference / norm));
    }
}

static void check_time(const struct cadre_model_config *config, int size, int64_t T,
                       bool split)
{
    struct group group = {.size = size};
    struct rank whole = {0}, ranks[MAX_RANKS] = {{0}};
    pthread_t threads[MAX_RANKS];
    double loss = 0;
    pthread_barrier_init(&group.barrier, NULL, (unsigned)size);
    run_whole(&whole, config, T * size);
    for (int k = 0; k < size; k++) {
        ranks[k] = (struct rank){
            .group = &group, .whole = &whole.trainer, .rank = k, .split = split};
        test_trainer_open(&ranks[k].trainer, config, 0, 1, B, T);
        test_trainer_split_time(&ranks[k].trainer, k, size);
        ck_assert_int_eq(pthread_create(&threads[k], NULL, run_rank, &ranks[k]), 0);
    }
    for (int k = 0; k < size; k++) {
        pthread_join(threads[k], NULL);
        loss += ranks[k].loss;
    }
    ck_assert_double_eq_tol(loss, whole.loss, LIMIT * fabs(whole.loss));
    for (int way = 0; way < 2; way++)
        ck_assert_int_eq(group.calls[way], size > 1 ? (int)config->layers : 0);
    for (int k = 0; k < size; k++)
        compare_logits(&ranks[k], &whole);
    compare_gradients(ranks, &whole);
    for (int k = 0; k < size; k++) {
        test_trainer_close(&ranks[k].trainer);
        free(ranks[k].logits);
    }
    test_trainer_close(&whole.trainer);
    free(whole.logits);
    pthread_barrier_destroy(&group.barrier);
}

START_TEST(parts_of_the_time_are_the_whole)
{
    struct cadre_model_config config = test_small_model((enum cadre_arch)_i);
    check_time(&config, 2, 4, false);
    check_time(&config, 3, 2, true);
    check_time(&config, 4, 1, false);
    config.tied = true;
    check_time(&config, 1, 5, false);
}
END_TEST

/* Positions go as far as model.context, over all ranks. */
START_TEST(refuses_more_than_the_context)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_GPT2);
    struct test_trainer t;
    const int64_t T = config.context / 2 + 1;
    test_trainer_open(&t, &config, 0, 1, 1, T);
    test_trainer_split_time(&t, 1, 2);
    struct cadre_pass pass = {.device = t.device,
                              .batch = 1,
                              .time = T,
                              .tokens = t.tokens,
                              .scratch = t.scratch};
    ck_assert_int_eq(cadre_unit_forward(t.model, 0, &pass, NULL, t.acts[0]),
                     CADRE_E_INVALID);
    pass.time = config.context / 2;
    ck_assert_int_eq(cadre_unit_forward(t.model, 0, &pass, NULL, t.acts[0]), CADRE_OK);
    test_trainer_close(&t);
}
END_TEST

static cadre_status refuse(void *arg, bool backward, const void *in, void *out,
                           int64_t part)
{
    (void)arg, (void)backward, (void)in, (void)out, (void)part;
    return CADRE_E_COMM;
}

START_TEST(a_failed_exchange_is_reported)
{
    struct cadre_model_config config = test_small_model((enum cadre_arch)_i);
    struct test_trainer t;
    test_trainer_open(&t, &config, 0, 1, 1, 2);
    test_trainer_split_time(&t, 0, 2);
    struct cadre_pass pass = {.device = t.device,
                              .batch = 1,
                              .time = 2,
                              .saved = t.saved[1],
                              .scratch = t.scratch,
                              .exchange_keys = refuse};
    ck_assert_int_eq(cadre_unit_forward(t.model, 1, &pass, t.acts[0], t.acts[1]),
                     CADRE_E_COMM);
    test_trainer_close(&t);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("keys");
    TCase *tc = tcase_create("keys");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, parts_of_the_time_are_the_whole, CADRE_ARCH_GPT2,
                        CADRE_ARCH_LLAMA + 1);
    tcase_add_test(tc, refuses_more_than_the_context);
    tcase_add_loop_test(tc, a_failed_exchange_is_reported, CADRE_ARCH_GPT2,
                        CADRE_ARCH_LLAMA + 1);
    suite_add_tcase(s, tc);
    return s;
}
