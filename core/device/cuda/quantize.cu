/* SPDX-License-Identifier: Apache-2.0 */
/* int8 with a scale for each block of elements (see core/device/cpu/quantize.c): the
 * arithmetic is that of the CPU, in double, so the bits are the same. */
#include <float.h>

#include "core/device/cuda/kernels.h"
#include "core/device/cuda/math.cuh"

#define LARGEST 127.0

enum { THREADS = 256, WARPS = THREADS / 32 };

__device__ static float scale_of(double most)
{
    if (!(most / LARGEST <= (double)FLT_MAX))
        return NAN;
    const float scale = (float)(most / LARGEST);
    const bool small = most > 0 && (double)scale * (LARGEST + 0.5) <= most;
    return small ? nextafterf(scale, INFINITY) : scale;
}

__device__ static float form_scale(double most)
{
    const float scale = (float)(most / LARGEST);
    if (!(most / LARGEST <= (double)FLT_MAX))
        return NAN;
    if (scale < FLT_MIN)
        return most > (double)FLT_MIN / 2 ? FLT_MIN : 0;
    return float_of(bits_of(scale) & ~0x7fu);
}

/* For a whole warp: the largest magnitude of elements [first, last) of x; NaN where one
 * is not finite. */
template <class T>
__device__ static double largest(const T *x, int64_t first, int64_t last)
{
    double most = 0, bad = 0;
    for (int64_t i = first + (int)threadIdx.x % 32; i < last; i += 32) {
        const double size = fabs((double)widen(x[i]));
        most = size > most ? size : most;
        bad += size - size; /* 0, or NaN of an infinity or a NaN */
    }
    return warp_max(most) + warp_sum(bad);
}

template <class T> __device__ static int8_t code_of(T x, float scale)
{
    const double in_steps = (double)widen(x) / (double)scale;
    return scale > 0 ? (int8_t)rint(in_steps) : (int8_t)0;
}

/* A warp has a block of elements. */
template <class T>
__global__ void quantize(const T *x, int64_t count, int64_t block, int8_t *q,
                         float *scales)
{
    const int64_t b = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    const int64_t first = b * block;
    const int64_t last = count - first < block ? count : first + block;
    if (first >= count)
        return;
    const float scale = scale_of(largest(x, first, last));
    if (threadIdx.x % 32 == 0)
        scales[b] = scale;
    for (int64_t i = first + (int)threadIdx.x % 32; i < last; i += 32)
        q[i] = code_of(x[i], scale);
}

template <class T>
__global__ void dequantize(const int8_t *q, const float *scales, int64_t block, T *x,
                           int64_t count)
{
    typedef wide_t<T> W;
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        x[i] = narrow<T>((W)q[i] * (W)scales[i / block]);
}

static cadre_status check_block(const char *what, int64_t block)
{
    if (block > 0)
        return CADRE_OK;
    cadre_log(CADRE_LOG_ERROR, "device", "cuda: %s in blocks of %lld elements", what,
              (long long)block);
    return CADRE_E_DEVICE;
}

extern "C" cadre_status cadre_cuda_quantize(uint32_t dtype, const void *x,
                                            int64_t count, int64_t block, int8_t *q,
                                            float *scales, void *stream)
{
    if (check_block("quantize", block) != CADRE_OK)
        return CADRE_E_DEVICE;
    if (count <= 0)
        return CADRE_OK;
    const int64_t warps = count / block + (count % block != 0);
    CADRE_DISPATCH("quantize", dtype,
                   CADRE_LAUNCH(quantize<T>, (unsigned)ceil_div(warps, WARPS), THREADS,
                                0, stream, (const T *)x, count, block, q, scales));
    return cadre_launch_check("quantize");
}

extern "C" cadre_status cadre_cuda_dequantize(const int8_t *q, const float *scales,
                                              int64_t block, uint32_t dtype, void *x,
                                              int64_t count, void *stream)
{
    if (check_block("dequantize", block) != CADRE_OK)
        return CADRE_E_DEVICE;
    if (count <= 0)
        return CADRE_OK;
    CADRE_DISPATCH("dequantize", dtype,
                   CADRE_LAUNCH(dequantize<T>, (unsigned)ceil_div(count, THREADS),
                                THREADS, 0, stream, q, scales, block, (T *)x, count));
    return cadre_launch_check("dequantize");
}

/* ---- CADRE_FORM_INT8: codes and scale of a block together ---- */

/* A warp has a block. */
template <class T>
__global__ void int8_encode(const T *x, int64_t count, unsigned char *blocks)
{
    const int64_t b = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    const int64_t first = b * CADRE_INT8_BLOCK;
    const int64_t left = count - first;
    const int64_t last = left < CADRE_INT8_BLOCK ? count : first + CADRE_INT8_BLOCK;
    if (first >= count)
        return;
    const float scale = form_scale(largest(x, first, last));
    const uint32_t bits = scale == scale ? bits_of(scale) : 0x7fc00000u; /* one NaN */
    unsigned char *to = blocks + b * CADRE_INT8_BYTES;
    for (int i = (int)threadIdx.x % 32; i < (int)CADRE_INT8_BLOCK; i += 32)
        to[i] = i < left ? (unsigned char)code_of(x[first + i], scale) : 0;
    if (threadIdx.x % 32 < sizeof scale)
        to[CADRE_INT8_BLOCK + threadIdx.x % 32] =
            (unsigned char)(bits >> 8 * (threadIdx.x % 32));
}

template <class T>
__global__ void int8_decode(const unsigned char *blocks, T *x, int64_t count)
{
    typedef wide_t<T> W;
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    const unsigned char *from = blocks + i / CADRE_INT8_BLOCK * CADRE_INT8_BYTES;
    uint32_t bits = 0;
    for (int j = 3; j >= 0; j--)
        bits = bits << 8 | from[CADRE_INT8_BLOCK + j];
    const int8_t code = (int8_t)from[i % CADRE_INT8_BLOCK];
    x[i] = narrow<T>((W)code * (W)float_of(bits));
}

extern "C" cadre_status cadre_cuda_int8_encode(uint32_t dtype, const void *x,
                                               int64_t count, void *blocks,
                                               void *stream)
{
    const int64_t warps = ceil_div(count, CADRE_INT8_BLOCK);
    if (count <= 0)
        return CADRE_OK;
    CADRE_DISPATCH("int8_encode", dtype,
                   CADRE_LAUNCH(int8_encode<T>, (unsigned)ceil_div(warps, WARPS),
                                THREADS, 0, stream, (const T *)x, count,
                                (unsigned char *)blocks));
    return cadre_launch_check("int8_encode");
}

extern "C" cadre_status cadre_cuda_int8_decode(const void *blocks, uint32_t dtype,
                                               void *x, int64_t count, void *stream)
{
    if (count <= 0)
        return CADRE_OK;
    CADRE_DISPATCH("int8_decode", dtype,
                   CADRE_LAUNCH(int8_decode<T>, (unsigned)ceil_div(count, THREADS),
                                THREADS, 0, stream, (const unsigned char *)blocks,
                                (T *)x, count));
    return cadre_launch_check("int8_decode");
}
