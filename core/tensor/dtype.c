/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tensor/dtype.h"

size_t cadre_dtype_bytes(uint32_t dtype)
{
    switch (dtype) {
    case CADRE_F64:
        return 8;
    case CADRE_F32:
    case CADRE_I32:
        return 4;
    case CADRE_BF16:
    case CADRE_F16:
        return 2;
    case CADRE_U8:
    case CADRE_I8:
        return 1;
    default:
        return 0;
    }
}

uint32_t cadre_dtype_wide(uint32_t dtype)
{
    return dtype == CADRE_BF16 || dtype == CADRE_F16 ? CADRE_F32 : dtype;
}

const char *cadre_dtype_name(uint32_t dtype)
{
    switch (dtype) {
    case CADRE_F64:
        return "f64";
    case CADRE_F32:
        return "f32";
    case CADRE_I32:
        return "i32";
    case CADRE_BF16:
        return "bf16";
    case CADRE_F16:
        return "f16";
    case CADRE_U8:
        return "u8";
    case CADRE_I8:
        return "i8";
    default:
        return "?";
    }
}
