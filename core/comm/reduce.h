/* SPDX-License-Identifier: Apache-2.0 */
/* Reduction of a block over ranks in the tree order of exact mode. */
#ifndef CADRE_COMM_REDUCE_H
#define CADRE_COMM_REDUCE_H

#include <stdbool.h>
#include <stdint.h>

#include <cadre/types.h>

#define CADRE_REDUCE_BLOCK_BYTES 8192u

/* f32, f64, bf16, f16, i32: SUM and MAX; u8: MAX. */
bool cadre_reduce_supports(uint32_t dtype, uint32_t red);

/*   dst  (count)        written, overlaps no source
 *   srcs (size) (count) read
 * count elements are at most CADRE_REDUCE_BLOCK_BYTES. Node (l, j) = node (l-1, 2j) +
 * node (l-1, 2j+1), absent children skipped; 16-bit types are rounded once at a node.
 * i32 wraps; MAX of a NaN is a NaN.
 * size <= 256. [any thread] */
void cadre_reduce_block(void *dst, const void *const *srcs, int size, uint64_t count,
                        uint32_t dtype, uint32_t red);

/* reduce16.c: d = a + b, and the larger of a and b, in bf16 and f16; d may be either.
 */
void cadre_reduce_sum_bf16(void *d, const void *a, const void *b, uint64_t n);
void cadre_reduce_max_bf16(void *d, const void *a, const void *b, uint64_t n);
void cadre_reduce_sum_f16(void *d, const void *a, const void *b, uint64_t n);
void cadre_reduce_max_f16(void *d, const void *a, const void *b, uint64_t n);

#endif
