/* SPDX-License-Identifier: Apache-2.0 */
/* The element types of kernels and their conversions, which are the CPU's: to nearest
 * even, rounded once. */
#ifndef CADRE_DEVICE_CUDA_HALF_CUH
#define CADRE_DEVICE_CUDA_HALF_CUH

#include <math.h>
#include <string.h>

#include "core/device/cuda/launch.cuh"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

#define CADRE_DEVICE __host__ __device__ static inline
#ifdef __CUDA_ARCH__
#define CADRE_UNROLL _Pragma("unroll")
#else
#define CADRE_UNROLL
#endif

/* ---- types ---- */

struct bf16 {
    uint16_t bits;
};
struct f16 {
    uint16_t bits;
};

/* wide_t<T>: the type of statistics and sums of elements of T. */
template <class T> struct wide_of {
    typedef float type;
};
template <> struct wide_of<double> {
    typedef double type;
};
template <class T> using wide_t = typename wide_of<T>::type;

CADRE_DEVICE uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

CADRE_DEVICE float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

CADRE_DEVICE float f32_of(bf16 x)
{
    return float_of((uint32_t)x.bits << 16);
}

CADRE_DEVICE float f32_of(f16 x)
{
#ifdef __CUDA_ARCH__
    return __half2float(__ushort_as_half(x.bits));
#else
    const uint32_t size = (uint32_t)(x.bits & 0x7fffu) << 13;
    const uint32_t exponent = size & (0x7c00u << 13);
    const uint32_t normal = size + (112u << 23);
    const float small = float_of(normal + (1u << 23)) - float_of(113u << 23);
    uint32_t bits = exponent == 0 ? bits_of(small) : normal;
    bits = exponent == (0x7c00u << 13) ? normal + (112u << 23) : bits;
    return float_of(bits | (uint32_t)(x.bits & 0x8000u) << 16);
#endif
}

CADRE_DEVICE bf16 bf16_of(float x)
{
#ifdef __CUDA_ARCH__
    return bf16{__bfloat16_as_ushort(__float2bfloat16_rn(x))};
#else
    const uint32_t bits = bits_of(x);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return bf16{(uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : rounded)};
#endif
}

/* Subnormal results are rounded by the addition of a power of two (F. Giesen). */
CADRE_DEVICE f16 f16_of(float x)
{
#ifdef __CUDA_ARCH__
    return f16{__half_as_ushort(__float2half_rn(x))};
#else
    const uint32_t magic = ((127u - 15u) + (23u - 10u) + 1u) << 23;
    const uint32_t bits = bits_of(x), sign = bits & 0x80000000u, size = bits ^ sign;
    const uint32_t small = bits_of(float_of(size) + float_of(magic)) - magic;
    const uint32_t normal = (size - (112u << 23) + 0xfffu + ((size >> 13) & 1u)) >> 13;
    uint32_t half = size < (113u << 23) ? small : normal;
    if (size >= (143u << 23))
        half = size > 0x7f800000u ? 0x7fffu : 0x7c00u;
    return f16{(uint16_t)(half | (sign >> 16))};
#endif
}

/* A double to an f32 rounded to odd, which avoids double rounding (Boldo & Melquiond
 * 2008). */
CADRE_DEVICE float odd_of(double x)
{
    const float nearest = (float)x;
    const double back = (double)nearest;
    uint32_t bits = bits_of(nearest);
    if (x != x || back == x)
        return nearest;
    if (fabs(back) > fabs(x))
        bits--; /* towards zero */
    return float_of(bits | 1u);
}

/* widen: exact, to wide_t. */
CADRE_DEVICE float widen(float x)
{
    return x;
}
CADRE_DEVICE double widen(double x)
{
    return x;
}
CADRE_DEVICE float widen(bf16 x)
{
    return f32_of(x);
}
CADRE_DEVICE float widen(f16 x)
{
    return f32_of(x);
}

/* narrow<T>: rounded once, to nearest even. */
template <class T> struct narrow_to {
};
template <> struct narrow_to<float> {
    CADRE_DEVICE float of(float x)
    {
        return x;
    }
    CADRE_DEVICE float of(double x)
    {
        return (float)x;
    }
};
template <> struct narrow_to<double> {
    CADRE_DEVICE double of(double x)
    {
        return x;
    }
};
template <> struct narrow_to<bf16> {
    CADRE_DEVICE bf16 of(float x)
    {
        return bf16_of(x);
    }
    CADRE_DEVICE bf16 of(double x)
    {
        return bf16_of(odd_of(x));
    }
};
template <> struct narrow_to<f16> {
    CADRE_DEVICE f16 of(float x)
    {
        return f16_of(x);
    }
    CADRE_DEVICE f16 of(double x)
    {
        return f16_of(odd_of(x));
    }
};
template <class T, class X> CADRE_DEVICE T narrow(X x)
{
    return narrow_to<T>::of(x);
}

#endif
