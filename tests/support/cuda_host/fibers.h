/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels on the host, for tests: every CUDA thread is a fiber, a block runs on one
 * thread of the host, block after block; barriers and operations of a warp are where
 * fibers change. Included by core/device/cuda/launch.cuh where nvcc does not compile.
 *
 * An error ends the program with one line on stderr: a barrier or an operation of a
 * warp that part of its threads never reach, a lane that is not there, a mask that is
 * not full, a launch beyond the limits of the hardware. Dynamic shared memory is
 * allocated to the byte and filled with NaN for every block, so that AddressSanitizer
 * and a comparison detect reads outside it or before it is written. An asynchronous
 * copy happens when it is waited for, and so does a product of wgmma. Missing fences,
 * and races between warps that the order of the fibers hides, are not detected. */
#ifndef CADRE_TESTS_CUDA_HOST_FIBERS_H
#define CADRE_TESTS_CUDA_HOST_FIBERS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

typedef struct CUstream_st *cudaStream_t;

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __restrict__ __restrict
#define __shared__ static thread_local
#define __align__(n) __attribute__((aligned(n)))

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1)
        : x(x_), y(y_), z(z_)
    {
    }
};

/* Vectors of 8 and 16 bytes, with their alignment on the GPU. */
struct __align__(8) uint2
{
    unsigned x, y;
};
struct __align__(16) uint4
{
    unsigned x, y, z, w;
};
struct __align__(8) float2
{
    float x, y;
};
struct __align__(16) float4
{
    float x, y, z, w;
};
struct __align__(16) double2
{
    double x, y;
};

/* Add work to a stream. The stand-in of the CUDA runtime has its own, which runs it as
 * late as the stream's order allows; without it the work runs at once. */
void cadre_host_enqueue(cudaStream_t stream, std::function<void()> work);

namespace cadre_host
{
/* Where the running fiber is. */
struct place {
    dim3 thread, block, threads, blocks;
};
const place &here();

/* Run `body` as every thread of every block, now. */
void run_grid(const std::function<void()> &body, dim3 grid, dim3 block, size_t shared);

/* The arguments are converted now and the kernel runs with its stream. */
template <class... P, class... A>
void launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared,
            cudaStream_t stream, A &&...args)
{
    std::tuple<std::remove_cv_t<P>...> kept(std::forward<A>(args)...);
    cadre_host_enqueue(stream, [=] {
        run_grid([&] { std::apply(kernel, kept); }, grid, block, shared);
    });
}

unsigned char *dynamic_shared();
void block_barrier();
void warp_barrier();
unsigned lane();
void check_mask(unsigned mask);

/* Exchange 8 bytes: give them to the warp and take those of another lane. */
uint64_t exchange(uint64_t mine, unsigned from);
/* Bit l is set where lane l's value is not 0. */
unsigned ballot(int mine);

template <class T> T shuffle(unsigned mask, T value, unsigned from)
{
    static_assert(sizeof(T) <= 8 && std::is_trivially_copyable<T>::value, "a register");
    uint64_t bits = 0;
    check_mask(mask);
    memcpy(&bits, &value, sizeof value);
    bits = exchange(bits, from);
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The lane that lane l reads: itself where `from` leaves the segment of `width`. */
inline unsigned in_segment(int from, int width)
{
    const int l = (int)lane(), first = l / width * width;
    return (unsigned)(from >= first && from < first + width ? from : l);
}

void mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2]);
void mma_f16(float d[4], const uint32_t a[4], const uint32_t b[2]);
void ldmatrix_x4(uint32_t r[4], const void *row);
void ldmatrix_x4_trans(uint32_t r[4], const void *row);
void wgmma(float d[8][4], const uint32_t *a, const void *a_tile, const void *b,
           bool across, bool add, bool is_bf16);
void wgmma_commit();
void wgmma_finish(unsigned left);
template <int left> void wgmma_wait()
{
    wgmma_finish((unsigned)left);
}
void copy_async16(void *shared, const void *global, bool valid);
void copy_commit();
void copy_finish(unsigned left);
template <int left> void copy_wait()
{
    copy_finish((unsigned)left);
}
} // namespace cadre_host

#define threadIdx (cadre_host::here().thread)
#define blockIdx (cadre_host::here().block)
#define blockDim (cadre_host::here().threads)
#define gridDim (cadre_host::here().blocks)
enum { warpSize = 32 };

inline void __syncthreads()
{
    cadre_host::block_barrier();
}

inline void __syncwarp(unsigned mask = 0xffffffffu)
{
    cadre_host::check_mask(mask);
    cadre_host::warp_barrier();
}

template <class T> T __shfl_sync(unsigned mask, T value, int from, int width = 32)
{
    const int first = (int)cadre_host::lane() / width * width;
    return cadre_host::shuffle(mask, value, (unsigned)(first + (from & (width - 1))));
}

template <class T> T __shfl_xor_sync(unsigned mask, T value, int with, int width = 32)
{
    const int from = (int)cadre_host::lane() ^ with;
    return cadre_host::shuffle(mask, value, cadre_host::in_segment(from, width));
}

template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32)
{
    const int from = (int)(cadre_host::lane() + by);
    return cadre_host::shuffle(mask, value, cadre_host::in_segment(from, width));
}

template <class T> T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32)
{
    const int from = (int)cadre_host::lane() - (int)by;
    return cadre_host::shuffle(mask, value, cadre_host::in_segment(from, width));
}

inline unsigned __ballot_sync(unsigned mask, int value)
{
    cadre_host::check_mask(mask);
    return cadre_host::ballot(value);
}

inline int __any_sync(unsigned mask, int value)
{
    return __ballot_sync(mask, value) != 0;
}

inline int __popc(unsigned bits)
{
    return __builtin_popcount(bits);
}

/* On the GPU other blocks may run in between; here blocks run one at a time. */
template <class T> T atomicAdd(T *at, T value)
{
    const T old = *at;
    *at = old + value;
    return old;
}

template <class T> T __ldg(const T *at)
{
    return *at;
}

inline float rsqrtf(float x)
{
    return 1.0f / sqrtf(x);
}

#endif
