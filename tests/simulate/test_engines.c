/* SPDX-License-Identifier: Apache-2.0 */
/* The two engines of `cadre plan` share the hardware file alone: where both can say
 * something, they say the same. The formulas round some bytes (docs/planning.md), so
 * computing may differ by 2 %, communication by 1 %, bytes by 4 %, as
 * formulas have no scratch. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/plan/footprint.h"
#include "core/plan/forecast.h"
#include "core/simulate/simulation.h"
#include "tests/plan/plan_fixture.h"
#include "tests/support/check_main.h"
#include "tests/train/spec_fixture.h"

static struct spec_fixture fixture;

static const struct cadre_transformer llama = {
    .layers = 8,
    .channels = 4096,
    .heads = 32,
    .kv_heads = 8,
    .hidden = 14336,
    .vocab = 256,
    .context = 4096,
    .gated = true,
};
static const char same_llama[] =
    "model.arch=llama model.layers=8 model.channels=4096 model.heads=32 "
    "model.kv_heads=8 model.hidden=14336 model.context=4096 model.vocab=256 "
    "train.precision=bf16 train.global_batch=16 train.micro_batch=1";

/* As round_machine, but with efficiencies and latencies of a real one. */
static int devices = 8; /* of a node */

static struct cadre_hardware machine(void)
{
    struct cadre_hardware hw = round_machine;
    hw.device.product_efficiency = 0.6;
    hw.device.product_half_gflop = 1;
    hw.device.attention_efficiency = 0.4;
    hw.node.latency_us = 4;
    hw.cluster.latency_us = 10;
    hw.node_devices = devices;
    return hw;
}

/* ---- both ---- */

struct pair {
    struct cadre_simulation simulated;
    struct cadre_forecast forecast;
    struct cadre_footprint footprint;
};

static void ask_of(struct pair *pair, const char *model,
                   const struct cadre_transformer *t, const char *sets,
                   const struct cadre_candidate *as)
{
    char all[600];
    const struct cadre_simulation_request none = {0};
    const struct cadre_hardware hw = machine();
    struct cadre_error err = {0};
    snprintf(all, sizeof all, "%s %s", model, sets);
    struct cadre_spec *spec = NULL;
    cadre_status rc = spec_fixture_plan(&fixture, all, &spec);
    ck_assert_msg(rc == CADRE_OK, "%s", fixture.err.text);
    rc = cadre_simulate(spec, &hw, &none, &pair->simulated, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    cadre_spec_destroy(spec);
    pair->forecast = cadre_forecast(t, as, &hw);
    pair->footprint = cadre_footprint(t, as, &hw);
}

static void ask(struct pair *pair, const char *sets, const struct cadre_candidate *as)
{
    ask_of(pair, same_llama, &llama, sets, as);
}

static void near(const char *what, double simulated, double forecast, double part)
{
    ck_assert_msg(fabs(simulated - forecast) <= part * forecast,
                  "%s: simulated %g, forecast %g", what, simulated, forecast);
}

static double exposed(const struct pair *pair, const char *axis)
{
    const struct cadre_axis_times *times = &pair->simulated.parts.exposed;
    for (int i = 0; i < times->n; i++)
        if (strcmp(times->of[i].axis, axis) == 0)
            return times->of[i].s;
    return 0;
}

static double computed(const struct pair *pair)
{
    return pair->simulated.parts.part[CADRE_PART_COMPUTE];
}

static void near_bytes(const struct pair *pair, double part)
{
    const struct cadre_simulation *s = &pair->simulated;
    const double simulated = (double)s->rank[s->largest].memory.peak_bytes;
    near("bytes", simulated, pair->footprint.total, part);
    ck_assert_double_ge(simulated, pair->footprint.total); /* it is "at least" */
}

static const double *cause(const struct pair *pair)
{
    return pair->forecast.cause;
}

START_TEST(a_single_rank)
{
    struct pair pair;
    struct cadre_candidate c = one_rank;
    ask(&pair, "", &c);
    near("compute", computed(&pair), cause(&pair)[CADRE_PLAN_COMPUTE], 0.02);
    near("step", pair.simulated.step_s, pair.forecast.step, 0.02);
    near_bytes(&pair, 0.04);
    cadre_simulation_fini(&pair.simulated);
}
END_TEST

START_TEST(recompute)
{
    struct pair pair;
    struct cadre_candidate c = one_rank;
    c.recompute = CADRE_PLAN_RECOMPUTE_FULL;
    ask(&pair, "train.recompute=block", &c);
    near("compute", computed(&pair),
         cause(&pair)[CADRE_PLAN_COMPUTE] + cause(&pair)[CADRE_PLAN_AGAIN], 0.02);
    cadre_simulation_fini(&pair.simulated);
}
END_TEST

/* Of experts the simulation has the ops that a run has, the formulas one product of
 * each. */
START_TEST(experts)
{
    static const struct cadre_transformer model = {
        .layers = 4,
        .channels = 2048,
        .heads = 16,
        .kv_heads = 16,
        .hidden = 8192,
        .vocab = 256,
        .context = 2048,
        .tied = true,
        .experts = 8,
    };
    static const char same[] =
        "model.layers=4 model.channels=2048 model.heads=16 model.context=2048 "
        "model.vocab=256 model.experts=8 train.precision=bf16 train.global_batch=16 "
        "train.micro_batch=4";
    struct pair pair;
    struct cadre_candidate c = one_rank;
    c.micro_batch = 4;
    c.data = _i ? 2 : 1;
    ask_of(&pair, same, &model,
           _i ? "strategy.stack=ddp:2 ddp.overlap=no ddp.bucket_mb=8192" : "", &c);
    near("compute", computed(&pair), cause(&pair)[CADRE_PLAN_COMPUTE], 0.02);
    if (_i)
        near("data", exposed(&pair, "dp"), cause(&pair)[CADRE_PLAN_DATA], 0.01);
    near_bytes(&pair, 0.04);
    cadre_simulation_fini(&pair.simulated);
}
END_TEST

/* Frozen products have no gradient of the weight; adapters have one, are all that is
 * summed and updated, and are thin. */
START_TEST(adapters)
{
    static const char *const sets[] = {
        "tune.method=lora tune.rank=16 tune.targets=all",
        "tune.method=qlora tune.rank=16 tune.targets=all",
        "tune.method=lora tune.rank=16 tune.targets=all strategy.stack=ddp:4 "
        "ddp.overlap=no ddp.bucket_mb=4096",
        "tune.method=lora tune.rank=16 tune.targets=all strategy.stack=tensor:4",
    };
    struct cadre_transformer t = llama;
    struct pair pair;
    struct cadre_candidate c = one_rank;
    const int64_t h = llama.channels, f = llama.hidden, kv = 1024;
    const struct cadre_plan_adapter all[] = {
        {h, h, false}, {h, kv, false}, {h, kv, false}, {h, h, true},
        {h, f, false}, {h, f, false},  {f, h, true},
    };
    t.adapter_rank = 16;
    t.n_adapters = 7;
    memcpy(t.adapter, all, sizeof all);
    t.nf4 = _i == 1;
    c.data = _i == 2 ? 4 : 1;
    c.tensor = _i == 3 ? 4 : 1;
    ask_of(&pair, same_llama, &t, sets[_i], &c);
    near("compute", computed(&pair), cause(&pair)[CADRE_PLAN_COMPUTE], 0.03);
    /* small: the passes of the norm, which the formulas do not have, are seen in it */
    near("optimizer", pair.simulated.parts.part[CADRE_PART_OPTIMIZER],
         cause(&pair)[CADRE_PLAN_OPTIMIZER], 0.2);
    if (_i == 2)
        near("data", exposed(&pair, "dp"), cause(&pair)[CADRE_PLAN_DATA], 0.01);
    if (c.tensor == 1) /* scratch is a larger part where nearly nothing is updated */
        near_bytes(&pair, 0.11);
    cadre_simulation_fini(&pair.simulated);
}
END_TEST

/* Nothing is hidden behind computing here: the formulas hide nothing either. On one
 * node, and over two. */
START_TEST(data_parallel)
{
    static const char *const sets[] = {
        "strategy.stack=ddp:4 ddp.overlap=no ddp.bucket_mb=4096",
        "strategy.stack=zero:4 zero.overlap=no zero.bucket_mb=4096"};
    struct pair pair;
    struct cadre_candidate c = one_rank;
    c.data = 4;
    c.zero = _i % 2; /* 1: stage 1 */
    devices = _i < 2 ? 8 : 2;
    ask(&pair, sets[_i % 2], &c);
    near("data", exposed(&pair, "dp"), cause(&pair)[CADRE_PLAN_DATA], 0.01);
    near("compute", computed(&pair), cause(&pair)[CADRE_PLAN_COMPUTE], 0.02);
    near_bytes(&pair, 0.04);
    cadre_simulation_fini(&pair.simulated);
}
END_TEST

START_TEST(tensor)
{
    struct pair pair;
    struct cadre_candidate c = one_rank;
    c.tensor = 4;
    ask(&pair, "strategy.stack=tensor:4", &c);
    /* besides the formulas' sums, those of the embedding, the head and the losses */
    near("tensor", exposed(&pair, "tp"), cause(&pair)[CADRE_PLAN_TENSOR], 0.08);
    near("compute", computed(&pair), cause(&pair)[CADRE_PLAN_COMPUTE], 0.02);
    cadre_simulation_fini(&pair.simulated);
}
END_TEST

/* Bubble of 1F1B with equal stages of v chunks: (p - 1) / (v m + p - 1) of the span.
 * Here the head is small: 256 classes. */
START_TEST(pipeline)
{
    static const int stages[] = {2, 4, 2}, chunks[] = {1, 1, 2};
    const int p = stages[_i], v = chunks[_i];
    struct pair pair;
    char sets[128];
    struct cadre_candidate c = one_rank;
    c.pipeline = p;
    c.chunks = v;
    snprintf(sets, sizeof sets, "strategy.stack=pipeline:%d pipeline.chunks=%d%s", p, v,
             v > 1 ? " pipeline.schedule=interleaved" : "");
    ask(&pair, sets, &c);
    const double bubble = pair.simulated.parts.part[CADRE_PART_BUBBLE];
    const double span = computed(&pair) + bubble;
    ck_assert_double_eq_tol(bubble / span, (p - 1) / (16.0 * v + p - 1), 0.02);
    near("step", pair.simulated.step_s, pair.forecast.step, 0.02);
    cadre_simulation_fini(&pair.simulated);
}
END_TEST

static void setup(void)
{
    devices = 8;
    spec_fixture_open(&fixture);
}

static void teardown(void)
{
    spec_fixture_close(&fixture);
}

Suite *test_suite(void)
{
    Suite *s = suite_create("engines");
    TCase *tc = tcase_create("engines");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_single_rank);
    tcase_add_test(tc, recompute);
    tcase_add_loop_test(tc, experts, 0, 2);
    tcase_add_loop_test(tc, adapters, 0, 4);
    tcase_add_loop_test(tc, data_parallel, 0, 4);
    tcase_add_test(tc, tensor);
    tcase_add_loop_test(tc, pipeline, 0, 3);
    suite_add_tcase(s, tc);
    return s;
}
