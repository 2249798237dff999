/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of the stand-in. */
#ifndef CADRE_TESTS_CUDA_HOST_RUNTIME_H
#define CADRE_TESTS_CUDA_HOST_RUNTIME_H

#include "tests/support/cuda_host/cuda_runtime.h"

namespace cadre_host
{

/* Holds the stand-in's one lock, which one thread may take again. */
struct locked {
    locked();
    ~locked();
    locked(const locked &) = delete;
};

/* Device memory is reachable while one of these lives; under the lock. */
struct open_memory {
    open_memory();
    ~open_memory();
    open_memory(const open_memory &) = delete;
};

/* Remember the error for cudaGetLastError, and return it. */
cudaError_t fail(cudaError_t error);

/* Under the lock: run what every stream has been given. */
void run_all();

/* Is a capture under way, in any stream; in this one? Under the lock. */
bool any_capture();
bool capturing(cudaStream_t stream);

/* May the device read and write ptr[0..bytes)? */
bool is_device(const void *ptr, size_t bytes);

} // namespace cadre_host

#endif
