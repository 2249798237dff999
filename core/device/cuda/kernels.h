/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for the C files of the CUDA device. Each call launches on `stream` (a
 * cudaStream_t) and returns; core/device/device.h describes results and arguments under
 * the op of the same name. Every dtype of an op is supported: f32, f64, bf16 and f16,
 * and those named below.
 *
 * `scratch` is device memory of the size that cadre_cuda_<op>_scratch returns for the
 * same arguments, aligned to 16 bytes; it holds nothing between calls, and must stay
 * unchanged until the stream has run the call. Errors: CADRE_E_DEVICE with one log
 * line, where the dtype is not known or the launch is refused. */
#ifndef CADRE_DEVICE_CUDA_KERNELS_H
#define CADRE_DEVICE_CUDA_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "core/device/device.h"

/* attention: attention.cu. Heads of up to 256, sequences of up to 524280. On the tensor
 * cores where dtype is bf16 or f16, the head size 64 or 128, and every row begins at a
 * multiple of 16 bytes. Only bwd needs the scratch; fwd takes NULL. */
size_t cadre_cuda_attention_scratch(const struct cadre_attention *a);
cadre_status cadre_cuda_attention_fwd(const struct cadre_attention *a, void *scratch,
                                      void *stream);
cadre_status cadre_cuda_attention_bwd(const struct cadre_attention *a, void *scratch,
                                      void *stream);

/* norms: norm.cu. norm_bwd takes up to 29000 channels, 14500 in f64. */
cadre_status cadre_cuda_norm_fwd(const struct cadre_norm *a, void *stream);
size_t cadre_cuda_norm_bwd_scratch(const struct cadre_norm *a);
cadre_status cadre_cuda_norm_bwd(const struct cadre_norm *a, void *scratch,
                                 void *stream);

/* rows: rows.cu. Epilogues of a GEMM that has written its product in its dtype, (m, n),
 * ldc. bias: c += bias. gelu_of: of `x`, which is c or aux: c = gelu(x), and aux = x
 * where that is another array; or GELU_BWD of c. */
cadre_status cadre_cuda_add(uint32_t dtype, const void *a, const void *bias,
                            const void *b, void *y, int64_t rows, int64_t channels,
                            void *stream);
cadre_status cadre_cuda_bias(const struct cadre_gemm *g, void *stream);
cadre_status cadre_cuda_gelu_of(const struct cadre_gemm *g, const void *x,
                                void *stream);
size_t cadre_cuda_bias_bwd_scratch(uint32_t dtype, int64_t rows, int64_t channels);
cadre_status cadre_cuda_bias_bwd(uint32_t dtype, const void *dy, int64_t rows,
                                 int64_t channels, void *db, int beta, void *scratch,
                                 void *stream);
/* lint: long because it fills a slot of the table of ops */
cadre_status cadre_cuda_rope(uint32_t dtype, void *x, int64_t ld, int64_t batch,
                             int64_t time, int64_t heads, int64_t head_size,
                             const struct cadre_rotary *rotary, int64_t position,
                             bool inverse, void *stream);

/* element by element: pointwise.cu. tree_add also takes i32, maximum i32 and u8. */
cadre_status cadre_cuda_gelu_bwd(uint32_t dtype, const void *x, const void *dy,
                                 void *dx, int64_t count, void *stream);
cadre_status cadre_cuda_swiglu_fwd(uint32_t dtype, const void *gate, const void *up,
                                   void *y, int64_t count, void *stream);
cadre_status cadre_cuda_swiglu_bwd(uint32_t dtype, const void *gate, const void *up,
                                   const void *dy, void *dgate, void *dup,
                                   int64_t count, void *stream);
cadre_status cadre_cuda_scale(uint32_t dtype, void *x, int64_t count, double by,
                              void *stream);
cadre_status cadre_cuda_tree_add(uint32_t dtype, void *out, const void *a,
                                 const void *b, int64_t count, void *stream);
cadre_status cadre_cuda_maximum(uint32_t dtype, void *out, const void *a, const void *b,
                                int64_t count, void *stream);
cadre_status cadre_cuda_cast(uint32_t to, void *dst, uint32_t from, const void *src,
                             int64_t count, void *stream);

/* embedding and loss: embed.cu, patches.cu, xent.cu */
cadre_status cadre_cuda_patches(const struct cadre_patches *a, void *stream);
cadre_status cadre_cuda_embed_fwd(const struct cadre_embed *a, void *stream);
size_t cadre_cuda_embed_bwd_tokens_scratch(const struct cadre_embed *a);
cadre_status cadre_cuda_embed_bwd_tokens(const struct cadre_embed *a, void *scratch,
                                         void *stream);
cadre_status cadre_cuda_embed_bwd_positions(const struct cadre_embed *a, void *stream);
cadre_status cadre_cuda_xent_fwd(const struct cadre_xent *a, void *stream);
cadre_status cadre_cuda_xent_rescale(const struct cadre_xent *a, void *stream);
cadre_status cadre_cuda_xent_loss(const struct cadre_xent *a, void *stream);
cadre_status cadre_cuda_xent_bwd(const struct cadre_xent *a, void *stream);

/* optimizers and reductions: optim.cu, reduce.cu. A list is passed with the launch, so
 * it is the caller's again on return; there is one launch for up to 384 of its entries.
 */
cadre_status cadre_cuda_adamw(const struct cadre_adamw *a, void *stream);
cadre_status cadre_cuda_sgd(const struct cadre_sgd *a, void *stream);
cadre_status cadre_cuda_lion(const struct cadre_lion *a, void *stream);
cadre_status cadre_cuda_adamw8(const struct cadre_adamw8 *a, void *stream);
cadre_status cadre_cuda_sum_squares(uint32_t dtype, const struct cadre_squares *list,
                                    int64_t n, void *stream);
cadre_status cadre_cuda_norm_total(const double *chunks, uint64_t n, double clip,
                                   double unscale, double *out, void *stream);
cadre_status cadre_cuda_sum_rows(const double *rows, int64_t n, double *out,
                                 void *stream);

/* compression: select.cu, quantize.cu, orthonormal.cu */
size_t cadre_cuda_topk_scratch(int64_t count);
cadre_status cadre_cuda_topk(uint32_t dtype, const void *x, int64_t count, int64_t k,
                             void *values, int32_t *indices, void *scratch,
                             void *stream);
cadre_status cadre_cuda_quantize(uint32_t dtype, const void *x, int64_t count,
                                 int64_t block, int8_t *q, float *scales, void *stream);
cadre_status cadre_cuda_dequantize(const int8_t *q, const float *scales, int64_t block,
                                   uint32_t dtype, void *x, int64_t count,
                                   void *stream);
/* *bad (device memory) becomes 1 where an index lies outside, and then x is unchanged;
 * else 0. */
/* lint: long because it fills a slot of the table of ops */
cadre_status cadre_cuda_scatter_add(uint32_t dtype, void *x, int64_t count,
                                    const void *values, const int32_t *indices,
                                    int64_t k, double by, int32_t *bad, void *stream);
size_t cadre_cuda_orthonormalize_scratch(int64_t columns);
cadre_status cadre_cuda_orthonormalize(uint32_t dtype, void *x, int64_t rows,
                                       int64_t columns, void *scratch, void *stream);

/* vectors and matrices of optimizers: pointwise.cu, reduce.cu, transpose.cu,
 * quantize.cu. The dot product is the first double of the scratch. */
cadre_status cadre_cuda_axpby(uint32_t dtype, double a, const void *x, double b,
                              void *y, int64_t count, void *stream);
cadre_status cadre_cuda_mul(uint32_t dtype, void *out, const void *a, const void *b,
                            int64_t count, void *stream);
cadre_status cadre_cuda_rsqrt(uint32_t dtype, void *x, int64_t count, double eps,
                              void *stream);
size_t cadre_cuda_dot_scratch(int64_t count);
cadre_status cadre_cuda_dot(uint32_t dtype, const void *x, const void *y, int64_t count,
                            void *scratch, void *stream);
cadre_status cadre_cuda_transpose(uint32_t dtype, void *out, const void *x,
                                  int64_t rows, int64_t columns, void *stream);
cadre_status cadre_cuda_copy_rows(uint32_t dtype, void *dst, int64_t ldd,
                                  const void *src, int64_t lds, int64_t rows,
                                  int64_t columns, void *stream);
cadre_status cadre_cuda_int8_encode(uint32_t dtype, const void *x, int64_t count,
                                    void *blocks, void *stream);
cadre_status cadre_cuda_int8_decode(const void *blocks, uint32_t dtype, void *x,
                                    int64_t count, void *stream);
/* fake_quantize.cu */
cadre_status cadre_cuda_fake_quantize(const struct cadre_fake_quantize *a,
                                      void *stream);
/* dropout.cu */
cadre_status cadre_cuda_dropout(const struct cadre_dropout *a, void *stream);
/* nf4.cu */
cadre_status cadre_cuda_nf4_decode(const void *blocks, const float *scales,
                                   int64_t first, uint32_t dtype, void *x,
                                   int64_t count, void *stream);

#ifdef __cplusplus
}
#endif

#endif
