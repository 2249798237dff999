/* SPDX-License-Identifier: Apache-2.0 */
/* One element of the 16-bit types, as bits, to f32 and back: exact one way, rounded to
 * nearest even the other; a NaN stays NaN and becomes quiet. Integer code without
 * branches, which compilers turn into vector code. [any thread] */
#ifndef CADRE_TENSOR_HALF_H
#define CADRE_TENSOR_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t cadre_f32_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float cadre_f32_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float cadre_bf16_to_f32(uint16_t x)
{
    return cadre_f32_of_bits((uint32_t)x << 16);
}

static inline uint16_t cadre_bf16_from_f32(float x)
{
    uint32_t bits = cadre_f32_bits(x);
    uint32_t nearest = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    uint32_t quiet = (bits >> 16) | 0x40u;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? quiet : nearest);
}

/* An f16 of exponent e and f32 of exponent e differ by 2^112 where both are normal; a
 * subnormal f16 is an integer times 2^-24. */
static inline float cadre_f16_to_f32(uint16_t x)
{
    uint32_t sign = (uint32_t)(x & 0x8000u) << 16;
    uint32_t size = x & 0x7fffu;
    uint32_t normal = (size << 13) + (112u << 23);
    uint32_t special = (size << 13) | 0x7f800000u;
    uint32_t small = cadre_f32_bits((float)(int32_t)size * 0x1p-24f);
    uint32_t bits = size < 0x400u ? small : size >= 0x7c00u ? special : normal;
    return cadre_f32_of_bits(bits | sign);
}

/* Adding 0.5 to a magnitude below 2^-14 leaves a multiple of 2^-24 in the low bits. */
static inline uint16_t cadre_f16_from_f32(float x)
{
    uint32_t bits = cadre_f32_bits(x);
    uint32_t sign = (bits >> 16) & 0x8000u;
    uint32_t size = bits & 0x7fffffffu;
    uint32_t small = cadre_f32_bits(cadre_f32_of_bits(size) + 0.5f) - 0x3f000000u;
    uint32_t normal = (size + 0xfffu + ((size >> 13) & 1u) - (112u << 23)) >> 13;
    uint32_t large = size > 0x7f800000u ? 0x7e00u : 0x7c00u;
    uint32_t half = size < (113u << 23) ? small : normal;
    return (uint16_t)((size >= 0x477ff000u ? large : half) | sign);
}

#endif
