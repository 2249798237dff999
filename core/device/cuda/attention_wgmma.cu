/* SPDX-License-Identifier: Apache-2.0 */
/* attention_fwd.cu and attention_bwd.cu for Hopper and heads of 64: the same algorithm
 * with wgmma (wgmma.cuh) for the products. A warpgroup has 64 own rows; while one
 * computes exponentials, the products of others run. A loop's iteration waits for its
 * own products: ptxas serialises those that are pending where a loop begins again. */
#include "core/device/cuda/attention_softmax.cuh"
#include "core/device/cuda/wgmma.cuh"

namespace
{

enum {
    D = 64,
    MT = 1,
    NT = 8,
    PASSING = 64,
    STAGES = 3,
    TILE = PASSING * D / 2, /* words */
    STATS = 2 * PASSING, /* words of a stage of backward_keys */
    QUERY_GROUPS = 2, /* warpgroups of a block; those of keys need more registers, */
    KEY_GROUPS = 1 /* and three blocks of one fit a multiprocessor */
};

/* A block of `groups`: the own rows of two tiles, the stages and their statistics. */
constexpr size_t shared_bytes(int groups)
{
    return (size_t)(2 * groups * TILE + 2 * STAGES * TILE + STAGES * STATS) * 4;
}

/* Left operands: this warp's rows of a tile. The backward pass does not take them:
 * where two products used such rows in every turn of a loop, ptxas 13.0 gave their
 * registers to others within it. */
__device__ __forceinline__ void take_rows(uint32_t a[D / 16][4], uint32_t *tile)
{
    const int lane = cadre_mma_lane(), row = cadre_mma_warp() * 16 + lane % 16;
#pragma unroll
    for (int k = 0; k < D / 16; k++)
        cadre_ldmatrix_x4(a[k], cadre_mma_at<D>(tile, row, 2 * k + lane / 16));
}

/* Left operands: accumulators, rounded to T. */
template <typename T>
__device__ __forceinline__ void round_off(uint32_t a[NT / 2][4],
                                          const float p[MT][NT][4])
{
#pragma unroll
    for (int i = 0; i < NT * 2; i++) {
        const float *pair = &p[0][i / 4 * 2 + i % 4 / 2][i % 2 * 2];
        a[i / 4][i % 4] = cadre_pack2<T>(pair[0], pair[1]);
    }
}

/* Begin acc = a times the rows of y (PASSING, D), transposed. */
template <typename T>
__device__ __forceinline__ void scores(float acc[MT][NT][4],
                                       const uint32_t a[D / 16][4], const uint32_t *y)
{
    cadre_wgmma<T, false, false>(acc[0], a[0], y);
#pragma unroll
    for (int k = 1; k < D / 16; k++)
        cadre_wgmma<T, false, true>(acc[0], a[k], y + k * 8);
    cadre_wgmma_commit();
}

/* The same with this warpgroup's rows of tile x. */
template <typename T>
__device__ __forceinline__ void scores_of(float acc[MT][NT][4], const uint32_t *x,
                                          const uint32_t *y)
{
    cadre_wgmma_tiles<T, false>(acc[0], x, y);
#pragma unroll
    for (int k = 1; k < D / 16; k++)
        cadre_wgmma_tiles<T, true>(acc[0], x + k * 8, y + k * 8);
    cadre_wgmma_commit();
}

/* Begin acc += a times y (PASSING, D). */
template <typename T>
__device__ __forceinline__ void
mix(float acc[MT][D / 8][4], const uint32_t a[PASSING / 16][4], const uint32_t *y)
{
#pragma unroll
    for (int k = 0; k < PASSING / 16; k++)
        cadre_wgmma<T, true, true>(acc[0], a[k], y + k * 16 * D / 2);
    cadre_wgmma_commit();
}

/* The rows that were loaded are there for all threads. */
__device__ __forceinline__ void arrive(void)
{
    cadre_copy_wait<0>();
    cadre_wgmma_see();
    __syncthreads();
}

/* From lane 0, so that the compiler knows that it is one number in a warp. */
__device__ __forceinline__ int group(void)
{
    return __shfl_sync(CADRE_FULL_WARP, (int)threadIdx.x / 128, 0);
}

/* By a block of GROUPS. */
template <int ROWS, int GROUPS, typename T>
__device__ __forceinline__ void load(uint32_t *tile, const T *src, int64_t ld,
                                     int first, int time)
{
    cadre_mma_load<T, D, ROWS, 128 * GROUPS>(tile, src, ld, first, time);
}

/* Begin to copy keys and values [row, row + PASSING) into a stage. */
template <typename T>
__device__ __forceinline__ void load_keys(uint32_t *to,
                                          const struct cadre_attention_view &a,
                                          const T *k, const T *v, int row)
{
    load<PASSING, QUERY_GROUPS>(to, k, a.ldk, row, a.time);
    load<PASSING, QUERY_GROUPS>(to + TILE, v, a.ldv, row, a.time);
    cadre_copy_commit();
}

/* Scores of keys from `key` on that queries from `mine` on, this warp's, do not see. */
__device__ __forceinline__ void
mask_keys(float s[MT][NT][4], const struct cadre_attention_view &a, int mine, int key)
{
    const int lane = cadre_mma_lane(), last = a.time - 1;
    if (key + PASSING - 1 > (a.full ? last : mine))
        cadre_mask<MT, NT>(s, mine + lane / 4, key + lane % 4 * 2, a.full ? last : -1);
}

/* The stage after one. */
__device__ __forceinline__ int after(int stage)
{
    return stage == STAGES - 1 ? 0 : stage + 1;
}

template <typename T>
__global__ void __launch_bounds__(128 * QUERY_GROUPS, 2)
    forward(struct cadre_attention_view a)
{
    CADRE_SWIZZLED_SHARED(uint32_t, q);
    uint32_t *stages = q + QUERY_GROUPS * TILE;
    const int head = (int)blockIdx.x % a.heads, kv = head / (a.heads / a.kv_heads);
    const int64_t b = blockIdx.x / a.heads;
    const T *from_k = cadre_attention_rows<T>(a, a.k, a.ldk, b, kv);
    const T *from_v = cadre_attention_rows<T>(a, a.v, a.ldv, b, kv);
    const int first =
        (int)(gridDim.y - 1 - blockIdx.y) * 64 * QUERY_GROUPS; /* long ones first */
    const int end = cadre_attention_end(a, first + 64 * QUERY_GROUPS),
              lane = cadre_mma_lane();
    const int mine = first + cadre_mma_warp() * 16;
    const int mine_end = cadre_attention_end(a, first + group() * 64 + 64);
    const float scale = (float)a.scale * CADRE_LOG2_E;
    struct cadre_softmax<D, MT> w;
    float s[MT][NT][4], shrink[MT][2];
    uint32_t rows[D / 16][4], p[NT / 2][4];
    cadre_softmax_begin(w);
    load<64 * QUERY_GROUPS, QUERY_GROUPS>(
        q, cadre_attention_rows<T>(a, a.q, a.ldq, b, head), a.ldq, first, a.time);
    load_keys<T>(stages, a, from_k, from_v, 0);
    arrive();
    take_rows(rows, q);
    if (PASSING < end)
        load_keys<T>(stages + 2 * TILE, a, from_k, from_v, PASSING);
    cadre_wgmma_begin();
    scores<T>(s, rows, stages);
    cadre_wgmma_wait<0>();
    cadre_wgmma_keep(s[0]);
    mask_keys(s, a, mine, 0);
    cadre_softmax_step<D, MT, NT>(w, s, scale, shrink);
    round_off<T>(p, s);
    int key = 0, i = 0;
    for (; key + PASSING < mine_end; key += PASSING, i = after(i)) {
        const int next = key + PASSING;
        arrive();
        if (next + PASSING < end)
            load_keys<T>(stages + after(after(i)) * 2 * TILE, a, from_k, from_v,
                         next + PASSING);
        cadre_wgmma_begin();
        scores<T>(s, rows, stages + after(i) * 2 * TILE);
        mix<T>(w.acc, p, stages + i * 2 * TILE + TILE);
        cadre_wgmma_wait<1>();
        cadre_wgmma_keep(s[0]);
        mask_keys(s, a, mine, next);
        cadre_softmax_step<D, MT, NT>(w, s, scale, shrink);
        cadre_wgmma_wait<0>();
        cadre_wgmma_keep(w.acc[0]);
        cadre_softmax_shrink<D, MT>(w, shrink);
        round_off<T>(p, s);
    }
    cadre_wgmma_begin();
    mix<T>(w.acc, p, stages + i * 2 * TILE + TILE);
    cadre_wgmma_wait<0>();
    cadre_wgmma_keep(w.acc[0]);
    for (; key + PASSING < end; key += PASSING) /* the other warpgroup's last keys */
        arrive();
    cadre_softmax_end<D, MT>(w, (float *)a.lse + (int64_t)blockIdx.x * a.time, scale,
                             mine + lane / 4, a.time);
    cadre_mma_store<T, D, MT>(cadre_attention_rows_out<T>(a, a.out, a.ldo, b, head),
                              a.ldo, first, a.time, w.acc, w.sum, q);
}

/* Begin to copy queries [row, row + PASSING) of head `head` into a stage. */
template <typename T>
__device__ __forceinline__ void load_queries(uint32_t *to, uint32_t *to_stats,
                                             const struct cadre_attention_view &a,
                                             int64_t b, int head, int row)
{
    const float *stats =
        (const float *)a.stats + ((b * a.heads + head) * a.padded + row) * 2;
    load<PASSING, KEY_GROUPS>(to, cadre_attention_rows<T>(a, a.q, a.ldq, b, head),
                              a.ldq, row, a.time);
    load<PASSING, KEY_GROUPS>(to + TILE,
                              cadre_attention_rows<T>(a, a.dout, a.ldo, b, head), a.ldo,
                              row, a.time);
    if ((int)threadIdx.x < PASSING / 2)
        cadre_copy_async16(to_stats + threadIdx.x * 4, stats + threadIdx.x * 4, true);
}

__device__ __forceinline__ void clear(float acc[MT][D / 8][4])
{
#pragma unroll
    for (int i = 0; i < D / 2; i++)
        acc[0][i / 4][i % 4] = 0;
}

/* The products of a tile of queries, from `query` on, with this block's keys: dk, dv.
 * `mine` is this warp's first key, and the values follow the keys. */
template <typename T>
__device__ __forceinline__ void
add_queries(float dk[MT][D / 8][4], float dv[MT][D / 8][4],
            const struct cadre_attention_view &a, const uint32_t *k, const uint32_t *q,
            const float *stats, int mine, int query)
{
    const int lane = cadre_mma_lane(), last = a.time - 1;
    const float scale = (float)a.scale * CADRE_LOG2_E;
    float s[MT][NT][4], ds[MT][NT][4];
    uint32_t p[NT / 2][4];
    cadre_wgmma_begin();
    scores_of<T>(s, k, q);
    scores_of<T>(ds, k + KEY_GROUPS * TILE, q + TILE);
    cadre_wgmma_wait<1>();
    cadre_wgmma_keep(s[0]);
    if (mine + 15 > (a.full ? last : query))
        cadre_mask_transposed<MT, NT>(s, mine + lane / 4, query + lane % 4 * 2,
                                      a.full ? last : -1);
    cadre_probability_transposed<MT, NT>(s, stats, scale);
    round_off<T>(p, s);
    cadre_wgmma_begin();
    mix<T>(dv, p, q + TILE);
    cadre_wgmma_wait<1>();
    cadre_wgmma_keep(ds[0]);
    cadre_gradient_transposed<MT, NT>(ds, s, stats);
    uint32_t g[NT / 2][4];
    round_off<T>(g, ds);
    cadre_wgmma_begin();
    mix<T>(dk, g, q);
    cadre_wgmma_wait<0>();
    cadre_wgmma_keep(dk[0]);
    cadre_wgmma_keep(dv[0]);
}

/* dk and dv of a tile of keys, over the queries that see it, head after head of the
 * group. */
template <typename T>
__global__ void __launch_bounds__(128 * KEY_GROUPS, 3)
    backward_keys(struct cadre_attention_view a)
{
    CADRE_SWIZZLED_SHARED(uint32_t, k);
    uint32_t *v = k + KEY_GROUPS * TILE, *stages = v + KEY_GROUPS * TILE;
    uint32_t *stats = stages + 2 * STAGES * TILE;
    const int of_group = a.heads / a.kv_heads, kv = (int)blockIdx.x % a.kv_heads;
    const int64_t b = blockIdx.x / a.kv_heads;
    const int first = (int)blockIdx.y * 64 * KEY_GROUPS;
    const int mine = first + cadre_mma_warp() * 16;
    const int begin = a.full ? 0 : first; /* of the queries that see these keys */
    const int tiles = (a.time - begin + PASSING - 1) / PASSING;
    float dk[MT][D / 8][4], dv[MT][D / 8][4];
    clear(dk);
    clear(dv);
    load<64 * KEY_GROUPS, KEY_GROUPS>(k, cadre_attention_rows<T>(a, a.k, a.ldk, b, kv),
                                      a.ldk, first, a.time);
    load<64 * KEY_GROUPS, KEY_GROUPS>(v, cadre_attention_rows<T>(a, a.v, a.ldv, b, kv),
                                      a.ldv, first, a.time);
    load_queries<T>(stages, stats, a, b, kv * of_group, begin);
    cadre_copy_commit();
    for (int i = 0, tile = 0, h = kv * of_group; h < (kv + 1) * of_group;
         i = after(i)) {
        const int query = begin + tile * PASSING;
        uint32_t *q = stages + i * 2 * TILE, *next = stages + after(i) * 2 * TILE;
        arrive();
        if (++tile == tiles) {
            tile = 0;
            h++;
        }
        if (h < (kv + 1) * of_group)
            load_queries<T>(next, stats + after(i) * STATS, a, b, h,
                            begin + tile * PASSING);
        cadre_copy_commit();
        add_queries<T>(dk, dv, a, k, q, (const float *)(stats + i * STATS), mine,
                       query);
    }
    const float by[MT][2] = {{(float)a.scale, (float)a.scale}}, one[MT][2] = {{1, 1}};
    cadre_mma_store<T, D, MT>(cadre_attention_rows_out<T>(a, a.dk, a.ldk, b, kv), a.ldk,
                              first, a.time, dk, by, k);
    cadre_mma_store<T, D, MT>(cadre_attention_rows_out<T>(a, a.dv, a.ldv, b, kv), a.ldv,
                              first, a.time, dv, one, v);
}

/* dq of a tile of queries, over the keys it sees. */
template <typename T>
__global__ void __launch_bounds__(128 * QUERY_GROUPS, 2)
    backward_queries(struct cadre_attention_view a)
{
    CADRE_SWIZZLED_SHARED(uint32_t, q);
    uint32_t *dout = q + QUERY_GROUPS * TILE, *stages = dout + QUERY_GROUPS * TILE;
    const int head = (int)blockIdx.x % a.heads, kv = head / (a.heads / a.kv_heads);
    const int64_t b = blockIdx.x / a.heads;
    const T *from_k = cadre_attention_rows<T>(a, a.k, a.ldk, b, kv);
    const T *from_v = cadre_attention_rows<T>(a, a.v, a.ldv, b, kv);
    const int first = (int)(gridDim.y - 1 - blockIdx.y) * 64 * QUERY_GROUPS,
              lane = cadre_mma_lane();
    const int end = cadre_attention_end(a, first + 64 * QUERY_GROUPS);
    const int mine = first + cadre_mma_warp() * 16, own = group() * 64 * D / 2;
    const float scale = (float)a.scale * CADRE_LOG2_E;
    const float2 *from =
        (const float2 *)a.stats + (int64_t)blockIdx.x * a.padded + mine + lane / 4;
    const float2 stats[MT][2] = {{from[0], from[8]}};
    const float by[MT][2] = {{(float)a.scale, (float)a.scale}};
    float dq[MT][D / 8][4];
    uint32_t g[NT / 2][4];
    clear(dq);
    load<64 * QUERY_GROUPS, QUERY_GROUPS>(
        q, cadre_attention_rows<T>(a, a.q, a.ldq, b, head), a.ldq, first, a.time);
    load<64 * QUERY_GROUPS, QUERY_GROUPS>(
        dout, cadre_attention_rows<T>(a, a.dout, a.ldo, b, head), a.ldo, first, a.time);
    load_keys<T>(stages, a, from_k, from_v, 0);
    for (int key = 0, i = 0; key < end; key += PASSING, i = after(i)) {
        uint32_t *k = stages + i * 2 * TILE;
        float s[MT][NT][4], ds[MT][NT][4];
        arrive();
        if (key + PASSING < end)
            load_keys<T>(stages + after(i) * 2 * TILE, a, from_k, from_v,
                         key + PASSING);
        cadre_wgmma_begin();
        scores_of<T>(s, q + own, k);
        scores_of<T>(ds, dout + own, k + TILE);
        cadre_wgmma_wait<1>();
        cadre_wgmma_keep(s[0]);
        mask_keys(s, a, mine, key);
        cadre_probability<MT, NT>(s, stats, scale);
        cadre_wgmma_wait<0>();
        cadre_wgmma_keep(ds[0]);
        cadre_gradient<MT, NT>(ds, s, stats);
        round_off<T>(g, ds);
        cadre_wgmma_begin();
        mix<T>(dq, g, k);
        cadre_wgmma_wait<0>();
        cadre_wgmma_keep(dq[0]);
    }
    cadre_mma_store<T, D, MT>(cadre_attention_rows_out<T>(a, a.dq, a.ldq, b, head),
                              a.ldq, first, a.time, dq, by, q);
}

unsigned blocks_of(const struct cadre_attention_view &a, int groups)
{
    return (unsigned)((a.time + 64 * groups - 1) / (64 * groups));
}

} // namespace

cadre_status cadre_attention_wgmma_fwd(uint32_t dtype, int64_t batch,
                                       const struct cadre_attention_view &a,
                                       cudaStream_t stream)
{
    const dim3 grid((unsigned)(batch * a.heads), blocks_of(a, QUERY_GROUPS));
    return cadre_attention_launch(dtype == CADRE_BF16 ? forward<bf16> : forward<f16>,
                                  grid, dim3(128 * QUERY_GROUPS),
                                  shared_bytes(QUERY_GROUPS), stream, a);
}

cadre_status cadre_attention_wgmma_bwd(uint32_t dtype, int64_t batch,
                                       const struct cadre_attention_view &a,
                                       cudaStream_t stream)
{
    const bool bf = dtype == CADRE_BF16;
    const dim3 keys((unsigned)(batch * a.kv_heads), blocks_of(a, KEY_GROUPS));
    const dim3 queries((unsigned)(batch * a.heads), blocks_of(a, QUERY_GROUPS));
    CADRE_TRY(cadre_attention_launch(bf ? backward_keys<bf16> : backward_keys<f16>,
                                     keys, dim3(128 * KEY_GROUPS),
                                     shared_bytes(KEY_GROUPS), stream, a));
    return cadre_attention_launch(bf ? backward_queries<bf16> : backward_queries<f16>,
                                  queries, dim3(128 * QUERY_GROUPS),
                                  shared_bytes(QUERY_GROUPS), stream, a);
}
