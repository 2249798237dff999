/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the CPU device: its state, its workers' scratch, and functions shared by
 * its files. Outside core/device/cpu only its tests include this. */
#ifndef CADRE_DEVICE_CPU_CPU_H
#define CADRE_DEVICE_CPU_CPU_H

#include <stdatomic.h>

#include "core/device/builtin.h"
#include "core/device/cpu/own_product.h"
#include "core/device/cpu/gemm.h"
#include "core/device/cpu/kernels.h"
#include "core/device/cpu/pool.h"

/* Scratch buffers of a worker: for the GEMM library, for what is packed for it, three
 * for attention (top-k counts in the last), sums by column or tile (the first worker's,
 * shared by all while such an op runs), values widened by half.h, a product's panels
 * and blocks, and of Cadre's own products the first factor with sums, panels, and
 * parts.
 */
enum cadre_cpu_scratch {
    CADRE_SCRATCH_GEMM,
    CADRE_SCRATCH_PACK,
    CADRE_SCRATCH_SCORES,
    CADRE_SCRATCH_DSCORES,
    CADRE_SCRATCH_ROWS,
    CADRE_SCRATCH_COLUMNS,
    CADRE_SCRATCH_HALF,
    CADRE_SCRATCH_PANELS,
    CADRE_SCRATCH_HALF_PRODUCT,
    CADRE_SCRATCH_OWN,
    CADRE_SCRATCH_OWN_PANELS,
    CADRE_SCRATCH_PARTS,
    CADRE_SCRATCH_COUNT,
};

struct cadre_cpu_worker {
    struct cadre_gemm_cache *gemm;
    void *scratch[CADRE_SCRATCH_COUNT];
    size_t scratch_bytes[CADRE_SCRATCH_COUNT];
    const void *panels_of; /* the b whose panels CADRE_SCRATCH_PANELS holds */
    uint64_t panels_serial; /* in this product */
    const struct cadre_cpu_kernels *own_f32,
        *own_f64; /* NULL: the library's products */
    struct cadre_own_kept kept;
} __attribute__((aligned(64)));

struct cadre_cpu {
    struct cadre_device device; /* first: a cadre_device is this */
    struct cadre_device_ops table;
    struct cadre_pool *pool;
    struct cadre_cpu_worker *workers;
    const struct cadre_cpu_kernels *f32, *f64;
    const struct cadre_cpu_casts *casts;
    const struct cadre_cpu_packs *packs;
    const struct cadre_cpu_bf16 *bf16;
    bool multiplies_bf16; /* bf16 products go to the library unconverted */
    bool fixed; /* of struct cadre_device_config */
    bool own; /* products of fp32 and fp64 by own_product.c */
    cadre_stream_id next_stream;
    uint64_t products; /* begun so far */

    /* cos and sin of every (position, pair), kept for the next call */
    void *rope_table;
    size_t rope_bytes;
    int64_t rope_begin, rope_end, rope_pairs;
    struct cadre_rotary rotary;
    uint32_t rope_dtype;
};

/* 64-byte aligned memory, in huge pages where large; NULL when there is none. */
void *cadre_cpu_alloc(size_t bytes);
void cadre_cpu_free(void *ptr);

/* At least `bytes` of a worker's scratch, contents undefined; NULL (logged) when there
 * is none. Valid until the next call for the same slot. */
void *cadre_cpu_scratch(struct cadre_cpu_worker *worker, enum cadre_cpu_scratch slot,
                        size_t bytes);

/* The kernels of a dtype, NULL (logged) for an unsupported dtype. */
const struct cadre_cpu_kernels *cadre_cpu_kernels(const struct cadre_cpu *cpu,
                                                  uint32_t dtype);

/* Run kernel(args, begin, end) over [0, count) in ranges of `grain`. */
void cadre_cpu_ranges(struct cadre_cpu *cpu, cadre_cpu_range *kernel, const void *args,
                      int64_t count, int64_t grain);

/* The entries of the table that are not in cpu_device.c. */
cadre_status cadre_cpu_gemm(struct cadre_device *, const struct cadre_gemm *);
void cadre_cpu_tuning_library(struct cadre_device *,
                              struct cadre_text *); /* describe.c */
cadre_status cadre_cpu_attention_fwd(struct cadre_device *,
                                     const struct cadre_attention *);
cadre_status cadre_cpu_attention_bwd(struct cadre_device *,
                                     const struct cadre_attention *);
cadre_status cadre_cpu_patches(struct cadre_device *, const struct cadre_patches *);
/* lint: long because it fills a slot of the table of ops */
cadre_status cadre_cpu_rope(struct cadre_device *, uint32_t dtype, void *x, int64_t ld,
                            int64_t batch, int64_t time, int64_t heads,
                            int64_t head_size, const struct cadre_rotary *rotary,
                            int64_t position, bool inverse);
cadre_status cadre_cpu_topk(struct cadre_device *, uint32_t dtype, const void *x,
                            int64_t count, int64_t k, void *values, int32_t *indices);
cadre_status cadre_cpu_quantize(struct cadre_device *, uint32_t dtype, const void *x,
                                int64_t count, int64_t block, int8_t *q, float *scales);
cadre_status cadre_cpu_dequantize(struct cadre_device *, const int8_t *q,
                                  const float *scales, int64_t block, uint32_t dtype,
                                  void *x, int64_t count);
/* lint: long because it fills a slot of the table of ops */
cadre_status cadre_cpu_scatter_add(struct cadre_device *, uint32_t dtype, void *x,
                                   int64_t count, const void *values,
                                   const int32_t *indices, int64_t k, double by);
cadre_status cadre_cpu_orthonormalize(struct cadre_device *, uint32_t dtype, void *x,
                                      int64_t rows, int64_t columns);
cadre_status cadre_cpu_axpby(struct cadre_device *, uint32_t dtype, double a,
                             const void *x, double b, void *y, int64_t count);
cadre_status cadre_cpu_mul(struct cadre_device *, uint32_t dtype, void *out,
                           const void *a, const void *b, int64_t count);
cadre_status cadre_cpu_rsqrt(struct cadre_device *, uint32_t dtype, void *x,
                             int64_t count, double eps);
cadre_status cadre_cpu_dot(struct cadre_device *, uint32_t dtype, const void *x,
                           const void *y, int64_t count, double *out);
cadre_status cadre_cpu_transpose(struct cadre_device *, uint32_t dtype, void *out,
                                 const void *x, int64_t rows, int64_t columns);
cadre_status cadre_cpu_copy_rows(struct cadre_device *, uint32_t dtype, void *dst,
                                 int64_t ldd, const void *src, int64_t lds,
                                 int64_t rows, int64_t columns);
cadre_status cadre_cpu_route_fwd(struct cadre_device *, const struct cadre_route *);
cadre_status cadre_cpu_route_bwd(struct cadre_device *, const struct cadre_route *);
cadre_status cadre_cpu_rows_take(struct cadre_device *, const struct cadre_rows *);
cadre_status cadre_cpu_rows_put(struct cadre_device *, const struct cadre_rows *);
cadre_status cadre_cpu_rows_dot(struct cadre_device *, const struct cadre_rows *);
cadre_status cadre_cpu_int8_encode(struct cadre_device *, uint32_t dtype, const void *x,
                                   int64_t count, void *blocks);
cadre_status cadre_cpu_int8_decode(struct cadre_device *, const void *blocks,
                                   uint32_t dtype, void *x, int64_t count);
cadre_status cadre_cpu_nf4_decode(struct cadre_device *, const void *blocks,
                                  const float *scales, int64_t first, uint32_t dtype,
                                  void *x, int64_t count);
cadre_status cadre_cpu_fake_quantize(struct cadre_device *,
                                     const struct cadre_fake_quantize *);
cadre_status cadre_cpu_dropout(struct cadre_device *, const struct cadre_dropout *);
/* Fill the norm, pointwise, embedding, loss, optimizer and reduction entries. */
void cadre_cpu_fill_row_ops(struct cadre_device_ops *ops);

#endif
