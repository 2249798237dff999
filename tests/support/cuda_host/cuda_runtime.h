/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels' files include. Launches become closures: cadre_host_enqueue. */
#ifndef CADRE_TESTS_CUDA_RUNTIME_H
#define CADRE_TESTS_CUDA_RUNTIME_H

#include "tests/support/cuda_host/cuda_runtime_api.h"

#ifdef __cplusplus
#include <functional>

/* Append work to a stream (NULL: the default stream). It runs on a host thread that
 * waits for it (or one of NCCL's), with device memory reachable; one closure runs at a
 * time in the whole process. A closure that throws nothing, always. [any thread] */
void cadre_host_enqueue(cudaStream_t stream, std::function<void()> work);

template <typename F>
static inline cudaError_t cudaFuncSetAttribute(F *kernel, cudaFuncAttribute attr,
                                               int value)
{
    return cudaFuncSetAttribute((const void *)kernel, attr, value);
}
#endif

#endif
