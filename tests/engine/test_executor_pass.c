/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/engine/strategy/host.h"
#include "tests/engine/rank_fixture.h"
#include "tests/support/check_main.h"

#define MOST 4096
#define UNITS 4
#define LEAVES 4

static struct rank_fixture f;
static struct cadre_block_ev block[MOST];
static struct cadre_grad_ev grad[MOST];
static size_t n_blocks, n_grads;

static cadre_status on_block(struct cadre_self *self, const struct cadre_block_ev *ev)
{
    (void)self;
    ck_assert_uint_lt(n_blocks, MOST);
    block[n_blocks++] = *ev;
    return CADRE_OK;
}

static cadre_status on_grad(struct cadre_self *self, struct cadre_grad_ev *ev)
{
    (void)self;
    ck_assert_uint_lt(n_grads, MOST);
    grad[n_grads++] = *ev;
    return CADRE_OK;
}

/* ---- a schedule: two chunks, all forwards, then all backwards ---- */

static bool split;
static uint32_t live = LEAVES;
static float act[LEAVES][2 * 16 * 16], dact[2 * 16 * 16];

static cadre_status plan_chunks(struct cadre_self *self, const struct cadre_plan *abi)
{
    (void)self;
    uint32_t flags = split ? CADRE_LIVE_SPLIT : 0;
    cadre_status rc = abi->chunk(abi->h, 0, 2, live, flags);
    return rc == CADRE_OK ? abi->chunk(abi->h, 2, UNITS, live, flags) : rc;
}

static cadre_status pass(const struct cadre_host *host, bool back, uint32_t chunk,
                         uint32_t microbatch, uint32_t what)
{
    const struct cadre_model_svc *model = host->service(host->ctx, CADRE_SERVICE_MODEL);
    const uint64_t n = 2 * 16 * 16;
    struct cadre_buf x = {act[microbatch], n, CADRE_F32, CADRE_SPACE_DEVICE};
    struct cadre_buf g = {dact, n, CADRE_F32, CADRE_SPACE_DEVICE};
    struct cadre_pass_args args = {.struct_size = sizeof args,
                                   .chunk = chunk,
                                   .microbatch = microbatch,
                                   .what = what,
                                   .next_unit = -1};
    if (back && chunk == 0)
        args.in = &g;
    else if (back)
        args.out = &g;
    else if (chunk == 0)
        args.out = &x;
    else
        args.in = &x;
    return back ? model->backward(host->ctx, &args) : model->forward(host->ctx, &args);
}

static cadre_status run_schedule(struct cadre_self *self, const struct cadre_step *work,
                                 const struct cadre_next *next)
{
    (void)next;
    const struct cadre_host *host = (const struct cadre_host *)(void *)self;
    for (uint32_t m = 0; m < work->n_microbatches; m++)
        for (uint32_t c = 0; c < 2; c++)
            CADRE_TRY(pass(host, false, c, m, 0));
    for (uint32_t m = 0; m < work->n_microbatches; m++)
        for (uint32_t c = 2; c-- > 0;)
            CADRE_TRY(
                pass(host, true, c, m, split ? CADRE_PASS_INPUT : CADRE_PASS_BOTH));
    /* weights of the later chunk last: another order than BOTH */
    for (uint32_t c = 0; split && c < 2; c++)
        for (uint32_t m = 0; m < work->n_microbatches; m++)
            CADRE_TRY(pass(host, true, c, m, CADRE_PASS_WEIGHT));
    return CADRE_OK;
}

static const struct cadre_strategy_ops observer = {.on_block = on_block,
                                                   .on_grad = on_grad};
static const struct cadre_strategy_ops schedule = {.plan = plan_chunks,
                                                   .step = run_schedule,
                                                   .on_block = on_block,
                                                   .on_grad = on_grad};

static void setup(void)
{
    n_blocks = n_grads = 0;
    split = false;
    live = LEAVES;
    rank_fixture_open(&f);
}

static void teardown(void)
{
    rank_fixture_close(&f);
}

static void is_block(size_t i, uint32_t kind, uint32_t unit, int32_t next,
                     uint32_t flags)
{
    ck_assert_uint_lt(i, n_blocks);
    ck_assert_uint_eq(block[i].kind, kind);
    ck_assert_uint_eq(block[i].unit, unit);
    ck_assert_int_eq(block[i].next_unit, next);
    ck_assert_uint_eq(block[i].flags, flags);
}

/* Micro-batch by micro-batch: every unit forward, then backward; each event names the
 * next. */
START_TEST(events_of_the_sequential_schedule)
{
    const uint32_t both = CADRE_EV_INPUT | CADRE_EV_WEIGHT;
    rank_fixture_plug(&f, "watch", CADRE_ROLE_OBSERVER, 1, &observer);
    rank_fixture_start(&f);
    rank_fixture_step(&f, 1);
    ck_assert_uint_eq(n_blocks, LEAVES * UNITS * 4);
    size_t i = 0;
    for (uint32_t m = 0; m < LEAVES; m++) {
        for (uint32_t u = 0; u < UNITS; u++) {
            int32_t next = u + 1 < UNITS ? (int32_t)u + 1 : UNITS - 1;
            ck_assert_uint_eq(block[i].microbatch, m);
            is_block(i++, CADRE_BEFORE_FORWARD, u, next, 0);
            is_block(i++, CADRE_AFTER_FORWARD, u, next, 0);
        }
        for (uint32_t u = UNITS; u-- > 0;) {
            int32_t next = u ? (int32_t)u - 1 : m + 1 < LEAVES ? 0 : -1;
            is_block(i++, CADRE_BEFORE_BACKWARD, u, next, both);
            is_block(i++, CADRE_AFTER_BACKWARD, u, next, both);
        }
    }
}
END_TEST

START_TEST(recomputed_blocks_say_so)
{
    size_t recomputed = 0;
    f.spec.recompute = true;
    rank_fixture_plug(&f, "watch", CADRE_ROLE_OBSERVER, 1, &observer);
    rank_fixture_start(&f);
    rank_fixture_step(&f, 1);
    for (size_t i = 0; i < n_blocks; i++) {
        if (!(block[i].flags & CADRE_EV_RECOMPUTE))
            continue;
        recomputed++;
        ck_assert_uint_ge(block[i].unit, 1);
        ck_assert_uint_le(block[i].unit, 2);
    }
    ck_assert_uint_eq(recomputed, LEAVES * 2 * 2);
}
END_TEST

/* Once per entry and micro-batch, in ascending order, FINAL on the last. */
static void check_grads(bool exact)
{
    uint32_t n = f.rank.model->n_params;
    ck_assert_uint_eq(n_grads, (size_t)n * LEAVES);
    uint32_t seen[64] = {0};
    for (size_t i = 0; i < n_grads; i++) {
        const struct cadre_grad_ev *ev = &grad[i];
        ck_assert_uint_eq(ev->microbatch, seen[ev->param]++);
        bool final = ev->microbatch == LEAVES - 1;
        ck_assert_uint_eq(ev->flags, final ? CADRE_GRAD_FINAL : 0);
        ck_assert_int_eq(ev->grad != NULL, final || !exact);
    }
    for (uint32_t p = 0; p < n; p++)
        ck_assert_uint_eq(seen[p], LEAVES);
}

START_TEST(one_gradient_event_each)
{
    f.spec.exact = _i & 1;
    split = _i & 4;
    if (_i & 2)
        rank_fixture_plug(&f, "pipe", CADRE_ROLE_SCHEDULE, 1, &schedule);
    else
        rank_fixture_plug(&f, "watch", CADRE_ROLE_OBSERVER, 1, &observer);
    rank_fixture_start(&f);
    rank_fixture_step(&f, 1);
    check_grads(f.spec.exact);
}
END_TEST

static uint64_t trained(double *loss)
{
    rank_fixture_start(&f);
    for (uint64_t step = 1; step <= 3; step++)
        *loss = rank_fixture_step(&f, step).loss;
    uint64_t hash = rank_fixture_params(&f);
    rank_fixture_stop(&f);
    n_blocks = n_grads = 0;
    return hash;
}

/* Activation checkpointing, chunks, INPUT and WEIGHT separately: the bits of plain
 * training. */
START_TEST(the_same_bits_however_it_is_run)
{
    double plain, other;
    f.spec.exact = true;
    f.spec.model.arch = _i ? CADRE_ARCH_LLAMA : CADRE_ARCH_GPT2;
    f.spec.model.tied = !_i;
    uint64_t want = trained(&plain);
    f.spec.recompute = true;
    ck_assert_uint_eq(trained(&other), want);
    ck_assert_double_eq(other, plain);
    rank_fixture_plug(&f, "pipe", CADRE_ROLE_SCHEDULE, 1, &schedule);
    for (int way = 0; way < 4; way++) {
        f.spec.recompute = way & 1;
        split = way & 2;
        ck_assert_uint_eq(trained(&other), want);
        ck_assert_double_eq(other, plain);
    }
}
END_TEST

/* ---- frozen parameters ---- */

/* The device's ops, with a count of products. */
static struct cadre_device_ops counting;
static cadre_status (*multiply)(struct cadre_device *, const struct cadre_gemm *);
static int n_products;

static cadre_status count_product(struct cadre_device *device,
                                  const struct cadre_gemm *gemm)
{
    n_products++;
    return multiply(device, gemm);
}

enum { MOST_PARAMS = 64 };
static const char *frozen_names;
static uint64_t bits_of[MOST_PARAMS]; /* of the last gradients */

static bool is_named(uint32_t param)
{
    return frozen_names && strstr(f.rank.model->params[param].name, frozen_names);
}

static cadre_status freeze(struct cadre_self *self, const struct cadre_plan *abi)
{
    (void)self;
    for (uint32_t i = 0; i < f.rank.model->n_params; i++)
        if (is_named(i))
            CADRE_TRY(abi->train(abi->h, i, 0));
    return CADRE_OK;
}

static cadre_status hash_trained(struct cadre_self *self, struct cadre_grad_ev *ev)
{
    (void)self;
    ck_assert(!is_named(ev->param));
    if (ev->flags & CADRE_GRAD_FINAL)
        bits_of[ev->param] =
            cadre_hash_of(ev->grad->data, ev->grad->count * sizeof(float), 0);
    return CADRE_OK;
}

/* Products of a step; *same: whether gradients of trained parameters have the bits of
 * `all`. */
static int products_with(const char *frozen, int64_t head_rows, const uint64_t *all,
                         bool *same)
{
    const struct cadre_strategy_ops ops = {.plan = freeze, .on_grad = hash_trained};
    rank_fixture_close(&f);
    rank_fixture_open(&f);
    f.spec.model.head_rows = head_rows;
    f.spec.model.tied = false;
    frozen_names = frozen;
    memset(bits_of, 0, sizeof bits_of);
    rank_fixture_plug(&f, "freezer", CADRE_ROLE_OBSERVER, 1, &ops);
    rank_fixture_start(&f);
    ck_assert_uint_le(f.rank.model->n_params, MOST_PARAMS);
    multiply = f.rank.device->ops->gemm;
    counting = *f.rank.device->ops;
    counting.gemm = count_product;
    f.rank.device->ops = &counting;
    n_products = 0;
    rank_fixture_step(&f, 1);
    *same = true;
    for (uint32_t i = 0; i < f.rank.model->n_params; i++)
        *same = *same && bits_of[i] == (is_named(i) ? 0 : all[i]);
    return n_products;
}

/* Of each linear whose weight and bias are frozen the product for the weight's gradient
 * is left out; the other gradients have the same bits. */
START_TEST(gradients_that_nobody_wants_are_not_computed)
{
    static const struct {
        const char *name;
        int fewer; /* products of a micro-batch */
    } cases[] = {
        {"mlp.", 2 * 2},      {"attn.c_proj.", 2}, {"mlp.c_fc.weight", 0},
        {"mlp.c_fc.bias", 0}, {"ln_1.weight", 0},  {"ln_1.bias", 0},
        {"ln_", 0},
    };
    uint64_t all[MOST_PARAMS] = {0};
    const int64_t rows = _i ? 8 : 0;
    const int chunks = _i ? 2 * 16 / 8 : 1;
    bool same;
    const int n = products_with(NULL, rows, all, &same);
    memcpy(all, bits_of, sizeof all);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_int_eq(products_with(cases[i].name, rows, all, &same),
                         n - cases[i].fewer * LEAVES);
        ck_assert_msg(same, "%s", cases[i].name);
    }
    ck_assert_int_eq(products_with("lm_head", rows, all, &same), n - chunks * LEAVES);
    ck_assert(same);
}
END_TEST

static cadre_status step_fails(const char *text)
{
    struct cadre_step_report report;
    cadre_status rc = cadre_rank_step(&f.rank, 1, &report);
    ck_assert_msg(strstr(f.rank.failure.text, text) != NULL, "%s", f.rank.failure.text);
    return rc;
}

START_TEST(slots_run_out)
{
    live = 3;
    rank_fixture_plug(&f, "pipe", CADRE_ROLE_SCHEDULE, 1, &schedule);
    rank_fixture_start(&f);
    ck_assert_int_eq(step_fails("chunk 0 already keeps the 3"), CADRE_E_INTERNAL);
}
END_TEST

static struct {
    bool back;
    uint32_t chunk, microbatch, what;
    const char *why;
} misuse[] = {
    {true, 1, 0, CADRE_PASS_BOTH, "backward of micro-batch 0 of chunk 1 before its"},
    {false, 2, 0, 0, "forward of chunk 2, but this rank has 2"},
    {true, 9, 0, CADRE_PASS_BOTH, "backward of chunk 9, but this rank has 2"},
    {false, 0, LEAVES, 0, "forward of micro-batch 4, but this rank has 4"},
    {true, 0, 0, CADRE_PASS_WEIGHT, "not planned with CADRE_LIVE_SPLIT"},
};
static int misused;

static cadre_status misuse_step(struct cadre_self *self, const struct cadre_step *work,
                                const struct cadre_next *next)
{
    (void)work;
    (void)next;
    const struct cadre_host *host = (const struct cadre_host *)(void *)self;
    if (misuse[misused].what == CADRE_PASS_WEIGHT)
        ck_assert_int_eq(pass(host, false, 0, 0, 0), CADRE_OK);
    return pass(host, misuse[misused].back, misuse[misused].chunk,
                misuse[misused].microbatch % 8, misuse[misused].what);
}

START_TEST(misuse_is_refused)
{
    const struct cadre_strategy_ops ops = {.plan = plan_chunks, .step = misuse_step};
    misused = _i;
    rank_fixture_plug(&f, "pipe", CADRE_ROLE_SCHEDULE, 1, &ops);
    rank_fixture_start(&f);
    ck_assert_int_eq(step_fails(misuse[_i].why), CADRE_E_INTERNAL);
}
END_TEST

static cadre_status edge_step(struct cadre_self *self, const struct cadre_step *work,
                              const struct cadre_next *next)
{
    (void)work;
    (void)next;
    const struct cadre_host *host = (const struct cadre_host *)(void *)self;
    const struct cadre_model_svc *model = host->service(host->ctx, CADRE_SERVICE_MODEL);
    struct cadre_pass_args args = {.struct_size = sizeof args, .next_unit = -1};
    return model->forward(host->ctx, &args);
}

START_TEST(an_edge_without_a_buffer_is_refused)
{
    const struct cadre_strategy_ops ops = {.plan = plan_chunks, .step = edge_step};
    rank_fixture_plug(&f, "pipe", CADRE_ROLE_SCHEDULE, 1, &ops);
    rank_fixture_start(&f);
    ck_assert_int_eq(step_fails("forward's out of a chunk"), CADRE_E_INTERNAL);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("executor_pass");
    TCase *tc = tcase_create("executor_pass");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, events_of_the_sequential_schedule);
    tcase_add_test(tc, recomputed_blocks_say_so);
    tcase_add_loop_test(tc, one_gradient_event_each, 0, 8);
    tcase_add_loop_test(tc, the_same_bits_however_it_is_run, 0, 2);
    tcase_add_loop_test(tc, gradients_that_nobody_wants_are_not_computed, 0, 2);
    tcase_add_test(tc, slots_run_out);
    tcase_add_loop_test(tc, misuse_is_refused, 0, sizeof misuse / sizeof *misuse);
    tcase_add_test(tc, an_edge_without_a_buffer_is_refused);
    suite_add_tcase(s, tc);
    return s;
}
