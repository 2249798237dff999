/* SPDX-License-Identifier: Apache-2.0 */
#include "core/checkpoint/format/float.h"

#include <assert.h>
#include <string.h>

#include <cadre/types.h>

static float from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

float cadre_float_from_bf16(uint16_t bits)
{
    return from_bits((uint32_t)bits << 16);
}

float cadre_float_from_f16(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
    uint32_t exponent = bits >> 10 & 0x1fu;
    uint32_t mantissa = bits & 0x3ffu;
    if (exponent == 0x1f)
        return from_bits(sign | 0x7f800000u | mantissa << 13);
    if (exponent != 0)
        return from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
    /* Subnormal: mantissa * 2^-24, which f32 holds exactly. */
    float value = (float)mantissa * 0x1p-24f;
    return sign ? -value : value;
}

static float f32_at(const unsigned char *in, size_t i)
{
    float value;
    memcpy(&value, in + i * sizeof value, sizeof value);
    return value;
}

static double f64_at(const unsigned char *in, size_t i)
{
    double value;
    memcpy(&value, in + i * sizeof value, sizeof value);
    return value;
}

static uint16_t u16_at(const unsigned char *in, size_t i)
{
    uint16_t value;
    memcpy(&value, in + i * sizeof value, sizeof value);
    return value;
}

static double wide_at(const unsigned char *in, uint32_t dtype, size_t i)
{
    switch (dtype) {
    case CADRE_F64:
        return f64_at(in, i);
    case CADRE_F32:
        return f32_at(in, i);
    case CADRE_BF16:
        return cadre_float_from_bf16(u16_at(in, i));
    case CADRE_F16:
        return cadre_float_from_f16(u16_at(in, i));
    default:
        assert(!"a floating-point dtype");
        return 0.0;
    }
}

void cadre_float_convert(const void *in, uint32_t from_dtype, size_t n, void *out,
                         uint32_t to_dtype)
{
    float *narrow = out;
    double *wide = out;
    assert(to_dtype == CADRE_F32 || to_dtype == CADRE_F64);
    if (to_dtype == CADRE_F32)
        for (size_t i = 0; i < n; i++)
            narrow[i] = (float)wide_at(in, from_dtype, i);
    else
        for (size_t i = 0; i < n; i++)
            wide[i] = wide_at(in, from_dtype, i);
}
