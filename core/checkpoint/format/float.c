/* SPDX-License-Identifier: Apache-2.0 */
#include "core/checkpoint/format/float.h"

#include <assert.h>
#include <string.h>

#include <cadre/types.h>

#include "core/tensor/half.h"

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
        return cadre_bf16_to_f32(u16_at(in, i));
    case CADRE_F16:
        return cadre_f16_to_f32(u16_at(in, i));
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
