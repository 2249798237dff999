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
/* The loop's iterations are independent; they vectorise at any -O level. */
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

/* exp to 1.5 ulp, vectorisable: x = n ln 2 + r, a polynomial in r (minimax, its error
 * 3e-9), and 2^n. Below -87.6 it is 0; beyond 88 it is at least 1e38, which only needs
 * to be large. NaN stays NaN, infinity becomes it. */
INLINE float real_exp(float x)
{
    x = x < -88.0f ? -88.0f : x;
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    float shifted = x * 1.44269504f + magic;
    float n = shifted - magic;
    float r = x - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    float p = 1.3813161e-3f;
    p = p * r + 8.36941e-3f;
    p = p * r + 4.1668456e-2f;
    p = p * r + 1.6666515e-1f;
    p = p * r + 4.9999994e-1f;
    float y = p * (r * r) + r + 1.0f;
    int32_t bits; /* n is in the low ones; of n = -127 the factor is 0 */
    memcpy(&bits, &shifted, sizeof bits);
    bits = bits < 0x4b400000 + 127 ? bits : 0x4b400000 + 127;
    bits = (int32_t)((uint32_t)(bits + 127) << 23);
    float factor;
    memcpy(&factor, &bits, sizeof factor);
    return y * factor;
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

#define HALVE(lane, half, JOIN)                                                        \
    SIMD                                                                               \
    for (int l = 0; l < (half); l++)                                                   \
        (lane)[l] = JOIN((lane)[l], (lane)[l + (half)]);
/* A tree over 16 lanes; the first gets the total. */
#define TREE(lane, JOIN)                                                               \
    HALVE(lane, 8, JOIN)                                                               \
    HALVE(lane, 4, JOIN)                                                               \
    HALVE(lane, 2, JOIN)                                                               \
    (lane)[0] = JOIN((lane)[0], (lane)[1]);
#define SUM(a, b) ((a) + (b))
#define LARGER(a, b) ((a) > (b) ? (a) : (b))

/* Lane l holds the sum of its elements; the first `rest` lanes have one element
 * more. */
INLINE real lanes_total(real *lane)
{
    TREE(lane, SUM)
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

#if CADRE_REAL_BITS == 64
typedef int64_t bits_vector __attribute__((vector_size(VECTOR_BYTES)));
#else
typedef int32_t bits_vector __attribute__((vector_size(VECTOR_BYTES)));
#endif

INLINE real_vector larger(real_vector a, real_vector b)
{
    const bits_vector first = a > b;
    return (real_vector)(((bits_vector)a & first) | ((bits_vector)b & ~first));
}

/* The largest of n >= 1 values; a NaN may be ignored. */
INLINE real row_max(const real *x, int64_t n)
{
    real best = x[0];
    int64_t i = 0;
    if (n >= LANES) {
        union lanes most;
        for (int v = 0; v < VECTORS; v++)
            most.vector[v] = AT_VECTOR(x);
        for (; i + LANES <= n; i += LANES)
            for (int v = 0; v < VECTORS; v++)
                most.vector[v] = larger(AT_VECTOR(x), most.vector[v]);
        TREE(most.lane, LARGER)
        best = most.lane[0];
    }
    for (; i < n; i++)
        best = LARGER(x[i], best);
    return best;
}

INLINE real sigmoid(real x)
{
    return REAL(1.0) / (REAL(1.0) + real_exp(-x));
}

/* 2 u of gelu(x) = x (1 + tanh(u)) / 2 is x (A + B x^2). */
#define GELU_A REAL(1.5957691216057307117) /* 2 sqrt(2 / pi) */
#define GELU_B REAL(0.0713548162726009135) /* 0.044715 of it */

/* x^2, clamped where it makes no difference: the exponent is finite up to |x| of
 * 1e35. */
INLINE real gelu_square(real x)
{
    const real square = x * x;
    return square < REAL(1e4) ? square : REAL(1e4);
}

/* x (1 + tanh(u)) / 2 = x sigmoid(2 u): no cancellation where x is negative. */
INLINE real gelu(real x)
{
    return x / (REAL(1.0) + real_exp(x * (-GELU_A - GELU_B * gelu_square(x))));
}

INLINE real gelu_slope(real x)
{
    const real square = gelu_square(x);
    const real s = sigmoid(x * (GELU_A + GELU_B * square));
    return s + x * (s * (REAL(1.0) - s)) * (GELU_A + REAL(3.0) * GELU_B * square);
}

#endif
