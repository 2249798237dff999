/* SPDX-License-Identifier: Apache-2.0 */
/* Updates of a slice beside AdamW and SGD: Lion, and AdamW with states of 8 bits. */
#ifndef CADRE_DEVICE_CPU_KERNELS_OPTIM_H
#define CADRE_DEVICE_CPU_KERNELS_OPTIM_H

#include "core/device/cpu/kernels_real.h"

static void lion(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_lion_args *job = args;
    const struct cadre_lion *a = job->op;
    real *param = job->slice->param, *m = job->slice->exp_avg;
    const real *grad = job->slice->grad;
    const real beta1 = (real)a->beta1, rest1 = (real)(1.0 - a->beta1);
    const real beta2 = (real)a->beta2, rest2 = (real)(1.0 - a->beta2);
    const real keep = (real)(1.0 - a->lr * job->slice->weight_decay);
    const real lr = (real)a->lr, grad_scale = (real)*a->grad_scale;
    SIMD
    for (int64_t i = begin; i < end; i++) {
        real g = grad[i] * grad_scale;
        real c = beta1 * m[i] + rest1 * g;
        real up = c > 0 ? lr : REAL(0.0), down = c < 0 ? lr : REAL(0.0);
        m[i] = beta2 * m[i] + rest2 * g;
        param[i] = param[i] * keep - (up - down);
    }
}

/* ---- states of 8 bits ---- */

/* The number of middles below x: a bisection of 8 steps. */
INLINE int code_of(const real *middle, real x)
{
    int code = 0;
    for (int step = 128; step > 0; step /= 2)
        code += x > middle[code + step - 1] ? step : 0;
    return code;
}

/* Codes of x (n) for its largest magnitude, which is returned; at least `least` where x
 * is not 0. */
INLINE real encode_block(uint8_t *code, const real *x, int64_t n, const real *middle,
                         int least)
{
    real top = 0;
    for (int64_t i = 0; i < n; i++) {
        const real size = x[i] < 0 ? -x[i] : x[i];
        top = size > top ? size : top;
    }
    const real scale = top > 0 ? top : REAL(1.0);
    for (int64_t i = 0; i < n; i++) {
        const int found = code_of(middle, x[i] / scale);
        code[i] = (uint8_t)(found < least && x[i] != 0 ? least : found);
    }
    return top;
}

static void adamw8(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_adamw8_args *job = args;
    const struct cadre_adamw *a = job->op;
    real *absmax1 = job->absmax->first, *absmax2 = job->absmax->second;
    const real *value1 = job->value[0], *value2 = job->value[1];
    const double correction1 = 1.0 - pow(a->beta1, (double)a->step);
    const double correction2 = 1.0 - pow(a->beta2, (double)a->step);
    const real beta1 = (real)a->beta1, rest1 = (real)(1.0 - a->beta1);
    const real beta2 = (real)a->beta2, rest2 = (real)(1.0 - a->beta2);
    const real step_size = (real)(a->lr / correction1);
    const real root = (real)sqrt(correction2), eps = (real)a->eps;
    const real keep = (real)(1.0 - a->lr * job->slice->weight_decay);
    const real grad_scale = (real)*a->grad_scale;
    real first[CADRE_ADAMW8_BLOCK], second[CADRE_ADAMW8_BLOCK];
    for (int64_t block = begin; block < end; block++) {
        const int64_t at = block * CADRE_ADAMW8_BLOCK, left = job->slice->count - at;
        const int64_t n = left < CADRE_ADAMW8_BLOCK ? left : CADRE_ADAMW8_BLOCK;
        uint8_t *m = (uint8_t *)job->slice->exp_avg + at;
        uint8_t *v = (uint8_t *)job->slice->exp_avg_sq + at;
        real *param = (real *)job->slice->param + at;
        const real *grad = (const real *)job->slice->grad + at;
        SIMD
        for (int64_t i = 0; i < n; i++) {
            real g = grad[i] * grad_scale;
            first[i] = beta1 * (value1[m[i]] * absmax1[block]) + rest1 * g;
            second[i] = beta2 * (value2[v[i]] * absmax2[block]) + rest2 * g * g;
            param[i] = param[i] * keep -
                       step_size * first[i] / (real_sqrt(second[i]) / root + eps);
        }
        absmax1[block] = encode_block(m, first, n, job->middle[0], 0);
        absmax2[block] = encode_block(v, second, n, job->middle[1], 1);
    }
}

#endif
