/* SPDX-License-Identifier: Apache-2.0 */
/* Sums and maxima in the order of a ring: every hop adds its element to what it
 * received, and rounds to the type, as NCCL's ring does. So the order depends on where
 * the ring begins, and differs from a tree's from three ranks on. */
#include "tests/support/cuda_host/nccl_state.h"

#include <cmath>
#include <cstring>
#include <type_traits>

using namespace cadre_nccl;

namespace
{

float from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

uint32_t to_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

struct bf16 {
    uint16_t bits;
    operator float() const
    {
        return from_bits((uint32_t)bits << 16);
    }
    static bf16 of(float x)
    {
        const uint32_t b = to_bits(x);
        if (std::isnan(x))
            return {(uint16_t)(b >> 16 | 0x40)};
        return {(uint16_t)((b + 0x7fff + (b >> 16 & 1)) >> 16)};
    }
};

struct f16 {
    uint16_t bits;
    operator float() const
    {
        const uint32_t sign = (uint32_t)(bits >> 15) << 31;
        const uint32_t exponent = bits >> 10 & 31, fraction = bits & 1023;
        if (exponent == 31)
            return from_bits(sign | 0x7f800000u | fraction << 13);
        const float x = exponent
                            ? std::ldexp((float)(fraction | 1024), (int)exponent - 25)
                            : std::ldexp((float)fraction, -24);
        return sign ? -x : x;
    }
    static f16 of(float x)
    {
        const uint16_t sign = (uint16_t)(to_bits(x) >> 31 << 15);
        const float a = std::fabs(x);
        if (std::isnan(x))
            return {(uint16_t)(sign | 0x7e00)};
        if (a >= 65520)
            return {(uint16_t)(sign | 0x7c00)};
        int exponent = 0;
        std::frexp(a, &exponent);
        /* Of the last bit. */
        const int step = a == 0 || exponent - 11 < -24 ? -24 : exponent - 11;
        const long units = std::lrint(std::ldexp(a, -step));
        /* Rounded up to the next power of two, it carries into the exponent. */
        const long base = (long)(step + 24) << 10;
        return {(uint16_t)(sign | (base + units))};
    }
};

template <typename T> T plus(T a, T b)
{
    return a + b;
}
template <> int32_t plus(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a + (uint32_t)b);
}
template <> int64_t plus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}
template <> int8_t plus(int8_t a, int8_t b)
{
    return (int8_t)(uint8_t)(a + b);
}
template <> uint8_t plus(uint8_t a, uint8_t b)
{
    return (uint8_t)(a + b);
}
template <> bf16 plus(bf16 a, bf16 b)
{
    return bf16::of((float)a + (float)b);
}
template <> f16 plus(f16 a, f16 b)
{
    return f16::of((float)a + (float)b);
}

template <typename T> bool is_nan(T x)
{
    if constexpr (std::is_integral<T>::value)
        return false;
    else if constexpr (std::is_same<T, double>::value)
        return std::isnan(x);
    else
        return std::isnan((float)x);
}

/* A number wins over NaN, as fmax has it. */
template <typename T> T larger(T a, T b)
{
    return b > a || is_nan(a) ? b : a;
}

template <typename T>
void ring(void *out, const std::vector<const void *> &rows, size_t first, size_t n,
          ncclRedOp_t op)
{
    for (size_t i = 0; i < n; i++) {
        T acc = ((const T *)rows[first])[i];
        for (size_t hop = 1; hop < rows.size(); hop++) {
            const T next = ((const T *)rows[(first + hop) % rows.size()])[i];
            acc = op == ncclSum ? plus<T>(next, acc) : larger<T>(next, acc);
        }
        ((T *)out)[i] = acc;
    }
}

} // namespace

size_t cadre_nccl::type_bytes(ncclDataType_t type)
{
    switch (type) {
    case ncclInt8:
    case ncclUint8:
        return 1;
    case ncclFloat16:
    case ncclBfloat16:
        return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
        return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
        return 8;
    default:
        return 0;
    }
}

bool cadre_nccl::reducible(ncclDataType_t type, ncclRedOp_t op)
{
    return type_bytes(type) != 0 && (op == ncclSum || op == ncclMax);
}

void cadre_nccl::reduce_ring(void *out, const std::vector<const void *> &rows,
                             size_t first, size_t n, ncclDataType_t type,
                             ncclRedOp_t op)
{
    switch (type) {
    case ncclInt8:
        return ring<int8_t>(out, rows, first, n, op);
    case ncclUint8:
        return ring<uint8_t>(out, rows, first, n, op);
    case ncclInt32:
        return ring<int32_t>(out, rows, first, n, op);
    case ncclUint32:
        return ring<uint32_t>(out, rows, first, n, op);
    case ncclInt64:
        return ring<int64_t>(out, rows, first, n, op);
    case ncclUint64:
        return ring<uint64_t>(out, rows, first, n, op);
    case ncclFloat16:
        return ring<f16>(out, rows, first, n, op);
    case ncclBfloat16:
        return ring<bf16>(out, rows, first, n, op);
    case ncclFloat32:
        return ring<float>(out, rows, first, n, op);
    case ncclFloat64:
        return ring<double>(out, rows, first, n, op);
    default:
        return;
    }
}
