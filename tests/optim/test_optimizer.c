/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/check_main.h"

#include <math.h>
#include <string.h>

#include "core/base/rng.h"
#include "core/optim/optimizer.h"

enum { COUNT = 1000 };

struct state {
    double param[COUNT], grad[COUNT], exp_avg[COUNT], exp_avg_sq[COUNT];
};

static struct cadre_device *open_device(void)
{
    struct cadre_device_config config = {.kind = "cpu", .threads = 2};
    struct cadre_device *device = NULL;
    ck_assert_int_eq(cadre_device_open(&config, &device, NULL), CADRE_OK);
    return device;
}

static struct cadre_optimizer_config config_of(enum cadre_optimizer_kind kind)
{
    return (struct cadre_optimizer_config){
        .kind = kind,
        .lr = 0.01,
        .momentum = 0.9,
        .weight_decay = 0.1,
        .beta1 = 0.9,
        .beta2 = 0.95,
        .eps = 1e-8,
    };
}

static void fill(struct state *s)
{
    memset(s, 0, sizeof *s);
    for (uint64_t i = 0; i < COUNT; i++)
        s->param[i] = cadre_rng_normal(cadre_rng_key(1, "param"), i);
}

static void gradients(struct state *s, int64_t step)
{
    for (uint64_t i = 0; i < COUNT; i++)
        s->grad[i] = cadre_rng_normal(cadre_rng_key((uint64_t)step, "grad"), i);
}

static struct cadre_slice slice_of(struct state *s, uint64_t begin, uint64_t count)
{
    return (struct cadre_slice){
        .count = (int64_t)count,
        .param = s->param + begin,
        .grad = s->grad + begin,
        .exp_avg = s->exp_avg + begin,
        .exp_avg_sq = s->exp_avg_sq + begin,
        .weight_decay = 0.1,
    };
}

static void step(const struct cadre_optimizer_config *config,
                 struct cadre_device *device, struct cadre_slice *slices, size_t n,
                 int64_t at)
{
    const double grad_scale = 0.5;
    ck_assert_int_eq(
        cadre_optimizer_step(config, device, CADRE_F64, slices, n, at, &grad_scale),
        CADRE_OK);
}

/* Slices of any length, also an empty one, have the same bits as one slice. */
static void check_slices(enum cadre_optimizer_kind kind)
{
    static const uint64_t lengths[] = {1, 7, 0, 16, 33, 250, 64, 129, 500};
    static struct state whole, parts;
    struct cadre_device *device = open_device();
    struct cadre_optimizer_config config = config_of(kind);
    struct cadre_slice one, many[9];
    uint64_t at = 0;
    fill(&whole);
    fill(&parts);
    one = slice_of(&whole, 0, COUNT);
    for (int i = 0; i < 9; i++) {
        many[i] = slice_of(&parts, at, lengths[i]);
        at += lengths[i];
    }
    ck_assert_uint_eq(at, COUNT);
    for (int64_t s = 1; s <= 5; s++) {
        gradients(&whole, s);
        gradients(&parts, s);
        step(&config, device, &one, 1, s);
        step(&config, device, many, 9, s);
        ck_assert_mem_eq(&parts, &whole, sizeof whole);
    }
    cadre_device_close(device);
}

START_TEST(slices_have_the_same_bits)
{
    check_slices(CADRE_OPTIMIZER_ADAMW);
    check_slices(CADRE_OPTIMIZER_SGD);
}
END_TEST

/* Loshchilov and Hutter's algorithm 2, written out. */
START_TEST(adamw_is_the_published_one)
{
    static struct state s;
    struct cadre_device *device = open_device();
    struct cadre_optimizer_config config = config_of(CADRE_OPTIMIZER_ADAMW);
    struct cadre_slice slice = slice_of(&s, 0, COUNT);
    fill(&s);
    double p = s.param[17], m = 0, v = 0;
    for (int64_t at = 1; at <= 5; at++) {
        gradients(&s, at);
        double g = s.grad[17] * 0.5;
        m = 0.9 * m + 0.1 * g;
        v = 0.95 * v + 0.05 * g * g;
        p -= 0.01 * 0.1 * p;
        p -= 0.01 * (m / (1 - pow(0.9, (double)at))) /
             (sqrt(v / (1 - pow(0.95, (double)at))) + 1e-8);
        step(&config, device, &slice, 1, at);
        ck_assert_double_eq_tol(s.param[17], p, 1e-14);
    }
    cadre_device_close(device);
}
END_TEST

START_TEST(sgd_is_pytorchs)
{
    static struct state s;
    struct cadre_device *device = open_device();
    struct cadre_optimizer_config config = config_of(CADRE_OPTIMIZER_SGD);
    struct cadre_slice slice = slice_of(&s, 0, COUNT);
    fill(&s);
    double p = s.param[17], buffer = 0;
    for (int64_t at = 1; at <= 5; at++) {
        gradients(&s, at);
        double g = s.grad[17] * 0.5 + 0.1 * p;
        buffer = 0.9 * buffer + g;
        p -= 0.01 * buffer;
        step(&config, device, &slice, 1, at);
        ck_assert_double_eq_tol(s.param[17], p, 1e-14);
    }
    cadre_device_close(device);
}
END_TEST

START_TEST(decay_is_of_the_slice)
{
    for (int kind = CADRE_OPTIMIZER_ADAMW; kind <= CADRE_OPTIMIZER_SGD; kind++) {
        static struct state both, with, without;
        struct cadre_device *device = open_device();
        struct cadre_optimizer_config config =
            config_of((enum cadre_optimizer_kind)kind);
        struct state *all[] = {&both, &with, &without};
        struct cadre_slice slices[2];
        for (int i = 0; i < 3; i++) {
            fill(all[i]);
            gradients(all[i], 1);
        }
        slices[0] = slice_of(&both, 0, 400);
        slices[1] = slice_of(&both, 400, COUNT - 400);
        slices[1].weight_decay = 0;
        step(&config, device, slices, 2, 1);
        slices[0] = slice_of(&with, 0, COUNT);
        step(&config, device, slices, 1, 1);
        slices[0] = slice_of(&without, 0, COUNT);
        slices[0].weight_decay = 0;
        step(&config, device, slices, 1, 1);
        ck_assert_mem_eq(both.param, with.param, 400 * sizeof(double));
        ck_assert_mem_eq(both.param + 400, without.param + 400, 600 * sizeof(double));
        ck_assert(with.param[17] != without.param[17]);
        cadre_device_close(device);
    }
}
END_TEST

START_TEST(schedule_is_followed)
{
    static struct state half, full;
    struct cadre_device *device = open_device();
    struct cadre_optimizer_config config = config_of(CADRE_OPTIMIZER_ADAMW);
    struct cadre_slice slice = slice_of(&half, 0, COUNT);
    fill(&half);
    fill(&full);
    gradients(&half, 1);
    gradients(&full, 1);
    config.warmup = 2;
    step(&config, device, &slice, 1, 1);
    config.warmup = 0;
    config.lr /= 2;
    slice = slice_of(&full, 0, COUNT);
    step(&config, device, &slice, 1, 1);
    ck_assert_mem_eq(half.param, full.param, sizeof full.param);
    cadre_device_close(device);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("optimizer");
    TCase *tc = tcase_create("optimizer");
    tcase_add_test(tc, slices_have_the_same_bits);
    tcase_add_test(tc, adamw_is_the_published_one);
    tcase_add_test(tc, sgd_is_pytorchs);
    tcase_add_test(tc, decay_is_of_the_slice);
    tcase_add_test(tc, schedule_is_followed);
    suite_add_tcase(s, tc);
    return s;
}
