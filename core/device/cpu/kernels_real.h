/* SPDX-License-Identifier: Apache-2.0 */
/* The real type of a copy of the kernels, its vectors, sums and exponential. Included
 * once by kernels_f32.c and kernels_f64.c, which define CADRE_REAL_BITS. */
#ifndef CADRE_DEVICE_CPU_KERNELS_REAL_H
#define CADRE_DEVICE_CPU_KERNELS_REAL_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/device/cpu/kernels.h"
#include "core/device/device.h"

#define INLINE static inline __attribute__((always_inline))
#define PRAGMA(text) _Pragma(#text)
/* The loop's iterations are independent; they vectorise whatever -O says. */
#define SIMD PRAGMA(omp simd)

#if CADRE_REAL_BITS == 64
typedef double real;
#define REAL(x) x
#define real_sqrt sqrt
#define real_log log
#define real_exp exp /* of libm: fp64 is the reference */
#else
typedef float real;
#define REAL(x) x##f
#define real_sqrt sqrtf
#define real_log logf

/* exp to 1.5 ulp, vectorisable: x = n ln 2 + r, a polynomial in r, and 2^n in two
 * factors so that the ends of the range and subnormal results come out right. NaN stays
 * NaN. */
INLINE float real_exp(float x)
{
    x = x > 89.0f ? 89.0f : x;
    x = x < -104.0f ? -104.0f : x;
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    float shifted = x * 1.44269504f + magic;
    float n = shifted - magic;
    int32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    int32_t whole = bits - 0x4b400000;
    float r = x - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    float y = p * (r * r) + r + 1.0f;
    int32_t half = whole >> 1, rest = whole - half;
    int32_t bits1 = (int32_t)((uint32_t)(half + 127) << 23);
    int32_t bits2 = (int32_t)((uint32_t)(rest + 127) << 23);
    float scale1, scale2;
    memcpy(&scale1, &bits1, sizeof scale1);
    memcpy(&scale2, &bits2, sizeof scale2);
    return y * scale1 * scale2;
}
#endif

/* 16 running sums in vectors of the machine's width. Sums of fp32 rows run in fp32:
 * with 16 lanes and a tree the error grows as the row's length over 16. */
#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif
#define LANES 16
#define WIDTH ((int)(VECTOR_BYTES / sizeof(real)))
#define VECTORS (LANES / WIDTH)

typedef real real_vector
    __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(real)), may_alias));

/* Lane l holds what its elements gave; the first `rest` lanes one element more. */
INLINE real lanes_total(real *lane)
{
    for (int half = LANES / 2; half >= 1; half /= 2) {
        for (int l = 0; l < half; l++)
            lane[l] += lane[l + half];
    }
    return lane[0];
}

#define AT_VECTOR(p) (*(const real_vector *)((p) + i + v * WIDTH))
#define AT_SCALAR(p) ((p)[i + l])

union lanes {
    real_vector vector[VECTORS];
    real lane[LANES];
};

/* total = the sum of TERM over n elements; TERM(AT) is an expression in AT(pointer). */
#define SUM_ROW(total, n, TERM)                                                        \
    real_vector sum_[VECTORS] = {{0}};                                                 \
    union lanes lanes_;                                                                \
    int64_t i = 0;                                                                     \
    for (; i + LANES <= (n); i += LANES) {                                             \
        PRAGMA(GCC unroll 8)                                                           \
        for (int v = 0; v < VECTORS; v++)                                              \
            sum_[v] += TERM(AT_VECTOR);                                                \
    }                                                                                  \
    for (int v = 0; v < VECTORS; v++)                                                  \
        lanes_.vector[v] = sum_[v];                                                    \
    for (int l = 0; i + l < (n); l++)                                                  \
        lanes_.lane[l] += TERM(AT_SCALAR);                                             \
    const real total = lanes_total(lanes_.lane)

/* The largest of n >= 1 values; a NaN may be passed over. */
INLINE real row_max(const real *x, int64_t n)
{
    real best = x[0];
    PRAGMA(omp simd reduction(max : best))
    for (int64_t i = 1; i < n; i++)
        best = x[i] > best ? x[i] : best;
    return best;
}

INLINE real sigmoid(real x)
{
    return REAL(1.0) / (REAL(1.0) + real_exp(-x));
}

#define GELU_A REAL(0.7978845608028653559) /* sqrt(2 / pi) */
#define GELU_B REAL(0.044715)

/* x * (1 + tanh(u)) / 2 = x * sigmoid(2 u): no cancellation where x is negative. */
INLINE real gelu(real x)
{
    return x * sigmoid(REAL(2.0) * GELU_A * (x + GELU_B * x * x * x));
}

INLINE real gelu_slope(real x)
{
    real s = sigmoid(REAL(2.0) * GELU_A * (x + GELU_B * x * x * x));
    real du = REAL(2.0) * GELU_A * (REAL(1.0) + REAL(3.0) * GELU_B * x * x);
    return s + x * s * (REAL(1.0) - s) * du;
}

#endif
