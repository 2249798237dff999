/* SPDX-License-Identifier: Apache-2.0 */
/* The k elements of largest magnitude by radix selection, and the scatter back. The
 * bits of |x| are ordered as |x| is: histograms of 8 bits, each over the elements that
 * match the digits known so far, find the k-th largest pattern; then tiles are counted,
 * counts become offsets, and tiles are gathered in order of index. Counts are integers,
 * so the order of atomics does not matter. */
#include "core/device/cuda/kernels.h"
#include "core/device/cuda/math.cuh"

enum { THREADS = 256, TILE = 4096, DIGITS = 256 };

struct tile_count {
    int64_t above; /* above the k-th magnitude; then: how many before the tile */
    int64_t equal; /* of exactly that magnitude; likewise */
};

struct selection {
    uint64_t known; /* the upper bits of the k-th magnitude */
    int64_t equal; /* how many of those that match `known` to select */
    unsigned counts[DIGITS];
};

/* |x| as an integer of the same order. All NaN are one, above infinity. */
CADRE_DEVICE uint64_t magnitude(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits &= UINT64_MAX >> 1;
    return bits > UINT64_C(0x7ff0000000000000) ? UINT64_MAX >> 1 : bits;
}
CADRE_DEVICE uint64_t magnitude(float x)
{
    const uint32_t bits = bits_of(x) & 0x7fffffffu;
    return bits > 0x7f800000u ? 0x7fffffffu : bits;
}
CADRE_DEVICE uint64_t magnitude(bf16 x)
{
    const unsigned bits = x.bits & 0x7fffu;
    return bits > 0x7f80u ? 0x7fffu : bits;
}
CADRE_DEVICE uint64_t magnitude(f16 x)
{
    const unsigned bits = x.bits & 0x7fffu;
    return bits > 0x7c00u ? 0x7fffu : bits;
}

__global__ static void begin_selection(struct selection *s, int64_t k)
{
    s->counts[threadIdx.x] = 0;
    if (threadIdx.x == 0) {
        s->known = 0;
        s->equal = k;
    }
}

/* The digit at `bit` of a tile's elements that match the known digits above it. */
template <class T>
__global__ void count_digits(const T *x, int64_t count, int bit, struct selection *s)
{
    __shared__ unsigned counts[DIGITS];
    const int64_t first = (int64_t)blockIdx.x * TILE;
    const uint64_t known = s->known;
    counts[threadIdx.x] = 0;
    __syncthreads();
    for (int64_t i = first + threadIdx.x; i < first + TILE && i < count; i += THREADS) {
        const uint64_t m = magnitude(x[i]);
        if (m >> bit >> 8 == known)
            atomicAdd(&counts[m >> bit & 255], 1u);
    }
    __syncthreads();
    if (counts[threadIdx.x] > 0)
        atomicAdd(&s->counts[threadIdx.x], counts[threadIdx.x]);
}

__global__ static void pick_digit(struct selection *s)
{
    __shared__ unsigned counts[DIGITS];
    counts[threadIdx.x] = s->counts[threadIdx.x];
    s->counts[threadIdx.x] = 0;
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    int digit = DIGITS - 1;
    int64_t wanted = s->equal;
    for (; digit > 0 && (int64_t)counts[digit] < wanted; digit--)
        wanted -= (int64_t)counts[digit];
    s->equal = wanted;
    s->known = s->known << 8 | (uint64_t)digit;
}

template <class T>
__global__ void count_tile(const T *x, int64_t count, const struct selection *s,
                           struct tile_count *tiles)
{
    __shared__ int room[32];
    const int64_t first = (int64_t)blockIdx.x * TILE;
    const uint64_t known = s->known;
    int above = 0, equal = 0;
    for (int64_t i = first + threadIdx.x; i < first + TILE && i < count; i += THREADS) {
        const uint64_t m = magnitude(x[i]);
        above += m > known;
        equal += m == known;
    }
    above = block_sum(above, room);
    equal = block_sum(equal, room);
    if (threadIdx.x == 0) {
        tiles[blockIdx.x].above = above;
        tiles[blockIdx.x].equal = equal;
    }
}

/* Counts become offsets (exclusive prefix sums). A thread has a run of tiles. */
__global__ static void place_tiles(struct tile_count *tiles, int64_t n)
{
    __shared__ struct tile_count runs[THREADS];
    const int64_t run = ceil_div(n, THREADS), first = threadIdx.x * run;
    const int64_t last = first + run < n ? first + run : n;
    struct tile_count before = {0, 0}, sum = {0, 0};
    for (int64_t i = first; i < last; i++) {
        sum.above += tiles[i].above;
        sum.equal += tiles[i].equal;
    }
    runs[threadIdx.x] = sum;
    __syncthreads();
    for (unsigned t = 0; t < threadIdx.x; t++) {
        before.above += runs[t].above;
        before.equal += runs[t].equal;
    }
    for (int64_t i = first; i < last; i++) {
        const struct tile_count here = tiles[i];
        tiles[i] = before;
        before.above += here.above;
        before.equal += here.equal;
    }
}

/* The number of threads with a true predicate before this one in the block, and in
 * total. */
__device__ static int before_me(bool yes, int *all, int *room)
{
    const unsigned votes = __ballot_sync(CADRE_FULL_WARP, yes);
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    int before = __popc(votes & ((1u << lane) - 1)), sum = 0;
    if (lane == 0)
        room[warp] = __popc(votes);
    __syncthreads();
    for (int w = 0; w < THREADS / 32; w++) {
        before += w < warp ? room[w] : 0;
        sum += room[w];
    }
    __syncthreads();
    *all = sum;
    return before;
}

template <class T>
__global__ void gather_tile(const T *x, int64_t count, const struct selection *s,
                            const struct tile_count *tiles, T *values, int32_t *indices)
{
    __shared__ int room[THREADS / 32];
    const uint64_t known = s->known;
    const int64_t first = (int64_t)blockIdx.x * TILE, wanted = s->equal;
    int64_t above = tiles[blockIdx.x].above, equal = tiles[blockIdx.x].equal;
    for (int64_t at = first; at < first + TILE && at < count; at += THREADS) {
        const int64_t i = at + threadIdx.x;
        const uint64_t m = i < count ? magnitude(x[i]) : 0;
        const bool is_above = i < count && m > known;
        const bool is_equal = i < count && m == known;
        int aboves, equals;
        const int64_t a = above + before_me(is_above, &aboves, room);
        const int64_t e = equal + before_me(is_equal, &equals, room);
        if (is_above || (is_equal && e < wanted)) {
            const int64_t to = a + (e < wanted ? e : wanted);
            values[to] = x[i];
            indices[to] = (int32_t)i;
        }
        above += aboves;
        equal += equals;
    }
}

extern "C" size_t cadre_cuda_topk_scratch(int64_t count)
{
    return sizeof(struct selection) +
           (size_t)ceil_div(count, TILE) * sizeof(struct tile_count);
}

template <class T>
static void topk(const T *x, int64_t count, int64_t k, T *values, int32_t *indices,
                 void *scratch, void *stream)
{
    struct selection *s = (struct selection *)scratch;
    struct tile_count *tiles = (struct tile_count *)(s + 1);
    const unsigned n = (unsigned)ceil_div(count, TILE);
    CADRE_LAUNCH(begin_selection, 1, DIGITS, 0, stream, s, k);
    for (int bit = (int)sizeof(T) * 8 - 8; bit >= 0; bit -= 8) {
        CADRE_LAUNCH(count_digits<T>, n, THREADS, 0, stream, x, count, bit, s);
        CADRE_LAUNCH(pick_digit, 1, DIGITS, 0, stream, s);
    }
    CADRE_LAUNCH(count_tile<T>, n, THREADS, 0, stream, x, count, s, tiles);
    CADRE_LAUNCH(place_tiles, 1, THREADS, 0, stream, tiles, (int64_t)n);
    CADRE_LAUNCH(gather_tile<T>, n, THREADS, 0, stream, x, count, s, tiles, values,
                 indices);
}

extern "C" cadre_status cadre_cuda_topk(uint32_t dtype, const void *x, int64_t count,
                                        int64_t k, void *values, int32_t *indices,
                                        void *scratch, void *stream)
{
    if (k > count || count > INT32_MAX) {
        cadre_log(CADRE_LOG_ERROR, "device", "cuda: the largest %lld of %lld elements",
                  (long long)k, (long long)count);
        return CADRE_E_DEVICE;
    }
    if (k <= 0)
        return CADRE_OK;
    CADRE_DISPATCH(
        "topk", dtype,
        topk<T>((const T *)x, count, k, (T *)values, indices, scratch, stream));
    return cadre_launch_check("topk");
}

/* ---- the scatter back ---- */

__global__ static void clear_flag(int32_t *bad)
{
    *bad = 0;
}

__global__ static void check_indices(const int32_t *indices, int64_t k, int64_t count,
                                     int32_t *bad)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < k && (indices[i] < 0 || indices[i] >= count))
        *bad = 1; /* the same value from every writer */
}

/* Indices differ, so no two threads write the same element. */
template <class T>
__global__ void scatter_add(T *x, const T *values, const int32_t *indices, int64_t k,
                            wide_t<T> by, const int32_t *bad)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= k || *bad)
        return;
    T *at = x + indices[i];
    *at = narrow<T>(widen(*at) + by * widen(values[i]));
}

/* lint: long because it fills a slot of the table of ops */
extern "C" cadre_status cadre_cuda_scatter_add(uint32_t dtype, void *x, int64_t count,
                                               const void *values,
                                               const int32_t *indices, int64_t k,
                                               double by, int32_t *bad, void *stream)
{
    const unsigned blocks = (unsigned)ceil_div(k, THREADS);
    CADRE_LAUNCH(clear_flag, 1, 1, 0, stream, bad);
    if (k > 0) {
        CADRE_LAUNCH(check_indices, blocks, THREADS, 0, stream, indices, k, count, bad);
        CADRE_DISPATCH("scatter_add", dtype,
                       CADRE_LAUNCH(scatter_add<T>, blocks, THREADS, 0, stream, (T *)x,
                                    (const T *)values, indices, k, (wide_t<T>)by, bad));
    }
    return cadre_launch_check("scatter_add");
}
