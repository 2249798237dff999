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

/* A warp has a block of elements. */
template <class T>
__global__ void quantize(const T *x, int64_t count, int64_t block, int8_t *q,
                         float *scales)
{
    const int64_t b = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    const int64_t first = b * block;
    const int64_t last = count - first < block ? count : first + block;
    double most = 0, bad = 0;
    if (first >= count)
        return;
    for (int64_t i = first + (int)threadIdx.x % 32; i < last; i += 32) {
        const double size = fabs((double)widen(x[i]));
        most = size > most ? size : most;
        bad += size - size; /* 0, or NaN of an infinity or a NaN */
    }
    const float scale = scale_of(warp_max(most) + warp_sum(bad));
    if (threadIdx.x % 32 == 0)
        scales[b] = scale;
    for (int64_t i = first + (int)threadIdx.x % 32; i < last; i += 32) {
        const double in_steps = (double)widen(x[i]) / (double)scale;
        q[i] = scale > 0 ? (int8_t)rint(in_steps) : (int8_t)0;
    }
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
