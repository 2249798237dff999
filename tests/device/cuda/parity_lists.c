/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers over lists of slices, sums of squares of lists, and the ops that compute a
 * norm and a loss from them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/device/cuda/parity.h"

/* ---- optimizers ---- */

enum { PARAM, GRAD, AVG, SQUARE, ROUNDED, SCALE, TOP, TOP_SQUARE };

struct update {
    bool sgd;
    double momentum;
    uint32_t rounded;
    int64_t n, each; /* slices, elements of each but that every third is empty */
    double scale;
    int64_t held; /* adamw */
};

static void *at(void *p, int64_t i, uint32_t dtype)
{
    return p ? (char *)p + (size_t)i * cadre_dtype_bytes(dtype) : NULL;
}

static cadre_status run_update(struct cadre_device *device, uint32_t dtype, void **p,
                               const void *ctx)
{
    const struct update *u = ctx;
    struct cadre_slice *slices = calloc((size_t)u->n, sizeof *slices);
    cadre_status rc;
    for (int64_t i = 0; slices && i < u->n; i++)
        slices[i] = (struct cadre_slice){
            .count = i % 3 == 1 ? 0 : u->each,
            .param = at(p[PARAM], i * u->each, dtype),
            .rounded = at(p[ROUNDED], i * u->each, u->rounded),
            .grad = at(p[GRAD], i * u->each, dtype),
            .exp_avg = at(p[AVG], i * u->each, dtype),
            .exp_avg_sq = at(p[SQUARE], i * u->each, dtype),
            .weight_decay = i % 2 ? 0 : 0.1,
        };
    const struct cadre_adamw a = {dtype, u->rounded, 1e-2,   0.9,  0.95,   1e-8,
                                  3,     p[SCALE],   slices, u->n, u->held};
    const struct cadre_sgd g = {dtype, u->rounded, 1e-2,   u->momentum,
                                3,     p[SCALE],   slices, u->n};
    rc = u->sgd ? device->ops->sgd(device, &g) : device->ops->adamw(device, &a);
    if (slices)
        memset(slices, 0xff, (size_t)u->n * sizeof *slices); /* the caller's again */
    free(slices);
    return rc;
}

static void fill_update(const void *ctx, int arg, double *x, int64_t count)
{
    const struct update *u = ctx;
    for (int64_t i = 0; i < count; i++)
        x[i] = arg == SQUARE ? fabs(x[i]) + 1e-3 : arg == SCALE ? u->scale : x[i];
}

/* The arithmetic is the CPU's, and so are the bits; compared with f64, a step is lr
 * times a quotient of at most 30. */
static void compare_update(struct parity *p, uint32_t dtype, struct update u)
{
    const int64_t n = u.n * u.each;
    char name[96];
    snprintf(name, sizeof name, "%s of %lld x %lld, %s, grad_scale %g",
             u.sgd ? "sgd" : "adamw", (long long)u.n, (long long)u.each,
             u.rounded ? cadre_dtype_name(u.rounded) : "not rounded", u.scale);
    const bool momentum = !u.sgd || u.momentum > 0;
    const struct parity_case c = {
        .name = name,
        .calls = {u.sgd ? PARITY_ENTRY(sgd) : PARITY_ENTRY(adamw)},
        .dtype = dtype,
        .args = {[PARAM] = {PARITY_OP, 1, n, .seed = 1, .out = true, .bits = true,
                            .sum = 8, .floor = 1},
                 [GRAD] = {PARITY_OP, 1, n, .seed = 2},
                 [AVG] = {PARITY_OP, momentum, n, .seed = 3, .out = true, .bits = true,
                          .sum = 8, .floor = 1},
                 [SQUARE] = {PARITY_OP, !u.sgd, n, .seed = 4, .out = true, .bits = true,
                             .sum = 4, .floor = 1},
                 [ROUNDED] = {u.rounded, u.rounded ? 1 : 0, n, .seed = 5, .out = true,
                              .bits = true, .round = 2, .sum = 8, .floor = 1},
                 [SCALE] = {CADRE_F64, 1, 1, .seed = 6}},
        .run = run_update,
        .ctx = &u,
        .fill = fill_update,
    };
    parity_hold(p, &c);
}

static void updates(struct parity *p, uint32_t dtype)
{
    static const struct update cases[] = {
        {false, 0, 0, 2, 1027, 0.5, 0},
        {false, 0, CADRE_BF16, 4, 257, 0.5, 0},
        {false, 0, CADRE_F16, 17, 3, 1, 0},
        {false, 0, CADRE_BF16, 2, 65, (double)NAN, 0},
        {false, 0, 0, 1, 1, (double)INFINITY, 0},
        {true, 0.9, 0, 2, 1027, 0.5, 0},
        {false, 0, CADRE_BF16, 2, 129, 0.5, 2},
        {true, 0, CADRE_F16, 3, 129, 0.5, 0},
        {true, 0.9, CADRE_BF16, 17, 3, 1, 0},
        {true, 0.9, CADRE_F16, 2, 65, (double)-INFINITY, 0},
    };
    static const struct update large[] = {
        {false, 0, 0, 2, 4101, 0.5, 0},
        {false, 0, CADRE_BF16, 5, 50003, 0.125, 0},
        {true, 0.9, CADRE_F16, 3, 50003, 0.125, 0},
        {false, 0, 0, 2000, 17, 1, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!p->lean || i % 2)
            compare_update(p, dtype, cases[i]);
    for (size_t i = 0; i < sizeof large / sizeof *large && p->real; i++)
        compare_update(p, dtype, large[i]);
}

/* ---- Lion, and states of 8 bits ---- */

static cadre_status run_lion(struct cadre_device *device, uint32_t dtype, void **p,
                             const void *ctx)
{
    const struct update *u = ctx;
    const struct cadre_slice slices[] = {
        {.count = u->each,
         .param = p[PARAM],
         .rounded = p[ROUNDED],
         .grad = p[GRAD],
         .exp_avg = p[AVG],
         .weight_decay = 0.1},
        {.count = u->each,
         .param = at(p[PARAM], u->each, dtype),
         .rounded = at(p[ROUNDED], u->each, u->rounded),
         .grad = at(p[GRAD], u->each, dtype),
         .exp_avg = at(p[AVG], u->each, dtype)},
    };
    const struct cadre_lion a = {dtype, u->rounded, 1e-2,   0.9,
                                 0.99,  p[SCALE],   slices, 2};
    return device->ops->lion(device, &a);
}

/* The sign of a number that is nearly 0 may be another in f64: bits alone. */
static void compare_lion(struct parity *p, uint32_t dtype, struct update u)
{
    const int64_t n = 2 * u.each;
    const struct parity_case c = {
        .name = "lion of 2 slices",
        .calls = {PARITY_ENTRY(lion)},
        .dtype = dtype,
        .args = {[PARAM] = {PARITY_OP, 1, n, .seed = 1, .out = true, .bits = true},
                 [GRAD] = {PARITY_OP, 1, n, .seed = 2},
                 [AVG] = {PARITY_OP, 1, n, .seed = 3, .out = true, .bits = true},
                 [ROUNDED] = {u.rounded, u.rounded ? 1 : 0, n, .seed = 5, .out = true,
                              .bits = true},
                 [SCALE] = {CADRE_F64, 1, 1, .seed = 6}},
        .run = run_lion,
        .ctx = &u,
        .fill = fill_update,
        .bits_only = true,
    };
    parity_hold(p, &c);
}

static int64_t blocks_of(int64_t count)
{
    return (count + CADRE_ADAMW8_BLOCK - 1) / CADRE_ADAMW8_BLOCK;
}

/* Any ascending numbers: the code of 0 is 128, or 0. */
static void make_codes(struct cadre_codes *codes, bool is_signed)
{
    for (int c = 0; c < 256; c++) {
        const double x = is_signed ? (c - 128) / 128.0 : c / 255.0;
        codes->value[c] = x * fabs(x);
    }
    for (int c = 0; c < 255; c++)
        codes->middle[c] = (codes->value[c] + codes->value[c + 1]) / 2;
}

static cadre_status run_adamw8(struct cadre_device *device, uint32_t dtype, void **p,
                               const void *ctx)
{
    const struct update *u = ctx;
    struct cadre_slice *slices = calloc((size_t)u->n, sizeof *slices);
    struct cadre_absmax *absmax = calloc((size_t)u->n, sizeof *absmax);
    struct cadre_codes first, second;
    cadre_status rc = CADRE_E_RESOURCE;
    make_codes(&first, true);
    make_codes(&second, false);
    for (int64_t i = 0; slices && absmax && i < u->n; i++) {
        slices[i] = (struct cadre_slice){
            .count = i % 3 == 1 ? 0 : u->each,
            .param = at(p[PARAM], i * u->each, dtype),
            .rounded = at(p[ROUNDED], i * u->each, u->rounded),
            .grad = at(p[GRAD], i * u->each, dtype),
            .exp_avg = at(p[AVG], i * u->each, CADRE_U8),
            .exp_avg_sq = at(p[SQUARE], i * u->each, CADRE_U8),
            .weight_decay = i % 2 ? 0 : 0.1,
        };
        absmax[i].first = at(p[TOP], i * blocks_of(u->each), dtype);
        absmax[i].second = at(p[TOP_SQUARE], i * blocks_of(u->each), dtype);
    }
    const struct cadre_adamw8 a = {
        .adamw = {dtype, u->rounded, 1e-2, 0.9, 0.95, 1e-8, 3, p[SCALE], slices, u->n},
        .absmax = absmax,
        .first = &first,
        .second = &second,
    };
    if (slices && absmax) {
        rc = device->ops->adamw8(device, &a);
        memset(slices, 0xff, (size_t)u->n * sizeof *slices); /* the caller's again */
        memset(absmax, 0xff, (size_t)u->n * sizeof *absmax);
    }
    free(slices);
    free(absmax);
    return rc;
}

static void fill_adamw8(const void *ctx, int arg, double *x, int64_t count)
{
    const struct update *u = ctx;
    for (int64_t i = 0; i < count; i++)
        x[i] = arg == AVG || arg == SQUARE       ? floor(fabs(x[i]) * 255)
               : arg == TOP || arg == TOP_SQUARE ? fabs(x[i])
               : arg == SCALE                    ? u->scale
                                                 : x[i];
}

static void compare_adamw8(struct parity *p, uint32_t dtype, struct update u)
{
    const int64_t n = u.n * u.each, blocks = u.n * blocks_of(u.each);
    char name[96];
    snprintf(name, sizeof name, "adamw8 of %lld x %lld, %s, grad_scale %g",
             (long long)u.n, (long long)u.each,
             u.rounded ? cadre_dtype_name(u.rounded) : "not rounded", u.scale);
    const struct parity_case c = {
        .name = name,
        .calls = {PARITY_ENTRY(adamw8)},
        .dtype = dtype,
        .args = {[PARAM] = {PARITY_OP, 1, n, .seed = 1, .out = true, .bits = true},
                 [GRAD] = {PARITY_OP, 1, n, .seed = 2},
                 [AVG] = {CADRE_U8, 1, n, .seed = 3, .out = true, .bits = true},
                 [SQUARE] = {CADRE_U8, 1, n, .seed = 4, .out = true, .bits = true},
                 [ROUNDED] = {u.rounded, u.rounded ? 1 : 0, n, .seed = 5, .out = true,
                              .bits = true},
                 [SCALE] = {CADRE_F64, 1, 1, .seed = 6},
                 [TOP] = {PARITY_OP, 1, blocks, .seed = 7, .out = true, .bits = true},
                 [TOP_SQUARE] = {PARITY_OP, 1, blocks, .seed = 8, .out = true,
                                 .bits = true}},
        .run = run_adamw8,
        .ctx = &u,
        .fill = fill_adamw8,
        .bits_only = true,
    };
    parity_hold(p, &c);
}

static void more_updates(struct parity *p, uint32_t dtype)
{
    static const struct update cases[] = {
        {.n = 2, .each = 1027, .scale = 0.5},
        {.rounded = CADRE_BF16, .n = 4, .each = 256, .scale = 0.5},
        {.rounded = CADRE_F16, .n = 18, .each = 3, .scale = 1},
        {.n = 1, .each = 4097, .scale = 0.25},
        {.rounded = CADRE_BF16, .n = 2, .each = 65, .scale = (double)NAN},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        compare_adamw8(p, dtype, cases[i]);
    for (size_t i = 0; i < 3; i++)
        compare_lion(p, dtype, cases[i]);
    compare_lion(p, dtype, cases[4]);
}

/* ---- sums of squares ---- */

struct squares {
    int64_t n, each;
    bool bad; /* some chunks have non-finite values */
};

static int64_t chunks_of(int64_t count)
{
    return (count + CADRE_NORM_CHUNK - 1) / CADRE_NORM_CHUNK;
}

static cadre_status run_squares(struct cadre_device *device, uint32_t dtype, void **p,
                                const void *ctx)
{
    const struct squares *s = ctx;
    struct cadre_squares *list = calloc((size_t)s->n, sizeof *list);
    double *sums = p[1];
    for (int64_t i = 0; list && i < s->n; i++)
        list[i] = (struct cadre_squares){at(p[0], i * s->each, dtype), s->each,
                                         sums + i * chunks_of(s->each)};
    const cadre_status rc = device->ops->sum_squares(device, dtype, list, s->n);
    if (list)
        memset(list, 0xff, (size_t)s->n * sizeof *list);
    free(list);
    return rc;
}

static void fill_squares(const void *ctx, int arg, double *x, int64_t count)
{
    const struct squares *s = ctx;
    for (int64_t i = 0; s->bad && arg == 0 && i < count; i += CADRE_NORM_CHUNK / 2 * 3)
        x[i] = i % 2 ? (double)NAN : (double)INFINITY;
}

/* In double whatever the dtype: of 4096 squares, none of which is negative. */
static void compare_squares(struct parity *p, uint32_t dtype, struct squares s)
{
    char name[96];
    snprintf(name, sizeof name, "sum_squares of %lld x %lld", (long long)s.n,
             (long long)s.each);
    const struct parity_case c = {
        .name = name,
        .calls = {PARITY_ENTRY(sum_squares)},
        .dtype = dtype,
        .args = {{PARITY_OP, 1, s.n * s.each, .seed = 1},
                 {CADRE_F64, 1, s.n * chunks_of(s.each), .out = true,
                  .round = 4 + 2 * 64}},
        .run = run_squares,
        .ctx = &s,
        .fill = fill_squares,
    };
    parity_hold(p, &c);
}

/* ---- totals ---- */

struct total {
    int64_t n;
    double clip, unscale;
    bool bad;
};

static cadre_status run_total(struct cadre_device *device, uint32_t dtype, void **p,
                              const void *ctx)
{
    const struct total *t = ctx;
    (void)dtype;
    return device->ops->norm_total(device, p[0], (uint64_t)t->n, t->clip, t->unscale,
                                   p[1]);
}

static cadre_status run_sum(struct cadre_device *device, uint32_t dtype, void **p,
                            const void *ctx)
{
    const struct total *t = ctx;
    (void)dtype;
    return device->ops->sum_rows(device, p[0], t->n, p[1]);
}

static void fill_total(const void *ctx, int arg, double *x, int64_t count)
{
    const struct total *t = ctx;
    for (int64_t i = 0; i < count && arg == 0; i++)
        x[i] = t->bad && i == count / 2 ? (double)NAN : fabs(x[i]);
}

/* The norm has the tree's order on every device; sum_rows has another fixed order. */
static void compare_totals(struct parity *p, struct total t)
{
    char name[96];
    snprintf(name, sizeof name, "norm_total of %lld, clip %g", (long long)t.n, t.clip);
    struct parity_case c = {
        .name = name,
        .calls = {PARITY_ENTRY(norm_total)},
        .dtype = CADRE_F64,
        .args = {{CADRE_F64, 1, t.n, .seed = 1},
                 {CADRE_F64, 1, 2, .out = true, .bits = true}},
        .run = run_total,
        .ctx = &t,
        .fill = fill_total,
    };
    parity_hold(p, &c);
    c.name = "sum_rows";
    c.calls[0] = PARITY_ENTRY(sum_rows);
    c.run = run_sum;
    c.fill = NULL;
    c.args[1] = (struct parity_arg){CADRE_F64,
                                    1,
                                    1,
                                    .out = true,
                                    .sum = 4 + 2 * sqrt((double)t.n),
                                    .magnitude = PARITY_ABS};
    parity_hold(p, &c);
}

void parity_lists(struct parity *p)
{
    static const int64_t counts[] = {1, 2, 3, 7, 33, 129, 511, 512, 513, 1500, 4097};
    for (int d = 0; d < 2; d++)
        updates(p, parity_dtypes[d]);
    for (int d = 0; d < 2; d++)
        more_updates(p, parity_dtypes[d]);
    /* more than one launch takes */
    compare_update(p, CADRE_F32, (struct update){false, 0, CADRE_BF16, 385, 1, 1, 0});
    for (int d = 0; d < 4; d++) {
        compare_squares(p, parity_dtypes[d], (struct squares){2, 2 * 4096 + 3, false});
        compare_squares(p, parity_dtypes[d], (struct squares){2, 2 * 4096 + 3, true});
        compare_squares(p, parity_dtypes[d], (struct squares){d ? 17 : 385, 5, false});
        if (p->real)
            compare_squares(p, parity_dtypes[d], (struct squares){3, 100003, false});
    }
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        compare_totals(p, (struct total){counts[i], i % 2 ? 0.5 : 0, 0.25, i == 6});
    if (p->real)
        compare_totals(p, (struct total){300007, 1, 1, false});
}
