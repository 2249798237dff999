/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks with experts: gradients against finite differences of the loss and the balance
 * loss, one expert against a plain MLP, experts without rows, and ranks as threads
 * against one rank. */
#include "core/model/experts.h"
#include "tests/support/check_main.h"
#include "tests/support/finite.h"
#include "tests/support/trainer.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { B = 3, T = 7, N = B * T };

static struct cadre_model_config small_model(int64_t experts, double balance)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_GPT2);
    config.experts = experts;
    config.expert_balance = balance;
    return config;
}

static void open_trainer(struct test_trainer *t,
                         const struct cadre_model_config *config, int64_t batch)
{
    test_trainer_open(t, config, 0, 1, batch, T);
    test_trainer_scramble(t, 1, 0.3);
    test_trainer_random_batch(t, 2, batch, T);
}

/* What a block's last forward left. */
static struct cadre_experts experts_of(struct test_trainer *t, uint32_t unit)
{
    const struct cadre_pass pass = {.device = t->device,
                                    .saved = t->saved[unit],
                                    .grad_outputs = t->grad_outputs[unit],
                                    .scratch = t->scratch};
    const struct cadre_unit u = cadre_unit_of(t->model, unit, t->batch, t->time, &pass);
    struct cadre_carver carver = {.unit = &u};
    return cadre_experts_carve(&carver);
}

static uint32_t param_of(const struct test_trainer *t, const char *name)
{
    int32_t index = cadre_model_find(t->model, name);
    ck_assert_int_ge(index, 0);
    return (uint32_t)index;
}

static double *values_of(struct test_trainer *t, const char *name)
{
    return t->values[param_of(t, name)];
}

/* ---- gradients ---- */

/* The balance loss of all blocks, as it weighs beside the loss of the batch. */
static double balance_loss(struct test_trainer *t)
{
    const int64_t E = t->model->config.experts;
    double sum = 0;
    for (uint32_t unit = 1; unit + 1 < t->model->n_units; unit++) {
        const struct cadre_experts x = experts_of(t, unit);
        const double *probs = x.probs;
        for (int64_t e = 0; e < E; e++) {
            double rows = 0, p = 0;
            for (int64_t row = 0; row < N; row++) {
                rows += x.choice[row] == e;
                p += probs[row * E + e];
            }
            sum += rows / N * p / N;
        }
    }
    return t->seed * N * t->model->config.expert_balance * (double)E * sum;
}

static void keep_choices(struct test_trainer *t, int32_t *to)
{
    for (uint32_t unit = 1; unit + 1 < t->model->n_units; unit++)
        memcpy(to + (unit - 1) * N, experts_of(t, unit).choice, N * sizeof *to);
}

/* What is minimised, with one element moved; no row changes its expert. */
static double loss_at(struct test_trainer *t, double *value, double by,
                      const int32_t *choices)
{
    const double old = *value;
    int32_t now[2 * N];
    *value = old + by;
    double loss = test_trainer_forward(t, B, T) + balance_loss(t);
    *value = old;
    keep_choices(t, now);
    ck_assert_mem_eq(now, choices, sizeof now);
    return loss;
}

/* Does the parameter's expert have rows? */
static bool has_rows(struct test_trainer *t, uint32_t param)
{
    const struct cadre_param *p = &t->model->params[param];
    return p->expert < 0 || experts_of(t, p->unit).counts[p->expert] > 0;
}

START_TEST(finite_differences)
{
    const double h = 2e-5;
    const struct cadre_model_config config = small_model(3, _i ? 0.5 : 0);
    struct test_trainer t;
    int32_t choices[2 * N];
    double worst = 0;
    open_trainer(&t, &config, B);
    test_trainer_forward(&t, B, T);
    keep_choices(&t, choices);
    test_trainer_backward(&t, false);
    for (uint32_t i = 0; i < t.model->n_params; i++) {
        const uint64_t count = test_trainer_count(&t, i), step = count / 5 + 1;
        double square = 0;
        for (uint64_t e = 0; t.values[i] && e < count; e++)
            square += pow(((double *)t.grads[i])[e], 2);
        ck_assert(!t.values[i] || square > 0 || !has_rows(&t, i));
        for (uint64_t e = 0; t.values[i] && e < count; e += step) {
            double *value = (double *)t.values[i] + e;
            double near =
                loss_at(&t, value, h, choices) - loss_at(&t, value, -h, choices);
            double far = loss_at(&t, value, 2 * h, choices) -
                         loss_at(&t, value, -2 * h, choices);
            double error = (8 * near - far) / (12 * h) - ((double *)t.grads[i])[e];
            worst = fmax(worst, fabs(error) / (square > 0 ? sqrt(square) : 1));
        }
    }
    printf("finite differences: %.2g\n", worst);
    ck_assert_double_lt(worst, 1e-8);
    test_trainer_close(&t);
}
END_TEST

/* The router's gradient beyond that of the loss is that of the balance loss alone. */
START_TEST(balance_alone)
{
    const struct cadre_model_config with = small_model(3, 0.25),
                                    without = small_model(3, 0);
    const char *name = "transformer.h.1.mlp.router.weight";
    struct test_trainer a, b;
    double difference = 0;
    open_trainer(&a, &with, B);
    open_trainer(&b, &without, B);
    ck_assert(test_trainer_forward(&a, B, T) == test_trainer_forward(&b, B, T));
    test_trainer_backward(&a, false);
    test_trainer_backward(&b, false);
    const uint32_t router = param_of(&a, name);
    for (uint64_t e = 0; e < test_trainer_count(&a, router); e++)
        difference = fmax(difference, fabs(((double *)a.grads[router])[e] -
                                           ((double *)b.grads[router])[e]));
    ck_assert_double_gt(difference, 1e-4);
    /* the head's gradients do not know of it */
    const uint32_t norm = param_of(&a, "transformer.ln_f.weight");
    ck_assert_mem_eq(a.grads[norm], b.grads[norm],
                     test_trainer_count(&a, norm) * a.wide);
    test_trainer_close(&a);
    test_trainer_close(&b);
}
END_TEST

/* INPUT of all units before WEIGHT of all has the bits of both at once. */
START_TEST(split_backward)
{
    static const uint32_t dtypes[] = {CADRE_F32, CADRE_F64, CADRE_BF16, CADRE_F16};
    struct cadre_model_config config = small_model(3, 0.1);
    struct test_trainer a, b;
    config.dtype = dtypes[_i];
    open_trainer(&a, &config, B);
    open_trainer(&b, &config, B);
    double loss = test_trainer_forward(&a, B, T);
    ck_assert(isfinite(loss) && loss == test_trainer_forward(&b, B, T));
    test_trainer_backward(&a, false);
    test_trainer_backward(&b, true);
    for (uint32_t i = 0; i < a.model->n_params; i++)
        ck_assert_mem_eq(a.grads[i], b.grads[i], test_trainer_count(&a, i) * a.wide);
    test_trainer_close(&a);
    test_trainer_close(&b);
}
END_TEST

/* ---- one expert, and experts without rows ---- */

/* A parameter of the plain model by that of the one with experts; "" for none. */
static void plain_name(const char *name, char *out, size_t bytes)
{
    const char *expert = strstr(name, "mlp.experts.0.");
    const int prefix = expert ? (int)(expert - name) : 0;
    if (strstr(name, "mlp.router"))
        snprintf(out, bytes, "%s", "");
    else
        snprintf(out, bytes, "%.*s%s%s", prefix, name, expert ? "mlp." : "",
                 expert ? expert + strlen("mlp.experts.0.") : name);
}

START_TEST(one_expert_is_a_plain_mlp)
{
    struct cadre_model_config config = small_model(1, 0.5), plain = small_model(0, 0);
    struct test_trainer a, b;
    char name[96];
    config.dtype = plain.dtype = _i ? CADRE_F64 : CADRE_F32;
    open_trainer(&a, &config, B);
    open_trainer(&b, &plain, B);
    for (uint32_t i = 0; i < a.model->n_params; i++) {
        plain_name(a.model->params[i].name, name, sizeof name);
        if (*name && a.values[i])
            memcpy(b.values[param_of(&b, name)], a.values[i],
                   test_trainer_count(&a, i) * a.element);
    }
    ck_assert(test_trainer_forward(&a, B, T) == test_trainer_forward(&b, B, T));
    test_trainer_backward(&a, false);
    test_trainer_backward(&b, false);
    for (uint32_t i = 0; i < a.model->n_params; i++) {
        plain_name(a.model->params[i].name, name, sizeof name);
        for (uint64_t e = 0; e < test_trainer_count(&a, i); e++)
            ck_assert(test_trainer_get_wide(&a, a.grads[i], e) ==
                      (*name ? test_trainer_get_wide(&b, b.grads[param_of(&b, name)], e)
                             : 0));
    }
    test_trainer_close(&a);
    test_trainer_close(&b);
}
END_TEST

/* Equal logits: all rows go to the first, and the others' gradients are zero: written
 * where they are not added to, else as they were. */
START_TEST(all_rows_to_one)
{
    const struct cadre_model_config config = small_model(4, 0.1);
    struct test_trainer t;
    open_trainer(&t, &config, B);
    memset(values_of(&t, "transformer.h.0.mlp.router.weight"), 0, 24 * 4 * t.element);
    test_trainer_forward(&t, B, T);
    const struct cadre_experts x = experts_of(&t, 1);
    for (int64_t row = 0; row < N; row++) {
        ck_assert_int_eq(x.choice[row], 0);
        ck_assert_int_eq(x.order[row], row);
        ck_assert_double_eq(((const double *)x.gate)[row], 0.25);
    }
    ck_assert_int_eq(x.counts[0], N);
    t.beta = _i;
    const uint32_t first = param_of(&t, "transformer.h.0.mlp.experts.1.c_fc.weight");
    for (uint32_t i = first; i < first + 12; i++)
        for (uint64_t e = 0; e < test_trainer_count(&t, i); e++)
            ((double *)t.grads[i])[e] = 3;
    test_trainer_backward(&t, false);
    for (uint32_t i = first; i < first + 12; i++)
        for (uint64_t e = 0; e < test_trainer_count(&t, i); e++)
            ck_assert(((double *)t.grads[i])[e] == (_i ? 3 : 0));
    test_trainer_close(&t);
}
END_TEST

START_TEST(rows_are_sorted)
{
    const struct cadre_model_config config = small_model(3, 0);
    struct test_trainer t;
    open_trainer(&t, &config, B);
    test_trainer_forward(&t, B, T);
    const struct cadre_experts x = experts_of(&t, 2);
    int32_t counts[3] = {0};
    for (int64_t i = 0; i < N; i++) {
        counts[x.choice[i]]++;
        if (i == 0)
            continue;
        const int32_t a = x.order[i - 1], b = x.order[i];
        const int32_t before = x.choice[a], here = x.choice[b];
        ck_assert(before < here || (before == here && a < b));
    }
    ck_assert_mem_eq(counts, x.counts, sizeof counts);
    test_trainer_close(&t);
}
END_TEST

/* ---- ranks ---- */

enum { RANKS = 2 };

struct group {
    pthread_barrier_t barrier;
    const int32_t *counts[RANKS];
    const double *in[RANKS];
    const uint64_t *offsets[RANKS];
    int calls[2][2]; /* of rank 0: EXPERT_IN, EXPERT_OUT; forward, backward */
};

struct rank {
    struct group *group;
    int index;
    int64_t batch;
    struct test_trainer trainer;
    double loss;
};

static cadre_status exchange(void *arg, const int32_t *mine, int32_t *all, int64_t n)
{
    struct rank *r = arg;
    r->group->counts[r->index] = mine;
    pthread_barrier_wait(&r->group->barrier);
    for (int k = 0; k < RANKS; k++)
        memmove(all + k * n, r->group->counts[k], (size_t)n * sizeof *all);
    pthread_barrier_wait(&r->group->barrier);
    return CADRE_OK;
}

static cadre_status move_rows(void *arg, uint32_t point, bool backward, const void *in,
                              const uint64_t *in_offsets, void *out,
                              const uint64_t *offsets)
{
    struct rank *r = arg;
    struct group *g = r->group;
    ck_assert(point == CADRE_POINT_EXPERT_IN || point == CADRE_POINT_EXPERT_OUT);
    ck_assert_ptr_ne(in, out);
    if (r->index == 0)
        g->calls[point - CADRE_POINT_EXPERT_IN][backward]++;
    g->in[r->index] = in;
    g->offsets[r->index] = in_offsets;
    pthread_barrier_wait(&g->barrier);
    for (int k = 0; k < RANKS; k++) {
        const uint64_t *from = g->offsets[k];
        const uint64_t n = from[r->index + 1] - from[r->index];
        ck_assert_uint_eq(offsets[k + 1] - offsets[k], n);
        memcpy((double *)out + offsets[k], g->in[k] + from[r->index],
               n * sizeof(double));
    }
    pthread_barrier_wait(&g->barrier);
    return CADRE_OK;
}

static void *run_rank(void *arg)
{
    struct rank *r = arg;
    struct test_trainer *t = &r->trainer;
    r->loss = test_trainer_forward(t, r->batch, T) / t->seed;
    t->seed = 1; /* so that the ranks' gradients add up */
    test_trainer_backward(t, r->index == 0);
    return NULL;
}

static void rank_open(struct rank *r, const struct cadre_model_config *config)
{
    struct test_trainer *t = &r->trainer;
    /* room for the rows of both ranks, and scratch to move them */
    test_trainer_open(t, config, 0, 1, 2 * RANKS * B, T);
    test_trainer_scramble(t, 1, 0.3);
    test_trainer_random_batch(t, 5 + (uint64_t)r->index, r->batch, T);
    t->model->ep_rank = r->index;
    t->model->ep_size = RANKS;
    t->most_rows = N;
    t->exchange_counts = exchange;
    t->redistribute_rows = move_rows;
    t->redistribute_arg = r;
}

/* Two ranks with different samples against one that sees a batch after the other;
 * `batch`: of the second, the first has B. `skew`: all rows go to experts of rank 1. */
static void compare_ranks(int64_t batch, bool skew)
{
    const struct cadre_model_config config = small_model(4, 0.3);
    struct group group = {0};
    struct rank rank[RANKS] = {{.group = &group, .index = 0, .batch = B},
                               {.group = &group, .index = 1, .batch = batch}};
    struct test_trainer one;
    pthread_t thread;
    double worst = 0;
    test_trainer_open(&one, &config, 0, 1, B, T);
    test_trainer_scramble(&one, 1, 0.3);
    ck_assert(!pthread_barrier_init(&group.barrier, NULL, RANKS));
    for (int k = 0; k < RANKS; k++)
        rank_open(&rank[k], &config);
    for (int k = 0; skew && k <= RANKS; k++) {
        struct test_trainer *t = k < RANKS ? &rank[k].trainer : &one;
        double *router = values_of(t, "transformer.h.0.mlp.router.weight");
        double *bias = values_of(t, "transformer.h.0.ln_2.bias");
        for (int64_t i = 0; i < 24 * 4; i++)
            router[i] = i % 4 == 3 ? 1 : 0;
        for (int64_t i = 0; i < 24; i++)
            bias[i] += 10;
    }
    ck_assert(!pthread_create(&thread, NULL, run_rank, &rank[1]));
    run_rank(&rank[0]);
    pthread_join(thread, NULL);
    for (int k = 0; k < RANKS; k++) {
        test_trainer_random_batch(&one, 5 + (uint64_t)k, rank[k].batch, T);
        double loss = test_trainer_forward(&one, rank[k].batch, T) / one.seed;
        ck_assert_double_eq_tol(loss, rank[k].loss, 1e-12 * fabs(loss));
        one.seed = 1;
        one.beta = k;
        test_trainer_backward(&one, false);
    }
    for (uint32_t i = 0; i < one.model->n_params; i++) {
        const bool expert = one.model->params[i].expert >= 0;
        double difference = 0, norm = 0;
        if (!one.values[i]) /* its owner has the sum */
            continue;
        for (uint64_t e = 0; e < test_trainer_count(&one, i); e++) {
            double sum = 0, want = ((double *)one.grads[i])[e];
            for (int k = 0; k < RANKS; k++)
                if (!expert || cadre_model_holds(rank[k].trainer.model, i))
                    sum += ((double *)rank[k].trainer.grads[i])[e];
            difference += pow(sum - want, 2);
            norm += pow(want, 2);
        }
        ck_assert(norm > 0 || (expert && difference == 0));
        if (norm > 0)
            worst = fmax(worst, sqrt(difference / norm));
    }
    printf("ranks: gradients differ by %.2g\n", worst);
    ck_assert_double_lt(worst, 1e-12);
    for (int k = 0; k < 4; k++) /* two blocks */
        ck_assert_int_eq(group.calls[k / 2][k % 2], 2);
    for (int k = 0; k < RANKS; k++)
        test_trainer_close(&rank[k].trainer);
    test_trainer_close(&one);
    pthread_barrier_destroy(&group.barrier);
}

START_TEST(ranks_share_experts)
{
    compare_ranks(B, false);
}
END_TEST

/* Rank 1 gets all rows, more than those of its own batch times the ranks. */
START_TEST(ranks_with_unequal_batches)
{
    compare_ranks(1, true);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("experts");
    TCase *tc = tcase_create("experts");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, finite_differences, 0, 2);
    tcase_add_test(tc, balance_alone);
    tcase_add_loop_test(tc, split_backward, 0, 4);
    tcase_add_loop_test(tc, one_expert_is_a_plain_mlp, 0, 2);
    tcase_add_loop_test(tc, all_rows_to_one, 0, 2);
    tcase_add_test(tc, rows_are_sorted);
    tcase_add_test(tc, ranks_share_experts);
    tcase_add_test(tc, ranks_with_unequal_batches);
    suite_add_tcase(s, tc);
    return s;
}
