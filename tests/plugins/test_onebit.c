/* SPDX-License-Identifier: Apache-2.0 */
/* ddp.compress = onebit:W on ranks that are threads: AdamW's bits in the warm-up, and
 * afterwards 1-bit Adam's moments and update, element by element. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/plugins/thread_run.h"
#include "tests/support/check_main.h"

enum { WARMUP = 3, BLOCK = 256 };

static struct spec_fixture f;
static struct thread_run run, other;

static void setup(void)
{
    spec_fixture_open(&f);
    run = other = (struct thread_run){.fixture = &f, .steps = 8};
}

static void teardown(void)
{
    spec_fixture_close(&f);
}

/* ---- the warm-up ---- */

/* With clipping, accumulation over 3 micro-batches, recompute, sizes that do not
 * divide. */
START_TEST(warm_up_has_the_bits_of_adamw)
{
    static const char *const sets[] = {
        "strategy.stack=ddp:2 train.global_batch=12",
        "strategy.stack=ddp:3 train.global_batch=18 model.channels=18",
        "strategy.stack=ddp:2,pipeline:2 train.global_batch=12 model.layers=3",
        "strategy.stack=ddp:2,tensor:2 train.global_batch=12",
        "strategy.stack=hsdp:2,ddp:2 train.global_batch=24",
        "strategy.stack=ddp:2 train.global_batch=12 train.precision=bf16",
    };
    char text[256];
    snprintf(text, sizeof text, "%s optim.clip=0.5 train.recompute=block", sets[_i]);
    thread_run(&other, text);
    snprintf(text, sizeof text,
             "%s optim.clip=0.5 train.recompute=block ddp.compress=onebit:8", sets[_i]);
    thread_run(&run, text);
    ck_assert(thread_runs_same(&run, &other));
}
END_TEST

START_TEST(differs_after_it)
{
    thread_run(&other, "strategy.stack=ddp:2");
    thread_run(&run, "strategy.stack=ddp:2 ddp.compress=onebit:3");
    for (int s = 1; s <= WARMUP + 1; s++)
        ck_assert(run.loss[s] == other.loss[s]);
    ck_assert(run.loss[WARMUP + 2] != other.loss[WARMUP + 2]);
    ck_assert_double_lt(thread_runs_differ(&run, &other), 0.5);
}
END_TEST

/* ---- the steps after it ---- */

/* What a rank held after a step, of all its parameters. */
struct held {
    float *x, *m, *v;
    size_t n;
};
static struct held last[THREAD_RANKS];
static atomic_int blocks_seen; /* by all ranks, which are threads */

static void keep(struct held *held, const struct cadre_rank *rank)
{
    held->n = 0;
    for (uint32_t i = 0; i < rank->model->n_params; i++) {
        const struct cadre_store_param *p = &rank->store.param[i];
        const size_t n = p->count, all = held->n + n, bytes = n * sizeof(float);
        if (!p->exp_avg)
            continue;
        held->x = realloc(held->x, all * sizeof(float));
        held->m = realloc(held->m, all * sizeof(float));
        held->v = realloc(held->v, all * sizeof(float));
        memcpy(held->x + held->n, p->data, bytes);
        memcpy(held->m + held->n, p->exp_avg, bytes);
        memcpy(held->v + held->n, p->exp_avg_sq, bytes);
        held->n = all;
    }
}

static void forget(void)
{
    for (int r = 0; r < THREAD_RANKS; r++) {
        free(last[r].x);
        free(last[r].m);
        free(last[r].v);
        last[r] = (struct held){0};
    }
}

/* Blocks begin at each parameter, and have one magnitude. */
static void one_magnitude(const float *m, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ck_assert(fabsf(m[i]) == fabsf(m[i - i % BLOCK]));
        ck_assert(isfinite(m[i]));
    }
}

static void hold_update(const struct held *was, const struct cadre_rank *rank)
{
    const struct cadre_optimizer_config *o = &rank->spec->optim;
    size_t at = 0;
    for (uint32_t i = 0; i < rank->model->n_params; i++) {
        const struct cadre_store_param *p = &rank->store.param[i];
        const float *x = p->data, *m = p->exp_avg, *v = p->exp_avg_sq;
        const double decay = rank->model->params[i].decay ? o->weight_decay : 0;
        if (!m)
            continue;
        one_magnitude(m, p->count);
        ck_assert_mem_eq(v, was->v + at, p->count * sizeof *v);
        for (size_t k = 0; k < p->count; k++) {
            const double root = sqrt(v[k] / (1 - pow(o->beta2, WARMUP))) + o->eps;
            const double want =
                was->x[at + k] * (1 - o->lr * decay) - o->lr * m[k] / root;
            ck_assert_double_eq_tol(x[k], want, 1e-5 * (1 + fabs(want)));
        }
        at += p->count;
        atomic_fetch_add(&blocks_seen, 1);
    }
}

static void follow(struct cadre_rank *rank, int step)
{
    struct held *held = &last[rank->index];
    if (step > WARMUP)
        hold_update(held, rank);
    keep(held, rank);
}

START_TEST(moments_are_signs_and_the_update_is_adams)
{
    run.each = follow;
    atomic_store(&blocks_seen, 0);
    thread_run(&run, "strategy.stack=ddp:2 ddp.compress=onebit:3 model.tied=no "
                     "model.channels=18 optim.clip=0 optim.schedule=constant "
                     "optim.warmup=0 optim.lr=1e-3");
    ck_assert_int_gt(atomic_load(&blocks_seen), 0);
    ck_assert_uint_eq(last[0].n, last[1].n);
    ck_assert_mem_eq(last[0].m, last[1].m, last[0].n * sizeof(float));
    ck_assert_mem_eq(last[0].x, last[1].x, last[0].n * sizeof(float));
    forget();
}
END_TEST

/* With another plugin below, in stages, and with a tied head: it trains. */
START_TEST(trains_in_stacks)
{
    static const char *const sets[] = {
        "strategy.stack=hsdp:2,ddp:2",
        "strategy.stack=ddp:2,pipeline:2",
        "strategy.stack=ddp:2,tensor:2",
        "strategy.stack=diloco:2,ddp:2 diloco.period=2",
        "strategy.stack=ddp:2 train.precision=fp64",
        "strategy.stack=ddp:2 train.precision=bf16",
    };
    char text[256];
    run.steps = 16;
    snprintf(text, sizeof text, "%s optim.lr=3e-3 ddp.compress=onebit:6", sets[_i]);
    thread_run(&run, text);
    ck_assert_double_lt(run.loss[16], run.loss[6]);
}
END_TEST

/* ---- refusals ---- */

START_TEST(what_cannot_be_is_refused)
{
    static const struct {
        const char *sets, *text;
    } cases[] = {
        {"strategy.stack=ddp:2 optim.name=sgd", "set optim.name = adamw"},
        {"strategy.stack=ddp:2 optim.name=muon", "set optim.name = adamw"},
        {"strategy.stack=ddp:2 run.exact=yes", "run.exact = yes forbids"},
        {"strategy.stack=ddp:2 train.precision=fp16", "train.precision = fp16"},
        {"strategy.stack=ddp@site:2,zero:2 zero.stage=1",
         "a rank holds a range only (zero in strategy.stack)"},
        {"strategy.stack=ddp:2,tensor:2 tensor.sequence_parallel=yes",
         "summed over tensor ranks afterwards"},
    };
    char text[256];
    snprintf(text, sizeof text, "%s %s=onebit:3", cases[_i].sets,
             strstr(cases[_i].sets, "@site") ? "ddp@site.compress" : "ddp.compress");
    ck_assert_int_ne(thread_run_try(&run, text), CADRE_OK);
    ck_assert_msg(strstr(run.err.text, cases[_i].text), "%s", run.err.text);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("onebit");
    TCase *tc = tcase_create("onebit");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, warm_up_has_the_bits_of_adamw, 0, 6);
    tcase_add_test(tc, differs_after_it);
    tcase_add_test(tc, moments_are_signs_and_the_update_is_adams);
    tcase_add_loop_test(tc, trains_in_stacks, 0, 6);
    tcase_add_loop_test(tc, what_cannot_be_is_refused, 0, 6);
    suite_add_tcase(s, tc);
    return s;
}
