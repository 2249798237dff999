/* SPDX-License-Identifier: Apache-2.0 */
/* A simulated step against the same step of a real run: bytes of every tag of every
 * rank, and bytes sent, are equal for every strategy; seconds by cause sum to the step;
 * a simulation repeats bit for bit; what cannot be simulated is refused. */
#include "core/simulate/simulation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/plan/hardware.h"
#include "core/simulate/simulation_print.h"
#include "tests/plugins/thread_run.h"
#include "tests/support/check_main.h"

static struct spec_fixture fixture;

/* ---- hardware ---- */

static const struct cadre_hardware machine = {
    .name = "test",
    .device = {.peak_tflops = {1, 2, 2, 0},
               .memory_gib = 1,
               .memory_gb_s = 100,
               .memory_efficiency = 1,
               .product_efficiency = 0.5,
               .product_half_gflop = 0.001,
               .attention_efficiency = 0.5,
               .attention_fused = true},
    .node_devices = 8,
    .node = {.bandwidth_gb_s = 10, .latency_us = 2, .efficiency = 1},
};

/* ---- a real run ---- */

struct seen {
    struct cadre_ledger memory;
    /* bytes after the step and two drains, and what a drain itself sends */
    uint64_t sent[THREAD_STEPS + 1], drain;
};
static struct seen seen[THREAD_RANKS];
static bool
    drains; /* not diloco, which ends a round early then; its sums are waited for
                       in the step */

static uint64_t sent_after_drain(struct cadre_rank *rank)
{
    struct cadre_comm_stats comm;
    if (drains)
        ck_assert_int_eq(cadre_rank_drain(rank), CADRE_OK);
    cadre_rank_comm(rank, &comm);
    return comm.bytes;
}

static void look(struct cadre_rank *rank, int step)
{
    struct seen *mine = &seen[rank->index];
    mine->memory = rank->ledger;
    const uint64_t first = sent_after_drain(rank);
    mine->sent[step] = sent_after_drain(rank);
    mine->drain = mine->sent[step] - first;
}

static const struct cadre_simulation_request no_trace;

/* As the command makes it: without data. */
static void simulate(const char *sets, struct cadre_simulation *out)
{
    struct cadre_spec *spec = spec_fixture_make(&fixture, sets);
    struct cadre_error err = {0};
    spec->run.dataset = NULL;
    cadre_status rc = cadre_simulate(spec, &machine, &no_trace, out, &err);
    ck_assert_msg(rc == CADRE_OK, "%s: %s", sets, err.text);
    cadre_spec_destroy(spec);
}

static void compare_memory(const char *sets, int r, const struct cadre_ledger *real,
                           const struct cadre_ledger *simulated)
{
    ck_assert_msg(real->n == simulated->n, "%s: rank %d has %d tags, simulated %d",
                  sets, r, real->n, simulated->n);
    for (int i = 0; i < real->n; i++) {
        const struct cadre_ledger_entry *a = &real->entry[i], *b = &simulated->entry[i];
        ck_assert_str_eq(a->tag, b->tag);
        ck_assert_uint_eq(a->space, b->space);
        ck_assert_msg(a->bytes == b->bytes && a->peak_bytes == b->peak_bytes,
                      "%s: rank %d, %s: %llu, at most %llu bytes; simulated %llu, %llu",
                      sets, r, a->tag, (unsigned long long)a->bytes,
                      (unsigned long long)a->peak_bytes, (unsigned long long)b->bytes,
                      (unsigned long long)b->peak_bytes);
    }
    ck_assert_uint_eq(real->peak_bytes, simulated->peak_bytes);
}

static void compare(const char *sets)
{
    struct cadre_simulation simulation;
    simulate(sets, &simulation);
    struct thread_run run = {
        .fixture = &fixture, .steps = 1 + simulation.steps, .each = look};
    memset(seen, 0, sizeof seen);
    drains = !strstr(sets, "diloco");
    thread_run(&run, sets);
    ck_assert_int_eq(simulation.ranks, run.ranks);
    for (int r = 0; r < run.ranks; r++) {
        const double sent = (double)(seen[r].sent[run.steps] - seen[r].sent[1]) -
                            2 * simulation.steps * (double)seen[r].drain;
        compare_memory(sets, r, &seen[r].memory, &simulation.rank[r].memory);
        ck_assert_msg(fabs(sent - simulation.rank[r].sent_bytes * simulation.steps) <
                          0.5,
                      "%s: rank %d sends %g bytes, simulated %g", sets, r, sent,
                      simulation.rank[r].sent_bytes * simulation.steps);
    }
    cadre_simulation_fini(&simulation);
}

static const char *const stacks[] = {
    "strategy.stack=single",
    "strategy.stack=ddp:2",
    "strategy.stack=zero:2",
    "strategy.stack=tensor:2",
    "strategy.stack=pipeline:2",
    "strategy.stack=ddp:2 train.precision=bf16 train.recompute=block",
    "strategy.stack=zero:2 zero.stage=2 train.precision=bf16",
    "strategy.stack=zero:4 zero.stage=3",
    "strategy.stack=zero:2 zero.offload=optimizer",
    "strategy.stack=tensor:2 tensor.sequence_parallel=yes",
    "strategy.stack=pipeline:2 pipeline.schedule=gpipe",
    "strategy.stack=pipeline:2,ddp:2 model.layers=4",
    "strategy.stack=tensor:2,zero:2",
    "strategy.stack=pipeline:2,tensor:2,zero:2 model.layers=4",
    "strategy.stack=hsdp:2,zero:2",
    "strategy.stack=diloco:2 diloco.period=3",
    "strategy.stack=mig:2",
    "strategy.stack=ddp:2 ddp.compress=powersgd:2",
    "strategy.stack=ddp:2 ddp.compress=topk:0.1",
    "strategy.stack=ddp:2 optim.name=muon",
    "strategy.stack=zero:2 optim.name=adafactor",
    "strategy.stack=zero:2 zero.stage=3 model.experts=4",
    "strategy.stack=pipeline:2 model.experts=3 pipeline.schedule=zb-h1",
    "strategy.stack=ddp:3 train.global_batch=12 model.arch=llama",
};

START_TEST(test_as_a_run)
{
    compare(stacks[_i]);
}
END_TEST

/* ---- seconds ---- */

START_TEST(test_parts)
{
    struct cadre_simulation a, b;
    simulate(stacks[_i], &a);
    simulate(stacks[_i], &b);
    ck_assert(a.step_s > 0 && a.parts.known);
    ck_assert(a.parts.part[CADRE_PART_COMPUTE] > 0);
    ck_assert(a.parts.part[CADRE_PART_OPTIMIZER] > 0);
    /* all of it has a cause but what plugins compute beside passes and the update */
    const double least = strstr(stacks[_i], "compress") ? 0.9 : 0.01;
    ck_assert_msg(a.other_s > -1e-9 * a.step_s && a.other_s < least * a.step_s,
                  "%s: %g s of %g s have no cause", stacks[_i], a.other_s, a.step_s);
    ck_assert(a.step_s == b.step_s && a.sent_bytes == b.sent_bytes);
    for (int i = 0; i < CADRE_PARTS; i++)
        ck_assert(a.parts.part[i] == b.parts.part[i]);
    cadre_simulation_fini(&a);
    cadre_simulation_fini(&b);
}
END_TEST

/* Each rank's passes in their order: forward and backward of every micro-batch. */
START_TEST(test_passes)
{
    struct cadre_spec *spec =
        spec_fixture_make(&fixture, "strategy.stack=pipeline:2 train.micro_batch=1");
    const struct cadre_simulation_request asked = {.passes = true};
    struct cadre_simulation out, without;
    struct cadre_error err = {0};
    spec->run.dataset = NULL;
    ck_assert_int_eq(cadre_simulate(spec, &machine, &asked, &out, &err), CADRE_OK);
    ck_assert_int_eq(out.ranks, 2);
    for (int r = 0; r < 2; r++) {
        const struct cadre_simulated_rank *rank = &out.rank[r];
        size_t kinds[CADRE_SPAN_PASSES] = {0};
        ck_assert_uint_gt(rank->n_passes, 2);
        for (size_t i = 0; i < rank->n_passes; i++) {
            ck_assert_int_lt(rank->pass[i].kind, CADRE_SPAN_PASSES);
            kinds[rank->pass[i].kind]++;
            ck_assert_double_gt(rank->pass[i].end, rank->pass[i].begin);
            if (i > 0)
                ck_assert_double_ge(rank->pass[i].begin, rank->pass[i - 1].end);
        }
        ck_assert_uint_eq(kinds[CADRE_SPAN_FORWARD], kinds[CADRE_SPAN_BACKWARD]);
        ck_assert_uint_eq(rank->n_passes, 2 * kinds[CADRE_SPAN_FORWARD]);
        ck_assert_double_le(rank->pass[rank->n_passes - 1].end - rank->pass[0].begin,
                            rank->step_s);
    }
    /* the second stage waits for the first */
    ck_assert_double_ge(out.rank[1].pass[0].begin, out.rank[0].pass[0].end);
    cadre_simulation_fini(&out);
    ck_assert_int_eq(cadre_simulate(spec, &machine, &no_trace, &without, &err),
                     CADRE_OK);
    ck_assert_ptr_null(without.rank[0].pass);
    cadre_simulation_fini(&without);
    cadre_spec_destroy(spec);
}
END_TEST

/* ---- ranks that represent others ---- */

static struct cadre_hardware two_nodes(void)
{
    struct cadre_hardware hw = machine;
    hw.node_devices = 4;
    hw.cluster = (struct cadre_plan_link){
        .bandwidth_gb_s = 1, .latency_us = 20, .efficiency = 1};
    return hw;
}

static cadre_status simulate_apart(const char *sets, int apart,
                                   struct cadre_simulation *out,
                                   struct cadre_error *err)
{
    const struct cadre_hardware hw = two_nodes();
    const struct cadre_simulation_request request = {.apart = apart};
    struct cadre_spec *spec = spec_fixture_make(&fixture, sets);
    spec->run.dataset = NULL;
    const cadre_status rc = cadre_simulate(spec, &hw, &request, out, err);
    cadre_spec_destroy(spec);
    return rc;
}

static void same(const char *sets, const char *what, double a, double b, double most)
{
    ck_assert_msg(fabs(a - b) <= most, "%s: %s %.17g, represented %.17g", sets, what, a,
                  b);
}

/* Of those that ran, all is as where each rank did; so are the means. Where shards
 * differ, the slowest may be one that did not run. */
static void compare_represented(const char *sets, const struct cadre_simulation *all,
                                const struct cadre_simulation *few)
{
    const double most = (strstr(sets, "zero") ? 1e-3 : 1e-9) * all->step_s;
    int stand = 0;
    for (int i = 0; i < few->n; i++) {
        const struct cadre_simulated_rank *b = &few->rank[i], *a = &all->rank[b->index];
        stand += b->represents;
        same(sets, "step", a->step_s, b->step_s, most);
        same(sets, "sent", a->sent_bytes, b->sent_bytes, 0.5);
        same(sets, "between nodes", a->between_bytes, b->between_bytes, 0.5);
        for (int k = 0; k < CADRE_PARTS; k++)
            same(sets, "a part", a->parts.part[k], b->parts.part[k], most);
        compare_memory(sets, b->index, &a->memory, &b->memory);
    }
    ck_assert_int_eq(stand, all->ranks);
    same(sets, "mean step", all->step_s, few->step_s, most);
    same(sets, "mean sent", all->sent_bytes, few->sent_bytes, 0.001 * all->sent_bytes);
}

static const struct {
    const char *sets;
    int run; /* ranks of it that do */
} represented[] = {
    {"strategy.stack=ddp:8 train.global_batch=16", 4},
    {"strategy.stack=zero:8 train.global_batch=16", 8}, /* shards differ: no */
    {"strategy.stack=ddp:12 train.global_batch=24", 4},
    {"strategy.stack=zero:8 train.global_batch=16 model.channels=256", 4},
    {"strategy.stack=zero:8 zero.stage=3 train.global_batch=16 model.channels=256", 4},
    {"strategy.stack=pipeline:2,ddp:8 train.global_batch=32 model.layers=4", 8},
    {"strategy.stack=tensor:2,zero:8 zero.stage=2 train.global_batch=16 "
     "model.channels=256",
     8},
    {"strategy.stack=hsdp:6,zero:4 train.global_batch=48", 16},
    {"strategy.stack=diloco:6 diloco.period=2 train.global_batch=12", 4},
    {"strategy.stack=tensor:8 model.heads=8 model.channels=256", 4},
    {"strategy.stack=mig:8 train.global_batch=16", 4},
    {"strategy.stack=ddp:8,tensor:3 train.global_batch=16 model.heads=3 "
     "model.vocab=258 model.channels=192",
     24}, /* groups of tp are on one node or on two */
    {"strategy.stack=ddp:6 train.global_batch=14 "
     "balance.micro_batches=2,1,1,1,1,1",
     6},
    {"strategy.stack=pipeline:5,tensor:6,ddp:8 model.heads=6 model.channels=96 "
     "model.layers=5 model.vocab=258 train.global_batch=16 train.micro_batch=1",
     80}, /* the last: of many threads */
};

START_TEST(test_represented)
{
    struct cadre_simulation all, few;
    struct cadre_error err = {0};
    const char *sets = represented[_i].sets;
    ck_assert_msg(simulate_apart(sets, 256, &all, &err) == CADRE_OK, "%s", err.text);
    ck_assert_msg(simulate_apart(sets, 4, &few, &err) == CADRE_OK, "%s", err.text);
    ck_assert_int_eq(all.n, all.ranks);
    ck_assert_msg(few.n == represented[_i].run, "%s: %d ranks", sets, few.n);
    compare_represented(sets, &all, &few);
    cadre_simulation_fini(&all);
    cadre_simulation_fini(&few);
}
END_TEST

/* ---- refusals ---- */

static void refused(const char *sets, const struct cadre_hardware *hw, const char *text)
{
    struct cadre_spec *spec = spec_fixture_make(&fixture, sets);
    struct cadre_simulation out;
    struct cadre_error err = {0};
    spec->run.dataset = NULL;
    ck_assert_int_ne(cadre_simulate(spec, hw, &no_trace, &out, &err), CADRE_OK);
    ck_assert_msg(strstr(err.text, text) && !strchr(err.text, '\n'), "%s", err.text);
    cadre_spec_destroy(spec);
}

START_TEST(test_refused)
{
    struct cadre_hardware half = machine, alone = machine, apart = machine;
    refused("device.pace=0.5", &machine, "device.pace");
    refused("train.precision=fp64", &machine, "fp64");
    refused("strategy.stack=diloco:2 diloco.period=100", &machine, "100 steps");
    half.device.peak_tflops[CADRE_PLAN_FP32] = 0;
    refused("", &half, "device.peak_fp32_tflops");
    alone.node.bandwidth_gb_s = 0;
    refused("strategy.stack=ddp:2", &alone, "link:node.bandwidth_gb_s");
    apart.node_devices = 1;
    refused("strategy.stack=ddp:2", &apart, "link:cluster.bandwidth_gb_s");
}
END_TEST

static void setup(void)
{
    spec_fixture_open(&fixture);
}

static void teardown(void)
{
    spec_fixture_close(&fixture);
}

Suite *test_suite(void)
{
    const int n = test_lean() ? 9 : (int)(sizeof stacks / sizeof stacks[0]);
    Suite *suite = suite_create("simulation");
    TCase *runs = tcase_create("runs"), *rest = tcase_create("rest");
    tcase_set_timeout(runs, 60);
    tcase_set_timeout(rest, 60);
    tcase_add_checked_fixture(runs, setup, teardown);
    tcase_add_checked_fixture(rest, setup, teardown);
    tcase_add_loop_test(runs, test_as_a_run, 0, n);
    tcase_add_loop_test(rest, test_parts, 0, n);
    tcase_add_test(rest, test_passes);
    tcase_add_loop_test(rest, test_represented, 0,
                        (int)(sizeof represented / sizeof represented[0]) -
                            test_lean());
    tcase_add_test(rest, test_refused);
    suite_add_tcase(suite, runs);
    suite_add_tcase(suite, rest);
    return suite;
}
