/* SPDX-License-Identifier: Apache-2.0 */
/* FlashAttention-2, backward (Dao 2023), without its atomic sums: one kernel for dk and
 * dv, one for dq. Each recomputes the scores and adds in an order that the shapes fix.
 * Both keep two tiles (their own rows) and loop over two others, double buffered: dk,
 * dv keep k, v and loop over q, dout; dq keeps q, dout and loops over k, v.
 *
 * For dk and dv the scores are computed transposed, so that the probabilities are in
 * registers in the layout of the next product. */
#include "core/device/cuda/attention_softmax.cuh"

namespace
{

enum { MT = 1, OWN = 16 * MT * CADRE_MMA_WARPS, PASSING = 64 };

/* Rows per loop iteration: registers allow 64 for dq; dk and dv have two sums. */
template <int D> struct shape {
    enum { KEYS = D == 64 ? 64 : 32, QUERIES = KEYS };
};

/* A stage of dk, dv's buffers, in words: q, dout and a pair of floats per query. */
template <int D> struct stage {
    enum {
        QUERIES = shape<D>::QUERIES,
        TILE = QUERIES * D / 2,
        WORDS = 2 * TILE + 2 * QUERIES
    };
};

template <int D> __device__ __forceinline__ void clear(float acc[MT][D / 8][4])
{
#pragma unroll
    for (int i = 0; i < MT * D / 2; i++)
        acc[i / (D / 2)][i / 4 % (D / 8)][i % 4] = 0;
}

/* Begin to copy queries [row, row + QUERIES) of head `head` into a stage. */
template <typename T, int D>
__device__ __forceinline__ void load_queries(uint32_t *to,
                                             const struct cadre_attention_view &a,
                                             int64_t b, int head, int row)
{
    enum { QUERIES = stage<D>::QUERIES, TILE = stage<D>::TILE };
    const float *stats =
        (const float *)a.stats + ((b * a.heads + head) * a.padded + row) * 2;
    cadre_mma_load<T, D, QUERIES>(to, cadre_attention_rows<T>(a, a.q, a.ldq, b, head),
                                  a.ldq, row, a.time);
    cadre_mma_load<T, D, QUERIES>(to + TILE,
                                  cadre_attention_rows<T>(a, a.dout, a.ldo, b, head),
                                  a.ldo, row, a.time);
    if ((int)threadIdx.x < QUERIES / 2)
        cadre_copy_async16(to + 2 * TILE + threadIdx.x * 4, stats + threadIdx.x * 4,
                           true);
}

/* dk and dv of a tile of keys, over the queries that see it, head after head of the
 * group. */
template <typename T, int D>
__global__ void __launch_bounds__(CADRE_MMA_THREADS)
    backward_keys(struct cadre_attention_view a)
{
    enum { QUERIES = stage<D>::QUERIES, TILE = stage<D>::TILE, NT = QUERIES / 8 };
    CADRE_DYNAMIC_SHARED(uint32_t, k);
    uint32_t *v = k + OWN * D / 2, *stages = v + OWN * D / 2;
    const int group = a.heads / a.kv_heads, kv = (int)blockIdx.x % a.kv_heads;
    const int64_t b = blockIdx.x / a.kv_heads;
    const int first = (int)blockIdx.y * OWN, lane = cadre_mma_lane();
    const int mine = first + cadre_mma_warp() * 16 * MT;
    const int begin = a.full ? 0 : first; /* of the queries that see these keys */
    const int tiles = (a.time - begin + QUERIES - 1) / QUERIES;
    const float scale = (float)a.scale * CADRE_LOG2_E;
    float dk[MT][D / 8][4], dv[MT][D / 8][4], by[MT][2], one[MT][2];
    clear<D>(dk);
    clear<D>(dv);
    cadre_mma_load<T, D, OWN>(k, cadre_attention_rows<T>(a, a.k, a.ldk, b, kv), a.ldk,
                              first, a.time);
    cadre_mma_load<T, D, OWN>(v, cadre_attention_rows<T>(a, a.v, a.ldv, b, kv), a.ldv,
                              first, a.time);
    load_queries<T, D>(stages, a, b, kv * group, begin);
    cadre_copy_commit();
    for (int i = 0; i < group * tiles; i++) {
        const int next = i + 1, query = begin + i % tiles * QUERIES;
        uint32_t *q = stages + i % 2 * stage<D>::WORDS;
        float s[MT][NT][4], ds[MT][NT][4];
        cadre_copy_wait<0>();
        __syncthreads(); /* this stage has arrived, the other is free */
        if (next < group * tiles)
            load_queries<T, D>(stages + next % 2 * stage<D>::WORDS, a, b,
                               kv * group + next / tiles,
                               begin + next % tiles * QUERIES);
        cadre_copy_commit();
        if (!a.full && query + QUERIES <= mine)
            continue; /* all before this warp's keys */
        cadre_mma_scores<T, D, MT, NT>(s, k, q);
        cadre_mma_scores<T, D, MT, NT>(ds, v, q + TILE);
        const float *stats = (const float *)(q + 2 * TILE);
        if (mine + 16 * MT - 1 > (a.full ? a.time - 1 : query))
            cadre_mask_transposed<MT, NT>(s, mine + lane / 4, query + lane % 4 * 2,
                                          a.full ? a.time - 1 : -1);
        cadre_probability_transposed<MT, NT>(s, stats, scale);
        cadre_gradient_transposed<MT, NT>(ds, s, stats);
        cadre_mma_mix<T, D, MT, NT>(dv, s, q + TILE);
        cadre_mma_mix<T, D, MT, NT>(dk, ds, q);
    }
    for (int i = 0; i < MT * 2; i++) {
        by[i / 2][i % 2] = (float)a.scale;
        one[i / 2][i % 2] = 1;
    }
    cadre_mma_store<T, D, MT>(cadre_attention_rows_out<T>(a, a.dk, a.ldk, b, kv), a.ldk,
                              first, a.time, dk, by, k);
    cadre_mma_store<T, D, MT>(cadre_attention_rows_out<T>(a, a.dv, a.ldv, b, kv), a.ldv,
                              first, a.time, dv, one, v);
}

/* dq of a tile of queries, over the keys it sees. */
template <typename T, int D>
__global__ void __launch_bounds__(CADRE_MMA_THREADS)
    backward_queries(struct cadre_attention_view a)
{
    enum { KEYS = shape<D>::KEYS, TILE = KEYS * D / 2, NT = KEYS / 8 };
    CADRE_DYNAMIC_SHARED(uint32_t, q);
    uint32_t *dout = q + OWN * D / 2, *stages = dout + OWN * D / 2;
    const int head = (int)blockIdx.x % a.heads, kv = head / (a.heads / a.kv_heads);
    const int64_t b = blockIdx.x / a.heads;
    const T *from_k = cadre_attention_rows<T>(a, a.k, a.ldk, b, kv);
    const T *from_v = cadre_attention_rows<T>(a, a.v, a.ldv, b, kv);
    const int first = (int)(gridDim.y - 1 - blockIdx.y) * OWN, lane = cadre_mma_lane();
    const int end = cadre_attention_end(a, first + OWN);
    const int mine = first + cadre_mma_warp() * 16 * MT;
    const float scale = (float)a.scale * CADRE_LOG2_E;
    const float2 *rows =
        (const float2 *)a.stats + (int64_t)blockIdx.x * a.padded + mine + lane / 4;
    float dq[MT][D / 8][4], by[MT][2];
    float2 stats[MT][2];
    for (int i = 0; i < MT * 2; i++) {
        stats[i / 2][i % 2] = rows[i * 8];
        by[i / 2][i % 2] = (float)a.scale;
    }
    clear<D>(dq);
    cadre_mma_load<T, D, OWN>(q, cadre_attention_rows<T>(a, a.q, a.ldq, b, head), a.ldq,
                              first, a.time);
    cadre_mma_load<T, D, OWN>(dout, cadre_attention_rows<T>(a, a.dout, a.ldo, b, head),
                              a.ldo, first, a.time);
    cadre_mma_load<T, D, KEYS>(stages, from_k, a.ldk, 0, a.time);
    cadre_mma_load<T, D, KEYS>(stages + TILE, from_v, a.ldv, 0, a.time);
    cadre_copy_commit();
    for (int key = 0; key < end; key += KEYS) {
        uint32_t *k = stages + key / KEYS % 2 * 2 * TILE;
        uint32_t *other = stages + (key / KEYS + 1) % 2 * 2 * TILE;
        float s[MT][NT][4], ds[MT][NT][4];
        cadre_copy_wait<0>();
        __syncthreads(); /* this stage has arrived, the other is free */
        if (key + KEYS < end) {
            cadre_mma_load<T, D, KEYS>(other, from_k, a.ldk, key + KEYS, a.time);
            cadre_mma_load<T, D, KEYS>(other + TILE, from_v, a.ldv, key + KEYS, a.time);
        }
        cadre_copy_commit();
        if (!a.full && key >= mine + 16 * MT)
            continue; /* all above the diagonal */
        cadre_mma_scores<T, D, MT, NT>(s, q, k);
        cadre_mma_scores<T, D, MT, NT>(ds, dout, k + TILE);
        if (key + KEYS - 1 > (a.full ? a.time - 1 : mine))
            cadre_mask<MT, NT>(s, mine + lane / 4, key + lane % 4 * 2,
                               a.full ? a.time - 1 : -1);
        cadre_probability<MT, NT>(s, stats, scale);
        cadre_gradient<MT, NT>(ds, s, stats);
        cadre_mma_mix<T, D, MT, NT>(dq, ds, k);
    }
    cadre_mma_store<T, D, MT>(cadre_attention_rows_out<T>(a, a.dq, a.ldq, b, head),
                              a.ldq, first, a.time, dq, by, q);
}

template <typename T, int D>
cadre_status launch(int64_t batch, const struct cadre_attention_view &a,
                    cudaStream_t stream)
{
    const unsigned tiles = (unsigned)((a.time + OWN - 1) / OWN);
    const size_t own = (size_t)2 * OWN * D * 2;
    CADRE_TRY(cadre_attention_launch(
        backward_keys<T, D>, dim3((unsigned)(batch * a.kv_heads), tiles),
        dim3(CADRE_MMA_THREADS), own + (size_t)2 * stage<D>::WORDS * 4, stream, a));
    return cadre_attention_launch(
        backward_queries<T, D>, dim3((unsigned)(batch * a.heads), tiles),
        dim3(CADRE_MMA_THREADS), own + (size_t)4 * shape<D>::KEYS * D * 2, stream, a);
}

} // namespace

cadre_status cadre_attention_mma_bwd(uint32_t dtype, int64_t batch,
                                     const struct cadre_attention_view &view,
                                     cudaStream_t stream)
{
    if (dtype == CADRE_BF16)
        return view.head_size == 64 ? launch<bf16, 64>(batch, view, stream)
                                    : launch<bf16, 128>(batch, view, stream);
    return view.head_size == 64 ? launch<f16, 64>(batch, view, stream)
                                : launch<f16, 128>(batch, view, stream);
}
