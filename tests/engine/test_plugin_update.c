/* SPDX-License-Identifier: Apache-2.0 */
/* An optimizer that is a plugin, on one rank: what it is called with, how often, and
 * that a plugin which does what SGD does trains the same. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/engine/rank_fixture.h"
#include "tests/support/check_main.h"

enum { PARAMS = 40, STAGES = 4 };

static struct rank_fixture f;
static int calls[PARAMS][STAGES];
static struct cadre_update_ev last[PARAMS][STAGES];
static double first_state[PARAMS];
static cadre_status answer;

static void setup(void)
{
    rank_fixture_open(&f);
    f.spec.model.dtype = CADRE_F64;
    f.spec.optim = (struct cadre_optimizer_config){.kind = CADRE_OPTIMIZER_PLUGIN,
                                                   .lr = 0.25,
                                                   .weight_decay = 0.125,
                                                   .steps = 9,
                                                   .warmup = 2};
    memset(calls, 0, sizeof calls);
    memset(last, 0, sizeof last);
    answer = CADRE_OK;
}

static void teardown(void)
{
    rank_fixture_close(&f);
}

static bool is_matrix(uint32_t param)
{
    return f.rank.model->params[param].shape.ndim == 2;
}

static cadre_status plan(struct cadre_self *self, const struct cadre_plan *plan)
{
    (void)self;
    for (uint32_t id = 0; id < f.rank.model->n_params; id++) {
        const struct cadre_opt_state state = {.struct_size = sizeof state,
                                              .param = id,
                                              .key = "sum",
                                              .dtype = plan->grad_dtype,
                                              .extent = CADRE_OPT_ELEMENTS,
                                              .block = 1};
        if (f.rank.model->params[id].tied_to >= 0)
            continue;
        CADRE_TRY(plan->opt_state(plan->h, &state));
        if (is_matrix(id))
            CADRE_TRY(plan->opt_matrix(plan->h, id));
    }
    return CADRE_OK;
}

/* As SGD without momentum; the state counts the steps. */
static cadre_status update(struct cadre_self *self, const struct cadre_update_ev *ev)
{
    (void)self;
    calls[ev->param][ev->stage]++;
    last[ev->param][ev->stage] = *ev;
    if (ev->stage == CADRE_UPDATE_PREPARE) {
        first_state[ev->param] = ((double *)ev->state[0].data)[0];
        ((double *)ev->state[0].data)[0] += 1;
    }
    if (ev->stage != CADRE_UPDATE_APPLY)
        return answer;
    const double *grad = ev->grad.data;
    const double decay = ev->weight_decay, lr = ev->lr;
    for (uint64_t i = 0; ev->value.dtype == CADRE_F64 && i < ev->value.count; i++) {
        double *value = ev->value.data;
        value[i] -= lr * (grad[i] + decay * value[i]);
    }
    return answer;
}

static const struct cadre_strategy_ops optimizer = {
    .struct_size = sizeof optimizer, .plan = plan, .update = update};

static void plug(void)
{
    rank_fixture_plug(&f, "opt", CADRE_ROLE_OPTIMIZER, 1, &optimizer);
}

/* Once a step and stage, whatever the number of micro-batches; of matrices the middle
 * one too. */
START_TEST(every_stage_once_a_step)
{
    f.spec.micro_batch = _i;
    plug();
    rank_fixture_start(&f);
    for (uint64_t step = 1; step <= 3; step++) {
        rank_fixture_step(&f, step);
        for (uint32_t i = 0; i < f.rank.model->n_params; i++) {
            const bool owns = f.rank.model->params[i].tied_to < 0;
            const int want = owns ? (int)step : 0;
            ck_assert_int_eq(calls[i][CADRE_UPDATE_PREPARE], want);
            ck_assert_int_eq(calls[i][CADRE_UPDATE_APPLY], want);
            ck_assert_int_eq(calls[i][CADRE_UPDATE_MATRIX], is_matrix(i) ? want : 0);
            ck_assert(!owns || first_state[i] == (double)(step - 1));
        }
    }
    ck_assert_uint_eq(f.rank.update.plugin.computed, 3 * f.rank.store.opt.owners.n);
}
END_TEST

START_TEST(events_say_what_they_are_about)
{
    plug();
    rank_fixture_start(&f);
    struct cadre_step_report report = rank_fixture_step(&f, 1);
    ck_assert_double_eq(report.lr, 0.125); /* half of it: warm-up */
    for (uint32_t i = 0; i < f.rank.model->n_params; i++) {
        const struct cadre_param *p = &f.rank.model->params[i];
        if (p->tied_to >= 0)
            continue;
        for (uint32_t stage = CADRE_UPDATE_PREPARE; stage < STAGES; stage++) {
            const struct cadre_update_ev *ev = &last[i][stage];
            const bool matrix = stage == CADRE_UPDATE_MATRIX;
            if (matrix && !is_matrix(i))
                continue;
            ck_assert_uint_eq(ev->struct_size, sizeof *ev);
            ck_assert_uint_eq(ev->step, 1);
            ck_assert_uint_eq(ev->begin, 0);
            ck_assert_uint_eq(ev->n_states, 1);
            ck_assert_uint_eq(ev->grad.count, cadre_shape_count(&p->shape));
            ck_assert_uint_eq(ev->grad.dtype, CADRE_F64);
            ck_assert_ptr_eq(ev->grad.data, f.rank.store.param[i].grad);
            ck_assert(ev->lr == 0.125);
            ck_assert(ev->weight_decay == (p->decay ? 0.125 : 0));
            ck_assert_int_eq(ev->value.data == f.rank.store.param[i].data,
                             stage == CADRE_UPDATE_APPLY);
            ck_assert_uint_eq(ev->rows, matrix ? p->shape.dim[0] : 0);
            ck_assert_uint_eq(ev->columns, matrix ? p->shape.dim[1] : 0);
        }
    }
}
END_TEST

/* With clipping and without; the built-in SGD differs by rounding alone. */
START_TEST(one_that_is_sgd_trains_as_sgd)
{
    double loss[2][4], norm[2][4];
    f.spec.optim.clip = _i ? 0.25 : 0;
    for (int built_in = 1; built_in >= 0; built_in--) {
        f.spec.optim.kind = built_in ? CADRE_OPTIMIZER_SGD : CADRE_OPTIMIZER_PLUGIN;
        if (!built_in)
            plug();
        rank_fixture_start(&f);
        for (int step = 0; step < 4; step++) {
            struct cadre_step_report report = rank_fixture_step(&f, (uint64_t)step + 1);
            loss[built_in][step] = report.loss;
            norm[built_in][step] = report.grad_norm;
        }
        rank_fixture_stop(&f);
    }
    ck_assert_double_gt(norm[0][0], 0.25); /* there is something to clip */
    for (int step = 0; step < 4; step++) {
        ck_assert_double_eq_tol(loss[0][step], loss[1][step], 1e-12);
        ck_assert_double_eq_tol(norm[0][step], norm[1][step], 1e-11);
    }
    ck_assert_double_lt(loss[0][3], loss[0][0]);
}
END_TEST

/* Under fp16 gradients overflow: the step is skipped, and the plugin is not called. */
START_TEST(no_call_for_what_is_not_finite)
{
    f.spec.model.dtype = CADRE_F16;
    f.spec.loss_scale = 4294967296.0;
    plug();
    rank_fixture_start(&f);
    struct cadre_step_report report = rank_fixture_step(&f, 1);
    ck_assert(report.skipped);
    ck_assert(!isfinite(report.grad_norm));
    for (uint32_t i = 0; i < f.rank.model->n_params; i++)
        ck_assert_int_eq(calls[i][CADRE_UPDATE_PREPARE], 0);
    ck_assert_uint_eq(f.rank.update.plugin.computed, 0);
}
END_TEST

START_TEST(an_error_of_the_plugin_ends_the_step)
{
    struct cadre_step_report report = {0};
    plug();
    rank_fixture_start(&f);
    answer = CADRE_E_INTERNAL;
    ck_assert_int_ne(cadre_rank_step(&f.rank, 1, &report), CADRE_OK);
    ck_assert_msg(strstr(f.rank.failure.text, "opt") != NULL, "%s",
                  f.rank.failure.text);
    ck_assert_msg(strstr(f.rank.failure.text, "update") != NULL, "%s",
                  f.rank.failure.text);
}
END_TEST

/* ---- 16 bits ---- */

/* Moves the master values by 2^-13 of theirs: less than bf16 sees in one step. */
static cadre_status creep(struct cadre_self *self, const struct cadre_update_ev *ev)
{
    float *value = ev->value.data;
    (void)self;
    for (uint64_t i = 0; ev->stage == CADRE_UPDATE_APPLY && i < ev->value.count; i++)
        value[i] *= 1.0f + 0x1p-13f;
    return CADRE_OK;
}

START_TEST(master_values_are_rounded_into_parameters)
{
    static const struct cadre_strategy_ops slow = {
        .struct_size = sizeof slow, .plan = plan, .update = creep};
    struct cadre_device *device;
    f.spec.model.dtype = CADRE_BF16;
    rank_fixture_plug(&f, "opt", CADRE_ROLE_OPTIMIZER, 1, &slow);
    rank_fixture_start(&f);
    device = f.rank.device;
    const struct cadre_store_param *p = &f.rank.store.param[0];
    uint16_t *want = malloc(p->count * sizeof *want);
    uint16_t *before = malloc(p->count * sizeof *before);
    memcpy(before, p->data, p->count * sizeof *before);
    for (uint64_t step = 1; step <= 40; step++)
        rank_fixture_step(&f, step);
    device->ops->cast(device, CADRE_BF16, want, CADRE_F32, p->master,
                      (int64_t)p->count);
    ck_assert_mem_eq(p->data, want, p->count * sizeof *want);
    ck_assert_mem_ne(p->data, before, p->count * sizeof *before);
    free(want);
    free(before);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("plugin_update");
    TCase *tc = tcase_create("plugin_update");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, every_stage_once_a_step, 1, 3);
    tcase_add_test(tc, events_say_what_they_are_about);
    tcase_add_loop_test(tc, one_that_is_sgd_trains_as_sgd, 0, 2);
    tcase_add_test(tc, no_call_for_what_is_not_finite);
    tcase_add_test(tc, an_error_of_the_plugin_ends_the_step);
    tcase_add_test(tc, master_values_are_rounded_into_parameters);
    suite_add_tcase(suite, tc);
    return suite;
}
