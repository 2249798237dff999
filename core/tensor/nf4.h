/* SPDX-License-Identifier: Apache-2.0 */
/* NF4 with double quantization (Dettmers et al. 2023, QLoRA, sections 2 and 3), in the
 * bytes of bitsandbytes 0.50.2 on a CPU: quantize_4bit with quant_type nf4, blocksize
 * 64 and compress_statistics.
 *
 * A block is 64 consecutive elements of the flat tensor: 32 bytes of codes, the even
 * element in the high 4 bits, then the code of its largest magnitude, absmax. The last
 * block may be short; codes behind its end are that of 0. An element times 1 / absmax
 * gets the nearest of 16 values, the lower one in the middle; so +0, -0 and blocks of
 * zeros get the value 0. The last block, where it is short, is divided by its absmax,
 * which is at least 1e-38.
 *
 * The second level: offset is the mean of all absmax of the tensor; absmax - offset is
 * quantized in nested blocks of 256, times 1 / the largest magnitude in it, to the
 * signed map of 256 values, the lower one in the middle, by way of 65536 steps of
 * [-1, 1]. Where a nested block's absmax all equal the offset, its codes are 0. It is
 * 4 + 8 / 64 + 32 / 16384 = 4.127 bits an element, and 32 a tensor.
 *
 * bitsandbytes sums the mean in fp32, in an order that depends on its machine; here it
 * is the sum in fp64 by index, rounded once. [any thread] */
#ifndef CADRE_TENSOR_NF4_H
#define CADRE_TENSOR_NF4_H

#include <stdbool.h>
#include <stdint.h>

#define CADRE_NF4_BLOCK 64
#define CADRE_NF4_BYTES (CADRE_NF4_BLOCK / 2 + 1) /* of a block */
#define CADRE_NF4_NESTED 256 /* blocks of a nested block */

/* Blocks of a tensor of `count` elements. */
uint64_t cadre_nf4_blocks(uint64_t count);

/* Numbers of the second level of such a tensor, `scales` below: the offset, then the
 * largest |absmax - offset| of each nested block. */
uint64_t cadre_nf4_scales(uint64_t count);

/* absmax (blocks of count) of elements x (count) that begin with a block; a short last
 * block is the tensor's last. Infinity or NaN where an element is not finite. */
void cadre_nf4_absmax(const float *x, uint64_t count, float *absmax);

/* Mean of absmax (blocks), and from there the second level: scales. False where an
 * absmax is not finite. */
float cadre_nf4_offset(const float *absmax, uint64_t blocks);
bool cadre_nf4_scale(const float *absmax, uint64_t blocks, float offset, float *scales);

/* Encode elements x (count), which begin with block `first` of the tensor: out (blocks
 * of CADRE_NF4_BYTES). */
void cadre_nf4_encode(const float *scales, uint64_t first, const float *x,
                      uint64_t count, uint8_t *out);

/* The same of elements that were decoded under these scales: they decode to the same
 * bits again. Encoding alone would not keep them, as an absmax is not kept exactly. A
 * block that nothing decodes to is encoded. */
void cadre_nf4_encode_again(const float *scales, uint64_t first, const float *x,
                            uint64_t count, uint8_t *out);

/* x (count) of the elements that begin with block `first`. */
void cadre_nf4_decode(const float *scales, uint64_t first, const uint8_t *blocks,
                      uint64_t count, float *x);

/* Elements of a whole tensor (count) as NF4 keeps them. False where one is not finite,
 * or there is no memory. */
bool cadre_nf4_round(float *x, uint64_t count);

#endif
