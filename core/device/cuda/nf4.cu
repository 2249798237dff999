/* SPDX-License-Identifier: Apache-2.0 */
/* NF4 with double quantization, decoded (see core/tensor/nf4.h), in the bits of the
 * CPU: this file is compiled without contraction of products and sums. */
#include "core/tensor/nf4.h"

#include "core/device/cuda/kernels.h"
#include "core/device/cuda/math.cuh"
#include "core/tensor/nf4_codes.h"

enum { THREADS = 256 };

__device__ static const float value[16] = {CADRE_NF4_VALUES};
__device__ static const float nested_value[256] = {CADRE_NF4_NESTED_VALUES};

/* A thread has an element. */
template <class T>
__global__ void nf4_decode(const unsigned char *blocks, const float *scales,
                           int64_t first, T *x, int64_t count)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    const int64_t b = i / CADRE_NF4_BLOCK;
    const int at = (int)(i % CADRE_NF4_BLOCK);
    const unsigned char *from = blocks + b * CADRE_NF4_BYTES;
    const float nested = scales[1 + (first + b) / CADRE_NF4_NESTED];
    const float absmax = nested_value[from[CADRE_NF4_BYTES - 1]] * nested + scales[0];
    const int pair = from[at / 2];
    const float element = value[at % 2 ? pair & 15 : pair >> 4] * absmax;
    x[i] = narrow<T>((wide_t<T>)element);
}

extern "C" cadre_status cadre_cuda_nf4_decode(const void *blocks, const float *scales,
                                              int64_t first, uint32_t dtype, void *x,
                                              int64_t count, void *stream)
{
    if (count <= 0)
        return CADRE_OK;
    CADRE_DISPATCH("nf4_decode", dtype,
                   CADRE_LAUNCH(nf4_decode<T>,
                                (unsigned)((count + THREADS - 1) / THREADS), THREADS, 0,
                                stream, (const unsigned char *)blocks, scales, first,
                                (T *)x, count));
    return cadre_launch_check("nf4_decode");
}
