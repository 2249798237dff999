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

/* Leaves of a thread's subtree of n values, a power of two. */
static uint64_t span_of(uint64_t n)
{
    uint64_t span = 1;
    while (span * THREADS < n)
        span *= 2;
    return span;
}

/* For the first thread of a block: the tree's sum of values (n), 0 of none. A thread
 * has a subtree of `span` leaves; the block computes the rest of the tree. Nodes
 * without a leaf are skipped. */
__device__ static double tree_total(const double *values, uint64_t n, uint64_t span,
                                    double sums[THREADS])
{
    const uint64_t t = threadIdx.x, first = t * span;
    if (first < n)
        sums[t] = tree_of(values + first, n - first < span ? n - first : span);
    for (uint64_t half = 1; half < THREADS; half *= 2) {
        __syncthreads();
        if (t % (2 * half) == 0 && (t + half) * span < n)
            sums[t] += sums[t + half];
    }
    return t == 0 && n > 0 ? sums[0] : 0.0;
}

__global__ static void norm_total(const double *chunks, uint64_t n, uint64_t span,
                                  double clip, double unscale, double *out)
{
    __shared__ double sums[THREADS];
    const double total = tree_total(chunks, n, span, sums);
    if (threadIdx.x != 0)
        return;
    const double norm = unscale * sqrt(total);
    const double by = clip / (norm + 1e-6);
    const bool finite = norm - norm == 0;
    out[0] = finite ? norm : (double)NAN;
    out[1] = finite ? unscale * (clip > 0 && by < 1 ? by : 1.0) : (double)NAN;
}

extern "C" cadre_status cadre_cuda_norm_total(const double *chunks, uint64_t n,
                                              double clip, double unscale, double *out,
                                              void *stream)
{
    CADRE_LAUNCH(norm_total, 1, THREADS, 0, stream, chunks, n, span_of(n), clip,
                 unscale, out);
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

/* ---- the dot product ---- */

/* A block has a chunk. */
template <class T>
__global__ void dot_chunks(const T *x, const T *y, int64_t count, bool vec,
                           double *sums)
{
    constexpr int N = pack_size<T>::N;
    __shared__ double room[32];
    const int64_t first = (int64_t)blockIdx.x * CADRE_NORM_CHUNK;
    const int64_t end =
        count - first < CADRE_NORM_CHUNK ? count : first + CADRE_NORM_CHUNK;
    double sum = 0;
    for (int64_t i = first + (int)threadIdx.x * N; i < end; i += THREADS * N) {
        const pack<T> px = load<N>(x + i, end - i, vec);
        const pack<T> py = load<N>(y + i, end - i, vec);
        for (int j = 0; j < N; j++)
            sum += (double)widen(px.v[j]) * (double)widen(py.v[j]);
    }
    sum = block_sum(sum, room);
    if (threadIdx.x == 0)
        sums[blockIdx.x] = sum;
}

__global__ static void dot_total(const double *chunks, uint64_t n, uint64_t span,
                                 double *out)
{
    __shared__ double sums[THREADS];
    const double total = tree_total(chunks, n, span, sums);
    if (threadIdx.x == 0)
        *out = total;
}

extern "C" size_t cadre_cuda_dot_scratch(int64_t count)
{
    return ((size_t)ceil_div(count, CADRE_NORM_CHUNK) + 1) * sizeof(double);
}

extern "C" cadre_status cadre_cuda_dot(uint32_t dtype, const void *x, const void *y,
                                       int64_t count, void *scratch, void *stream)
{
    double *total = (double *)scratch;
    const uint64_t n = (uint64_t)ceil_div(count, CADRE_NORM_CHUNK);
    if (n > 0)
        CADRE_DISPATCH("dot", dtype,
                       CADRE_LAUNCH(dot_chunks<T>, (unsigned)n, THREADS, 0, stream,
                                    (const T *)x, (const T *)y, count, aligned(x, y),
                                    total + 1));
    CADRE_LAUNCH(dot_total, 1, THREADS, 0, stream, total + 1, n, span_of(n), total);
    return cadre_launch_check("dot");
}
