/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels on the vectors of optimizers. Included once per copy by kernels_all.h. */
#ifndef CADRE_DEVICE_CPU_KERNELS_VECTOR_H
#define CADRE_DEVICE_CPU_KERNELS_VECTOR_H

#include "core/device/cpu/kernels_real.h"

static void axpby(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_axpby_args *a = args;
    const real *x = a->x;
    real *y = a->y;
    const real of_x = (real)a->a, of_y = (real)a->b;
    SIMD
    for (int64_t i = begin; i < end; i++)
        y[i] = of_x * x[i] + of_y * y[i];
}

static void mul(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_add_args *a = args;
    const real *x = a->a, *b = a->b;
    real *y = a->y;
    SIMD
    for (int64_t i = begin; i < end; i++)
        y[i] = x[i] * b[i];
}

static void inverse_root(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_rsqrt_args *a = args;
    real *x = a->x;
    const real eps = (real)a->eps;
    SIMD
    for (int64_t i = begin; i < end; i++)
        x[i] = REAL(1.0) / (real_sqrt(x[i]) + eps);
}

/* Each chunk: 16 sums in double, added by a tree. */
static void dot(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_dot_args *a = args;
    for (int64_t chunk = begin; chunk < end; chunk++) {
        const int64_t first = chunk * CADRE_NORM_CHUNK;
        const int64_t left = a->count - first;
        const int64_t n = left < CADRE_NORM_CHUNK ? left : CADRE_NORM_CHUNK;
        const real *x = (const real *)a->x + first, *y = (const real *)a->y + first;
        double lane[LANES] = {0};
        int64_t i = 0;
        for (; i + LANES <= n; i += LANES) {
            SIMD
            for (int l = 0; l < LANES; l++)
                lane[l] += (double)x[i + l] * (double)y[i + l];
        }
        for (int l = 0; i + l < n; l++)
            lane[l] += (double)x[i + l] * (double)y[i + l];
        TREE(lane, SUM)
        a->sums[chunk] = lane[0];
    }
}

#endif
