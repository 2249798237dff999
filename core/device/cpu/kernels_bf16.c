/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that read and write bf16 and compute in f32 registers: the same bits as
 * half.c's route through scratch, without its extra passes. */
#define CADRE_REAL_BITS 32
#include "core/device/cpu/kernels_bf16.h"
#include "core/device/cpu/kernels_real.h"

#define W f32_from_bf16
#define R bf16_from_f32

/* Longer computations run on f32 rows of this length: loops over two widths at once run
 * out of registers. */
enum { BLOCK = 256 };

INLINE int64_t block_at(int64_t at, int64_t end)
{
    return end - at < BLOCK ? end - at : BLOCK;
}

INLINE void widen(float *dst, const uint16_t *src, int64_t n)
{
    SIMD
    for (int64_t i = 0; i < n; i++)
        dst[i] = W(src[i]);
}

INLINE void narrow(uint16_t *dst, const float *src, int64_t n)
{
    SIMD
    for (int64_t i = 0; i < n; i++)
        dst[i] = R(src[i]);
}

INLINE void gelu_row(const float *c, const uint16_t *bias, uint16_t *aux, uint16_t *out,
                     int64_t columns)
{
    float x[BLOCK];
    for (int64_t at = 0; at < columns; at += BLOCK) {
        const int64_t n = block_at(at, columns);
        if (bias) {
            SIMD
            for (int64_t j = 0; j < n; j++)
                x[j] = c[at + j] + W(bias[at + j]);
        } else {
            memcpy(x, c + at, (size_t)n * sizeof *x);
        }
        if (aux)
            narrow(aux + at, x, n);
        SIMD
        for (int64_t j = 0; j < n; j++)
            x[j] = gelu(x[j]);
        narrow(out + at, x, n);
    }
}

static void finish(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_finish_args *a = args;
    const uint16_t *bias = a->bias;
    const int64_t n = a->columns;
    for (int64_t row = begin; row < end; row++) {
        const float *c = a->c + row * n;
        uint16_t *out = a->out + row * a->ld;
        if (a->gelu) {
            gelu_row(c, bias, a->aux ? a->aux + row * a->ld : NULL, out, n);
        } else if (bias) {
            SIMD
            for (int64_t j = 0; j < n; j++)
                out[j] = R(c[j] + W(bias[j]));
        } else {
            SIMD
            for (int64_t j = 0; j < n; j++)
                out[j] = R(c[j]);
        }
    }
}

static void gelu_bwd(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_pointwise_args *a = args;
    float x[BLOCK], dy[BLOCK];
    for (int64_t at = begin; at < end; at += BLOCK) {
        const int64_t n = block_at(at, end);
        widen(x, (const uint16_t *)a->x + at, n);
        widen(dy, (const uint16_t *)a->dy + at, n);
        SIMD
        for (int64_t i = 0; i < n; i++)
            x[i] = dy[i] * gelu_slope(x[i]);
        narrow((uint16_t *)a->y + at, x, n);
    }
}

static void swiglu_fwd(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_pointwise_args *a = args;
    float gate[BLOCK], up[BLOCK];
    for (int64_t at = begin; at < end; at += BLOCK) {
        const int64_t n = block_at(at, end);
        widen(gate, (const uint16_t *)a->x + at, n);
        widen(up, (const uint16_t *)a->up + at, n);
        SIMD
        for (int64_t i = 0; i < n; i++)
            gate[i] = gate[i] * sigmoid(gate[i]) * up[i];
        narrow((uint16_t *)a->y + at, gate, n);
    }
}

static void swiglu_bwd(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_pointwise_args *a = args;
    float gate[BLOCK], up[BLOCK], dy[BLOCK];
    for (int64_t at = begin; at < end; at += BLOCK) {
        const int64_t n = block_at(at, end);
        widen(gate, (const uint16_t *)a->x + at, n);
        widen(up, (const uint16_t *)a->up + at, n);
        widen(dy, (const uint16_t *)a->dy + at, n);
        SIMD
        for (int64_t i = 0; i < n; i++) {
            const float g = gate[i], u = up[i], d = dy[i], s = sigmoid(g);
            up[i] = d * (g * s);
            gate[i] = d * u * (s + g * s * (REAL(1.0) - s));
        }
        narrow((uint16_t *)a->dup + at, up, n);
        narrow((uint16_t *)a->y + at, gate, n);
    }
}

static void add(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_add_args *a = args;
    const int64_t C = a->channels;
    const uint16_t *bias = a->bias;
    for (int64_t row = begin; row < end; row++) {
        const uint16_t *x = (const uint16_t *)a->a + row * C;
        const uint16_t *b = a->b ? (const uint16_t *)a->b + row * C : NULL;
        const uint16_t *other = bias ? bias : b;
        uint16_t *y = (uint16_t *)a->y + row * C;
        if (bias && b) {
            SIMD
            for (int64_t c = 0; c < C; c++)
                y[c] = R(W(x[c]) + W(bias[c]) + W(b[c]));
        } else if (other) {
            SIMD
            for (int64_t c = 0; c < C; c++)
                y[c] = R(W(x[c]) + W(other[c]));
        } else if (y != x) {
            memmove(y, x, (size_t)C * sizeof *y);
        }
    }
}

static void bias_bwd(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_columns_args *a = args;
    const int64_t C = a->columns;
    for (int64_t group = begin; group < end; group++) {
        float *db = (float *)a->partial + group * C;
        const int64_t first = group * CADRE_ROW_GROUP, left = a->rows - first;
        const int64_t last = first + (left < CADRE_ROW_GROUP ? left : CADRE_ROW_GROUP);
        memset(db, 0, (size_t)C * sizeof *db);
        for (int64_t row = first; row < last; row++) {
            const uint16_t *dy = (const uint16_t *)a->dy + row * C;
            SIMD
            for (int64_t c = 0; c < C; c++)
                db[c] += W(dy[c]);
        }
    }
}

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

const struct cadre_cpu_bf16 JOIN(cadre_bf16_, CADRE_ISA) = {.finish = finish,
                                                            .gelu_bwd = gelu_bwd,
                                                            .swiglu_fwd = swiglu_fwd,
                                                            .swiglu_bwd = swiglu_bwd,
                                                            .add = add,
                                                            .bias_bwd = bias_bwd};
