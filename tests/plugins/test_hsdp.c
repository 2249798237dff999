/* SPDX-License-Identifier: Apache-2.0 */
/* hsdp on ranks that are threads, alone and around ddp and zero. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/comm/comm.h"
#include "tests/plugins/thread_run.h"
#include "tests/support/built_plugin.h"
#include "tests/support/check_main.h"

static struct spec_fixture f;
static struct thread_run single, run;

static void setup(void)
{
    spec_fixture_open(&f);
    single = run = (struct thread_run){.fixture = &f, .steps = 3};
}

static void teardown(void)
{
    spec_fixture_close(&f);
}

/* ---- the file ---- */

START_TEST(exports_one_symbol)
{
    built_plugin_exports_its_entry(built_plugin_load("hsdp"));
}
END_TEST

START_TEST(describes_itself)
{
    const struct cadre_plugin_handle *hsdp = built_plugin_load("hsdp");
    ck_assert_str_eq(hsdp->desc.id, "org.cadre.hsdp");
    ck_assert_str_eq(hsdp->desc.axis, "rep");
    ck_assert_uint_eq(hsdp->desc.role, CADRE_ROLE_DATA);
}
END_TEST

/* ---- equality ---- */

/* Every rank has its part of every sum: in exact mode the bits are those of `single`,
 * in whatever order the stack is written. Buckets of 1 kB hold one or a few gradients.
 */
static const char *const exact[] = {
    "hsdp:2",
    "hsdp:4 hsdp.overlap=no",
    "hsdp:2,ddp:2",
    "ddp:2,hsdp:2 hsdp.bucket_mb=0.001",
    "hsdp:2,zero:2 zero.stage=1",
    "zero:2,hsdp:2 zero.stage=1 hsdp.overlap=no",
    "hsdp:2,zero:2 zero.stage=1 zero.overlap=no hsdp.bucket_mb=0.001",
    "hsdp:2,zero:2 zero.stage=2",
    "zero:2,hsdp:2 zero.stage=2 zero.overlap=no",
    "hsdp:2,zero:2 zero.stage=2 zero.reduce=microbatch train.micro_batch=1",
    ("zero:2,hsdp:2 zero.stage=3 zero.reduce=microbatch hsdp.overlap=no "
     "train.micro_batch=1"),
    "hsdp:2,zero:2 zero.stage=3",
    "zero:2,hsdp:2 zero.stage=3 train.recompute=block hsdp.bucket_mb=0.001",
    "hsdp:2,zero:2 train.micro_batch=1",
    "zero:2,hsdp:2 train.precision=bf16 zero.stage=2",
    "hsdp:2,zero:2 train.precision=fp64 zero.stage=3",
    "hsdp@far:2,hsdp:2 hsdp@far.level=17",
    "pipeline:2,hsdp:2 pipeline.schedule=zb-h1",
    "pipeline:2,hsdp:2,zero:2 zero.stage=1",
};
enum { EXACT = sizeof exact / sizeof *exact };

/* The settings beside the stack, which `single` needs too. */
static void settings_of(const char *text, char *stack, size_t size, const char **rest)
{
    size_t n = strcspn(text, " ");
    snprintf(stack, size, "%.*s", (int)n, text);
    *rest = text + n;
}

START_TEST(has_the_bits_of_single)
{
    char stack[64], sets[256];
    const char *rest;
    settings_of(exact[_i], stack, sizeof stack, &rest);
    /* the stack first: it names the instance whose options these are */
    snprintf(sets, sizeof sets,
             "strategy.stack=%s run.exact=yes%s strategy.stack=single", stack, rest);
    thread_run(&single, sets);
    snprintf(sets, sizeof sets, "strategy.stack=%s run.exact=yes%s", stack, rest);
    thread_run(&run, sets);
    ck_assert_msg(thread_runs_same(&single, &run), "%s differs by %g", exact[_i],
                  thread_runs_differ(&single, &run));
}
END_TEST

START_TEST(is_close_to_single_otherwise)
{
    thread_run(&single, "");
    thread_run(&run, _i ? "strategy.stack=hsdp:2,zero:2 zero.stage=2"
                        : "strategy.stack=ddp:2,hsdp:3 train.global_batch=24");
    if (_i == 0)
        thread_run(&single, "train.global_batch=24");
    ck_assert_double_lt(thread_runs_differ(&single, &run), 1e-5);
}
END_TEST

/* With tensor parallelism: the bits among runs of one tensor size. */
START_TEST(goes_with_tensor_parallelism)
{
    thread_run(&single, "strategy.stack=tensor:2 run.exact=yes");
    thread_run(&run, _i ? "strategy.stack=hsdp:2,tensor:2,zero:2 run.exact=yes "
                          "tensor.sequence_parallel=yes zero.stage=3"
                        : "strategy.stack=tensor:2,hsdp:2 run.exact=yes");
    ck_assert(_i ? thread_runs_differ(&single, &run) < 1e-5
                 : thread_runs_same(&single, &run));
}
END_TEST

START_TEST(one_rank_does_nothing)
{
    thread_run(&single, "run.exact=yes");
    thread_run(&run, "run.exact=yes strategy.stack=hsdp:1,zero:2 zero.stage=2");
    ck_assert(thread_runs_same(&single, &run));
}
END_TEST

/* ---- what is sent ---- */

static double sent[THREAD_RANKS], operations[THREAD_RANKS];
static uint64_t n_elements;

static void count_sent(struct cadre_rank *rank, int step)
{
    const struct cadre_axis *rep = cadre_mesh_axis(&rank->mesh, "rep");
    struct cadre_comm_stats stats;
    cadre_comm_read_stats(rep->comm, &stats);
    if (step == 1) { /* after the first step, so that the start is left out */
        sent[rank->index] = -(double)stats.bytes;
        operations[rank->index] = -(double)stats.operations;
    } else if (step == 3) {
        sent[rank->index] += (double)stats.bytes;
        operations[rank->index] += (double)stats.operations;
    }
    if (rank->index == 0 && step == 1) {
        n_elements = 0;
        for (uint32_t i = 0; i < rank->model->n_params; i++)
            n_elements += rank->store.param[i].count;
    }
}

/* 2 (G-1)/G of the shard of each rank, for each sum: one a step, or one a micro-batch
 * (2 of them here). */
START_TEST(sends_a_shard_over_groups)
{
    static const struct {
        const char *sets;
        double shards, sums;
    } cases[] = {
        {"strategy.stack=hsdp:2", 1, 1},
        {"strategy.stack=hsdp:2,ddp:2", 1, 1},
        {"strategy.stack=zero:2,hsdp:2 zero.stage=1", 2, 1},
        {"strategy.stack=hsdp:2,zero:2 zero.stage=2", 2, 1},
        {"strategy.stack=hsdp:2,zero:2 zero.stage=3", 2, 1},
        {"strategy.stack=hsdp:2,zero:2 zero.stage=2 zero.reduce=microbatch "
         "train.micro_batch=1",
         2, 2},
    };
    double total = 0;
    run.each = count_sent;
    thread_run(&run, cases[_i].sets);
    for (int r = 0; r < run.ranks; r++)
        total += sent[r] / 2; /* two steps */
    double expected =
        run.ranks * (double)n_elements * 4 * cases[_i].sums / cases[_i].shards;
    ck_assert_double_eq_tol(total / expected, 1, 0.02);
}
END_TEST

START_TEST(buckets_save_operations)
{
    double few;
    run.each = count_sent;
    thread_run(&run, "strategy.stack=hsdp:2");
    few = operations[0];
    thread_run(&run, "strategy.stack=hsdp:2 hsdp.bucket_mb=0.001");
    ck_assert_double_eq(few, 2); /* one a step */
    ck_assert_double_gt(operations[0], 10 * few);
}
END_TEST

/* ---- refusals ---- */

START_TEST(a_wrong_level_is_refused)
{
    static const char *const sets[] = {
        "strategy.stack=hsdp:2,zero:2 zero.stage=2 zero.level=16 hsdp.level=0",
        "strategy.stack=hsdp:2,ddp:2 hsdp.level=0",
    };
    static const char *const says[] = {"level", "level"};
    ck_assert_int_ne(thread_run_try(&run, sets[_i]), CADRE_OK);
    ck_assert_msg(strstr(run.err.text, says[_i]) != NULL, "%s", run.err.text);
    ck_assert_msg(strstr(run.err.text, "hsdp") != NULL, "%s", run.err.text);
}
END_TEST

/* The tree has no node of all micro-batches of a group whose ranks have 3 and 1, and
 * none of a rank's 3. */
START_TEST(unequal_ranges_are_not_exact)
{
    static const char *const stacks[] = {"hsdp:2,ddp:2", "hsdp:2,ddp:2", "hsdp:2"};
    static const char *const says[] = {"", "takes one plugin that reduces gradients",
                                       "unequal numbers of micro-batches"};
    const char *ranges = getenv("CADRE_BUILD");
    char sets[512];
    snprintf(sets, sizeof sets,
             "strategy.stack=%s,%s/tests/plugins/.libs/ranges.so:1 "
             "train.micro_batch=1 run.exact=%s ranges.first=%s",
             stacks[_i], ranges ? ranges : ".", _i ? "yes" : "no",
             _i == 2 ? "0,3,8" : "0,3,4,7,8");
    cadre_status rc = thread_run_try(&run, sets);
    ck_assert_int_eq(rc, _i ? CADRE_E_UNSUPPORTED : CADRE_OK);
    ck_assert_msg(!_i || strstr(run.err.text, says[_i]), "%s", run.err.text);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("hsdp");
    TCase *tc = tcase_create("hsdp");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, exports_one_symbol);
    tcase_add_test(tc, describes_itself);
    tcase_add_loop_test(tc, has_the_bits_of_single, 0, EXACT);
    tcase_add_loop_test(tc, is_close_to_single_otherwise, 0, 2);
    tcase_add_loop_test(tc, goes_with_tensor_parallelism, 0, 2);
    tcase_add_test(tc, one_rank_does_nothing);
    tcase_add_loop_test(tc, sends_a_shard_over_groups, 0, 6);
    tcase_add_test(tc, buckets_save_operations);
    tcase_add_loop_test(tc, a_wrong_level_is_refused, 0, 2);
    tcase_add_loop_test(tc, unequal_ranges_are_not_exact, 0, 3);
    suite_add_tcase(s, tc);
    return s;
}
