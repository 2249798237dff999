/* SPDX-License-Identifier: Apache-2.0 */
/* The ops of optimizers and of stored forms. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/tensor/nf4.h"
#include "tests/device/cuda/parity.h"

struct vector {
    int64_t n; /* elements, or rows */
    int64_t columns;
    int call;
    int64_t group; /* of fake_quantize, as the next two */
    bool down, wide;
    bool found, given; /* of tokens: ranges are p[3] */
};

enum { AXPBY, MUL, RSQRT, TRANSPOSE, COPY_ROWS, ENCODE, DECODE, NF4, FAKE };

/* Block of the tensor that an nf4 decode begins with. */
enum { NF4_FIRST = 200 };

/* Leading dimensions beyond the columns. */
enum { MORE_TO = 3, MORE_FROM = 5 };

static cadre_status run(struct cadre_device *device, uint32_t t, void **p,
                        const void *ctx)
{
    const struct vector *v = ctx;
    const struct cadre_device_ops *ops = device->ops;
    switch (v->call) {
    case AXPBY:
        return ops->axpby(device, t, 0.3, p[0], -0.7, p[1], v->n);
    case MUL:
        return ops->mul(device, t, p[2], p[0], p[1], v->n);
    case RSQRT:
        return ops->rsqrt(device, t, p[0], v->n, 1e-3);
    case TRANSPOSE:
        return ops->transpose(device, t, p[1], p[0], v->n, v->columns);
    case COPY_ROWS:
        return ops->copy_rows(device, t, p[1], v->columns + MORE_TO, p[0],
                              v->columns + MORE_FROM, v->n, v->columns);
    case ENCODE:
        return ops->int8_encode(device, t, p[0], v->n, p[1]);
    case NF4:
        return ops->nf4_decode(device, p[0], p[1], NF4_FIRST, t, p[2], v->n);
    case FAKE:
        return ops->fake_quantize(
            device, &(struct cadre_fake_quantize){.dtype = t,
                                                  .rows = v->n,
                                                  .columns = v->columns,
                                                  .group = v->group,
                                                  .down = v->down,
                                                  .x = p[0],
                                                  .y = p[1],
                                                  .grad = p[2],
                                                  .wide = v->wide,
                                                  .found = v->found ? p[3] : NULL,
                                                  .range = v->given ? p[3] : NULL});
    default:
        return ops->int8_decode(device, p[0], t, p[1], v->n);
    }
}

/* No root of a negative number. */
static void positive(const void *ctx, int arg, double *x, int64_t count)
{
    (void)ctx;
    (void)arg;
    for (int64_t i = 0; i < count; i++)
        x[i] = fabs(x[i]);
}

/* Element by element: the CPU's bits. */
static void elements(struct parity *p, uint32_t t, int64_t n)
{
    const struct vector sum = {.n = n, .call = AXPBY}, times = {.n = n, .call = MUL};
    const struct vector root = {.n = n, .call = RSQRT};
    struct parity_case c = {
        .name = "axpby",
        .calls = {PARITY_ENTRY(axpby)},
        .dtype = t,
        .args = {{PARITY_OP, 1, n, .seed = 1},
                 {PARITY_OP, 1, n, .seed = 2, .out = true, .bits = true, .sum = 4,
                  .floor = 1}},
        .run = run,
        .ctx = &sum,
    };
    parity_hold(p, &c);
    c = (struct parity_case){
        .name = "mul",
        .calls = {PARITY_ENTRY(mul)},
        .dtype = t,
        .args = {{PARITY_OP, 1, n, .seed = 1},
                 {PARITY_OP, 1, n, .seed = 2},
                 {PARITY_OP, 1, n, .out = true, .bits = true}},
        .run = run,
        .ctx = &times,
    };
    parity_hold(p, &c);
    c.args[2].in = 1;
    parity_hold(p, &c);
    c = (struct parity_case){
        .name = "rsqrt",
        .calls = {PARITY_ENTRY(rsqrt)},
        .dtype = t,
        .args = {{PARITY_OP, 1, n, .seed = 1, .out = true, .bits = true, .sum = 6}},
        .run = run,
        .ctx = &root,
        .fill = positive,
    };
    parity_hold(p, &c);
}

/* ---- dot ---- */

/* The result is the host's: the case takes it to the device, where it is compared. */
static cadre_status run_dot(struct cadre_device *device, uint32_t t, void **p,
                            const void *ctx)
{
    const struct vector *v = ctx;
    double sum = 0;
    cadre_status rc = device->ops->dot(device, t, p[0], p[1], v->n, &sum);
    return rc == CADRE_OK ? device->ops->to_device(device, p[2], &sum, sizeof sum) : rc;
}

/* In double whatever the dtype. */
static void dots(struct parity *p, uint32_t t, int64_t n)
{
    char name[64];
    const struct vector v = {.n = n};
    const double terms = sqrt((double)n);
    const struct parity_case c = {
        .name = name,
        .calls = {PARITY_ENTRY(dot)},
        .dtype = t,
        .args = {{PARITY_OP, 1, n, .seed = 1},
                 {PARITY_OP, 1, n, .seed = 2},
                 {CADRE_F64, 1, 1, .out = true,
                  .sum = t == CADRE_F64 ? 4 + 2 * terms : 0x1p-20,
                  .magnitude = PARITY_ABS}},
        .run = run_dot,
        .ctx = &v,
    };
    snprintf(name, sizeof name, "dot of %lld", (long long)n);
    parity_hold(p, &c);
}

/* ---- transpose, copy_rows ---- */

static void moves(struct parity *p, uint32_t t, int64_t rows, int64_t columns)
{
    char name[64];
    const double range = t == CADRE_I32 ? 1e9 : 1;
    const struct vector v = {.n = rows, .columns = columns, .call = TRANSPOSE};
    const struct vector w = {.n = rows, .columns = columns, .call = COPY_ROWS};
    struct parity_case c = {
        .name = name,
        .calls = {PARITY_ENTRY(transpose)},
        .dtype = t,
        .args = {{PARITY_OP, rows, columns, .seed = 1, .range = range},
                 {PARITY_OP, columns, rows, .out = true, .bits = true}},
        .run = run,
        .ctx = &v,
        .bits_only = true,
    };
    snprintf(name, sizeof name, "transpose, %lld x %lld", (long long)rows,
             (long long)columns);
    parity_hold(p, &c);
    c.calls[0] = PARITY_ENTRY(copy_rows);
    c.ctx = &w;
    c.args[0].ld = columns + MORE_FROM;
    c.args[1] = (struct parity_arg){
        PARITY_OP, rows, columns, .ld = columns + MORE_TO, .out = true, .bits = true};
    snprintf(name, sizeof name, "copy_rows, %lld x %lld", (long long)rows,
             (long long)columns);
    parity_hold(p, &c);
}

/* ---- int8 ---- */

/* Blocks of zeros, of tiny numbers, with NaN and infinity. */
static void fill_encode(const void *ctx, int arg, double *x, int64_t count)
{
    (void)ctx;
    for (int64_t i = 0; arg == 0 && i < count; i++) {
        const int64_t block = i / CADRE_INT8_BLOCK;
        if (block % 5 == 1)
            x[i] = 0;
        if (block % 5 == 2)
            x[i] *= 1e-40;
        if (block % 5 == 3 && i % CADRE_INT8_BLOCK == 7)
            x[i] = block % 2 ? (double)NAN : (double)-INFINITY;
    }
}

/* Any codes; a scale of the size of weights in each block. */
static void fill_decode(const void *ctx, int arg, double *x, int64_t count)
{
    (void)ctx;
    for (int64_t at = CADRE_INT8_BLOCK; arg == 0 && at < count;
         at += CADRE_INT8_BYTES) {
        const float scale = 0.001f * (float)(1 + at % 97);
        unsigned char bytes[sizeof scale];
        memcpy(bytes, &scale, sizeof scale);
        for (int64_t i = 0; i < (int64_t)sizeof scale; i++)
            x[at + i] = bytes[i];
    }
}

static void forms(struct parity *p, uint32_t t, int64_t n)
{
    const struct vector there = {.n = n, .call = ENCODE},
                        back = {.n = n, .call = DECODE};
    const int64_t bytes =
        (n + CADRE_INT8_BLOCK - 1) / CADRE_INT8_BLOCK * CADRE_INT8_BYTES;
    struct parity_case c = {
        .name = "int8_encode",
        .calls = {PARITY_ENTRY(int8_encode)},
        .dtype = t,
        .args = {{PARITY_OP, 1, n, .seed = 1},
                 {CADRE_U8, 1, bytes, .out = true, .bits = true}},
        .run = run,
        .ctx = &there,
        .fill = fill_encode,
        .bits_only = true, /* a tie in f32 is none in f64 */
    };
    parity_hold(p, &c);
    c = (struct parity_case){
        .name = "int8_decode",
        .calls = {PARITY_ENTRY(int8_decode)},
        .dtype = t,
        .args = {{CADRE_U8, 1, bytes, .seed = 1, .range = 255},
                 {PARITY_OP, 1, n, .out = true, .bits = true, .sum = 1}},
        .run = run,
        .ctx = &back,
        .fill = fill_decode,
    };
    parity_hold(p, &c);
}

static void nf4(struct parity *p, uint32_t t, int64_t n)
{
    const struct vector v = {.n = n, .call = NF4};
    const int64_t blocks = (int64_t)cadre_nf4_blocks((uint64_t)n);
    const struct parity_case c = {
        .name = "nf4_decode",
        .calls = {PARITY_ENTRY(nf4_decode)},
        .dtype = t,
        .args = {{CADRE_U8, 1, blocks * CADRE_NF4_BYTES, .seed = 1, .range = 255},
                 {CADRE_F32, 1, 2 + (NF4_FIRST + blocks) / CADRE_NF4_NESTED, .seed = 2},
                 {PARITY_OP, 1, n, .out = true, .bits = true, .sum = 4}},
        .run = run,
        .ctx = &v,
    };
    parity_hold(p, &c);
}

/* A value in 13 is 0, and some rows have one that is not finite. */
static void fill_fake(const void *ctx, int arg, double *x, int64_t count)
{
    const struct vector *v = ctx;
    for (int64_t i = 0; arg == 0 && i < count; i++) {
        if (i % 13 == 5)
            x[i] = 0;
        if (i / v->columns % 7 == 3 && i % v->columns == 2)
            x[i] = i % 2 ? (double)NAN : (double)-INFINITY;
    }
    for (int64_t i = 0; arg == 3 && i < count; i++)
        x[i] = i % 7 == 3 ? (double)INFINITY : fabs(x[i]);
}

/* Tokens, weights in groups with a rest, in rows and in columns, then ranges of tokens,
 * and tokens by ranges. The gradient is the one that lies there. */
static void fakes(struct parity *p, uint32_t t, int64_t rows, int64_t columns)
{
    static const char *const names[] = {"tokens", "rows", "columns", "ranges",
                                        "tokens by ranges"};
    for (int kind = 0; kind < 5; kind++) {
        const bool weights = kind == 1 || kind == 2, values = kind != 3;
        const struct vector v = {.n = rows,
                                 .columns = columns,
                                 .call = FAKE,
                                 .group = weights ? 32 : 0,
                                 .down = kind == 2,
                                 .wide = weights,
                                 .found = kind == 3,
                                 .given = kind == 4};
        char name[64];
        const struct parity_case c = {
            .name = name,
            .calls = {PARITY_ENTRY(fake_quantize)},
            .dtype = t,
            .args = {{PARITY_OP, rows, columns, .seed = 1},
                     {PARITY_OP, values ? rows : 0, columns, .out = true, .bits = true},
                     {v.wide ? PARITY_WIDE : PARITY_OP, values ? rows : 0, columns,
                      .seed = 2, .out = true, .bits = true},
                     {PARITY_WIDE, weights || kind == 0 ? 0 : rows, 2,
                      .seed = v.given ? 3 : 0, .out = v.found, .bits = v.found}},
            .run = run,
            .ctx = &v,
            .fill = fill_fake,
            .bits_only = true, /* computed in fp32 whatever the dtype */
        };
        snprintf(name, sizeof name, "fake_quantize of %lld x %lld, %s", (long long)rows,
                 (long long)columns, names[kind]);
        parity_hold(p, &c);
    }
}

void parity_vectors(struct parity *p)
{
    static const int64_t counts[] = {1, 7, 64, 129, 4097, 8200};
    static const int64_t shapes[][2] = {{1, 1}, {1, 33}, {33, 31}, {64, 32}, {70, 130}};
    for (int d = 0; d < 4; d++) {
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i += p->lean ? 2 : 1) {
            elements(p, parity_dtypes[d], counts[i]);
            dots(p, parity_dtypes[d], counts[i]);
            forms(p, parity_dtypes[d], counts[i]);
            nf4(p, parity_dtypes[d], counts[i]);
        }
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i += p->lean ? 2 : 1) {
            moves(p, parity_dtypes[d], shapes[i][0], shapes[i][1]);
            fakes(p, parity_dtypes[d], shapes[i][0], shapes[i][1]);
        }
        if (p->real) {
            elements(p, parity_dtypes[d], (1 << 20) + 3);
            dots(p, parity_dtypes[d], (1 << 22) + 5);
            forms(p, parity_dtypes[d], (1 << 20) + 3);
            nf4(p, parity_dtypes[d], (1 << 20) + 3);
            moves(p, parity_dtypes[d], 3072, 1023);
            fakes(p, parity_dtypes[d], 1025, 3072);
        }
    }
    moves(p, CADRE_I32, 33, 65);
}
