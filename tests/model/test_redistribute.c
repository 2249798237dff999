/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor parallelism: ranks as threads, with a redistribution that adds (or takes the
 * maximum) over all ranks, against one rank; also with the rows sharded between
 * redistributions. */
#include "core/model/init.h"
#include "core/model/unit.h"
#include "tests/support/check_main.h"
#include "tests/support/finite.h"
#include "tests/support/trainer.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_RANKS 3
#define LIMIT 1e-12

struct group {
    pthread_barrier_t barrier;
    int size;
    const double *in[MAX_RANKS];
    int calls[CADRE_POINT_LOSS_SUM + 1][2]; /* of rank 0, forward and backward */
    int gathers[CADRE_POINT_LOSS_SUM + 1][2]; /* of them, calls that gather */
};

struct rank {
    struct group *group;
    int rank;
    struct test_trainer trainer;
    double loss;
    double *logits;
};

static double combined(const struct group *g, uint32_t point, int64_t i)
{
    double sum = g->in[0][i];
    for (int k = 1; k < g->size; k++)
        sum =
            point == CADRE_POINT_LOSS_MAX ? fmax(sum, g->in[k][i]) : sum + g->in[k][i];
    return sum;
}

static cadre_status join(void *arg, uint32_t point, bool backward, uint32_t form,
                         const void *in, void *out, int64_t rows, int64_t channels)
{
    struct rank *r = arg;
    struct group *g = r->group;
    const struct cadre_model *model = r->trainer.model;
    double *result = out;
    bool scatter = form == CADRE_REDISTRIBUTE_REDUCE_SCATTER;
    int64_t from =
        scatter ? cadre_model_row(model, rows, r->rank) * channels : (int64_t)0;
    int64_t to = scatter ? cadre_model_row(model, rows, r->rank + 1) * channels
                         : rows * channels;
    ck_assert_ptr_ne(in, out);
    if (r->rank == 0) {
        g->calls[point][backward]++;
        g->gathers[point][backward] += form == CADRE_REDISTRIBUTE_ALL_GATHER;
    }
    g->in[r->rank] = in;
    pthread_barrier_wait(&g->barrier);
    for (int k = 0; form == CADRE_REDISTRIBUTE_ALL_GATHER && k < g->size; k++) {
        int64_t begin = cadre_model_row(model, rows, k) * channels;
        int64_t end = cadre_model_row(model, rows, k + 1) * channels;
        for (int64_t i = begin; i < end; i++)
            result[i] = g->in[k][i - begin];
    }
    for (int64_t i = from; form != CADRE_REDISTRIBUTE_ALL_GATHER && i < to; i++)
        result[i - from] = combined(g, point, i);
    pthread_barrier_wait(&g->barrier);
    return CADRE_OK;
}

static void *run_rank(void *arg)
{
    struct rank *r = arg;
    struct test_trainer *t = &r->trainer;
    const struct cadre_model_config *config = &t->model->config;
    t->redistribute = join;
    t->redistribute_arg = r;
    test_trainer_scramble(t, 1, 0.3);
    test_trainer_random_batch(t, 2, t->B, t->T);
    r->loss = test_trainer_forward(t, t->B, t->T);
    int64_t count =
        config->classes ? t->B * config->classes : t->B * t->T * t->model->vocab;
    r->logits = calloc((size_t)count, sizeof(double));
    for (int64_t i = 0; i < count; i++)
        r->logits[i] = ((const double *)test_trainer_logits(t))[i];
    test_trainer_backward(t, false);
    return NULL;
}

/* Element of a rank's gradient; its parts over rows are summed here. */
static double gradient(const struct rank *ranks, const struct rank *r, uint32_t index,
                       uint64_t e)
{
    const struct cadre_model *model = r->trainer.model;
    double sum = 0;
    if (!model->rows_sharded || !model->params[index].norm)
        return test_trainer_get(&r->trainer, r->trainer.grads[index], e);
    for (int k = 0; k < r->group->size; k++)
        sum += test_trainer_get(&ranks[k].trainer, ranks[k].trainer.grads[index], e);
    return sum;
}

/* |a - b| over elements, relative to |b|. */
static double gradient_error(const struct rank *ranks, const struct rank *r,
                             const struct test_trainer *whole, uint32_t index)
{
    const struct cadre_param *param = &r->trainer.model->params[index];
    double difference = 0, norm = 0;
    for (uint64_t e = 0; e < cadre_shape_count(&param->local); e++) {
        uint64_t at = cadre_param_logical(param, r->rank, r->group->size, e);
        double expected = test_trainer_get(whole, whole->grads[index], at);
        double got = gradient(ranks, r, index, e);
        difference += (got - expected) * (got - expected);
        norm += expected * expected;
    }
    return sqrt(difference / norm);
}

static double logits_error(const struct rank *r, const struct test_trainer *whole,
                           const double *expected)
{
    const struct cadre_model *model = r->trainer.model;
    int64_t classes = model->config.classes;
    int64_t rows = classes ? whole->B : whole->B * whole->T;
    int64_t width = classes ? classes : model->vocab;
    int64_t full = classes ? classes : model->config.vocab;
    double worst = 0;
    for (int64_t row = 0; row < rows; row++)
        for (int64_t v = 0; v < width; v++)
            worst = fmax(worst, fabs(r->logits[row * width + v] -
                                     expected[row * full + model->vocab_begin + v]));
    return worst;
}

static void compare(struct rank *ranks, int size, struct rank *whole)
{
    double worst = 0, worst_logit = 0;
    for (int k = 0; k < size; k++) {
        worst_logit =
            fmax(worst_logit, logits_error(&ranks[k], &whole->trainer, whole->logits));
        for (uint32_t i = 0; i < whole->trainer.model->n_params; i++)
            worst = fmax(worst, gradient_error(ranks, &ranks[k], &whole->trainer, i));
    }
    printf("%d ranks: logits %.2g, gradients %.2g\n", size, worst_logit, worst);
    for (int k = 0; k < size; k++)
        ck_assert_double_eq_tol(ranks[k].loss, whole->loss, LIMIT);
    ck_assert_double_lt(worst_logit, LIMIT);
    ck_assert_double_lt(worst, LIMIT);
}

static struct group check_rows(const struct cadre_model_config *config, int size,
                               bool rows_sharded, int64_t B, int64_t T)
{
    struct group alone = {.size = 1}, group = {.size = size};
    struct rank whole = {.group = &alone}, ranks[MAX_RANKS] = {{0}};
    pthread_t threads[MAX_RANKS];
    pthread_barrier_init(&alone.barrier, NULL, 1);
    pthread_barrier_init(&group.barrier, NULL, (unsigned)size);
    test_trainer_open(&whole.trainer, config, 0, 1, B, T);
    run_rank(&whole);
    for (int k = 0; k < size; k++) {
        ranks[k].group = &group;
        ranks[k].rank = k;
        test_trainer_open(&ranks[k].trainer, config, k, size, B, T);
        ranks[k].trainer.model->rows_sharded = rows_sharded;
        ck_assert_int_eq(pthread_create(&threads[k], NULL, run_rank, &ranks[k]), 0);
    }
    for (int k = 0; k < size; k++)
        pthread_join(threads[k], NULL);
    compare(ranks, size, &whole);
    for (int k = 0; k < size; k++) {
        test_trainer_close(&ranks[k].trainer);
        free(ranks[k].logits);
    }
    test_trainer_close(&whole.trainer);
    free(whole.logits);
    pthread_barrier_destroy(&group.barrier);
    pthread_barrier_destroy(&alone.barrier);
    return group;
}

static struct group check_parallel(const struct cadre_model_config *config, int size)
{
    return check_rows(config, size, false, 3, 7);
}

static void check_calls(const struct group *group, int layers)
{
    const int once = 1, blocks = layers;
    const int expected[][2] = {
        [CADRE_POINT_EMBED_OUT] = {once, 0},  [CADRE_POINT_ATTN_IN] = {0, blocks},
        [CADRE_POINT_ATTN_OUT] = {blocks, 0}, [CADRE_POINT_MLP_IN] = {0, blocks},
        [CADRE_POINT_MLP_OUT] = {blocks, 0},  [CADRE_POINT_HEAD_IN] = {0, once},
        [CADRE_POINT_LOSS_MAX] = {once, 0},   [CADRE_POINT_LOSS_SUM] = {once, 0},
    };
    for (uint32_t j = 0; j <= CADRE_POINT_LOSS_SUM; j++)
        for (int way = 0; way < 2; way++)
            ck_assert_int_eq(group->calls[j][way], expected[j][way]);
}

START_TEST(gpt2)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_GPT2);
    config.vocab = 27;
    config.hidden = 42;
    config.tied = true;
    struct group group = check_parallel(&config, 3);
    check_calls(&group, 2);
    config.heads = config.kv_heads = 2;
    config.vocab = 26;
    config.tied = false;
    group = check_parallel(&config, 2);
    check_calls(&group, 2);
}
END_TEST

START_TEST(llama)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_LLAMA);
    config.tied = true;
    struct group group = check_parallel(&config, 2);
    check_calls(&group, 2);
    config.tied = false;
    check_parallel(&config, 2);
}
END_TEST

/* Each redistribution has its counterpart in the other direction, and gathers its input
 * once more for the weight gradients. 21 rows are 7 each, or 10 and 11. */
START_TEST(shard_rows)
{
    struct cadre_model_config config = test_small_model((enum cadre_arch)_i);
    const int once = 1, blocks = 2;
    const int gathers[][2] = {
        [CADRE_POINT_EMBED_OUT] = {0, once},  [CADRE_POINT_ATTN_IN] = {blocks, blocks},
        [CADRE_POINT_ATTN_OUT] = {0, blocks}, [CADRE_POINT_MLP_IN] = {blocks, blocks},
        [CADRE_POINT_MLP_OUT] = {0, blocks},  [CADRE_POINT_HEAD_IN] = {once, once},
        [CADRE_POINT_LOSS_MAX] = {0, 0},      [CADRE_POINT_LOSS_SUM] = {0, 0},
    };
    const int others[][2] = {
        [CADRE_POINT_EMBED_OUT] = {once, 0},  [CADRE_POINT_ATTN_IN] = {0, blocks},
        [CADRE_POINT_ATTN_OUT] = {blocks, 0}, [CADRE_POINT_MLP_IN] = {0, blocks},
        [CADRE_POINT_MLP_OUT] = {blocks, 0},  [CADRE_POINT_HEAD_IN] = {0, once},
        [CADRE_POINT_LOSS_MAX] = {once, 0},   [CADRE_POINT_LOSS_SUM] = {once, 0},
    };
    config.tied = true;
    config.heads = config.kv_heads = 2;
    struct group group = check_rows(&config, 2, true, 3, 7);
    for (uint32_t j = 0; j <= CADRE_POINT_LOSS_SUM; j++)
        for (int way = 0; way < 2; way++) {
            ck_assert_int_eq(group.gathers[j][way], gathers[j][way]);
            ck_assert_int_eq(group.calls[j][way], gathers[j][way] + others[j][way]);
        }
    config.classes = 5;
    check_rows(&config, 2, true, 3, 7);
    check_rows(&config, 2, true, 2, 4);
    /* a single row: the first rank has none; attention to one token has no gradient
       for q and k, which only the packed form hides */
    config.classes = 0;
    if (config.arch == CADRE_ARCH_GPT2)
        check_rows(&config, 2, true, 1, 1);
}
END_TEST

/* Rounded products: the ranges of what enters a row-split one are of all ranks. */
START_TEST(quantised)
{
    for (int arch = CADRE_ARCH_GPT2; arch <= CADRE_ARCH_LLAMA; arch++)
        for (int sharded = 0; sharded < 2; sharded++) {
            struct cadre_model_config config = test_small_model((enum cadre_arch)arch);
            config.heads = config.kv_heads = 2;
            config.tied = true;
            config.qat.group = 4;
            struct group group = check_rows(&config, 2, sharded, 3, 7);
            ck_assert_int_eq(group.calls[CADRE_POINT_LOSS_MAX][0], 1 + 2 * 2);
            ck_assert_int_eq(group.calls[CADRE_POINT_LOSS_MAX][1], 0);
        }
}
END_TEST

/* Embedding and scores are whole on every rank: only the blocks have redistributions.
 */
START_TEST(classifier)
{
    for (int arch = CADRE_ARCH_GPT2; arch <= CADRE_ARCH_LLAMA; arch++) {
        struct cadre_model_config config = test_small_model((enum cadre_arch)arch);
        config.heads = 2;
        config.kv_heads = 2;
        config.classes = 5;
        config.vocab = 27;
        struct group group = check_parallel(&config, 2);
        ck_assert_int_eq(group.calls[CADRE_POINT_EMBED_OUT][0], 0);
        ck_assert_int_eq(group.calls[CADRE_POINT_HEAD_IN][1], 0);
        ck_assert_int_eq(group.calls[CADRE_POINT_LOSS_MAX][0], 0);
        ck_assert_int_eq(group.calls[CADRE_POINT_MLP_OUT][0], 2);
    }
}
END_TEST

static cadre_status refuse(void *arg, uint32_t point, bool backward, uint32_t form,
                           const void *in, void *out, int64_t rows, int64_t channels)
{
    (void)arg, (void)point, (void)backward, (void)form, (void)in, (void)out, (void)rows,
        (void)channels;
    return CADRE_E_COMM;
}

START_TEST(a_failed_redistribution_is_reported)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_GPT2);
    struct test_trainer t;
    test_trainer_open(&t, &config, 0, 1, 1, 4);
    struct cadre_pass pass = {
        .device = t.device,
        .batch = 1,
        .time = 4,
        .tokens = t.tokens,
        .scratch = t.scratch,
        .redistribute = refuse,
    };
    ck_assert_int_eq(cadre_unit_forward(t.model, 0, &pass, NULL, t.acts[0]),
                     CADRE_E_COMM);
    test_trainer_close(&t);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("redistributions");
    TCase *tc = tcase_create("redistributions");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, gpt2);
    tcase_add_test(tc, llama);
    tcase_add_loop_test(tc, shard_rows, CADRE_ARCH_GPT2, CADRE_ARCH_LLAMA + 1);
    tcase_add_test(tc, quantised);
    tcase_add_test(tc, classifier);
    tcase_add_test(tc, a_failed_redistribution_is_reported);
    suite_add_tcase(s, tc);
    return s;
}
