/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions between f32, f64, bf16 and f16, each rounded once to nearest even. Plain
 * integer code, because not every x86-64 has the conversion instructions. f64 is
 * converted to 16 bits through an f32 rounded to odd, which avoids double rounding
 * (Boldo & Melquiond 2008). */
#include <string.h>

#include "core/device/cpu/kernels.h"
#include "core/device/cpu/kernels_bf16.h"
#include "core/tensor/dtype.h"

#define INLINE static inline __attribute__((always_inline))

INLINE float odd_from_f64(double x)
{
    float nearest = (float)x;
    uint32_t bits = bits_of(nearest);
    double back = (double)nearest;
    double size = x < 0 ? -x : x, back_size = back < 0 ? -back : back;
    uint32_t inexact = (uint32_t)(back_size != size) & (uint32_t)(x == x);
    bits -= inexact & (uint32_t)(back_size > size); /* towards zero */
    return float_of(bits | inexact);
}

/* Subnormal results are rounded by the addition of a power of two (F. Giesen). */
INLINE uint16_t f16_from_f32(float x)
{
    const uint32_t magic = ((127u - 15u) + (23u - 10u) + 1u) << 23;
    uint32_t bits = bits_of(x), sign = bits & 0x80000000u;
    uint32_t size = bits ^ sign;
    uint32_t small = bits_of(float_of(size) + float_of(magic)) - magic;
    uint32_t normal = (size - (112u << 23) + 0xfffu + ((size >> 13) & 1u)) >> 13;
    uint32_t large = size > 0x7f800000u ? 0x7e00u : 0x7c00u;
    uint32_t half = size < (113u << 23) ? small : normal;
    half = size >= (143u << 23) ? large : half;
    return (uint16_t)(half | (sign >> 16));
}

INLINE float f32_from_f16(uint16_t x)
{
    uint32_t size = (uint32_t)(x & 0x7fffu) << 13;
    uint32_t exponent = size & (0x7c00u << 13);
    uint32_t normal = size + (112u << 23);
    uint32_t special = normal + (112u << 23);
    float small = float_of(normal + (1u << 23)) - float_of(113u << 23);
    uint32_t bits = exponent == 0 ? bits_of(small) : normal;
    bits = exponent == (0x7c00u << 13) ? special : bits;
    return float_of(bits | (uint32_t)(x & 0x8000u) << 16);
}

#define SAME(x) (x)
#define F32_FROM_F64(x) ((float)(x))
#define F64_FROM_F32(x) ((double)(x))
#define BF16_FROM_F64(x) bf16_from_f32(odd_from_f64(x))
#define F16_FROM_F64(x) f16_from_f32(odd_from_f64(x))
#define F64_FROM_BF16(x) ((double)f32_from_bf16(x))
#define F64_FROM_F16(x) ((double)f32_from_f16(x))
#define F16_FROM_BF16(x) f16_from_f32(f32_from_bf16(x))
#define BF16_FROM_F16(x) bf16_from_f32(f32_from_f16(x))

#define CAST(name, to, from, CONVERT)                                                  \
    static void name(const void *args, int64_t begin, int64_t end)                     \
    {                                                                                  \
        const struct cadre_cast_args *a = args;                                        \
        to *dst = a->dst;                                                              \
        const from *src = a->src;                                                      \
        _Pragma("omp simd") for (int64_t i = begin; i < end; i++) dst[i] =             \
            CONVERT(src[i]);                                                           \
    }

CAST(f32_f32, float, float, SAME)
CAST(f64_f64, double, double, SAME)
CAST(half_half, uint16_t, uint16_t, SAME)
CAST(f32_f64, float, double, F32_FROM_F64)
CAST(f64_f32, double, float, F64_FROM_F32)
CAST(bf16_f32, uint16_t, float, bf16_from_f32)
CAST(f16_f32, uint16_t, float, f16_from_f32)
CAST(f32_bf16, float, uint16_t, f32_from_bf16)
CAST(f32_f16, float, uint16_t, f32_from_f16)
CAST(bf16_f64, uint16_t, double, BF16_FROM_F64)
CAST(f16_f64, uint16_t, double, F16_FROM_F64)
CAST(f64_bf16, double, uint16_t, F64_FROM_BF16)
CAST(f64_f16, double, uint16_t, F64_FROM_F16)
CAST(f16_bf16, uint16_t, uint16_t, F16_FROM_BF16)
CAST(bf16_f16, uint16_t, uint16_t, BF16_FROM_F16)

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

const struct cadre_cpu_casts JOIN(cadre_casts_, CADRE_ISA) = {
    .to = {
        [CADRE_F32] = {[CADRE_F32] = f32_f32,
                       [CADRE_F64] = f32_f64,
                       [CADRE_BF16] = f32_bf16,
                       [CADRE_F16] = f32_f16},
        [CADRE_F64] = {[CADRE_F32] = f64_f32,
                       [CADRE_F64] = f64_f64,
                       [CADRE_BF16] = f64_bf16,
                       [CADRE_F16] = f64_f16},
        [CADRE_BF16] = {[CADRE_F32] = bf16_f32,
                        [CADRE_F64] = bf16_f64,
                        [CADRE_BF16] = half_half,
                        [CADRE_F16] = bf16_f16},
        [CADRE_F16] = {[CADRE_F32] = f16_f32,
                       [CADRE_F64] = f16_f64,
                       [CADRE_BF16] = f16_bf16,
                       [CADRE_F16] = half_half},
    }};
