/* SPDX-License-Identifier: Apache-2.0 */
/* Micro-batches captured as graphs, on a CPU device that claims to queue ops and
 * support graphs. It runs the passes during capture, so the first launch does nothing;
 * later launches run them again, with the bookkeeping restored. */
#include "core/engine/execute/executor_private.h"
#include "tests/engine/rank_fixture.h"
#include "tests/support/check_main.h"

enum { STEPS = 5 };

static struct rank_fixture f;
static struct cadre_device_ops ops;
static cadre_status begin_says, end_says;
static int begun, ended, launched;
static bool fresh[2];

static cadre_status graph_begin(struct cadre_device *device, uint64_t key)
{
    (void)device;
    begun++;
    fresh[key & 1] = true;
    return begin_says;
}

static cadre_status graph_end(struct cadre_device *device, uint64_t key)
{
    (void)device;
    (void)key;
    ended++;
    return end_says;
}

static void count(struct cadre_executor *exec, uint32_t by)
{
    for (uint32_t i = 0; i < exec->config.model->n_params; i++) {
        exec->accumulation.seen[i] += by;
        exec->config.store->param[i].grad_fresh = exec->accumulation.seen[i] == 0;
    }
    exec->chunk[0].inputs += by;
    exec->chunk[0].weights += by;
}

static cadre_status graph_launch(struct cadre_device *device, uint64_t key)
{
    struct cadre_executor *exec = f.rank.exec;
    struct cadre_pass_args args = {.struct_size = sizeof args, .what = CADRE_PASS_BOTH};
    bool done = fresh[key & 1];
    (void)device;
    launched++;
    fresh[key & 1] = false;
    if (done)
        return CADRE_OK;
    count(exec, UINT32_MAX);
    args.microbatch = exec->chunk[0].inputs;
    ck_assert_int_eq(args.microbatch > 0, key & 1);
    cadre_status rc = cadre_executor_forward(exec, &args, &f.err);
    return rc == CADRE_OK ? cadre_executor_backward(exec, &args, &f.err) : rc;
}

static void setup(void)
{
    begin_says = end_says = CADRE_OK;
    begun = ended = launched = 0;
    rank_fixture_open(&f);
}

static void teardown(void)
{
    rank_fixture_close(&f);
}

static uint64_t train(bool graphs, double *loss)
{
    rank_fixture_start(&f);
    if (graphs) {
        ops = *f.rank.device->ops;
        ops.async = true;
        ops.graph_begin = graph_begin;
        ops.graph_end = graph_end;
        ops.graph_launch = graph_launch;
        f.rank.device->ops = &ops;
    }
    struct cadre_step_report report = {0}; /* late where ops are queued */
    for (uint64_t s = 1; s <= STEPS; s++) {
        report = rank_fixture_step(&f, s);
        if (report.step > 0)
            loss[report.step - 1] = report.loss;
    }
    ck_assert_int_eq(cadre_rank_flush(&f.rank, &report), CADRE_OK);
    loss[STEPS - 1] = report.loss;
    ck_assert_uint_eq(report.step, STEPS);
    uint64_t hash = rank_fixture_params(&f);
    rank_fixture_stop(&f);
    return hash;
}

static void same_as_without(void)
{
    double plain[STEPS], kept[STEPS];
    uint64_t expected = train(false, plain);
    ck_assert_uint_eq(train(true, kept), expected);
    for (int i = 0; i < STEPS; i++)
        ck_assert(plain[i] == kept[i]);
}

/* Four micro-batches a step: the first of step 1 and the second run as they are, then
 * one graph for each kind. */
START_TEST(two_graphs_serve_all_steps)
{
    f.spec.recompute = _i & 1;
    f.spec.pinned = _i & 2;
    same_as_without();
    ck_assert_int_eq(begun, 2);
    ck_assert_int_eq(ended, 2);
    ck_assert_int_eq(launched, STEPS * 4 - 2);
}
END_TEST

START_TEST(a_device_without_graphs_is_asked_once)
{
    begin_says = CADRE_E_UNSUPPORTED;
    same_as_without();
    ck_assert_int_eq(begun, 1);
    ck_assert_int_eq(ended + launched, 0);
}
END_TEST

/* The target of a gradient depends on the micro-batch's index. */
START_TEST(exact_mode_keeps_none)
{
    f.spec.exact = true;
    same_as_without();
    ck_assert_int_eq(begun, 0);
}
END_TEST

/* The masks depend on the samples of a micro-batch. */
START_TEST(dropout_keeps_none)
{
    f.spec.model.lora = (struct cadre_lora_config){
        .rank = 2, .targets = 1u << 2, .alpha = 4, .scale = 2, .dropout = 0.5};
    same_as_without();
    ck_assert_int_eq(begun, 0);
}
END_TEST

static cadre_status on_grad(struct cadre_self *self, struct cadre_grad_ev *ev)
{
    (void)self;
    (void)ev;
    return CADRE_OK;
}

START_TEST(plugins_hear_every_micro_batch)
{
    const struct cadre_strategy_ops listens = {.on_grad = on_grad};
    rank_fixture_plug(&f, "ears", CADRE_ROLE_OBSERVER, 1, &listens);
    same_as_without();
    ck_assert_int_eq(begun, 0);
}
END_TEST

START_TEST(a_failure_is_told)
{
    struct cadre_step_report report;
    begin_says = CADRE_E_DEVICE;
    rank_fixture_start(&f);
    ops = *f.rank.device->ops;
    ops.async = true;
    ops.graph_begin = graph_begin;
    f.rank.device->ops = &ops;
    ck_assert_int_eq(cadre_rank_step(&f.rank, 1, &report), CADRE_E_DEVICE);
    rank_fixture_stop(&f);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("executor_sequential");
    TCase *tc = tcase_create("executor_sequential");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, two_graphs_serve_all_steps, 0, 4);
    tcase_add_test(tc, a_device_without_graphs_is_asked_once);
    tcase_add_test(tc, exact_mode_keeps_none);
    tcase_add_test(tc, dropout_keeps_none);
    tcase_add_test(tc, plugins_hear_every_micro_batch);
    tcase_add_test(tc, a_failure_is_told);
    suite_add_tcase(suite, tc);
    return suite;
}
