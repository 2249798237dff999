/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/check_main.h"

#include <math.h>

#include "core/optim/lr.h"

static struct cadre_optimizer_config config_of(enum cadre_lr_schedule schedule)
{
    return (struct cadre_optimizer_config){
        .lr = 0.8,
        .min_lr = 0.2,
        .schedule = schedule,
        .warmup = 4,
        .steps = 12,
    };
}

START_TEST(warm_up_is_linear)
{
    for (int s = CADRE_LR_CONSTANT; s <= CADRE_LR_LINEAR; s++) {
        struct cadre_optimizer_config config = config_of((enum cadre_lr_schedule)s);
        ck_assert_double_eq_tol(cadre_lr_at(&config, 1), 0.2, 1e-15);
        ck_assert_double_eq_tol(cadre_lr_at(&config, 2), 0.4, 1e-15);
        ck_assert_double_eq_tol(cadre_lr_at(&config, 3), 0.6, 1e-15);
        ck_assert_double_eq_tol(cadre_lr_at(&config, 4), 0.8, 1e-15);
    }
}
END_TEST

START_TEST(constant_stays)
{
    struct cadre_optimizer_config config = config_of(CADRE_LR_CONSTANT);
    ck_assert(cadre_lr_at(&config, 5) == 0.8);
    ck_assert(cadre_lr_at(&config, 1000) == 0.8);
    config.warmup = 0;
    ck_assert(cadre_lr_at(&config, 1) == 0.8);
}
END_TEST

START_TEST(cosine_falls_to_its_floor)
{
    struct cadre_optimizer_config config = config_of(CADRE_LR_COSINE);
    double quarter = 0.2 + 0.3 * (1 + sqrt(0.5));
    ck_assert_double_eq_tol(cadre_lr_at(&config, 6), quarter, 1e-15);
    ck_assert_double_eq_tol(cadre_lr_at(&config, 8), 0.5, 1e-15);
    ck_assert_double_eq_tol(cadre_lr_at(&config, 12), 0.2, 1e-15);
    ck_assert_double_eq_tol(cadre_lr_at(&config, 13), 0.2, 1e-15);
}
END_TEST

START_TEST(linear_falls_to_its_floor)
{
    struct cadre_optimizer_config config = config_of(CADRE_LR_LINEAR);
    ck_assert_double_eq_tol(cadre_lr_at(&config, 6), 0.65, 1e-15);
    ck_assert_double_eq_tol(cadre_lr_at(&config, 8), 0.5, 1e-15);
    ck_assert_double_eq_tol(cadre_lr_at(&config, 12), 0.2, 1e-15);
    ck_assert_double_eq_tol(cadre_lr_at(&config, 99), 0.2, 1e-15);
}
END_TEST

/* A warm-up that is as long as the run, or longer, does not divide by zero. */
START_TEST(warm_up_may_fill_the_run)
{
    struct cadre_optimizer_config config = config_of(CADRE_LR_COSINE);
    config.steps = 4;
    ck_assert_double_eq_tol(cadre_lr_at(&config, 3), 0.6, 1e-15);
    ck_assert(isfinite(cadre_lr_at(&config, 4)));
    config.steps = 2;
    ck_assert_double_eq_tol(cadre_lr_at(&config, 2), 0.4, 1e-15);
    ck_assert(isfinite(cadre_lr_at(&config, 5)));
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("lr");
    TCase *tc = tcase_create("lr");
    tcase_add_test(tc, warm_up_is_linear);
    tcase_add_test(tc, constant_stays);
    tcase_add_test(tc, cosine_falls_to_its_floor);
    tcase_add_test(tc, linear_falls_to_its_floor);
    tcase_add_test(tc, warm_up_may_fill_the_run);
    suite_add_tcase(s, tc);
    return s;
}
