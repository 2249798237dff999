/* SPDX-License-Identifier: Apache-2.0 */
/* A whole step: its report, and what is not finite. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/optim/lr.h"
#include "tests/engine/rank_fixture.h"
#include "tests/support/check_main.h"

static struct rank_fixture f;

static void setup(void)
{
    rank_fixture_open(&f);
    f.spec.model.dtype = CADRE_F64;
}

static void teardown(void)
{
    rank_fixture_close(&f);
}

/* The loss of one step is that of the same samples evaluated one by one. */
START_TEST(the_loss_is_the_mean_over_all_targets)
{
    int32_t inputs[16], targets[16];
    double sum = 0;
    rank_fixture_start(&f);
    for (uint64_t i = 0; i < 8; i++) {
        uint64_t at = cadre_dataset_order(f.data, i);
        struct cadre_eval eval = {
            .inputs = inputs, .targets = targets, .batch = 1, .time = 16};
        ck_assert_int_eq(
            cadre_dataset_sample(f.data, CADRE_SPLIT_TRAIN, at, inputs, targets, NULL),
            CADRE_OK);
        ck_assert_int_eq(cadre_executor_eval(f.rank.exec, &eval, &f.err), CADRE_OK);
        ck_assert_int_eq(eval.n_targets, 16);
        sum += eval.loss_sum;
    }
    struct cadre_step_report report = rank_fixture_step(&f, 1);
    ck_assert_double_eq_tol(report.loss, sum / 128, 1e-13);
    ck_assert_double_eq_tol(report.loss, log(256), 0.1);
}
END_TEST

static void step_is_not_finite(uint64_t step, const char *text)
{
    struct cadre_step_report report;
    ck_assert_int_eq(cadre_rank_step(&f.rank, step, &report), CADRE_E_NUMERIC);
    ck_assert_msg(strstr(f.rank.failure.text, text) != NULL, "%s", f.rank.failure.text);
}

START_TEST(a_loss_that_is_not_finite_is_named)
{
    rank_fixture_start(&f);
    rank_fixture_step(&f, 1);
    ((double *)f.rank.store.param[0].data)[' ' * 16] = _i ? INFINITY : NAN;
    step_is_not_finite(2, "the loss is not finite at step 2: micro-batch 0");
}
END_TEST

/* A loss may be finite where a gradient is not: the parameter is named. */
static cadre_status poison(struct cadre_self *self, const struct cadre_sync *sync)
{
    (void)self;
    if (sync->what == CADRE_SYNC_GRADS && f.rank.step == 2)
        ((double *)f.rank.store.param[3].grad)[1] = -INFINITY;
    return CADRE_OK;
}

START_TEST(a_gradient_that_is_not_finite_is_named)
{
    const struct cadre_strategy_ops ops = {.sync = poison};
    char text[200];
    rank_fixture_plug(&f, "poison", CADRE_ROLE_OBSERVER, 1, &ops);
    rank_fixture_start(&f);
    rank_fixture_step(&f, 1);
    uint64_t before = rank_fixture_params(&f);
    snprintf(text, sizeof text, "the gradient of '%s' is not finite at step 2",
             f.rank.model->params[3].name);
    step_is_not_finite(2, text);
    ck_assert_uint_eq(rank_fixture_params(&f), before);
}
END_TEST

START_TEST(a_request_to_stop_is_reported_once)
{
    rank_fixture_start(&f);
    ck_assert(!rank_fixture_step(&f, 1).stop);
    f.rank.exchange.votes.stop = true;
    ck_assert(rank_fixture_step(&f, 2).stop);
    f.rank.exchange.votes.stop = false;
    ck_assert(!rank_fixture_step(&f, 3).stop);
}
END_TEST

START_TEST(times_are_parts_of_the_step)
{
    rank_fixture_start(&f);
    struct cadre_step_report report = rank_fixture_step(&f, 1);
    const struct cadre_step_times *t = &report.times;
    ck_assert_double_gt(t->step_s, 0);
    ck_assert_double_gt(t->optim_s, 0);
    ck_assert_double_le(t->optim_s + t->wait_data_s, t->step_s);
    ck_assert_double_eq(t->comm_s, 0);
    ck_assert_double_eq(t->comm_exposed_s, 0);
    ck_assert_double_eq(t->wait_ranks_s, 0);
}
END_TEST

/* ---- a device whose ops are queued: the CPU, said to be one ---- */

static struct cadre_device_ops async;

static void queue(void)
{
    async = *f.rank.device->ops;
    async.async = true;
    f.rank.device->ops = &async;
}

/* Each report comes with the next step, the last one by a flush, and all are those of a
 * device whose ops are not queued. */
START_TEST(reports_come_a_step_late)
{
    struct cadre_step_report expected[5], report;
    rank_fixture_start(&f);
    for (uint64_t step = 1; step < 5; step++)
        expected[step] = rank_fixture_step(&f, step);
    uint64_t params = rank_fixture_params(&f);
    rank_fixture_stop(&f);
    rank_fixture_start(&f);
    queue();
    for (uint64_t step = 1; step < 5; step++) {
        f.rank.exchange.votes.stop = step == 3;
        report = rank_fixture_step(&f, step);
        ck_assert_uint_eq(report.step, step - 1);
        ck_assert_int_eq(report.stop, step == 3);
        if (step == 1)
            continue;
        ck_assert_double_eq(report.loss, expected[step - 1].loss);
        ck_assert_double_eq(report.grad_norm, expected[step - 1].grad_norm);
        ck_assert_double_eq(report.lr, expected[step - 1].lr);
        ck_assert_double_gt(report.times.step_s, 0);
    }
    ck_assert_int_eq(cadre_rank_flush(&f.rank, &report), CADRE_OK);
    ck_assert_uint_eq(report.step, 4);
    ck_assert_double_eq(report.loss, expected[4].loss);
    ck_assert_double_eq(report.grad_norm, expected[4].grad_norm);
    ck_assert_uint_eq(rank_fixture_params(&f), params);
    report.loss = 7;
    ck_assert_int_eq(cadre_rank_flush(&f.rank, &report), CADRE_OK);
    ck_assert_double_eq(report.loss, 7);
    report = rank_fixture_step(&f, 5);
    ck_assert_uint_eq(report.step, 0);
}
END_TEST

/* The error that is reported a step late names the step that failed, which changed
 * nothing. */
START_TEST(a_late_error_names_its_step)
{
    const struct cadre_strategy_ops ops = {.sync = poison};
    struct cadre_step_report report;
    char text[200];
    rank_fixture_plug(&f, "poison", CADRE_ROLE_OBSERVER, 1, &ops);
    rank_fixture_start(&f);
    queue();
    rank_fixture_step(&f, 1);
    uint64_t before = rank_fixture_params(&f);
    rank_fixture_step(&f, 2);
    ck_assert_uint_eq(rank_fixture_params(&f), before);
    snprintf(text, sizeof text, "the gradient of '%s' is not finite at step 2",
             f.rank.model->params[3].name);
    if (_i)
        step_is_not_finite(3, text);
    else
        ck_assert_int_eq(cadre_rank_flush(&f.rank, &report), CADRE_E_NUMERIC);
    ck_assert_msg(strstr(f.rank.failure.text, text) != NULL, "%s", f.rank.failure.text);
}
END_TEST

/* ---- 16 bits ---- */

static void check_rounded(void)
{
    struct cadre_device *device = f.rank.device;
    for (uint32_t i = 0; i < f.rank.model->n_params; i++) {
        const struct cadre_store_param *p = &f.rank.store.param[i];
        if (f.rank.model->params[i].tied_to >= 0)
            continue;
        uint16_t *rounded = malloc(p->count * sizeof *rounded);
        ck_assert_int_eq(device->ops->cast(device, f.rank.model->config.dtype, rounded,
                                           CADRE_F32, p->master, (int64_t)p->count),
                         CADRE_OK);
        ck_assert_mem_eq(p->data, rounded, p->count * sizeof *rounded);
        free(rounded);
    }
}

START_TEST(parameters_round_their_masters)
{
    f.spec.model.dtype = _i ? CADRE_F16 : CADRE_BF16;
    f.spec.optim.lr = 1e-5; /* often less than half a unit of the parameter */
    rank_fixture_start(&f);
    const struct cadre_store_param *p = &f.rank.store.param[0];
    float *before = malloc(p->count * sizeof *before);
    memcpy(before, p->master, p->count * sizeof *before);
    rank_fixture_step(&f, 1);
    check_rounded();
    uint64_t moved = 0;
    for (uint64_t e = 0; e < p->count; e++)
        moved += before[e] != ((const float *)p->master)[e];
    ck_assert_uint_gt(moved, p->count / 2);
    free(before);
}
END_TEST

/* Gradients are divided by the loss scale before clipping and the update: it changes
 * rounding only. */
START_TEST(the_loss_scale_is_taken_away)
{
    struct cadre_step_report report[2];
    f.spec.model.dtype = CADRE_F16;
    f.spec.optim.clip = 0.25;
    for (int i = 0; i < 2; i++) {
        f.spec.loss_scale = i ? 1024 : 4096;
        rank_fixture_start(&f);
        for (uint64_t step = 1; step < 4; step++)
            report[i] = rank_fixture_step(&f, step);
        ck_assert_double_eq(report[i].loss_scale, f.spec.loss_scale);
        rank_fixture_stop(&f);
    }
    ck_assert_double_eq_tol(report[0].loss, report[1].loss, 1e-2);
    ck_assert_double_eq_tol(report[0].grad_norm / report[1].grad_norm, 1, 1e-2);
}
END_TEST

static cadre_status overflow(struct cadre_self *self, const struct cadre_sync *sync)
{
    (void)self;
    if (sync->what == CADRE_SYNC_GRADS && f.rank.step % 2 == 0)
        ((float *)f.rank.store.param[3].grad)[1] = INFINITY;
    return CADRE_OK;
}

/* An overflow is skipped: no parameter, no state and no count of the optimizer moves;
 * the scale is halved. Nothing is late, also where ops are queued. */
START_TEST(an_overflow_is_skipped)
{
    const struct cadre_strategy_ops ops = {.sync = overflow};
    f.spec.model.dtype = CADRE_F16;
    f.spec.optim.warmup = 50;
    rank_fixture_plug(&f, "overflow", CADRE_ROLE_OBSERVER, 1, &ops);
    rank_fixture_start(&f);
    if (_i)
        queue();
    struct cadre_step_report report = rank_fixture_step(&f, 1);
    ck_assert(!report.skipped);
    uint64_t before = rank_fixture_params(&f);
    report = rank_fixture_step(&f, 2);
    ck_assert_uint_eq(report.step, 2);
    ck_assert(report.skipped);
    ck_assert_double_eq(report.loss_scale, 65536);
    ck_assert_uint_eq(rank_fixture_params(&f), before);
    check_rounded();
    report = rank_fixture_step(&f, 3);
    ck_assert(!report.skipped);
    ck_assert_double_eq(report.loss_scale, 32768);
    ck_assert_double_eq(report.lr, cadre_lr_at(&f.spec.optim, 2));
    ck_assert_uint_ne(rank_fixture_params(&f), before);
    ck_assert_uint_eq(f.rank.loss_scale.skipped, 1);
}
END_TEST

static cadre_status always(struct cadre_self *self, const struct cadre_sync *sync)
{
    (void)self;
    if (sync->what == CADRE_SYNC_GRADS)
        ((float *)f.rank.store.param[3].grad)[1] = NAN;
    return CADRE_OK;
}

/* An overflow at the smallest scale is an error. */
START_TEST(a_scale_too_small_is_an_error)
{
    const struct cadre_strategy_ops ops = {.sync = always};
    char text[200];
    f.spec.model.dtype = CADRE_F16;
    f.spec.loss_scale = 4;
    rank_fixture_plug(&f, "always", CADRE_ROLE_OBSERVER, 1, &ops);
    rank_fixture_start(&f);
    ck_assert(rank_fixture_step(&f, 1).skipped);
    ck_assert(rank_fixture_step(&f, 2).skipped);
    snprintf(text, sizeof text,
             "the gradient of '%s' is not finite at step 3, with a loss scale of 1",
             f.rank.model->params[3].name);
    step_is_not_finite(3, text);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("rank_step");
    TCase *tc = tcase_create("rank_step");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, the_loss_is_the_mean_over_all_targets);
    tcase_add_loop_test(tc, a_loss_that_is_not_finite_is_named, 0, 2);
    tcase_add_test(tc, a_gradient_that_is_not_finite_is_named);
    tcase_add_test(tc, a_request_to_stop_is_reported_once);
    tcase_add_test(tc, times_are_parts_of_the_step);
    tcase_add_test(tc, reports_come_a_step_late);
    tcase_add_loop_test(tc, a_late_error_names_its_step, 0, 2);
    tcase_add_loop_test(tc, parameters_round_their_masters, 0, 2);
    tcase_add_test(tc, the_loss_scale_is_taken_away);
    tcase_add_loop_test(tc, an_overflow_is_skipped, 0, 2);
    tcase_add_test(tc, a_scale_too_small_is_an_error);
    suite_add_tcase(s, tc);
    return s;
}
