/* SPDX-License-Identifier: Apache-2.0 */
/* What lies between the products of attention on the tensor cores: the online softmax
 * of the forward pass, and the probabilities and their gradients of the backward pass.
 * A thread has the accumulators of mma.sync and of wgmma, float[MT][NT][4]: rows l/4
 * (elements 0, 1) and l/4 + 8 (2, 3) of each 16, columns 2*(l%4) and the next of each
 * 8, for lane l. */
#ifndef CADRE_DEVICE_CUDA_ATTENTION_SOFTMAX_CUH
#define CADRE_DEVICE_CUDA_ATTENTION_SOFTMAX_CUH

#include "core/device/cuda/attention_mma.cuh"

static const float CADRE_LN_2 = 0.69314718055994531f;

/* State of a warp between tiles; sums are this lane's part. */
template <int D, int MT> struct cadre_softmax {
    float acc[MT][D / 8][4];
    float most[MT][2], sum[MT][2];
};

template <int D, int MT>
__device__ __forceinline__ void cadre_softmax_begin(struct cadre_softmax<D, MT> &w)
{
#pragma unroll
    for (int i = 0; i < MT * D / 2; i++)
        w.acc[i / (D / 2)][i / 4 % (D / 8)][i % 4] = 0;
#pragma unroll
    for (int i = 0; i < MT * 2; i++) {
        w.most[i / 2][i % 2] = -INFINITY;
        w.sum[i / 2][i % 2] = 0;
    }
}

/* Scores of keys that a row does not see. `first` is the token of this lane's first
 * row, `key` that of its first column; `last` is the last key of all rows, or -1 where
 * a row sees the keys up to its own. */
template <int MT, int NT>
__device__ __forceinline__ void cadre_mask(float s[MT][NT][4], int first, int key,
                                           int last)
{
#pragma unroll
    for (int i = 0; i < MT * NT * 4; i++) {
        const int m = i / (NT * 4), n = i / 4 % NT, e = i % 4;
        if (key + n * 8 + e % 2 > (last < 0 ? first + m * 16 + e / 2 * 8 : last))
            s[m][n][e] = -INFINITY;
    }
}

/* The same of transposed scores: `key` is the token of this lane's first row, `query`
 * that of its first column. */
template <int MT, int NT>
__device__ __forceinline__ void cadre_mask_transposed(float s[MT][NT][4], int key,
                                                      int query, int last)
{
#pragma unroll
    for (int i = 0; i < MT * NT * 4; i++) {
        const int m = i / (NT * 4), n = i / 4 % NT, e = i % 4;
        if (key + m * 16 + e / 2 * 8 > (last < 0 ? query + n * 8 + e % 2 : last))
            s[m][n][e] = -INFINITY;
    }
}

/* One step of the softmax: s becomes 2^((s - most) * scale). What was summed before is
 * to be multiplied by `shrink`, the accumulators by cadre_softmax_shrink. */
template <int D, int MT, int NT>
__device__ __forceinline__ void cadre_softmax_step(struct cadre_softmax<D, MT> &w,
                                                   float s[MT][NT][4], float scale,
                                                   float shrink[MT][2])
{
#pragma unroll
    for (int i = 0; i < MT * 2; i++) {
        const int m = i / 2, half = i % 2;
        float top = w.most[m][half], other = -INFINITY, sum = 0;
#pragma unroll
        for (int j = 0; j < NT; j++) { /* two chains: the latency of one is long */
            top = fmaxf(top, s[m][j][half * 2]);
            other = fmaxf(other, s[m][j][half * 2 + 1]);
        }
        top = fmaxf(top, other);
        top = fmaxf(top, __shfl_xor_sync(CADRE_FULL_WARP, top, 1));
        top = fmaxf(top, __shfl_xor_sync(CADRE_FULL_WARP, top, 2));
        const float base = top * scale;
        shrink[m][half] = cadre_exp2((w.most[m][half] - top) * scale);
        w.most[m][half] = top;
#pragma unroll
        for (int j = 0; j < NT * 2; j++) {
            float *x = &s[m][j / 2][half * 2 + j % 2];
            *x = cadre_exp2(*x * scale - base);
            sum += *x;
        }
        w.sum[m][half] = w.sum[m][half] * shrink[m][half] + sum;
    }
}

template <int D, int MT>
__device__ __forceinline__ void cadre_softmax_shrink(struct cadre_softmax<D, MT> &w,
                                                     const float shrink[MT][2])
{
#pragma unroll
    for (int i = 0; i < MT * D / 2; i++)
        w.acc[i / (D / 2)][i / 4 % (D / 8)][i % 4] *= shrink[i / (D / 2)][i % 4 / 2];
}

/* lse of this lane's rows; sums become factors of the accumulators */
template <int D, int MT>
__device__ __forceinline__ void cadre_softmax_end(struct cadre_softmax<D, MT> &w,
                                                  float *lse, float scale, int first,
                                                  int time)
{
#pragma unroll
    for (int i = 0; i < MT * 2; i++) {
        const int m = i / 2, half = i % 2, row = first + m * 16 + half * 8;
        float sum = w.sum[m][half];
        sum += __shfl_xor_sync(CADRE_FULL_WARP, sum, 1);
        sum += __shfl_xor_sync(CADRE_FULL_WARP, sum, 2);
        if (cadre_mma_lane() % 4 == 0 && row < time)
            lse[row] = w.most[m][half] * scale * CADRE_LN_2 + logf(sum);
        w.sum[m][half] = 1 / sum;
    }
}

/* The transposed scores s become probabilities; `stats` has lse and delta of each
 * query. */
template <int MT, int NT>
__device__ __forceinline__ void
cadre_probability_transposed(float s[MT][NT][4], const float *stats, float scale)
{
#pragma unroll
    for (int n = 0; n < NT; n++) {
        const int at = n * 8 + cadre_mma_lane() % 4 * 2;
        const float4 of = *(const float4 *)(stats + at * 2); /* of two neighbours */
#pragma unroll
        for (int i = 0; i < MT * 4; i++) {
            float *x = &s[i / 4][n][i % 4];
            *x = cadre_exp2(*x * scale - (i % 2 ? of.z : of.x));
        }
    }
}

/* ds, the gradients of the probabilities p, become those of the scores, not scaled. */
template <int MT, int NT>
__device__ __forceinline__ void cadre_gradient_transposed(float ds[MT][NT][4],
                                                          const float p[MT][NT][4],
                                                          const float *stats)
{
#pragma unroll
    for (int n = 0; n < NT; n++) {
        const int at = n * 8 + cadre_mma_lane() % 4 * 2;
        const float4 of = *(const float4 *)(stats + at * 2);
#pragma unroll
        for (int i = 0; i < MT * 4; i++) {
            const int m = i / 4, e = i % 4;
            ds[m][n][e] = p[m][n][e] * (ds[m][n][e] - (e % 2 ? of.w : of.y));
        }
    }
}

/* The same of scores that are not transposed; stats[m][half] of this lane's rows. */
template <int MT, int NT>
__device__ __forceinline__ void
cadre_probability(float s[MT][NT][4], const float2 stats[MT][2], float scale)
{
#pragma unroll
    for (int i = 0; i < MT * NT * 4; i++) {
        float *x = &s[i / (NT * 4)][i / 4 % NT][i % 4];
        *x = cadre_exp2(*x * scale - stats[i / (NT * 4)][i % 4 / 2].x);
    }
}

template <int MT, int NT>
__device__ __forceinline__ void
cadre_gradient(float ds[MT][NT][4], const float p[MT][NT][4], const float2 stats[MT][2])
{
#pragma unroll
    for (int i = 0; i < MT * NT * 4; i++) {
        const int m = i / (NT * 4), n = i / 4 % NT, e = i % 4;
        ds[m][n][e] = p[m][n][e] * (ds[m][n][e] - stats[m][e / 2].y);
    }
}

#endif
