/* SPDX-License-Identifier: Apache-2.0 */
/* Element types. The values are those of the plugin ABI (<cadre/types.h>). */
#ifndef CADRE_TENSOR_DTYPE_H
#define CADRE_TENSOR_DTYPE_H

#include <stddef.h>
#include <stdint.h>

#include <cadre/types.h>

/* Bytes of one element; 0 for an unknown dtype. */
size_t cadre_dtype_bytes(uint32_t dtype);

/* The dtype of statistics, gradients, master values and optimizer states for parameters
 * of `dtype`: f32 for bf16 and f16, else dtype itself. */
uint32_t cadre_dtype_wide(uint32_t dtype);

/* "f32", "f64", "bf16", "f16", "i32", "u8", "i8"; "?" for an unknown dtype. Static. */
const char *cadre_dtype_name(uint32_t dtype);

#endif
