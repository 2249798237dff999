/* SPDX-License-Identifier: Apache-2.0 */
/* bf16 and f16 on the CPU: a tile of 16-bit values is widened into scratch, the f32
 * kernel runs there, and its result is rounded once on the way back. So the bits follow
 * from those of the f32 kernels and the casts, which are the same for every instruction
 * set. */
#ifndef CADRE_DEVICE_CPU_HALF_H
#define CADRE_DEVICE_CPU_HALF_H

#include "core/device/cpu/cpu.h"

/* A 16-bit dtype: the f32 kernels and the casts to and from f32. */
struct cadre_half {
    struct cadre_cpu *cpu;
    const struct cadre_cpu_kernels *kernels;
    cadre_cpu_range *widen, *narrow;
    const struct cadre_cpu_bf16 *bf16; /* kernels in registers; NULL for f16 */
    uint64_t serial; /* of the product that half_gemm.c is computing */
    bool own; /* which is widened for Cadre's own */
};

static inline bool cadre_dtype_is_half(uint32_t dtype)
{
    return dtype == CADRE_BF16 || dtype == CADRE_F16;
}

/* dtype is bf16 or f16. [any thread] */
struct cadre_half cadre_half_of(struct cadre_device *device, uint32_t dtype);

/* dst (n) = elements [at, at + n) of src. [any thread] */
void cadre_half_widen(const struct cadre_half *half, float *dst, const void *src,
                      int64_t at, int64_t n);
/* Elements [at, at + n) of dst = src (n), rounded. [any thread] */
void cadre_half_narrow(const struct cadre_half *half, void *dst, int64_t at,
                       const float *src, int64_t n);

/* The same for `rows` rows of n elements: row r of the 16-bit side begins at r * ld,
 * that of the f32 side at r * n. */
void cadre_half_widen_rows(const struct cadre_half *half, float *dst, const void *src,
                           int64_t rows, int64_t n, int64_t ld);
void cadre_half_narrow_rows(const struct cadre_half *half, void *dst, int64_t ld,
                            const float *src, int64_t rows, int64_t n);

/* What runs on a tile: units [begin, end) of op, with scratch of its own. */
typedef void cadre_half_tile(const struct cadre_half *half, const void *op,
                             int64_t begin, int64_t end, float *scratch);

/* Divide [0, count) into ranges of `grain`, each with `floats` of scratch. Errors:
 * CADRE_E_RESOURCE (logged). */
cadre_status cadre_half_run(const struct cadre_half *half, cadre_half_tile *tile,
                            const void *op, int64_t count, int64_t grain,
                            int64_t floats);

/* The ops for a 16-bit dtype; device.h describes them. */
cadre_status cadre_half_gelu_bwd(struct cadre_device *, uint32_t dtype,
                                 const struct cadre_pointwise_args *, int64_t count);
cadre_status cadre_half_swiglu_fwd(struct cadre_device *, uint32_t dtype,
                                   const struct cadre_pointwise_args *, int64_t count);
cadre_status cadre_half_swiglu_bwd(struct cadre_device *, uint32_t dtype,
                                   const struct cadre_pointwise_args *, int64_t count);
cadre_status cadre_half_add(struct cadre_device *, uint32_t dtype,
                            const struct cadre_add_args *, int64_t rows);
cadre_status cadre_half_scale(struct cadre_device *, uint32_t dtype,
                              const struct cadre_scale_args *, int64_t count);
cadre_status cadre_half_rope(struct cadre_device *, uint32_t dtype,
                             const struct cadre_rope_args *, int64_t rows);
/* On the calling thread. */
void cadre_half_tree_add(struct cadre_device *, uint32_t dtype,
                         const struct cadre_add_args *, int64_t count);
void cadre_half_maximum(struct cadre_device *, uint32_t dtype,
                        const struct cadre_add_args *, int64_t count);

/* partial sums of groups of rows */
cadre_status cadre_half_bias_bwd(struct cadre_device *, uint32_t dtype,
                                 const struct cadre_columns_args *, int64_t groups);
cadre_status cadre_half_norm_weight(struct cadre_device *, uint32_t dtype,
                                    const struct cadre_norm_weight_args *,
                                    int64_t groups);
/* without `sum` */
cadre_status cadre_half_norm_fwd(struct cadre_device *, const struct cadre_norm *);
cadre_status cadre_half_norm_input(struct cadre_device *, const struct cadre_norm *);
cadre_status cadre_half_embed_fwd(struct cadre_device *, const struct cadre_embed *);
/* dwte already holds the initial value */
cadre_status cadre_half_embed_tokens(struct cadre_device *, const struct cadre_embed *);
cadre_status cadre_half_embed_positions(struct cadre_device *,
                                        const struct cadre_embed *);
cadre_status cadre_half_xent_fwd(struct cadre_device *, const struct cadre_xent *);
cadre_status cadre_half_xent_bwd(struct cadre_device *, const struct cadre_xent *);
cadre_status cadre_half_squares(struct cadre_device *, uint32_t dtype,
                                const struct cadre_squares_args *, int64_t chunks);

cadre_status cadre_half_attention(struct cadre_device *, const struct cadre_attention *,
                                  bool backward);
/* attention.c: the whole of an f32 or f64 problem on the calling thread, which is
 * `worker` and has called cadre_gemm_thread_init. Errors: as cadre_gemm_product. */
cadre_status cadre_cpu_attention_alone(struct cadre_cpu *cpu, int worker,
                                       const struct cadre_attention *a, bool backward);

/* One tile of a product on the calling thread, which is `worker`, with its epilogue. */
cadre_status cadre_half_product(const struct cadre_half *half,
                                struct cadre_cpu_worker *worker,
                                const struct cadre_gemm *tile);

#endif
