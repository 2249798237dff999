/* SPDX-License-Identifier: Apache-2.0 */
/* The service for computation on the device. */
#ifndef CADRE_OPS_H
#define CADRE_OPS_H

#include <cadre/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cadre_ctx;

/* c (m, n) = op(a) (m, k) * op(b) (k, n) + beta * c, row-major; ta, tb: 1 where a or b
 * is stored transposed */
struct cadre_gemm_args {
    uint32_t struct_size;
    uint32_t dtype;
    int64_t m, n, k, lda, ldb, ldc;
    const void *a, *b;
    void *c;
    uint32_t ta, tb, beta;
    /* Reserved, for products of fp8: dtype of c, factors of a and b, largest magnitude
     * of c. 0 and NULL, else refused. */
    uint32_t c_dtype;
    const float *a_scale, *b_scale;
    float *c_amax;
};

/* "cadre.ops/1" [exec; bind, run]: device operations, queued on the compute stream.
 * Pointers and buffers are in device memory. */
#define CADRE_SERVICE_OPS "cadre.ops/1"
struct cadre_ops_svc {
    uint32_t struct_size;
    uint32_t pad_;
    cadre_status (*copy)(struct cadre_ctx *, void *dst, const void *src,
                         uint64_t bytes);
    cadre_status (*zero)(struct cadre_ctx *, void *dst, uint64_t bytes);
    /* out = a + b, elementwise; out may be a or b */
    cadre_status (*add)(struct cadre_ctx *, const struct cadre_buf *out,
                        const struct cadre_buf *a, const struct cadre_buf *b);
    cadre_status (*scale)(struct cadre_ctx *, const struct cadre_buf *x, double by);
    cadre_status (*cast)(struct cadre_ctx *, const struct cadre_buf *dst,
                         const struct cadre_buf *src);
    cadre_status (*gemm)(struct cadre_ctx *, const struct cadre_gemm_args *);
    /* values (k, dtype of x) and indices (k, I32): the k elements of x of largest
     * magnitude, in ascending order of index; among equals those of lower index. NaN
     * counts as larger than infinity. */
    cadre_status (*topk)(struct cadre_ctx *, const struct cadre_buf *x,
                         const struct cadre_buf *values,
                         const struct cadre_buf *indices);
    /* q (n, I8) = x (n) / scale, rounded to nearest even; scales (ceil(n / block),
     * F32): largest magnitude of each block / 127. A block of zeros has scale 0; one
     * that is not finite has scale NaN and is dequantized to NaN. */
    cadre_status (*quantize)(struct cadre_ctx *, const struct cadre_buf *x,
                             uint64_t block, const struct cadre_buf *q,
                             const struct cadre_buf *scales);
    /* x (n) = q * scale of its block */
    cadre_status (*dequantize)(struct cadre_ctx *, const struct cadre_buf *q,
                               const struct cadre_buf *scales, uint64_t block,
                               const struct cadre_buf *x);
    /* x[indices[i]] += by * values[i]; values (k, dtype of x), indices (k, I32), which
     * must be distinct; an index outside of x is an error */
    cadre_status (*scatter_add)(struct cadre_ctx *, const struct cadre_buf *x,
                                const struct cadre_buf *values,
                                const struct cadre_buf *indices, double by);
    /* Orthonormalizes the columns of x (rows, columns), row-major, columns <= rows, in
     * place; their span is kept. A column that is zero or depends linearly on those
     * before it is replaced by a unit vector. NaN and infinity give NaN. */
    cadre_status (*orthonormalize)(struct cadre_ctx *, const struct cadre_buf *x,
                                   uint64_t columns);
    /* copies between device memory and the plugin's host memory; done on return */
    cadre_status (*to_device)(struct cadre_ctx *, void *dst, const void *host,
                              uint64_t bytes);
    cadre_status (*to_host)(struct cadre_ctx *, void *host, const void *src,
                            uint64_t bytes);
    /* y = a * x + b * y, elementwise, of one dtype */
    cadre_status (*axpby)(struct cadre_ctx *, double a, const struct cadre_buf *x,
                          double b, const struct cadre_buf *y);
    /* out = a * b, elementwise; out may be a or b */
    cadre_status (*mul)(struct cadre_ctx *, const struct cadre_buf *out,
                        const struct cadre_buf *a, const struct cadre_buf *b);
    /* x = 1 / (sqrt(x) + eps), elementwise */
    cadre_status (*rsqrt)(struct cadre_ctx *, const struct cadre_buf *x, double eps);
    /* *out = sum of x[i] * y[i], in chunks of a fixed size that are added in a tree:
     * the same bits on every rank. Waits for the device. */
    cadre_status (*dot)(struct cadre_ctx *, const struct cadre_buf *x,
                        const struct cadre_buf *y, double *out);
    /* out (columns, rows) = x (rows, columns) transposed, row-major */
    cadre_status (*transpose)(struct cadre_ctx *, const struct cadre_buf *out,
                              const struct cadre_buf *x, uint64_t rows,
                              uint64_t columns);
};

#ifdef __cplusplus
}
#endif
#endif
