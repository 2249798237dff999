/* SPDX-License-Identifier: Apache-2.0 */
/* Column sums out of groups of rows: out (C) = beta * out + the sum over groups of
 * partial (groups, stride). A block has 32 columns and 32 warps, because groups are
 * many and columns few: warp w adds groups w, w + 32, ..., then the warps' sums are
 * added in order. */
#ifndef CADRE_DEVICE_CUDA_COLUMNS_CUH
#define CADRE_DEVICE_CUDA_COLUMNS_CUH

#include "core/device/cuda/math.cuh"

/* TOTAL_AHEAD: groups that a warp loads before it adds the first. */
enum { TOTAL_WARPS = 32, TOTAL_AHEAD = 8 };

template <class W>
__global__ void column_total(const W *partial, int64_t groups, int64_t stride,
                             int64_t columns, W *out, int beta)
{
    __shared__ W sums[TOTAL_WARPS][32];
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int64_t c = (int64_t)blockIdx.x * 32 + lane;
    W sum = 0;
    int64_t g = c < columns ? warp : groups;
    for (; g + (TOTAL_AHEAD - 1) * TOTAL_WARPS < groups;
         g += TOTAL_AHEAD * TOTAL_WARPS) {
        W some[TOTAL_AHEAD];
        CADRE_UNROLL
        for (int k = 0; k < TOTAL_AHEAD; k++)
            some[k] = partial[(g + k * TOTAL_WARPS) * stride + c];
        CADRE_UNROLL
        for (int k = 0; k < TOTAL_AHEAD; k++)
            sum += some[k];
    }
    for (; g < groups; g += TOTAL_WARPS)
        sum += partial[g * stride + c];
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp != 0 || c >= columns)
        return;
    sum = 0;
    CADRE_UNROLL
    for (int w = 0; w < TOTAL_WARPS; w++)
        sum += sums[w][lane];
    out[c] = beta ? out[c] + sum : sum;
}

template <class W>
static void launch_column_total(const W *partial, int64_t groups, int64_t stride,
                                int64_t columns, W *out, int beta, void *stream)
{
    CADRE_LAUNCH(column_total<W>, (unsigned)ceil_div(columns, 32), TOTAL_WARPS * 32, 0,
                 stream, partial, groups, stride, columns, out, beta);
}

#endif
