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

/* Under the lock, however often it was taken: release it for a moment, longer after
 * more turns. No memory is open. */
void relax(unsigned turn);

/* Under the lock: run what every stream of the device has been given. */
void run_all(int device);

/* Append work that may have to wait for another thread or rank. `steps` is called
 * repeatedly once it is first in the stream, until it returns true; it never blocks,
 * and opens memory itself. Not in a capture. [any thread] */
void enqueue_steps(cudaStream_t stream, std::function<bool()> steps);

/* Run the event's stream as far as possible without waiting, but not beyond the
 * event. */
void advance_to(cudaEvent_t event);

/* Is a capture under way, in any stream; in this one? Under the lock. */
bool any_capture();
bool capturing(cudaStream_t stream);

/* Called by work of a stream: the stream's events measure `ms` more. */
void take_longer(double ms);

/* Is ptr[0..bytes) memory of the device; that, or pinned memory of the host? */
bool is_device(const void *ptr, size_t bytes);
bool is_reachable(const void *ptr, size_t bytes);

} // namespace cadre_host

#endif
