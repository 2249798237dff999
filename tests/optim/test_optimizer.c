/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/check_main.h"

#include <math.h>
#include <string.h>

#include "core/base/rng.h"
#include "core/optim/codes.h"
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
    check_slices(CADRE_OPTIMIZER_LION);
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

/* Chen et al.'s algorithm 2, written out, for every element. */
START_TEST(lion_is_the_published_one)
{
    static struct state s;
    static double p[COUNT], m[COUNT];
    struct cadre_device *device = open_device();
    struct cadre_optimizer_config config = config_of(CADRE_OPTIMIZER_LION);
    struct cadre_slice slice = slice_of(&s, 0, COUNT);
    fill(&s);
    memcpy(p, s.param, sizeof p);
    memset(m, 0, sizeof m);
    for (int64_t at = 1; at <= 5; at++) {
        gradients(&s, at);
        s.grad[3] = 0; /* beside a momentum of 0: the sign of 0 is 0 */
        step(&config, device, &slice, 1, at);
        for (int i = 0; i < COUNT; i++) {
            const double g = s.grad[i] * 0.5, c = 0.9 * m[i] + 0.1 * g;
            const double sign = c > 0 ? 1 : c < 0 ? -1 : 0;
            p[i] -= 0.01 * (sign + 0.1 * p[i]);
            m[i] = 0.95 * m[i] + 0.05 * g;
            ck_assert_double_eq_tol(s.param[i], p[i], 1e-14);
            ck_assert_double_eq_tol(s.exp_avg[i], m[i], 1e-14);
        }
    }
    cadre_device_close(device);
}
END_TEST

/* ---- states of 8 bits ---- */

enum { BLOCKS = (COUNT + CADRE_ADAMW8_BLOCK - 1) / CADRE_ADAMW8_BLOCK };

struct coded {
    struct state wide;
    uint8_t code[2][COUNT];
    double top[2][BLOCKS];
};

static struct cadre_slice coded_slice(struct coded *s, uint64_t begin, uint64_t count)
{
    struct cadre_slice slice = slice_of(&s->wide, begin, count);
    slice.exp_avg = s->code[0] + begin;
    slice.exp_avg_sq = s->code[1] + begin;
    return slice;
}

static struct cadre_absmax coded_top(struct coded *s, uint64_t begin)
{
    const uint64_t block = begin / CADRE_ADAMW8_BLOCK;
    return (struct cadre_absmax){s->top[0] + block, s->top[1] + block};
}

static void step8(const struct cadre_optimizer_config *config,
                  struct cadre_device *device, struct cadre_slice *slices,
                  const struct cadre_absmax *tops, size_t n, int64_t at)
{
    const double grad_scale = 0.5;
    ck_assert_int_eq(cadre_optimizer_step8(config, device, CADRE_F64, slices, tops, n,
                                           at, &grad_scale),
                     CADRE_OK);
}

/* The nearest of 256 numbers, by looking at all of them. */
static int nearest(const double *value, double x)
{
    int best = 0;
    for (int c = 1; c < 256; c++)
        if (fabs(value[c] - x) < fabs(value[best] - x))
            best = c;
    return best;
}

/* One block as Dettmers et al. write it: states from their codes, AdamW, the largest
 * magnitudes, the nearest codes. */
static void reference8(const struct cadre_codes *codes, struct coded *s, int block,
                       int64_t at)
{
    const int begin = block * CADRE_ADAMW8_BLOCK;
    const int end =
        begin + CADRE_ADAMW8_BLOCK < COUNT ? begin + CADRE_ADAMW8_BLOCK : COUNT;
    double moment[2][CADRE_ADAMW8_BLOCK], top[2] = {0, 0};
    for (int i = begin; i < end; i++) {
        const double g = s->wide.grad[i] * 0.5;
        const double m =
            0.9 * codes[0].value[s->code[0][i]] * s->top[0][block] + 0.1 * g;
        const double v =
            0.95 * codes[1].value[s->code[1][i]] * s->top[1][block] + 0.05 * g * g;
        double *p = &s->wide.param[i];
        *p -= 0.01 * 0.1 * *p;
        *p -= 0.01 * (m / (1 - pow(0.9, (double)at))) /
              (sqrt(v / (1 - pow(0.95, (double)at))) + 1e-8);
        moment[0][i - begin] = m;
        moment[1][i - begin] = v;
        top[0] = fmax(top[0], fabs(m));
        top[1] = fmax(top[1], v);
    }
    for (int k = 0; k < 2; k++) {
        for (int i = begin; i < end; i++) {
            const double x = moment[k][i - begin];
            const int code = nearest(codes[k].value, top[k] > 0 ? x / top[k] : 0);
            s->code[k][i] = (uint8_t)(k == 1 && code == 0 && x > 0 ? 1 : code);
        }
        s->top[k][block] = top[k];
    }
}

START_TEST(adamw8bit_is_the_published_one)
{
    static struct coded s, want;
    struct cadre_codes codes[2];
    struct cadre_device *device = open_device();
    struct cadre_optimizer_config config = config_of(CADRE_OPTIMIZER_ADAMW8BIT);
    memset(&s, 0, sizeof s);
    fill(&s.wide);
    want = s;
    cadre_codes_fill(&codes[0], true);
    cadre_codes_fill(&codes[1], false);
    struct cadre_slice slice = coded_slice(&s, 0, COUNT);
    const struct cadre_absmax top = coded_top(&s, 0);
    for (int64_t at = 1; at <= 6; at++) {
        gradients(&s.wide, at);
        memset(s.wide.grad, 0, 40 * sizeof(double)); /* of no gradient at all */
        s.wide.grad[41] = 1e-6; /* small beside the others of its block */
        memcpy(want.wide.grad, s.wide.grad, sizeof s.wide.grad);
        step8(&config, device, &slice, &top, 1, at);
        for (int block = 0; block < BLOCKS; block++)
            reference8(codes, &want, block, at);
        ck_assert_mem_eq(s.code, want.code, sizeof s.code);
        for (int i = 0; i < COUNT; i++)
            ck_assert_double_eq_tol(s.wide.param[i], want.wide.param[i], 1e-12);
        for (int block = 0; block < BLOCKS; block++) {
            ck_assert_double_eq_tol(s.top[0][block], want.top[0][block], 1e-14);
            ck_assert_double_eq_tol(s.top[1][block], want.top[1][block], 1e-14);
        }
    }
    ck_assert_int_eq(s.code[1][41], 1); /* not 0, though 0 is nearer */
    cadre_device_close(device);
}
END_TEST

/* Slices that begin at blocks, also an empty one, have the same bits as one slice. */
START_TEST(blocks_have_the_same_bits)
{
    static const uint64_t first[] = {0, 256, 256, 768, COUNT};
    static struct coded whole, parts;
    struct cadre_device *device = open_device();
    struct cadre_optimizer_config config = config_of(CADRE_OPTIMIZER_ADAMW8BIT);
    struct cadre_slice one, many[4];
    struct cadre_absmax top, tops[4];
    memset(&whole, 0, sizeof whole);
    fill(&whole.wide);
    parts = whole;
    one = coded_slice(&whole, 0, COUNT);
    top = coded_top(&whole, 0);
    for (int i = 0; i < 4; i++) {
        many[i] = coded_slice(&parts, first[i], first[i + 1] - first[i]);
        tops[i] = coded_top(&parts, first[i]);
    }
    for (int64_t s = 1; s <= 5; s++) {
        gradients(&whole.wide, s);
        gradients(&parts.wide, s);
        step8(&config, device, &one, &top, 1, s);
        step8(&config, device, many, tops, 4, s);
        ck_assert_mem_eq(&parts, &whole, sizeof whole);
    }
    cadre_device_close(device);
}
END_TEST

START_TEST(decay_is_of_the_slice)
{
    for (int kind = CADRE_OPTIMIZER_ADAMW; kind <= CADRE_OPTIMIZER_LION; kind++) {
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

START_TEST(names_are_kinds)
{
    int n = 0;
    for (; cadre_optimizer_name(n); n++)
        ck_assert_int_eq(cadre_optimizer_kind_of(cadre_optimizer_name(n)), n);
    ck_assert_int_eq(n, CADRE_OPTIMIZER_PLUGIN);
    ck_assert_int_eq(cadre_optimizer_kind_of("muon"), CADRE_OPTIMIZER_PLUGIN);
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
    tcase_add_test(tc, lion_is_the_published_one);
    tcase_add_test(tc, adamw8bit_is_the_published_one);
    tcase_add_test(tc, blocks_have_the_same_bits);
    tcase_add_test(tc, names_are_kinds);
    tcase_add_test(tc, decay_is_of_the_slice);
    tcase_add_test(tc, schedule_is_followed);
    suite_add_tcase(s, tc);
    return s;
}
