/* SPDX-License-Identifier: Apache-2.0 */
/* zero with quantized gathers (qwZ) and gradients (qgZ) on ranks that are threads: near
 * to plain zero, the same bits whenever and however it sends, the bytes and the memory
 * that are promised. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/plugins/thread_run.h"
#include "tests/support/check_main.h"

static struct spec_fixture f;
static struct thread_run plain, run, again;

static void setup(void)
{
    spec_fixture_open(&f);
    plain = run = again = (struct thread_run){.fixture = &f, .steps = 4};
}

static void teardown(void)
{
    spec_fixture_close(&f);
}

/* Sizes that do not divide, a tied head, clipping, three micro-batches a rank. */
#define ODD                                                                            \
    "model.channels=20 model.context=12 model.vocab=258 optim.clip=0.5 "               \
    "train.global_batch=24 train.recompute=block "
#define GATHERS "zero.quantize_gathers=int8 "
#define GRADIENTS "zero.quantize_gradients=int8 "

/* Behind the stack what both runs need, then after a bar what plain zero lacks. */
static const char *const designs[] = {
    "zero:4 zero.stage=3|" GATHERS,
    "zero:4 zero.stage=3|" GATHERS GRADIENTS,
    "zero:4 zero.stage=3|" GATHERS GRADIENTS "zero.node=2 zero.secondary=node",
    "zero:4 zero.stage=1|" GRADIENTS,
    "zero:4 zero.stage=1|" GRADIENTS "zero.node=2",
    "zero:6 zero.stage=2|" GRADIENTS "zero.node=3",
    "zero:6 zero.stage=2 zero.bucket_mb=0.01|" GRADIENTS "zero.node=2",
    "zero:4 zero.stage=2 zero.reduce=microbatch|" GRADIENTS "zero.node=2",
    "zero:4 zero.stage=3 zero.reduce=microbatch|" GRADIENTS GATHERS,
    "zero:4 zero.stage=3 train.precision=fp64|" GRADIENTS GATHERS "zero.node=2",
    "zero:4 zero.stage=3 train.precision=bf16|" GRADIENTS GATHERS "zero.node=1",
    "zero:4 zero.stage=3 train.precision=fp16 train.loss_scale=1024|" GRADIENTS GATHERS,
    "hsdp:2,zero:4 zero.stage=2 train.micro_batch=1|" GRADIENTS "zero.node=2",
    "hsdp:2,zero:4 zero.stage=1 train.micro_batch=1|" GRADIENTS,
    "pipeline:2,zero:4 zero.stage=3|" GRADIENTS GATHERS "zero.node=2",
    "tensor:2,zero:4 zero.stage=3|" GRADIENTS GATHERS "zero.node=2",
};
enum { DESIGNS = sizeof designs / sizeof *designs };

static char sets[512];

static const char *with(const char *design, const char *more)
{
    const char *bar = strchr(design, '|');
    snprintf(sets, sizeof sets, "strategy.stack=%.*s " ODD "%s %s", (int)(bar - design),
             design, bar + 1, more);
    return sets;
}

static const char *without(const char *design)
{
    const char *bar = strchr(design, '|');
    snprintf(sets, sizeof sets, "strategy.stack=%.*s " ODD, (int)(bar - design),
             design);
    return sets;
}

/* A shard that went to the wrong rank, or was counted twice, would be far off: the norm
 * is over all of them. With so few channels a block of gathered values has gains and
 * weights. Replicas are compared at the end of each run. */
START_TEST(trains_near_to_plain_zero)
{
    const double limit = strstr(designs[_i], GATHERS) ? 0.1 : 0.02;
    thread_run(&plain, without(designs[_i]));
    thread_run(&run, with(designs[_i], ""));
    ck_assert(!thread_runs_same(&plain, &run));
    for (int step = 1; step <= run.steps; step++) {
        ck_assert_double_eq_tol(run.loss[step], plain.loss[step], 0.02);
        ck_assert_double_eq_tol(run.norm[step] / plain.norm[step], 1, limit);
    }
}
END_TEST

/* Where no block has values of two parameters. */
START_TEST(whole_blocks_round_little)
{
    thread_run(&plain, "model.channels=64 strategy.stack=zero:4 zero.stage=3");
    thread_run(&run, "model.channels=64 strategy.stack=zero:4 zero.stage=3 "
                     "zero.node=2 " GATHERS GRADIENTS);
    for (int step = 1; step <= run.steps; step++)
        ck_assert_double_eq_tol(run.norm[step] / plain.norm[step], 1, 0.005);
}
END_TEST

/* Whenever it is sent. */
START_TEST(the_same_run_has_the_same_bits)
{
    static const char *const ways[] = {
        "",
        "zero.overlap=no zero.prefetch=0",
        "device.threads=2 zero.prefetch=3",
    };
    thread_run(&run, with(designs[_i], ""));
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        thread_run(&again, with(designs[_i], ways[i]));
        ck_assert_msg(thread_runs_same(&run, &again), "%s %s", designs[_i], ways[i]);
    }
}
END_TEST

/* ---- what is sent ---- */

#define LARGE                                                                          \
    "strategy.stack=zero:4 model.layers=1 model.channels=512 model.context=8 "         \
    "model.tied=no train.global_batch=4 train.micro_batch=1 "

enum { ALL, INSIDE, BETWEEN, AXES };
static double sent[THREAD_RANKS][AXES]; /* from step 1 to 3 */
static cadre_status drained[THREAD_RANKS];
static double n_elements;

static void count_sent(struct cadre_rank *rank, int step)
{
    static const char *const axes[] = {"dp", "dp.inner", "dp.outer"};
    if (step == 1 || step == 3) /* what is still under way is not counted yet */
        drained[rank->index] = cadre_rank_drain(rank);
    for (int a = 0; a < AXES && (step == 1 || step == 3); a++)
        sent[rank->index][a] =
            thread_run_bytes(rank, axes[a]) - (step == 3 ? sent[rank->index][a] : 0);
    if (rank->index > 0 || step < 3)
        return;
    n_elements = 0;
    for (uint32_t i = 0; i < rank->model->n_params; i++)
        n_elements += (double)cadre_shape_count(&rank->model->params[i].local);
}

/* In units of 17/16 byte an element: a code, and a scale for 64 of them. */
START_TEST(sends_what_is_promised)
{
    static const struct {
        const char *sets;
        double expected[AXES]; /* of all ranks in a step; 4 bytes count as 64/17 */
    } cases[] = {
        /* gradients to their owners, values back from them as they are */
        {GRADIENTS "zero.stage=1", {3 + 3 * 64.0 / 17}},
        /* in a node of 2 half of all, between two nodes a quarter */
        {GRADIENTS "zero.stage=1 zero.node=2", {3 * 64.0 / 17, 2, 1}},
        {GRADIENTS GATHERS "zero.stage=3 zero.node=2 zero.secondary=node",
         {3, 2 + 2 * 64.0 / 17, 1}},
    };
    double total[AXES] = {0};
    run.steps = 3;
    run.each = count_sent;
    snprintf(sets, sizeof sets, LARGE "%s", cases[_i].sets);
    thread_run(&run, sets);
    for (int r = 0; r < 4; r++)
        ck_assert_int_eq(drained[r], CADRE_OK);
    for (int a = 0; a < AXES; a++)
        for (int r = 0; r < 4; r++)
            total[a] += sent[r][a] / 2 / (n_elements * 17 / 16); /* two steps */
    for (int a = 0; a < AXES; a++) {
        double most = cases[_i].expected[a], least = most;
        /* the head is not gathered again for its backward: 256 x 512 of 3 million */
        if (_i == 2 && a == INSIDE)
            least -= 2 * 64.0 / 17 * (256 * 512 + 1024) / n_elements;
        ck_assert_msg(total[a] <= 1.02 * most && total[a] >= 0.98 * least,
                      "axis %d: %g, expected %g to %g", a, total[a], least, most);
    }
}
END_TEST

/* ---- what is taken ---- */

static uint64_t peak_of(const struct cadre_rank *rank, const char *tag)
{
    char name[64];
    snprintf(name, sizeof name, "zero: %s", tag);
    for (int i = 0; i < rank->ledger.n; i++)
        if (strcmp(rank->ledger.entry[i].tag, name) == 0)
            return rank->ledger.entry[i].peak_bytes;
    return 0;
}

/* A rank's thread cannot fail an assertion: what it finds is looked at afterwards. */
static bool exceeded[THREAD_RANKS], unused[THREAD_RANKS];

/* Which two buckets are in flight at once the plan does not know: it takes the largest.
 * With secondary shards not every gather of a unit is encoded. */
static bool is_exact(const struct cadre_rank *rank, const char *tag)
{
    bool secondary = cadre_rank_plan_budget(&rank->plan, "zero", CADRE_SPACE_DEVICE,
                                            "secondary shards") > 0;
    return strcmp(tag, "codes") == 0 ? !secondary
                                     : strcmp(tag, "quantized gradients") != 0;
}

static void compare_memory(struct cadre_rank *rank, int step)
{
    static const char *const tags[] = {"codes", "quantized gradients",
                                       "dequantized shard", "secondary shards"};
    for (size_t i = 0; step == 1 && i < sizeof tags / sizeof *tags; i++) {
        uint64_t planned =
            cadre_rank_plan_budget(&rank->plan, "zero", CADRE_SPACE_DEVICE, tags[i]);
        uint64_t took = peak_of(rank, tags[i]);
        exceeded[rank->index] |= took > planned;
        unused[rank->index] |= took < planned && is_exact(rank, tags[i]);
    }
}

START_TEST(memory_is_as_planned)
{
    memset(exceeded, 0, sizeof exceeded);
    memset(unused, 0, sizeof unused);
    run.steps = 1;
    run.each = compare_memory;
    thread_run(&run, with(designs[_i], ""));
    for (int r = 0; r < THREAD_RANKS; r++)
        ck_assert_msg(!exceeded[r] && !unused[r], "%s: rank %d takes %s than planned",
                      designs[_i], r, exceeded[r] ? "more" : "less");
}
END_TEST

/* ---- refusals ---- */

START_TEST(what_it_cannot_do_is_refused)
{
    static const char *const wrong[] = {
        GATHERS "zero.stage=1",
        GATHERS "zero.stage=3 run.exact=yes",
        GRADIENTS "zero.stage=1 run.exact=yes",
        GRADIENTS "zero.stage=1 zero.node=3",
    };
    static const char *const says[] = {
        "zero.quantize_gathers = int8 with zero.stage = 1",
        "zero.quantize_gathers = int8 rounds what is sent, which run.exact = yes",
        "zero.quantize_gradients = int8 rounds what is sent, which run.exact = yes",
        "zero.node = 3 does not divide the 4 ranks along 'dp'",
    };
    snprintf(sets, sizeof sets, "strategy.stack=zero:4 %s", wrong[_i]);
    ck_assert_int_eq(thread_run_try(&run, sets), CADRE_E_INVALID);
    ck_assert_msg(strstr(run.err.text, says[_i]) != NULL, "%s", run.err.text);
}
END_TEST

/* One rank sends nothing: nothing is rounded. */
START_TEST(one_rank_rounds_nothing)
{
    thread_run(&plain, "run.exact=yes");
    thread_run(&run,
               "run.exact=yes strategy.stack=zero:1 zero.stage=3 " GATHERS GRADIENTS
               "zero.node=2 zero.secondary=node");
    ck_assert(thread_runs_same(&plain, &run));
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("zero quantized");
    TCase *tc = tcase_create("quantized");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, trains_near_to_plain_zero, 0, DESIGNS);
    tcase_add_test(tc, whole_blocks_round_little);
    tcase_add_loop_test(tc, the_same_run_has_the_same_bits, 0, DESIGNS);
    tcase_add_loop_test(tc, sends_what_is_promised, 0, 3);
    tcase_add_loop_test(tc, memory_is_as_planned, 0, DESIGNS);
    tcase_add_loop_test(tc, what_it_cannot_do_is_refused, 0, 4);
    tcase_add_test(tc, one_rank_rounds_nothing);
    suite_add_tcase(s, tc);
    return s;
}
