/* SPDX-License-Identifier: Apache-2.0 */
/* The ops of gradient compression. */
#include <math.h>
#include <stdio.h>

#include "tests/device/cuda/parity.h"
#include "tests/device/op_testing.h"

struct extent {
    int64_t count, k; /* or a block, or rows and columns */
    bool bad; /* with non-finite values */
};

/* ---- topk, scatter_add ---- */

static cadre_status run_topk(struct cadre_device *device, uint32_t dtype, void **p,
                             const void *ctx)
{
    const struct extent *c = ctx;
    return device->ops->topk(device, dtype, p[0], c->count, c->k, p[1], p[2]);
}

/* Few values, so that many are equal. */
static void fill_topk(const void *ctx, int arg, double *x, int64_t count)
{
    const struct extent *c = ctx;
    for (int64_t i = 0; arg == 0 && i < count; i++)
        x[i] = floor(x[i] * 8) / 8;
    if (c->bad && arg == 0) {
        x[count / 2] = NAN;
        x[count / 3] = -INFINITY;
    }
}

static void compare_topk(struct parity *p, uint32_t dtype, struct extent extent)
{
    char name[64];
    snprintf(name, sizeof name, "topk, %lld of %lld", (long long)extent.k,
             (long long)extent.count);
    const struct parity_case c = {
        .name = name,
        .calls = {PARITY_ENTRY(topk)},
        .dtype = dtype,
        .args = {{PARITY_OP, 1, extent.count, .seed = 1},
                 {PARITY_OP, 1, extent.k, .out = true, .bits = true},
                 {CADRE_I32, 1, extent.k, .out = true, .bits = true}},
        .run = run_topk,
        .ctx = &extent,
        .fill = fill_topk,
    };
    parity_hold(p, &c);
}

static cadre_status run_scatter(struct cadre_device *device, uint32_t dtype, void **p,
                                const void *ctx)
{
    const struct extent *c = ctx;
    return device->ops->scatter_add(device, dtype, p[0], c->count, p[1], p[2], c->k,
                                    0.3);
}

/* Distinct indices: 7 is coprime to the counts. */
static void fill_scatter(const void *ctx, int arg, double *x, int64_t count)
{
    const struct extent *c = ctx;
    for (int64_t i = 0; arg == 2 && i < count; i++)
        x[i] = (double)(i * 7 % c->count);
}

static void compare_scatter(struct parity *p, uint32_t dtype, struct extent extent)
{
    char name[64];
    snprintf(name, sizeof name, "scatter_add, %lld of %lld", (long long)extent.k,
             (long long)extent.count);
    const struct parity_case c = {
        .name = name,
        .calls = {PARITY_ENTRY(scatter_add)},
        .dtype = dtype,
        .args = {{PARITY_OP, 1, extent.count, .seed = 1, .out = true, .bits = true,
                  .sum = 3, .floor = 1},
                 {PARITY_OP, 1, extent.k, .seed = 2},
                 {CADRE_I32, 1, extent.k, .seed = 3}},
        .run = run_scatter,
        .ctx = &extent,
        .fill = fill_scatter,
    };
    parity_hold(p, &c);
}

/* An index outside is an error of the call, on both devices, and writes nothing. */
static void scatter_outside(struct parity *p, int32_t index)
{
    const struct cadre_device_ops *ops = p->gpu->ops;
    const float start[4] = {1, 2, 3, 4};
    const int32_t indices[2] = {1, index};
    float x[4] = {0};
    float *data = ops->alloc(p->gpu, sizeof start);
    int32_t *places = ops->alloc(p->gpu, sizeof indices);
    ops->to_device(p->gpu, data, start, sizeof start);
    ops->to_device(p->gpu, places, indices, sizeof indices);
    const cadre_status rc =
        ops->scatter_add(p->gpu, CADRE_F32, data, 4, data, places, 2, 1);
    ops->to_host(p->gpu, x, data, sizeof x);
    ops->free(p->gpu, data);
    ops->free(p->gpu, places);
    parity_expect(p, PARITY_ENTRY(scatter_add), CADRE_F32,
                  rc == CADRE_E_DEVICE && x[0] == 1 && x[1] == 2 && x[3] == 4,
                  "scatter_add refuses an index outside");
}

/* ---- quantize, dequantize ---- */

static cadre_status run_quantize(struct cadre_device *device, uint32_t dtype, void **p,
                                 const void *ctx)
{
    const struct extent *c = ctx;
    return device->ops->quantize(device, dtype, p[0], c->count, c->k, p[1], p[2]);
}

static cadre_status run_dequantize(struct cadre_device *device, uint32_t dtype,
                                   void **p, const void *ctx)
{
    const struct extent *c = ctx;
    return device->ops->dequantize(device, p[0], p[1], c->k, dtype, p[2], c->count);
}

/* Blocks of zeros, of tiny numbers, of half steps, with NaN, infinity and values beyond
 * f32. */
static void fill_quantize(const void *ctx, int arg, double *x, int64_t count)
{
    static const double specials[] = {NAN, INFINITY, 1e300, -INFINITY};
    const struct extent *c = ctx;
    for (int64_t i = 0; arg == 0 && i < count; i++) {
        const int64_t block = i / c->k;
        if (c->bad && block % 8 == 1)
            x[i] = 0;
        if (c->bad && block % 8 == 3)
            x[i] *= 1e-40;
        if (c->bad && block % 8 == 5)
            x[i] = i % c->k == 0 ? 127 : floor(x[i] * 200) / 2;
        if (c->bad && block % 8 == 7 && i % c->k == c->k / 2)
            x[i] = specials[block / 8 % 4];
    }
}

static void compare_quantize(struct parity *p, uint32_t dtype, struct extent extent)
{
    const int64_t blocks = (extent.count + extent.k - 1) / extent.k;
    char name[64];
    snprintf(name, sizeof name, "quantize, %lld by %lld", (long long)extent.count,
             (long long)extent.k);
    const struct parity_case there = {
        .name = name,
        .calls = {PARITY_ENTRY(quantize)},
        .dtype = dtype,
        .args = {{PARITY_OP, 1, extent.count, .seed = 1},
                 {CADRE_I8, 1, extent.count, .out = true, .bits = true},
                 {CADRE_F32, 1, blocks, .out = true, .bits = true}},
        .run = run_quantize,
        .ctx = &extent,
        .fill = fill_quantize,
        .bits_only = true, /* a tie in f32 is none in f64 */
    };
    const struct parity_case back = {
        .name = name,
        .calls = {PARITY_ENTRY(dequantize)},
        .dtype = dtype,
        .args = {{CADRE_I8, 1, extent.count, .seed = 1, .range = 127},
                 {CADRE_F32, 1, blocks, .seed = 2},
                 {PARITY_OP, 1, extent.count, .out = true, .bits = true, .sum = 1}},
        .run = run_dequantize,
        .ctx = &extent,
    };
    parity_hold(p, &there);
    parity_hold(p, &back);
}

/* ---- orthonormalize ---- */

static cadre_status run_basis(struct cadre_device *device, uint32_t dtype, void **p,
                              const void *ctx)
{
    const struct extent *c = ctx;
    return device->ops->orthonormalize(device, dtype, p[0], c->count, c->k);
}

/* A column of zeros becomes a coordinate direction; NaN remains, and in all later
 * columns. */
static void fill_basis(const void *ctx, int arg, double *x, int64_t count)
{
    const struct extent *c = ctx;
    (void)arg;
    for (int64_t i = 0; i < count && c->k > 2; i += c->k)
        x[i + c->k / 2] = 0;
    if (c->bad)
        x[c->count / 2 * c->k + 1] = NAN;
}

/* Random columns are far from dependent: each projection of a column loses a unit of
 * its length. */
static void compare_basis(struct parity *p, uint32_t dtype, struct extent extent)
{
    char name[64];
    snprintf(name, sizeof name, "orthonormalize, %lld x %lld", (long long)extent.count,
             (long long)extent.k);
    const struct parity_case c = {
        .name = name,
        .calls = {PARITY_ENTRY(orthonormalize)},
        .dtype = dtype,
        .args = {{PARITY_OP, extent.count, extent.k, .seed = 1, .out = true,
                  .sum = 8 + 2 * sqrt((double)extent.count), .narrow = 4,
                  .magnitude = PARITY_ROW, .floor = 0.5}},
        .run = run_basis,
        .ctx = &extent,
        .fill = fill_basis,
    };
    parity_hold(p, &c);
}

/* ---- all ---- */

static void of_dtype(struct parity *p, uint32_t t)
{
    static const struct extent top[] = {{1, 1, false},    {17, 3, false},
                                        {257, 257, true}, {4500, 777, true},
                                        {1025, 1, false}, {129, 64, true}};
    static const struct extent blocks[] = {{1, 1, false},
                                           {33, 7, true},
                                           {2051, 64, true},
                                           {257, 300, false},
                                           {1023, 129, true}};
    static const struct extent bases[] = {
        {1, 1, false}, {17, 3, false}, {129, 4, false}, {33, 4, true}};
    static const struct extent large[] = {{9001, 777, true},
                                          {100003, 1000, true},
                                          {1 << 18, 1 << 17, false},
                                          {50257 * 9, 4096, false}};
    for (size_t i = 0; i < sizeof top / sizeof *top; i += p->lean ? 2 : 1) {
        compare_topk(p, t, top[i]);
        compare_scatter(p, t, top[i]);
    }
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        compare_quantize(p, t, blocks[i]);
    for (size_t i = 0; i < sizeof bases / sizeof *bases; i += p->lean ? 2 : 1)
        compare_basis(p, t, bases[i]);
    for (size_t i = 0; i < sizeof large / sizeof *large && p->real; i++) {
        compare_topk(p, t, large[i]);
        compare_scatter(p, t, large[i]);
        compare_quantize(p, t, large[i]);
    }
    if (p->real)
        compare_basis(p, t, (struct extent){4096, 16, false});
    if (p->real)
        compare_basis(p, t, (struct extent){50257, 4, false});
}

void parity_compression(struct parity *p)
{
    for (int d = 0; d < 4; d++)
        of_dtype(p, parity_dtypes[d]);
    scatter_outside(p, 4);
    scatter_outside(p, -1);
}
