/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the attention kernels: the problem as a kernel sees it, and a block's
 * position in it. attention.cu chooses between the kernels on the tensor cores
 * (attention_fwd.cu, attention_bwd.cu; attention_wgmma.cu on Hopper), the plain ones
 * (attention_plain.cu), and those of queries behind other keys (attention_kept.cu). */
#ifndef CADRE_DEVICE_CUDA_ATTENTION_CUH
#define CADRE_DEVICE_CUDA_ATTENTION_CUH

#include "core/device/cuda/math.cuh"

/* Rows of a head in the scratch are padded to this, a multiple of every tile. */
#define CADRE_ATTENTION_PAD 128

/* struct cadre_attention with what the kernels need in addition. `stats` is the scratch
 * of the backward pass: for each (b, h) and t < padded a pair in the wide dtype, lse
 * times lse_factor and delta = sum over d of out * dout; (infinity, 0) for t >= time,
 * which makes a probability of 0. */
struct cadre_attention_view {
    const void *q, *k, *v, *dout;
    void *out, *lse, *dq, *dk, *dv, *stats;
    int64_t ldq, ldk, ldv, ldo;
    int time, padded, heads, kv_heads, head_size;
    bool full; /* without a mask */
    int position, keys; /* of attention_kept.cu alone; elsewhere 0 and time */
    double scale, lse_factor;
    uint32_t dtype; /* for kernels that are not specialised for one */
};

/* The last key that query `row` sees, and the end of those of queries before `end`. */
__device__ __forceinline__ int
cadre_attention_last(const struct cadre_attention_view &a, int row)
{
    return a.full ? a.time - 1 : row;
}

__device__ __forceinline__ int cadre_attention_end(const struct cadre_attention_view &a,
                                                   int end)
{
    return a.full || end > a.time ? a.time : end;
}

/* First element of token 0 of sequence b, head `head`. */
template <typename T>
__device__ __forceinline__ const T *
cadre_attention_rows(const struct cadre_attention_view &a, const void *base, int64_t ld,
                     int64_t b, int head)
{
    return (const T *)base + b * a.time * ld + (int64_t)head * a.head_size;
}

template <typename T>
__device__ __forceinline__ T *
cadre_attention_rows_out(const struct cadre_attention_view &a, void *base, int64_t ld,
                         int64_t b, int head)
{
    return (T *)base + b * a.time * ld + (int64_t)head * a.head_size;
}

/* Launch with as much shared memory as asked for. */
static inline cadre_status
cadre_attention_launch(void (*kernel)(struct cadre_attention_view), dim3 grid,
                       dim3 block, size_t shared, cudaStream_t stream,
                       const struct cadre_attention_view &view)
{
    CADRE_ALLOW_SHARED(kernel, shared);
    CADRE_LAUNCH(kernel, grid, block, shared, stream, view);
    return cadre_launch_check("attention");
}

/* The launches. attention.cu has checked dtype, head size and alignment. */
cadre_status cadre_attention_plain_fwd(uint32_t dtype, int64_t batch,
                                       const struct cadre_attention_view &view,
                                       cudaStream_t stream);
cadre_status cadre_attention_plain_bwd(uint32_t dtype, int64_t batch,
                                       const struct cadre_attention_view &view,
                                       cudaStream_t stream);
cadre_status cadre_attention_kept_fwd(uint32_t dtype, int64_t batch,
                                      const struct cadre_attention_view &view,
                                      cudaStream_t stream);
cadre_status cadre_attention_mma_fwd(uint32_t dtype, int64_t batch,
                                     const struct cadre_attention_view &view,
                                     cudaStream_t stream);
cadre_status cadre_attention_mma_bwd(uint32_t dtype, int64_t batch,
                                     const struct cadre_attention_view &view,
                                     cudaStream_t stream);
/* Heads of 64 on a GPU of compute capability 9.0. */
cadre_status cadre_attention_wgmma_fwd(uint32_t dtype, int64_t batch,
                                       const struct cadre_attention_view &view,
                                       cudaStream_t stream);
cadre_status cadre_attention_wgmma_bwd(uint32_t dtype, int64_t batch,
                                       const struct cadre_attention_view &view,
                                       cudaStream_t stream);

#endif
