/* SPDX-License-Identifier: Apache-2.0 */
/* An orthonormal basis of a few columns by one block; core/device/cpu/orthonormal.c
 * describes the method. Sums are in double: a thread's rows in order, then a tree. */
#include <float.h>

#include "core/device/cuda/kernels.h"
#include "core/device/cuda/math.cuh"

enum { THREADS = 512 };

template <class T> struct basis {
    T *x;
    int64_t rows, columns;
    double *dots; /* (columns) */
    double *room; /* shared, 32 */
    __device__ double get(int64_t row, int64_t column) const
    {
        return (double)widen(x[row * columns + column]);
    }
    __device__ void set(int64_t row, int64_t column, double value) const
    {
        x[row * columns + column] = narrow<T>(value);
    }
};

/* NaN where one is. */
template <class T> __device__ static double length_of(const basis<T> &b, int64_t column)
{
    double most = 0, bad = 0, sum = 0;
    for (int64_t r = threadIdx.x; r < b.rows; r += THREADS) {
        const double size = fabs(b.get(r, column));
        most = size > most ? size : most;
        bad += size != size ? size : 0;
    }
    most = block_max(most, b.room) + block_sum(bad, b.room);
    if (!(most > 0))
        return most;
    for (int64_t r = threadIdx.x; r < b.rows; r += THREADS) {
        const double part = b.get(r, column) / most;
        sum += part * part;
    }
    return most * sqrt(block_sum(sum, b.room));
}

/* Subtract from a column its projections onto the columns before it. */
template <class T> __device__ static void project(const basis<T> &b, int64_t column)
{
    for (int64_t k = 0; k < column; k++) {
        double sum = 0;
        for (int64_t r = threadIdx.x; r < b.rows; r += THREADS)
            sum += b.get(r, k) * b.get(r, column);
        sum = block_sum(sum, b.room);
        if (threadIdx.x == 0)
            b.dots[k] = sum;
    }
    __syncthreads();
    for (int64_t r = threadIdx.x; r < b.rows; r += THREADS) {
        double value = b.get(r, column);
        for (int64_t k = 0; k < column; k++)
            value -= b.dots[k] * b.get(r, k);
        b.set(r, column, value);
    }
    __syncthreads();
}

template <class T>
__device__ static void divide(const basis<T> &b, int64_t column, double by)
{
    for (int64_t r = threadIdx.x; r < b.rows; r += THREADS)
        b.set(r, column, b.get(r, column) / by);
    __syncthreads();
}

/* The coordinate direction with the smallest projection onto the columns before, the
 * first of equals. */
template <class T>
__device__ static void take_coordinate(const basis<T> &b, int64_t column)
{
    double least = -INFINITY, row = 0; /* of - has, so that block_max finds it */
    for (int64_t r = threadIdx.x; r < b.rows; r += THREADS) {
        double has = 0;
        for (int64_t k = 0; k < column; k++)
            has += b.get(r, k) * b.get(r, k);
        if (-has > least) {
            least = -has;
            row = (double)r;
        }
    }
    const double best = block_max(least, b.room);
    const double first = -block_max(least == best ? -row : -INFINITY, b.room);
    for (int64_t r = threadIdx.x; r < b.rows; r += THREADS)
        b.set(r, column, (double)r == first ? 1 : 0);
    __syncthreads();
}

template <class T>
__global__ void orthonormalize(T *x, int64_t rows, int64_t columns, double *dots,
                               double eps)
{
    __shared__ double room[32];
    const basis<T> b = {x, rows, columns, dots, room};
    for (int64_t c = 0; c < columns; c++) {
        const double before = length_of(b, c);
        if (before > 0) { /* now no square is beyond the range */
            divide(b, c, before);
            project(b, c);
        }
        if (before == 0 || length_of(b, c) <= 64 * eps) {
            take_coordinate(b, c);
            project(b, c);
        }
        divide(b, c, length_of(b, c));
        project(b, c);
        divide(b, c, length_of(b, c));
    }
}

extern "C" size_t cadre_cuda_orthonormalize_scratch(int64_t columns)
{
    return (size_t)(columns > 0 ? columns : 1) * sizeof(double);
}

extern "C" cadre_status cadre_cuda_orthonormalize(uint32_t dtype, void *x, int64_t rows,
                                                  int64_t columns, void *scratch,
                                                  void *stream)
{
    const double eps = dtype == CADRE_F64    ? DBL_EPSILON
                       : dtype == CADRE_BF16 ? 1.0 / 128
                       : dtype == CADRE_F16  ? 1.0 / 1024
                                             : (double)FLT_EPSILON;
    if (columns > rows || columns < 0) {
        cadre_log(CADRE_LOG_ERROR, "device",
                  "cuda: %lld orthonormal columns of %lld rows", (long long)columns,
                  (long long)rows);
        return CADRE_E_DEVICE;
    }
    if (columns == 0)
        return CADRE_OK;
    CADRE_DISPATCH("orthonormalize", dtype,
                   CADRE_LAUNCH(orthonormalize<T>, 1, THREADS, 0, stream, (T *)x, rows,
                                columns, (double *)scratch, eps));
    return cadre_launch_check("orthonormalize");
}
