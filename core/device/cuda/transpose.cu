/* SPDX-License-Identifier: Apache-2.0 */
/* Moves of matrices. The transpose: a block moves a square through shared memory, so
 * that both sides are read and written in rows. Elements are moved as bits of their
 * size. */
#include "core/device/cuda/kernels.h"
#include "core/device/cuda/math.cuh"

enum { THREADS = 256, EDGE = 32, BAND = THREADS / EDGE };

template <class U>
__global__ void transpose(U *out, const U *x, int64_t rows, int64_t columns,
                          int64_t across)
{
    __shared__ U square[EDGE][EDGE + 1]; /* one more: no two rows share their banks */
    const int64_t row = (int64_t)blockIdx.x / across * EDGE;
    const int64_t column = (int64_t)blockIdx.x % across * EDGE;
    const int lane = (int)threadIdx.x % EDGE;
    for (int r = (int)threadIdx.x / EDGE; r < EDGE; r += BAND)
        if (row + r < rows && column + lane < columns)
            square[r][lane] = x[(row + r) * columns + column + lane];
    __syncthreads();
    for (int c = (int)threadIdx.x / EDGE; c < EDGE; c += BAND)
        if (column + c < columns && row + lane < rows)
            out[(column + c) * rows + row + lane] = square[lane][c];
}

template <class U>
static void launch_transpose(void *out, const void *x, int64_t rows, int64_t columns,
                             void *stream)
{
    const int64_t down = ceil_div(rows, EDGE), across = ceil_div(columns, EDGE);
    if (down * across > 0)
        CADRE_LAUNCH(transpose<U>, (unsigned)(down * across), THREADS, 0, stream,
                     (U *)out, (const U *)x, rows, columns, across);
}

template <class U>
__global__ void copy_rows(U *dst, int64_t ldd, const U *src, int64_t lds, int64_t rows,
                          int64_t columns)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const int64_t row = i / columns, column = i % columns;
    if (row < rows)
        dst[row * ldd + column] = src[row * lds + column];
}

template <class U>
static void launch_copy(void *dst, int64_t ldd, const void *src, int64_t lds,
                        int64_t rows, int64_t columns, void *stream)
{
    if (rows * columns > 0)
        CADRE_LAUNCH(copy_rows<U>, (unsigned)ceil_div(rows * columns, THREADS), THREADS,
                     0, stream, (U *)dst, ldd, (const U *)src, lds, rows, columns);
}

/* Run the rest with U an integer of the size of `dtype`, or return an error. */
#define BY_SIZE(what, dtype, ...)                                                      \
    switch (dtype) {                                                                   \
    case CADRE_F64: {                                                                  \
        typedef uint64_t U;                                                            \
        __VA_ARGS__;                                                                   \
        break;                                                                         \
    }                                                                                  \
    case CADRE_F32:                                                                    \
    case CADRE_I32: {                                                                  \
        typedef uint32_t U;                                                            \
        __VA_ARGS__;                                                                   \
        break;                                                                         \
    }                                                                                  \
    case CADRE_BF16:                                                                   \
    case CADRE_F16: {                                                                  \
        typedef uint16_t U;                                                            \
        __VA_ARGS__;                                                                   \
        break;                                                                         \
    }                                                                                  \
    default:                                                                           \
        return refuse_dtype(what, dtype);                                              \
    }

extern "C" cadre_status cadre_cuda_transpose(uint32_t dtype, void *out, const void *x,
                                             int64_t rows, int64_t columns,
                                             void *stream)
{
    BY_SIZE("transpose", dtype, launch_transpose<U>(out, x, rows, columns, stream));
    return cadre_launch_check("transpose");
}

extern "C" cadre_status cadre_cuda_copy_rows(uint32_t dtype, void *dst, int64_t ldd,
                                             const void *src, int64_t lds, int64_t rows,
                                             int64_t columns, void *stream)
{
    BY_SIZE("copy_rows", dtype,
            launch_copy<U>(dst, ldd, src, lds, rows, columns, stream));
    return cadre_launch_check("copy_rows");
}
