/* SPDX-License-Identifier: Apache-2.0 */
/* Element-wise kernels and the optimizers. Included once per copy by kernels_all.h. */
#ifndef CADRE_DEVICE_CPU_KERNELS_POINTWISE_H
#define CADRE_DEVICE_CPU_KERNELS_POINTWISE_H

#include "core/device/cpu/kernels_real.h"

static void bias_rows(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_bias_args *a = args;
    const real *bias = a->bias;
    for (int64_t row = begin; row < end; row++) {
        real *c = (real *)a->c + row * a->ldc;
        real *aux = a->aux ? (real *)a->aux + row * a->ldc : c;
        if (bias) {
            SIMD
            for (int64_t j = 0; j < a->columns; j++)
                c[j] += bias[j];
        }
        if (!a->gelu)
            continue;
        if (a->aux)
            memcpy(aux, c, (size_t)a->columns * sizeof *aux);
        SIMD
        for (int64_t j = 0; j < a->columns; j++)
            c[j] = gelu(c[j]);
    }
}

static void gelu_bwd(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_pointwise_args *a = args;
    const real *x = a->x, *dy = a->dy;
    real *dx = a->y;
    SIMD
    for (int64_t i = begin; i < end; i++)
        dx[i] = dy[i] * gelu_slope(x[i]);
}

static void swiglu_fwd(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_pointwise_args *a = args;
    const real *gate = a->x, *up = a->up;
    real *y = a->y;
    SIMD
    for (int64_t i = begin; i < end; i++)
        y[i] = gate[i] * sigmoid(gate[i]) * up[i];
}

static void swiglu_bwd(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_pointwise_args *a = args;
    const real *gate = a->x, *up = a->up, *dy = a->dy;
    real *dgate = a->y, *dup = a->dup;
    SIMD
    for (int64_t i = begin; i < end; i++) {
        real g = gate[i], u = up[i], d = dy[i];
        real s = sigmoid(g);
        dup[i] = d * (g * s);
        dgate[i] = d * u * (s + g * s * (REAL(1.0) - s));
    }
}

static void add(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_add_args *a = args;
    const int64_t C = a->channels;
    const real *bias = a->bias;
    for (int64_t row = begin; row < end; row++) {
        const real *x = (const real *)a->a + row * C;
        const real *b = a->b ? (const real *)a->b + row * C : NULL;
        real *y = (real *)a->y + row * C;
        if (bias && b) {
            SIMD
            for (int64_t c = 0; c < C; c++)
                y[c] = x[c] + bias[c] + b[c];
        } else if (bias || b) {
            const real *other = bias ? bias : b;
            SIMD
            for (int64_t c = 0; c < C; c++)
                y[c] = x[c] + other[c];
        } else if (y != x) {
            memmove(y, x, (size_t)C * sizeof *y);
        }
    }
}

/* Pair (i, i + D/2) of each head of a token turns by the table's angle. */
static void rope(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_rope_args *a = args;
    const int64_t pairs = a->pairs;
    const real sign = a->inverse ? REAL(-1.0) : REAL(1.0);
    for (int64_t row = begin; row < end; row++) {
        const real *turn = (const real *)a->table + row % a->time * pairs * 2;
        const real *cosine = turn, *sine = turn + pairs;
        for (int64_t h = 0; h < a->heads; h++) {
            real *x = (real *)a->x + row * a->ld + h * pairs * 2;
            real *y = x + pairs;
            SIMD
            for (int64_t i = 0; i < pairs; i++) {
                real p = x[i], q = y[i], s = sign * sine[i];
                x[i] = p * cosine[i] - q * s;
                y[i] = q * cosine[i] + p * s;
            }
        }
    }
}

static void adamw(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_adamw_args *job = args;
    const struct cadre_adamw *a = job->op;
    real *param = job->slice->param, *m = job->slice->exp_avg;
    real *v = job->slice->exp_avg_sq;
    const real *grad = job->slice->grad;
    const double decay1 = a->held ? 0.0 : a->beta1, decay2 = a->held ? 1.0 : a->beta2;
    const double correction1 = 1.0 - pow(decay1, (double)a->step);
    const double correction2 =
        1.0 - pow(a->beta2, (double)(a->held ? a->held : a->step));
    const real beta1 = (real)decay1, rest1 = (real)(1.0 - decay1);
    const real beta2 = (real)decay2, rest2 = (real)(1.0 - decay2);
    const real step_size = (real)(a->lr / correction1);
    const real root = (real)sqrt(correction2), eps = (real)a->eps;
    const real keep = (real)(1.0 - a->lr * job->slice->weight_decay);
    const real grad_scale = (real)*a->grad_scale;
    SIMD
    for (int64_t i = begin; i < end; i++) {
        real g = grad[i] * grad_scale;
        real first = beta1 * m[i] + rest1 * g;
        real second = beta2 * v[i] + rest2 * g * g;
        m[i] = first;
        v[i] = second;
        param[i] =
            param[i] * keep - step_size * first / (real_sqrt(second) / root + eps);
    }
}

static void sgd(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_sgd_args *job = args;
    const struct cadre_sgd *a = job->op;
    real *param = job->slice->param, *buf = job->slice->exp_avg;
    const real *grad = job->slice->grad;
    const real lr = (real)a->lr, momentum = (real)a->momentum;
    const real decay = (real)job->slice->weight_decay;
    const real grad_scale = (real)*a->grad_scale;
    if (!buf) {
        SIMD
        for (int64_t i = begin; i < end; i++)
            param[i] -= lr * (grad[i] * grad_scale + decay * param[i]);
        return;
    }
    SIMD
    for (int64_t i = begin; i < end; i++) {
        real moved = momentum * buf[i] + (grad[i] * grad_scale + decay * param[i]);
        buf[i] = moved;
        param[i] -= lr * moved;
    }
}

static void scale(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_scale_args *a = args;
    real *x = a->x;
    const real by = (real)a->by;
    SIMD
    for (int64_t i = begin; i < end; i++)
        x[i] *= by;
}

static void tree_add(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_add_args *a = args;
    const real *x = a->a, *b = a->b;
    real *y = a->y;
    SIMD
    for (int64_t i = begin; i < end; i++)
        y[i] = x[i] + b[i];
}

static void maximum(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_add_args *a = args;
    const real *x = a->a, *b = a->b;
    real *y = a->y;
    SIMD
    for (int64_t i = begin; i < end; i++)
        y[i] = b[i] > x[i] || b[i] != b[i] ? b[i] : x[i];
}

/* Each chunk: 16 sums in double, added by a tree. */
static void sum_squares(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_squares_args *a = args;
    for (int64_t chunk = begin; chunk < end; chunk++) {
        const int64_t first = chunk * CADRE_NORM_CHUNK;
        const int64_t left = a->count - first;
        const int64_t n = left < CADRE_NORM_CHUNK ? left : CADRE_NORM_CHUNK;
        const real *x = (const real *)a->x + first;
        double lane[LANES] = {0};
        int64_t i = 0;
        for (; i + LANES <= n; i += LANES) {
            __builtin_prefetch(x + i +
                               1024); /* the hardware prefetcher stops at each page */
            SIMD
            for (int l = 0; l < LANES; l++)
                lane[l] += (double)x[i + l] * (double)x[i + l];
        }
        for (int l = 0; i + l < n; l++)
            lane[l] += (double)x[i + l] * (double)x[i + l];
        TREE(lane, SUM)
        a->sums[chunk] = lane[0];
    }
}

#endif
