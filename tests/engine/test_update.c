/* SPDX-License-Identifier: Apache-2.0 */
/* The optimizer's part of a step: the global norm, clipping. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* Sum of squares of a plain loop over every owned gradient, the tied part added by
 * hand. */
static double norm_by_hand(void)
{
    const struct cadre_model *model = f.rank.model;
    double sum = 0;
    for (uint32_t i = 0; i < model->n_params; i++) {
        const double *grad = f.rank.store.param[i].grad;
        if (model->params[i].tied_to >= 0)
            continue;
        for (uint64_t e = 0; e < f.rank.store.param[i].count; e++)
            sum += grad[e] * grad[e];
    }
    return sqrt(sum);
}

START_TEST(the_norm_is_its_definition)
{
    f.spec.model.tied = _i;
    rank_fixture_start(&f);
    for (uint64_t step = 1; step < 4; step++) {
        struct cadre_step_report report = rank_fixture_step(&f, step);
        ck_assert_double_gt(report.grad_norm, 0);
        ck_assert_double_eq_tol(report.grad_norm / norm_by_hand(), 1, 1e-13);
    }
}
END_TEST

/* SGD without decay: the parameters move by -lr * min(1, clip / norm) * gradient. */
START_TEST(clipping_scales_the_gradient)
{
    f.spec.optim = (struct cadre_optimizer_config){
        .kind = CADRE_OPTIMIZER_SGD, .lr = 0.5, .steps = 9, .clip = _i ? 0.25 : 1e9};
    rank_fixture_start(&f);
    double *before = malloc(f.rank.store.param[0].count * sizeof *before);
    memcpy(before, f.rank.store.param[0].data,
           f.rank.store.param[0].count * sizeof *before);
    struct cadre_step_report report = rank_fixture_step(&f, 1);
    double scale = _i ? 0.25 / (report.grad_norm + 1e-6) : 1;
    ck_assert_double_gt(report.grad_norm, 0.25);
    ck_assert_double_eq(report.lr, 0.5);
    const double *after = f.rank.store.param[0].data;
    const double *grad = f.rank.store.param[0].grad;
    for (uint64_t e = 0; e < f.rank.store.param[0].count; e++)
        ck_assert_double_eq_tol(before[e] - after[e], 0.5 * scale * grad[e], 1e-15);
    free(before);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("update");
    TCase *tc = tcase_create("update");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, the_norm_is_its_definition, 0, 2);
    tcase_add_loop_test(tc, clipping_scales_the_gradient, 0, 2);
    suite_add_tcase(suite, tc);
    return suite;
}
