/* SPDX-License-Identifier: Apache-2.0 */
/* bf16 to f32 and back, rounded once to nearest even, in integer code: not every CPU
 * has the instructions, and those of AVX512-BF16 flush subnormal values to zero. */
#ifndef CADRE_DEVICE_CPU_KERNELS_BF16_H
#define CADRE_DEVICE_CPU_KERNELS_BF16_H

#include <stdint.h>
#include <string.h>

static inline __attribute__((always_inline)) uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline __attribute__((always_inline)) float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline __attribute__((always_inline)) uint16_t bf16_from_f32(float x)
{
    uint32_t bits = bits_of(x);
    uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    uint32_t quiet = (bits >> 16) | 0x40u;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

static inline __attribute__((always_inline)) float f32_from_bf16(uint16_t x)
{
    return float_of((uint32_t)x << 16);
}

#endif
