/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of attention on the tensor cores: 16-bit elements in shared memory, f32 sums in
 * the registers of a warp. A block has WARPS warps; a warp owns 16*MT rows of the kept
 * tile, and processes all rows of the tiles in the loop.
 *
 * In shared memory a row has D elements, in chunks of 16 bytes; chunk c of row r is
 * stored at chunk c ^ (r % 8), so that ldmatrix has no bank conflicts.
 *
 * Accumulators are float[MT][N/8][4] as mma.sync leaves them: lane l has rows l/4
 * (elements 0, 1) and l/4 + 8 (2, 3), columns 2*(l%4) and the next. */
#ifndef CADRE_DEVICE_CUDA_ATTENTION_MMA_CUH
#define CADRE_DEVICE_CUDA_ATTENTION_MMA_CUH

#include "core/device/cuda/attention.cuh"

/* Two numbers as a register of T, the first one below. */
template <typename T>
__device__ __forceinline__ uint32_t cadre_pack2(float low, float high);

template <> __device__ __forceinline__ uint32_t cadre_pack2<bf16>(float low, float high)
{
#ifdef __CUDA_ARCH__
    uint32_t bits;
    asm("cvt.rn.bf16x2.f32 %0,%1,%2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
#else
    return (uint32_t)bf16_of(low).bits | (uint32_t)bf16_of(high).bits << 16;
#endif
}

template <> __device__ __forceinline__ uint32_t cadre_pack2<f16>(float low, float high)
{
#ifdef __CUDA_ARCH__
    uint32_t bits;
    asm("cvt.rn.f16x2.f32 %0,%1,%2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
#else
    return (uint32_t)f16_of(low).bits | (uint32_t)f16_of(high).bits << 16;
#endif
}

#define CADRE_MMA_WARPS 4
#define CADRE_MMA_THREADS (32 * CADRE_MMA_WARPS)

static __device__ __forceinline__ int cadre_mma_lane(void)
{
    return (int)threadIdx.x % 32;
}

static __device__ __forceinline__ int cadre_mma_warp(void)
{
    return (int)threadIdx.x / 32;
}

template <typename T>
__device__ __forceinline__ void cadre_mma(float d[4], const uint32_t a[4],
                                          const uint32_t b[2]);

template <>
__device__ __forceinline__ void cadre_mma<bf16>(float d[4], const uint32_t a[4],
                                                const uint32_t b[2])
{
    cadre_mma_bf16(d, a, b);
}

template <>
__device__ __forceinline__ void cadre_mma<f16>(float d[4], const uint32_t a[4],
                                               const uint32_t b[2])
{
    cadre_mma_f16(d, a, b);
}

/* The word where `chunk` of `row` begins. */
template <int D>
__device__ __forceinline__ uint32_t *cadre_mma_at(uint32_t *tile, int row, int chunk)
{
    return tile + row * (D / 2) + ((chunk ^ (row & 7)) << 2);
}

/* Begin to copy rows [first, first + ROWS) of a head into a tile; 0 beyond `time`. */
template <typename T, int D, int ROWS, int THREADS = CADRE_MMA_THREADS>
__device__ __forceinline__ void cadre_mma_load(uint32_t *tile, const T *src, int64_t ld,
                                               int first, int time)
{
    enum { STEP = THREADS * 8 / D }; /* rows, a multiple of 8 */
    const int row = (int)threadIdx.x / (D / 8), chunk = (int)threadIdx.x % (D / 8);
    const T *from = src + (first + row) * ld + chunk * 8;
    uint32_t *to = cadre_mma_at<D>(tile, row, chunk);
#pragma unroll
    for (int i = 0; i < ROWS; i += STEP) {
        cadre_copy_async16(to + i * (D / 2), from, first + row + i < time);
        from += STEP * ld;
    }
}

/* acc (this warp's rows, 8*NT) = x (rows, D) times y (8*NT, D) transposed */
template <typename T, int D, int MT, int NT>
__device__ __forceinline__ void cadre_mma_scores(float acc[MT][NT][4], uint32_t *x,
                                                 uint32_t *y)
{
    const int lane = cadre_mma_lane(), x_row = cadre_mma_warp() * 16 * MT + lane % 16;
#pragma unroll
    for (int i = 0; i < MT * NT * 4; i++)
        acc[i / (NT * 4)][i / 4 % NT][i % 4] = 0;
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
        uint32_t a[MT][4];
#pragma unroll
        for (int m = 0; m < MT; m++)
            cadre_ldmatrix_x4(a[m],
                              cadre_mma_at<D>(x, x_row + m * 16, 2 * k + lane / 16));
#pragma unroll
        for (int n = 0; n < NT; n += 2) {
            uint32_t b[4];
            const int row = n * 8 + lane % 8 + lane / 16 * 8;
            cadre_ldmatrix_x4(b, cadre_mma_at<D>(y, row, 2 * k + lane / 8 % 2));
#pragma unroll
            for (int m = 0; m < MT; m++) {
                cadre_mma<T>(acc[m][n], a[m], b);
                cadre_mma<T>(acc[m][n + 1], a[m], b + 2);
            }
        }
    }
}

/* acc (this warp's rows, D) += p (rows, 8*NT), rounded to T, times y (8*NT, D) */
template <typename T, int D, int MT, int NT>
__device__ __forceinline__ void cadre_mma_mix(float acc[MT][D / 8][4],
                                              const float p[MT][NT][4], uint32_t *y)
{
    const int lane = cadre_mma_lane();
#pragma unroll
    for (int k = 0; k < NT / 2; k++) {
        uint32_t a[MT][4];
#pragma unroll
        for (int i = 0; i < MT * 4; i++) {
            const float *pair = &p[i / 4][2 * k + i % 4 / 2][i % 2 * 2];
            a[i / 4][i % 4] = cadre_pack2<T>(pair[0], pair[1]);
        }
#pragma unroll
        for (int n = 0; n < D / 8; n += 2) {
            uint32_t b[4];
            cadre_ldmatrix_x4_trans(
                b, cadre_mma_at<D>(y, k * 16 + lane % 16, n + lane / 16));
#pragma unroll
            for (int m = 0; m < MT; m++) {
                cadre_mma<T>(acc[m][n], a[m], b);
                cadre_mma<T>(acc[m][n + 1], a[m], b + 2);
            }
        }
    }
}

/* Rows of this warp below `time` of dst = acc * by[m][upper or lower half], through the
 * warp's own rows of a tile, which is free. `dst` is the head's token 0, `first` the
 * token of the tile's row 0. */
template <typename T, int D, int MT>
__device__ __forceinline__ void cadre_mma_store(T *dst, int64_t ld, int first, int time,
                                                const float acc[MT][D / 8][4],
                                                const float by[MT][2], uint32_t *tile)
{
    const int lane = cadre_mma_lane(), rows = cadre_mma_warp() * 16 * MT;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < MT * D / 4; i++) {
        const int m = i / (D / 4), n = i / 2 % (D / 8), half = i % 2;
        const float *pair = &acc[m][n][half * 2];
        const int row = rows + m * 16 + half * 8 + lane / 4;
        cadre_mma_at<D>(tile, row, n)[lane % 4] =
            cadre_pack2<T>(pair[0] * by[m][half], pair[1] * by[m][half]);
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 16 * MT * D / 8; i += 32) {
        const int row = rows + (i + lane) / (D / 8), chunk = (i + lane) % (D / 8);
        if (first + row < time)
            *(uint4 *)(dst + (int64_t)(first + row) * ld + chunk * 8) =
                *(const uint4 *)cadre_mma_at<D>(tile, row, chunk);
    }
}

#endif
