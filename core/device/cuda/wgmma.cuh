/* SPDX-License-Identifier: Apache-2.0 */
/* wgmma of Hopper: asynchronous products of a warpgroup, four consecutive warps, for
 * files that nvcc compiles for sm_90a alone. The left operand is in registers, in the
 * fragments of mma.sync m16n8k16 (warp w of the group has rows 16w to 16w + 15); the
 * right one is a tile in shared memory with rows of 64 elements of 16 bits, in the
 * layout of attention_mma.cuh, which is wgmma's swizzle of 128 bytes where the tile is
 * aligned to 1024 bytes (CADRE_SWIZZLED_SHARED).
 *
 *   cadre_wgmma_see()       after writing shared memory, before the barrier that comes
 *                           before products which read it
 *   cadre_wgmma_begin()     before products whose registers were written meanwhile
 *   cadre_wgmma<T, across, add>(d, a, b)
 *   cadre_wgmma_tiles<T, add>(d, a, b)
 *   cadre_wgmma_commit()    the products since the last one are a group
 *   cadre_wgmma_wait<n>()   until all but the newest n groups are done
 *   cadre_wgmma_keep(d)     after that wait, for each accumulator that is used now: the
 *                           compiler does not know that it was being written
 *
 * PTX ISA 8.0 and later, "Asynchronous warpgroup level matrix instructions". */
#ifndef CADRE_DEVICE_CUDA_WGMMA_CUH
#define CADRE_DEVICE_CUDA_WGMMA_CUH

#include "core/device/cuda/half.cuh"

#include <type_traits>

#ifdef __CUDACC__

/* The descriptor of a tile: its address, 8 rows every 1024 bytes, swizzle of 128. */
__device__ static __forceinline__ uint64_t cadre_wgmma_tile(const void *tile)
{
    const uint64_t at = (uint64_t)__cvta_generic_to_shared(tile);
    return (at & 0x3ffff) >> 4 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 16 |
           (uint64_t)1 << 62;
}

#define CADRE_WGMMA_ROW(io, i) io(d[i][0]), io(d[i][1]), io(d[i][2]), io(d[i][3])
#define CADRE_WGMMA_ALL(io)                                                            \
    CADRE_WGMMA_ROW(io, 0), CADRE_WGMMA_ROW(io, 1), CADRE_WGMMA_ROW(io, 2),            \
        CADRE_WGMMA_ROW(io, 3), CADRE_WGMMA_ROW(io, 4), CADRE_WGMMA_ROW(io, 5),        \
        CADRE_WGMMA_ROW(io, 6), CADRE_WGMMA_ROW(io, 7)
#define CADRE_WGMMA_NAME(type)                                                         \
    "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " "                    \
    "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"                          \
    "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31},"
#define CADRE_WGMMA(type, io, across, add)                                             \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n" CADRE_WGMMA_NAME(        \
                     type) "{%32,%33,%34,%35}, %36, p, 1, 1, %38;\n}\n"                \
                 : CADRE_WGMMA_ALL(io)                                                 \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]),                         \
                   "l"(cadre_wgmma_tile(b)), "n"(add), "n"(across))
#define CADRE_WGMMA_TILES(type, io, add)                                               \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n" CADRE_WGMMA_NAME(        \
                     type) "%32, %33, p, 1, 1, 0, 0;\n}\n"                             \
                 : CADRE_WGMMA_ALL(io)                                                 \
                 : "l"(cadre_wgmma_tile(a)), "l"(cadre_wgmma_tile(b)), "n"(add))
#define CADRE_WGMMA_OUT(x) "=f"(x)
#define CADRE_WGMMA_IN_OUT(x) "+f"(x)

/* d (64, 64) = a (64, 16) * b, added to d where `add` is set. b (16, 64) has rows 0 to
 * 15 of the tile that begins at b; where it is not `across`, the transpose of columns 0
 * to 15 of 64 rows. b may begin at any 8th row of a tile, or at any 8th column without
 * `across`. */
template <typename T, bool across, bool add>
__device__ static __forceinline__ void cadre_wgmma(float d[8][4], const uint32_t a[4],
                                                   const void *b)
{
    constexpr bool bf = std::is_same<T, bf16>::value;
    if constexpr (bf && add)
        CADRE_WGMMA("bf16", CADRE_WGMMA_IN_OUT, across, 1);
    else if constexpr (bf) /* no other instruction defines d */
        CADRE_WGMMA("bf16", CADRE_WGMMA_OUT, across, 0);
    else if constexpr (add)
        CADRE_WGMMA("f16", CADRE_WGMMA_IN_OUT, across, 1);
    else
        CADRE_WGMMA("f16", CADRE_WGMMA_OUT, across, 0);
}

/* The same with rows of a tile as the left operand: columns 0 to 15 of the 64 rows that
 * begin at a, times the transpose of those at b. */
template <typename T, bool add>
__device__ static __forceinline__ void cadre_wgmma_tiles(float d[8][4], const void *a,
                                                         const void *b)
{
    constexpr bool bf = std::is_same<T, bf16>::value;
    if constexpr (bf && add)
        CADRE_WGMMA_TILES("bf16", CADRE_WGMMA_IN_OUT, 1);
    else if constexpr (bf)
        CADRE_WGMMA_TILES("bf16", CADRE_WGMMA_OUT, 0);
    else if constexpr (add)
        CADRE_WGMMA_TILES("f16", CADRE_WGMMA_IN_OUT, 1);
    else
        CADRE_WGMMA_TILES("f16", CADRE_WGMMA_OUT, 0);
}

__device__ static __forceinline__ void cadre_wgmma_see(void)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ static __forceinline__ void cadre_wgmma_begin(void)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ static __forceinline__ void cadre_wgmma_commit(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int left> __device__ static __forceinline__ void cadre_wgmma_wait(void)
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(left) : "memory");
}

__device__ static __forceinline__ void cadre_wgmma_keep(float d[8][4])
{
    asm volatile("" : CADRE_WGMMA_ALL(CADRE_WGMMA_IN_OUT)::"memory");
}

#else
#define cadre_wgmma_see() ((void)0)
#define cadre_wgmma_begin() ((void)0)
#define cadre_wgmma_commit cadre_host::wgmma_commit
#define cadre_wgmma_wait cadre_host::wgmma_wait
#define cadre_wgmma_keep(d) ((void)(d))

template <typename T, bool across, bool add>
static void cadre_wgmma(float d[8][4], const uint32_t a[4], const void *b)
{
    cadre_host::wgmma(d, a, NULL, b, across, add, std::is_same<T, bf16>::value);
}

template <typename T, bool add>
static void cadre_wgmma_tiles(float d[8][4], const void *a, const void *b)
{
    cadre_host::wgmma(d, NULL, a, b, false, add, std::is_same<T, bf16>::value);
}
#endif

#endif
