/* SPDX-License-Identifier: Apache-2.0 */
/* zero over two levels (zero.two_levels) on ranks that are threads: the bits of plain
 * zero where a node has a power of two of ranks, bytes at each level as promised, no
 * more memory. */
#include <stdio.h>
#include <string.h>

#include "tests/plugins/thread_run.h"
#include "tests/support/check_main.h"

static struct spec_fixture f;
static struct thread_run plain, run;

static void setup(void)
{
    spec_fixture_open(&f);
    plain = run = (struct thread_run){.fixture = &f, .steps = 3};
}

static void teardown(void)
{
    spec_fixture_close(&f);
}

/* Sizes that do not divide, a tied head, clipping, three micro-batches a rank. */
#define ODD                                                                            \
    "model.channels=20 model.context=12 model.vocab=258 optim.clip=0.5 "               \
    "train.global_batch=24 train.recompute=block "

/* ---- equality ---- */

/* Behind the stack what both runs need, then after a bar what plain zero lacks. */
static const char *const stacks[] = {
    "zero:4 zero.stage=1|node=2",
    "zero:4 zero.stage=1 zero.overlap=no|node=2",
    "zero:4 zero.stage=1 zero.offload=optimizer optim.name=adamw8bit|node=2",
    "zero:4 zero.stage=2 zero.bucket_mb=0.001|node=2",
    "zero:4 zero.stage=2 optim.name=muon|node=2",
    "zero:4 zero.stage=3 zero.prefetch=3|node=2",
    "zero:4 zero.stage=3 zero.reduce=microbatch train.precision=fp64|node=2",
    "zero:4 zero.stage=3|node=2 zero.secondary=node",
    "zero:6 zero.stage=2 model.tied=no|node=2",
    "zero:6 zero.stage=3 train.precision=bf16|node=2",
    "zero:8 zero.stage=1 train.micro_batch=1|node=4",
    "zero:8 zero.stage=3 train.micro_batch=1|node=2",
    "hsdp:2,zero:4 zero.stage=2 train.micro_batch=1|node=2",
    "pipeline:2,zero:4 zero.stage=3 pipeline.schedule=zb-h1|node=2",
    "tensor:2,zero:4 zero.stage=1|node=2",
    "diloco:2,zero:4 zero.stage=3 diloco.period=2 train.micro_batch=1|node=2",
};
enum { STACKS = sizeof stacks / sizeof *stacks };

START_TEST(has_the_bits_of_plain_zero)
{
    char sets[512];
    const char *both = stacks[_i], *bar = strchr(both, '|');
    const int n = (int)(bar - both);
    snprintf(sets, sizeof sets, "strategy.stack=%.*s " ODD, n, both);
    thread_run(&plain, sets);
    snprintf(sets, sizeof sets,
             "strategy.stack=%.*s " ODD "zero.two_levels=yes zero.%s", n, both,
             bar + 1);
    thread_run(&run, sets);
    ck_assert_msg(thread_runs_same(&plain, &run), "%s differs by %g", both,
                  thread_runs_differ(&plain, &run));
}
END_TEST

START_TEST(has_the_bits_of_single)
{
    static const char common[] = "run.exact=yes train.micro_batch=1 optim.clip=0.5 "
                                 "model.channels=20 train.recompute=block ";
    char sets[512];
    thread_run(&plain, common);
    for (int stage = 1; stage <= 3; stage++) {
        snprintf(sets, sizeof sets,
                 "strategy.stack=zero:4 %s zero.stage=%d zero.node=2 "
                 "zero.two_levels=yes",
                 common, stage);
        thread_run(&run, sets);
        ck_assert_msg(thread_runs_same(&plain, &run), "stage %d", stage);
    }
}
END_TEST

/* A node of three is no part of a tree of two: near, and not the same. */
START_TEST(another_order_rounds_otherwise)
{
    thread_run(&plain, "strategy.stack=zero:6 zero.stage=2 " ODD);
    thread_run(&run, "strategy.stack=zero:6 zero.stage=2 zero.node=3 "
                     "zero.two_levels=yes " ODD);
    ck_assert_double_lt(thread_runs_differ(&plain, &run), 1e-4);
}
END_TEST

START_TEST(one_level_is_plain_zero)
{
    static const char *const node[] = {"zero:4 zero.node=1", "zero:4 zero.node=4",
                                       "zero:1 zero.node=2"};
    char sets[256];
    snprintf(sets, sizeof sets, "strategy.stack=%s zero.two_levels=yes", node[_i]);
    thread_run(&run, sets);
    snprintf(sets, sizeof sets, "strategy.stack=%.6s", node[_i]);
    thread_run(&plain, sets);
    ck_assert(thread_runs_same(&plain, &run));
}
END_TEST

/* ---- what is sent, and what is taken ---- */

#define LARGE                                                                          \
    "strategy.stack=zero:8 model.channels=96 model.tied=no train.micro_batch=1 "       \
    "train.global_batch=16 zero.node=4 zero.two_levels=yes "

enum level { INSIDE, BETWEEN, ALL, LEVELS };
static double sent[THREAD_RANKS][LEVELS]; /* in steps 2 and 3 */
static double n_bytes; /* of all values */
static uint64_t used[2]; /* by plain zero, and with levels */

static void count_sent(struct cadre_rank *rank, int step)
{
    static const char *const axis[LEVELS] = {"dp.inner", "dp.outer", "dp"};
    double *mine = sent[rank->index];
    for (int k = 0; step != 2 && k < LEVELS; k++)
        mine[k] = thread_run_bytes(rank, axis[k]) - (step == 3 ? mine[k] : 0);
    if (rank->index > 0 || step < 3)
        return;
    n_bytes = 0;
    for (uint32_t i = 0; i < rank->model->n_params; i++)
        n_bytes += 4 * (double)cadre_shape_count(&rank->model->params[i].local);
}

/* Gradients once and parameters once, or in stage 3 before each pass: R (N-1)/N n
 * inside nodes of N, and R (R/N-1)/(R/N) n/N between them. */
START_TEST(bytes_by_level)
{
    static const char *const stage[] = {"zero.stage=1 zero.overlap=no", "zero.stage=3"};
    const int ranks = 8, node = 4;
    const double nodes = (double)ranks / node;
    double by[LEVELS] = {0};
    char sets[256];
    snprintf(sets, sizeof sets, LARGE "%s", stage[_i]);
    run.each = count_sent;
    thread_run(&run, sets);
    for (int r = 0; r < ranks; r++)
        for (int k = 0; k < LEVELS; k++)
            by[k] += sent[r][k] / 2;
    const double times = by[INSIDE] / (ranks * (node - 1.0) / node * n_bytes);
    const double again = by[BETWEEN] / (ranks * (nodes - 1) / nodes * n_bytes / node);
    if (_i == 0) {
        ck_assert_double_eq_tol(times, 2, 0.04);
    } else { /* the head, where passes turn round, is gathered once for both */
        ck_assert_double_gt(times, 4);
        ck_assert_double_lt(times, 5.1);
    }
    ck_assert_double_eq_tol(again / times, 1, 0.02);
    ck_assert_double_lt(by[ALL], 0.01 * n_bytes);
}
END_TEST

static void read_memory(struct cadre_rank *rank, int step)
{
    (void)step;
    if (rank->index == 0)
        used[1] = rank->ledger.peak_bytes;
}

START_TEST(takes_no_more_memory)
{
    run.each = read_memory;
    thread_run(&run, LARGE "zero.stage=2");
    used[0] = used[1];
    thread_run(&run, LARGE "zero.stage=2 zero.two_levels=no zero.node=0");
    ck_assert_uint_gt(used[0], 0);
    ck_assert_uint_eq(used[0], used[1]);
}
END_TEST

/* ---- refusals ---- */

START_TEST(what_it_cannot_do_is_refused)
{
    static const char *const sets[] = {
        "zero:4 zero.two_levels=yes",
        "zero:4 zero.two_levels=yes zero.node=3",
        "zero:4 zero.two_levels=yes zero.node=2 zero.quantize_gradients=int8",
        "zero:4 zero.two_levels=yes zero.node=2 zero.stage=3 "
        "zero.quantize_gathers=int8",
        "zero:6 zero.two_levels=yes zero.node=3 run.exact=yes train.micro_batch=1 "
        "train.global_batch=48",
    };
    static const char *const says[] = {
        "zero.two_levels = yes without zero.node",
        "zero.node = 3 does not divide the 4 ranks along 'dp'",
        "zero.two_levels = yes with zero.quantize_gradients = int8",
        "zero.two_levels = yes with zero.quantize_gathers = int8",
        "zero.node = 3 and zero.two_levels with run.exact = yes",
    };
    char all[256];
    snprintf(all, sizeof all, "strategy.stack=%s", sets[_i]);
    ck_assert_int_eq(thread_run_try(&run, all), CADRE_E_INVALID);
    ck_assert_msg(strstr(run.err.text, says[_i]) != NULL, "%s", run.err.text);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("zero levels");
    TCase *tc = tcase_create("levels");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, has_the_bits_of_plain_zero, 0, STACKS);
    tcase_add_test(tc, has_the_bits_of_single);
    tcase_add_test(tc, another_order_rounds_otherwise);
    tcase_add_loop_test(tc, one_level_is_plain_zero, 0, 3);
    tcase_add_loop_test(tc, bytes_by_level, 0, 2);
    tcase_add_test(tc, takes_no_more_memory);
    tcase_add_loop_test(tc, what_it_cannot_do_is_refused, 0, 5);
    suite_add_tcase(s, tc);
    return s;
}
