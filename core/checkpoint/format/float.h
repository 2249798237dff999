/* SPDX-License-Identifier: Apache-2.0 */
/* Conversion of the floating-point formats of weight files. Widening keeps every value,
 * including subnormals, infinities and NaNs. [any thread] */
#ifndef CADRE_CHECKPOINT_FORMAT_FLOAT_H
#define CADRE_CHECKPOINT_FORMAT_FLOAT_H

#include <stddef.h>
#include <stdint.h>

/* Convert n elements of from_dtype (CADRE_F32, F64, BF16, F16) to to_dtype (CADRE_F32
 * or F64). F64 to F32 rounds to nearest even; all else is exact. in may be unaligned
 * and does not overlap out. */
void cadre_float_convert(const void *in, uint32_t from_dtype, size_t n, void *out,
                         uint32_t to_dtype);

#endif
