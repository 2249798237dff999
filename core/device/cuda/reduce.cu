/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over everything, by one block. */
#include "core/device/cuda/kernels.h"
#include "core/device/cuda/math.cuh"

enum { THREADS = 512 };

/* The tree of core/base/tree.h over n >= 1 values, by one thread: a binary counter. */
__device__ static double tree_of(const double *values, uint64_t n)
{
    double partial[64];
    int top = 0;
    for (uint64_t i = 0; i < n; i++) {
        partial[top++] = values[i];
        for (uint64_t runs = i + 1; runs % 2 == 0; runs /= 2) {
            top--;
            partial[top - 1] += partial[top];
        }
    }
    while (top > 1) {
        top--;
        partial[top - 1] += partial[top];
    }
    return partial[0];
}

/* A thread has a subtree of `span` leaves, a power of two; the block computes the rest
 * of the tree. Nodes without a leaf are skipped. */
__global__ static void norm_total(const double *chunks, uint64_t n, uint64_t span,
                                  double clip, double unscale, double *out)
{
    __shared__ double sums[THREADS];
    const uint64_t t = threadIdx.x, first = t * span;
    if (first < n)
        sums[t] = tree_of(chunks + first, n - first < span ? n - first : span);
    for (uint64_t half = 1; half < THREADS; half *= 2) {
        __syncthreads();
        if (t % (2 * half) == 0 && (t + half) * span < n)
            sums[t] += sums[t + half];
    }
    if (t != 0)
        return;
    const double norm = unscale * sqrt(n > 0 ? sums[0] : 0.0);
    const double by = clip / (norm + 1e-6);
    const bool finite = norm - norm == 0;
    out[0] = finite ? norm : (double)NAN;
    out[1] = finite ? unscale * (clip > 0 && by < 1 ? by : 1.0) : (double)NAN;
}

extern "C" cadre_status cadre_cuda_norm_total(const double *chunks, uint64_t n,
                                              double clip, double unscale, double *out,
                                              void *stream)
{
    uint64_t span = 1;
    while (span * THREADS < n)
        span *= 2;
    CADRE_LAUNCH(norm_total, 1, THREADS, 0, stream, chunks, n, span, clip, unscale,
                 out);
    return cadre_launch_check("norm_total");
}

__global__ static void sum_rows(const double *rows, int64_t n, double *out)
{
    __shared__ double room[32];
    double sum = 0;
    for (int64_t i = threadIdx.x; i < n; i += THREADS)
        sum += rows[i];
    sum = block_sum(sum, room);
    if (threadIdx.x == 0)
        *out = sum;
}

extern "C" cadre_status cadre_cuda_sum_rows(const double *rows, int64_t n, double *out,
                                            void *stream)
{
    CADRE_LAUNCH(sum_rows, 1, THREADS, 0, stream, rows, n, out);
    return cadre_launch_check("sum_rows");
}
