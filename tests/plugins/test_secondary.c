/* SPDX-License-Identifier: Apache-2.0 */
/* zero with secondary shards (hpZ) on ranks that are threads: the bits of plain zero,
 * gathers inside nodes, memory as planned. */
#include <math.h>
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
    "zero.stage=3 model.channels=20 model.context=12 model.vocab=258 optim.clip=0.5 "  \
    "train.global_batch=24 train.recompute=block "

/* ---- equality ---- */

/* Behind the stack what both runs need, then after a bar what plain zero lacks. */
static const char *const placements[] = {
    "zero:4|node=2",
    "zero:4|node=1",
    "zero:4 zero.prefetch=0 zero.overlap=no|node=2",
    "zero:4 zero.prefetch=3 zero.bucket_mb=0.001|node=2",
    "zero:6 model.tied=no|node=3",
    "zero:6 train.precision=bf16|node=2",
    "zero:4 zero.reduce=microbatch train.precision=fp64|node=2",
    "hsdp:2,zero:4 train.micro_batch=1|node=2",
    "pipeline:2,zero:4 pipeline.schedule=interleaved model.layers=4|node=2",
    "pipeline:2,zero:4 pipeline.schedule=zb-h1 zero.prefetch=2|node=1",
    "tensor:2,zero:4|node=2",
    "diloco:2,zero:4 diloco.period=2 train.micro_batch=1|node=2",
};
enum { PLACEMENTS = sizeof placements / sizeof *placements };

START_TEST(has_the_bits_of_plain_zero)
{
    char sets[512];
    const char *both = placements[_i], *bar = strchr(both, '|');
    int n = (int)(bar - both);
    snprintf(sets, sizeof sets, "strategy.stack=%.*s " ODD, n, both);
    thread_run(&plain, sets);
    snprintf(sets, sizeof sets,
             "strategy.stack=%.*s " ODD "zero.secondary=node zero.%s", n, both,
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
    snprintf(sets, sizeof sets,
             "strategy.stack=zero:4 %s zero.stage=3 zero.node=2 zero.secondary=node",
             common);
    thread_run(&run, sets);
    ck_assert(thread_runs_same(&plain, &run));
}
END_TEST

/* ---- what is sent, and what is taken ---- */

#define LARGE                                                                          \
    "strategy.stack=zero:4 zero.stage=3 model.channels=96 model.tied=no "              \
    "train.global_batch=16 "

static double sent[THREAD_RANKS][2]; /* along dp and dp.inner, from step 1 to 3 */
static double n_bytes, ends_bytes; /* of all values; of the embedding, the head */

static void count_sent(struct cadre_rank *rank, int step)
{
    double *mine = sent[rank->index];
    if (step == 2)
        return;
    mine[0] = thread_run_bytes(rank, "dp") - (step == 3 ? mine[0] : 0);
    mine[1] = thread_run_bytes(rank, "dp.inner") - (step == 3 ? mine[1] : 0);
    if (rank->index > 0 || step < 3)
        return;
    n_bytes = ends_bytes = 0;
    for (uint32_t i = 0; i < rank->model->n_params; i++) {
        const struct cadre_param *param = &rank->model->params[i];
        double bytes = 4 * (double)cadre_shape_count(&param->local);
        bool end = param->unit == 0 || param->unit + 1 == rank->model->n_units;
        n_bytes += bytes;
        ends_bytes += end ? bytes : 0;
    }
}

/* All of them once over all ranks and 2k - 1 times inside the node; but where passes
 * turn round, the head and the embedding are still there. */
START_TEST(gathers_over_all_ranks_once_a_step)
{
    double all = 0, inside = 0;
    const int ranks = 4, node = 2, k = _i ? 4 : 2;
    char sets[256];
    snprintf(sets, sizeof sets, LARGE "zero.node=2 zero.secondary=node %s",
             _i ? "train.micro_batch=1" : "");
    run.each = count_sent;
    thread_run(&run, sets);
    for (int r = 0; r < ranks; r++) {
        all += sent[r][0] / 2; /* two steps */
        inside += sent[r][1] / 2;
    }
    double gathers = (2 * k - 1) * (n_bytes - ends_bytes) + (k - 1) * ends_bytes;
    ck_assert_double_eq_tol(all / (2 * (ranks - 1) * n_bytes), 1, 0.02);
    ck_assert_double_gt(inside, 0.98 * ranks / node * (node - 1) * gathers);
    ck_assert_double_lt(inside,
                        1.02 * ranks / node * (node - 1) * (gathers + ends_bytes));
}
END_TEST

static uint64_t held[THREAD_RANKS], announced[THREAD_RANKS];

static void read_memory(struct cadre_rank *rank, int step)
{
    (void)step;
    held[rank->index] =
        cadre_ledger_used(&rank->ledger, CADRE_SPACE_DEVICE, "zero: secondary shards");
    announced[rank->index] = cadre_rank_plan_budget(
        &rank->plan, "zero", CADRE_SPACE_DEVICE, "secondary shards");
}

/* 1/N of the values on every rank of a node of N. */
START_TEST(memory_is_as_planned)
{
    run.each = read_memory;
    thread_run(&run, LARGE "zero.node=2 zero.secondary=node");
    run.each = count_sent; /* for n_bytes */
    thread_run(&run, LARGE);
    for (int r = 0; r < 4; r++) {
        ck_assert_uint_eq(held[r], announced[r]);
        ck_assert_double_eq_tol((double)held[r] / n_bytes, 0.5, 0.01);
    }
}
END_TEST

/* The shards of a node of all ranks are the secondary ones. */
START_TEST(one_node_needs_none)
{
    run.each = read_memory;
    thread_run(&plain, LARGE);
    thread_run(&run, LARGE "zero.node=4 zero.secondary=node");
    ck_assert(thread_runs_same(&plain, &run));
    ck_assert_uint_eq(held[0] + announced[0], 0);
    thread_run(&plain, "strategy.stack=zero:1 zero.stage=3");
    thread_run(&run, "strategy.stack=zero:1 zero.stage=3 zero.node=2 "
                     "zero.secondary=node");
    ck_assert(thread_runs_same(&plain, &run));
}
END_TEST

/* ---- refusals ---- */

START_TEST(what_it_cannot_do_is_refused)
{
    static const char *const sets[] = {
        "zero.stage=3 zero.secondary=node",
        "zero.stage=2 zero.secondary=node zero.node=2",
        "zero.stage=3 zero.secondary=node zero.node=3",
        "zero.stage=3 zero.node=2",
    };
    static const char *const says[] = {
        "zero.secondary = node without zero.node",
        "zero.secondary = node with zero.stage = 2",
        "zero.node = 3 does not divide the 4 ranks along 'dp'",
        "zero.node = 2 without zero.two_levels = yes, zero.secondary = node or",
    };
    char all[256];
    snprintf(all, sizeof all, "strategy.stack=zero:4 %s", sets[_i]);
    ck_assert_int_eq(thread_run_try(&run, all), CADRE_E_INVALID);
    ck_assert_msg(strstr(run.err.text, says[_i]) != NULL, "%s", run.err.text);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("zero secondary");
    TCase *tc = tcase_create("secondary");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, has_the_bits_of_plain_zero, 0, PLACEMENTS);
    tcase_add_test(tc, has_the_bits_of_single);
    tcase_add_loop_test(tc, gathers_over_all_ranks_once_a_step, 0, 2);
    tcase_add_test(tc, memory_is_as_planned);
    tcase_add_test(tc, one_node_needs_none);
    tcase_add_loop_test(tc, what_it_cannot_do_is_refused, 0, 4);
    suite_add_tcase(s, tc);
    return s;
}
