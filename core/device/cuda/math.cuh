/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, packs of 16 bytes, and sums of warps and blocks, shared by the kernels.
 * Every order is fixed by shapes: a pack's elements belong to the same thread whether
 * it is moved by one access or, where memory is not aligned, by several. */
#ifndef CADRE_DEVICE_CUDA_MATH_CUH
#define CADRE_DEVICE_CUDA_MATH_CUH

#include "core/device/cuda/half.cuh"

/* ---- packs ---- */

/* N elements that one thread works on together. */
template <class T, int N = 16 / (int)sizeof(T)> struct pack {
    T v[N];
};
template <class T> struct pack_size {
    static constexpr int N = 16 / (int)sizeof(T);
};

/* The widest access that divides a pack of `bytes`: of 16, 8, 4 or, none, 1. */
template <int bytes> struct word_of {
    typedef typename word_of<bytes % 16 == 0  ? 16
                             : bytes % 8 == 0 ? 8
                             : bytes % 4 == 0 ? 4
                                              : 1>::type type;
};
template <> struct word_of<16> {
    typedef uint4 type;
};
template <> struct word_of<8> {
    typedef uint2 type;
};
template <> struct word_of<4> {
    typedef uint32_t type;
};
template <> struct word_of<1> {
    typedef uint8_t type;
};

/* Elements [0, left) of p, zeros after; by words where `vec` says that p is aligned and
 * the pack is whole. */
template <int N, class T>
CADRE_DEVICE pack<T, N> load(const T *p, int64_t left, bool vec)
{
    typedef typename word_of<N *(int)sizeof(T)>::type word;
    constexpr int size = (int)sizeof(word);
    pack<T, N> out;
    if (vec && left >= N && size > 1) {
        CADRE_UNROLL
        for (int i = 0; i < N * (int)sizeof(T) / size; i++) {
            const word bits = reinterpret_cast<const word *>(p)[i];
            memcpy(reinterpret_cast<char *>(&out) + size * i, &bits, sizeof bits);
        }
    } else {
        CADRE_UNROLL
        for (int i = 0; i < N; i++)
            out.v[i] = i < left ? p[i] : T{};
    }
    return out;
}

/* One access to global memory. Written as an assignment it is up to the compiler, which
 * stores each of four floats alone where it knows that the bits are theirs. */
CADRE_DEVICE void put(uint4 *to, uint4 x)
{
#ifdef __CUDA_ARCH__
    asm volatile(
        "st.global.v4.b32 [%0],{%1,%2,%3,%4};" ::"l"(__cvta_generic_to_global(to)),
        "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w)
        : "memory");
#else
    *to = x;
#endif
}
CADRE_DEVICE void put(uint2 *to, uint2 x)
{
#ifdef __CUDA_ARCH__
    asm volatile("st.global.v2.b32 [%0],{%1,%2};" ::"l"(__cvta_generic_to_global(to)),
                 "r"(x.x), "r"(x.y)
                 : "memory");
#else
    *to = x;
#endif
}
template <class X> CADRE_DEVICE void put(X *to, X x)
{
    *to = x;
}

/* To global memory: elements [0, left) of p, as load reads them. */
template <int N, class T>
CADRE_DEVICE void store(T *p, const pack<T, N> &in, int64_t left, bool vec)
{
    typedef typename word_of<N *(int)sizeof(T)>::type word;
    constexpr int size = (int)sizeof(word);
    if (vec && left >= N && size > 1) {
        CADRE_UNROLL
        for (int i = 0; i < N * (int)sizeof(T) / size; i++) {
            word bits;
            memcpy(&bits, reinterpret_cast<const char *>(&in) + size * i, sizeof bits);
            put(reinterpret_cast<word *>(p) + i, bits);
        }
    } else {
        CADRE_UNROLL
        for (int i = 0; i < N; i++)
            if (i < left)
                p[i] = in.v[i];
    }
}

/* To shared memory, aligned: a whole pack of a multiple of 16 bytes. */
template <int N, class T> CADRE_DEVICE void store_shared(T *p, const pack<T, N> &in)
{
    CADRE_UNROLL
    for (int i = 0; i < N * (int)sizeof(T) / 16; i++) {
        uint4 bits;
        memcpy(&bits, reinterpret_cast<const char *>(&in) + 16 * i, 16);
        reinterpret_cast<uint4 *>(p)[i] = bits;
    }
}

/* Is every pointer aligned to 16 bytes? NULL is. [host] */
static inline bool aligned(const void *a, const void *b = NULL, const void *c = NULL,
                           const void *d = NULL, const void *e = NULL)
{
    return (((uintptr_t)a | (uintptr_t)b | (uintptr_t)c | (uintptr_t)d | (uintptr_t)e) %
            16) == 0;
}

/* ---- warps and blocks ---- */

template <class T> __device__ static inline T warp_sum(T x)
{
    for (int with = 16; with > 0; with /= 2)
        x += __shfl_xor_sync(CADRE_FULL_WARP, x, with);
    return x;
}

template <class T> __device__ static inline T warp_max(T x)
{
    for (int with = 16; with > 0; with /= 2) {
        const T other = __shfl_xor_sync(CADRE_FULL_WARP, x, with);
        x = other > x ? other : x;
    }
    return x;
}

/* The sum over a block of whole warps, for every thread; `room` is shared memory of 32
 * elements, free again on return. */
template <class T> __device__ static inline T block_sum(T x, T *room)
{
    const int warps = (int)blockDim.x / 32;
    T sum = 0;
    x = warp_sum(x);
    if (threadIdx.x % 32 == 0)
        room[threadIdx.x / 32] = x;
    __syncthreads();
    for (int w = 0; w < warps; w++)
        sum += room[w];
    __syncthreads();
    return sum;
}

template <class T> __device__ static inline T block_max(T x, T *room)
{
    const int warps = (int)blockDim.x / 32;
    x = warp_max(x);
    if (threadIdx.x % 32 == 0)
        room[threadIdx.x / 32] = x;
    __syncthreads();
    x = room[0];
    for (int w = 1; w < warps; w++)
        x = room[w] > x ? room[w] : x;
    __syncthreads();
    return x;
}

/* ---- functions ---- */

/* 2^x and 1 / x by the hardware, to about 2 units in the last place; subnormals are 0.
 */
static __device__ __forceinline__ float cadre_exp2(float x)
{
#ifdef __CUDA_ARCH__
    float y;
    asm("ex2.approx.ftz.f32 %0,%1;" : "=f"(y) : "f"(x));
    return y;
#else
    return exp2f(x);
#endif
}

static __device__ __forceinline__ float cadre_reciprocal(float x)
{
#ifdef __CUDA_ARCH__
    float y;
    asm("rcp.approx.ftz.f32 %0,%1;" : "=f"(y) : "f"(x));
    return y;
#else
    return 1 / x;
#endif
}

static const float CADRE_LOG2_E = 1.44269504088896341f;

/* exp for elements of T: the hardware's where T has no more than 11 bits. */
template <class T, class W> __device__ static inline W exp_of(W x)
{
#ifdef __CUDA_ARCH__
    if (sizeof(T) == 2)
        return (W)__expf((float)x);
#endif
    return exp(x);
}

template <class W> __device__ static inline W sigmoid(W x)
{
    return (W)1 / ((W)1 + exp(-x));
}

/* sigmoid for elements of T, as exp_of. */
template <class T, class W> __device__ static inline W sigmoid_of(W x)
{
    if constexpr (sizeof(T) == 2)
        return cadre_reciprocal(1 + cadre_exp2(-CADRE_LOG2_E * x));
    else
        return sigmoid(x);
}

#define CADRE_GELU_A 0.7978845608028653559 /* sqrt(2 / pi) */
#define CADRE_GELU_B 0.044715

/* x (1 + tanh(u)) / 2 = x sigmoid(2 u): no cancellation where x is negative. */
template <class T, class W> __device__ static inline W gelu_sigmoid(W x)
{
    return sigmoid_of<T>((W)(2 * CADRE_GELU_A) * (x + (W)CADRE_GELU_B * x * x * x));
}

template <class T, class W> __device__ static inline W gelu(W x)
{
    return x * gelu_sigmoid<T>(x);
}

template <class T, class W> __device__ static inline W gelu_slope(W x)
{
    const W s = gelu_sigmoid<T>(x);
    const W du = (W)(2 * CADRE_GELU_A) * ((W)1 + (W)(3 * CADRE_GELU_B) * x * x);
    return s + x * s * ((W)1 - s) * du;
}

/* ---- launches ---- */

CADRE_DEVICE int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Threads of a block that goes through a row of n packs: whole warps, 256 at most. */
static inline unsigned row_threads(int64_t n)
{
    const int64_t threads = ceil_div(n, 32) * 32;
    return (unsigned)(threads < 32 ? 32 : threads > 256 ? 256 : threads);
}

/* Log one line for a dtype that a kernel does not support. */
static inline cadre_status refuse_dtype(const char *what, uint32_t dtype)
{
    cadre_log(CADRE_LOG_ERROR, "device", "cuda: %s has no kernel for dtype %u", what,
              (unsigned)dtype);
    return CADRE_E_DEVICE;
}

/* Run the rest with T the type of `dtype`, or return an error. */
#define CADRE_DISPATCH(what, dtype, ...)                                               \
    switch (dtype) {                                                                   \
    case CADRE_F32: {                                                                  \
        typedef float T;                                                               \
        __VA_ARGS__;                                                                   \
        break;                                                                         \
    }                                                                                  \
    case CADRE_F64: {                                                                  \
        typedef double T;                                                              \
        __VA_ARGS__;                                                                   \
        break;                                                                         \
    }                                                                                  \
    case CADRE_BF16: {                                                                 \
        typedef bf16 T;                                                                \
        __VA_ARGS__;                                                                   \
        break;                                                                         \
    }                                                                                  \
    case CADRE_F16: {                                                                  \
        typedef f16 T;                                                                 \
        __VA_ARGS__;                                                                   \
        break;                                                                         \
    }                                                                                  \
    default:                                                                           \
        return refuse_dtype(what, dtype);                                              \
    }

#endif
