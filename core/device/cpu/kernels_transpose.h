/* SPDX-License-Identifier: Apache-2.0 */
/* A square of WIDTH x WIDTH elements from rows to columns, in registers where the
 * processor has vectors for it. Included once per copy by kernels_product.h. */
#ifndef CADRE_DEVICE_CPU_KERNELS_TRANSPOSE_H
#define CADRE_DEVICE_CPU_KERNELS_TRANSPOSE_H

#include "core/device/cpu/kernels_real.h"

#if defined(__AVX2__)
#include <immintrin.h>

/* SHORT elements lie in 128 bits, of which a vector has QUARTERS. */
enum { SHORT = 16 / sizeof(real), QUARTERS = VECTOR_BYTES / 16 };

#if defined(__AVX512F__)
#define OF(name) _mm512_##name
typedef __m512d pairs;
typedef __m512 singles;
#else
#define OF(name) _mm256_##name
typedef __m256d pairs;
typedef __m256 singles;
#endif

/* Of SHORT rows: each 128 bits become a short column of them. */
INLINE void transpose_shorts(pairs x[WIDTH])
{
#if CADRE_REAL_BITS == 32
    PRAGMA(GCC unroll 16)
    for (int i = 0; i < WIDTH; i += 2) {
        const singles a = (singles)x[i], b = (singles)x[i + 1];
        x[i] = (pairs)OF(unpacklo_ps)(a, b);
        x[i + 1] = (pairs)OF(unpackhi_ps)(a, b);
    }
#endif
    const int apart = SHORT / 2; /* rows that are paired now */
    PRAGMA(GCC unroll 16)
    for (int i = 0; i < WIDTH; i += SHORT) {
        pairs y[SHORT];
        PRAGMA(GCC unroll 4)
        for (int j = 0; j < apart; j++) {
            y[2 * j] = OF(unpacklo_pd)(x[i + j], x[i + j + apart]);
            y[2 * j + 1] = OF(unpackhi_pd)(x[i + j], x[i + j + apart]);
        }
        PRAGMA(GCC unroll 4)
        for (int j = 0; j < SHORT; j++)
            x[i + j] = y[j];
    }
}

/* The 128 bits of row group g and quarter q change places with those of q and g. */
INLINE void transpose_quarters(pairs x[WIDTH])
{
    PRAGMA(GCC unroll 4)
    for (int j = 0; j < SHORT; j++) {
        pairs *y = x + j;
#if defined(__AVX512F__)
        const pairs even_low = _mm512_shuffle_f64x2(y[0], y[SHORT], 0x88);
        const pairs odd_low = _mm512_shuffle_f64x2(y[0], y[SHORT], 0xdd);
        const pairs even_high = _mm512_shuffle_f64x2(y[2 * SHORT], y[3 * SHORT], 0x88);
        const pairs odd_high = _mm512_shuffle_f64x2(y[2 * SHORT], y[3 * SHORT], 0xdd);
        y[0] = _mm512_shuffle_f64x2(even_low, even_high, 0x88);
        y[SHORT] = _mm512_shuffle_f64x2(odd_low, odd_high, 0x88);
        y[2 * SHORT] = _mm512_shuffle_f64x2(even_low, even_high, 0xdd);
        y[3 * SHORT] = _mm512_shuffle_f64x2(odd_low, odd_high, 0xdd);
#else
        const pairs low = y[0], high = y[SHORT];
        y[0] = _mm256_permute2f128_pd(low, high, 0x20);
        y[SHORT] = _mm256_permute2f128_pd(low, high, 0x31);
#endif
    }
}

/* to[l * ld_to + i] = from[i * ld + l] */
INLINE void transpose_square(real *to, int64_t ld_to, const real *from, int64_t ld)
{
    pairs x[WIDTH];
    PRAGMA(GCC unroll 16)
    for (int i = 0; i < WIDTH; i++)
        memcpy(&x[i], from + i * ld, sizeof x[i]);
    transpose_shorts(x);
    transpose_quarters(x);
    PRAGMA(GCC unroll 16)
    for (int i = 0; i < WIDTH; i++)
        memcpy(to + i * ld_to, &x[i], sizeof x[i]);
}

#undef OF
#else
INLINE void transpose_square(real *to, int64_t ld_to, const real *from, int64_t ld)
{
    for (int l = 0; l < WIDTH; l++)
        for (int i = 0; i < WIDTH; i++)
            to[l * ld_to + i] = from[i * ld + l];
}
#endif

#endif
