/* SPDX-License-Identifier: Apache-2.0 */
/* What a file of kernels needs beyond CUDA C++, so that nvcc compiles it for the GPU
 * and the host's C++ compiler for the tests (tests/support/cuda_host/fibers.h).
 *
 *   CADRE_LAUNCH(kernel, grid, block, shared_bytes, stream, args...)
 *       <<<>>>; a template with several arguments goes in parentheses
 *   CADRE_ALLOW_SHARED(kernel, bytes)   before a launch with more than 48 KiB
 *   CADRE_DYNAMIC_SHARED(type, name)    in a kernel: type *name, aligned to 16 bytes
 *   CADRE_SWIZZLED_SHARED(type, name)   the same, aligned to 1024 bytes, for wgmma
 *   cadre_mma_bf16, cadre_mma_f16       mma.sync m16n8k16, row.col, f32 sums
 *   cadre_ldmatrix_x4(_trans)           ldmatrix.sync.m8n8.x4.b16
 *   cadre_copy_async16, _commit, _wait  cp.async; on the host the copy happens at wait
 *
 * Rules that keep a kernel correct on both: whole warps (a block is a multiple of 32
 * threads), full masks, and no thread returns before a barrier of its block or warp. */
#ifndef CADRE_DEVICE_CUDA_LAUNCH_CUH
#define CADRE_DEVICE_CUDA_LAUNCH_CUH

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern "C" {
#include "core/base/log.h"
#include "core/device/device.h"
}

#ifdef __CUDACC__
#include <cuda_runtime.h>

#define CADRE_LAUNCH(kernel, grid, block, shared, stream, ...)                         \
    kernel<<<(grid), (block), (shared), (cudaStream_t)(stream)>>>(__VA_ARGS__)
#define CADRE_ALLOW_SHARED(kernel, bytes)                                              \
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,          \
                         (int)(bytes))
#define CADRE_DYNAMIC_SHARED(type, name)                                               \
    extern __shared__ __align__(16) unsigned char cadre_dynamic_shared_[];             \
    type *name = reinterpret_cast<type *>(cadre_dynamic_shared_)
#define CADRE_SWIZZLED_SHARED(type, name)                                              \
    extern __shared__ __align__(1024) unsigned char cadre_swizzled_shared_[];          \
    type *name = reinterpret_cast<type *>(cadre_swizzled_shared_)
#define CADRE_FULL_WARP 0xffffffffu

/* d (16, 8) += a (16, 16) * b (16, 8) of a warp; fragments as in the PTX ISA, "Matrix
 * fragments for mma.m16n8k16 with floating point type". */
__device__ static inline void cadre_mma_bf16(float d[4], const uint32_t a[4],
                                             const uint32_t b[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ static inline void cadre_mma_f16(float d[4], const uint32_t a[4],
                                            const uint32_t b[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* Four 8 x 8 matrices of 16-bit elements out of shared memory: lane l names row l % 8
 * of matrix l / 8, 16 bytes, aligned. Lane l receives of each matrix elements 2 (l % 4)
 * and the next of row l / 4; of its transpose in the second form. */
__device__ static inline void cadre_ldmatrix_x4(uint32_t r[4], const void *row)
{
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3},[%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}

__device__ static inline void cadre_ldmatrix_x4_trans(uint32_t r[4], const void *row)
{
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3},[%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}

/* 16 bytes from global to shared memory, both aligned; zeros where `valid` is not set,
 * and then the source is not read. */
__device__ static inline void cadre_copy_async16(void *shared, const void *global,
                                                 bool valid)
{
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(shared);
    const int bytes = valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0],[%1],16,%2;" ::"r"(at), "l"(global),
                 "r"(bytes)
                 : "memory");
}

__device__ static inline void cadre_copy_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Wait until all but the newest `left` groups of this thread have arrived. */
template <int left> __device__ static inline void cadre_copy_wait(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
}

/* CADRE_OK, or one log line that names `what` and the error of the launch. */
static inline cadre_status cadre_launch_check(const char *what)
{
    const cudaError_t code = cudaGetLastError();
    if (code == cudaSuccess)
        return CADRE_OK;
    cadre_log(CADRE_LOG_ERROR, "device", "cuda: the launch of %s: %s (%s)", what,
              cudaGetErrorName(code), cudaGetErrorString(code));
    return CADRE_E_DEVICE;
}

#else
#include "tests/support/cuda_host/fibers.h"

#define CADRE_LAUNCH(kernel, grid, block, shared, stream, ...)                         \
    cadre_host::launch(kernel, grid, block, shared, (cudaStream_t)(stream), __VA_ARGS__)
#define CADRE_ALLOW_SHARED(kernel, bytes) ((void)(kernel), (void)(bytes))
#define CADRE_DYNAMIC_SHARED(type, name)                                               \
    type *name = reinterpret_cast<type *>(cadre_host::dynamic_shared())
#define CADRE_SWIZZLED_SHARED CADRE_DYNAMIC_SHARED
#define CADRE_FULL_WARP 0xffffffffu
#define cadre_mma_bf16 cadre_host::mma_bf16
#define cadre_mma_f16 cadre_host::mma_f16
#define cadre_ldmatrix_x4 cadre_host::ldmatrix_x4
#define cadre_ldmatrix_x4_trans cadre_host::ldmatrix_x4_trans
#define cadre_copy_async16 cadre_host::copy_async16
#define cadre_copy_commit cadre_host::copy_commit
#define cadre_copy_wait cadre_host::copy_wait

static inline cadre_status cadre_launch_check(const char *what)
{
    (void)what;
    return CADRE_OK;
}
#endif

#endif
