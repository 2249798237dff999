/* SPDX-License-Identifier: Apache-2.0 */
/* Attention on the ordinary cores, for every dtype and head sizes up to 256. The
 * same tiles and recurrences as FlashAttention-2 (Dao 2023): a block of E x E threads
 * holds A*E rows of its matrix and loops over the tiles of the other.
 *
 * Thread (tx, ty) has the scores of rows ty + E*a and columns tx + E*b, and columns tx
 * + E*c of its rows' results. The E threads of a row lie in one warp, so their exchange
 * through shared memory needs no block-wide barrier.
 *
 * A kernel is instantiated for the dtype of its sums: inputs are widened when read and
 * results rounded when written, by a dtype that is uniform over threads. nvcc compiles
 * each slowly. */
#include "core/device/cuda/attention.cuh"

namespace
{

__device__ __forceinline__ float real_exp(float x)
{
    return expf(x);
}

__device__ __forceinline__ double real_exp(double x)
{
    return exp(x);
}

__device__ __forceinline__ float real_log(float x)
{
    return logf(x);
}

__device__ __forceinline__ double real_log(double x)
{
    return log(x);
}

template <typename W> __device__ __forceinline__ W larger(W a, W b)
{
    return a > b ? a : b;
}

template <typename P> struct pointed_by;
template <typename T> struct pointed_by<T *> {
    typedef T type;
};
template <typename P> using pointed = typename pointed_by<P>::type;

/* f of a T *, with T the type of the view's dtype; sums are in W. */
template <typename W, typename F>
__device__ __forceinline__ void with_type(const struct cadre_attention_view &a,
                                          const F &f)
{
    if constexpr (sizeof(W) == sizeof(double))
        f((double *)NULL);
    else if (a.dtype == CADRE_F32)
        f((float *)NULL);
    else if (a.dtype == CADRE_BF16)
        f((bf16 *)NULL);
    else
        f((f16 *)NULL);
}

/* Sums in W, E x E threads, A rows and C columns a thread. */
template <typename W_, int E_, int A_, int C_> struct plain {
    typedef W_ W;
    enum { E = E_, A = A_, C = C_, ROWS = E_ * A_, LDP = ROWS + 1 };

    const struct cadre_attention_view &view;
    int size, ld, tx, ty; /* of a row in global and in shared memory */

    __device__ __forceinline__ plain(const struct cadre_attention_view &a)
        : view(a), size(a.head_size), ld(a.head_size + 1), tx((int)threadIdx.x % E),
          ty((int)threadIdx.x / E)
    {
    }

    /* tile (ROWS, size) = rows [first, first + ROWS) of a head; 0 beyond its end */
    __device__ __forceinline__ void load(W *tile, const void *base, int64_t lds,
                                         int64_t b, int head, int first) const
    {
        with_type<W>(view, [&](auto *type) {
            load_rows(
                tile,
                cadre_attention_rows<pointed<decltype(type)>>(view, base, lds, b, head),
                lds, first, view.time);
        });
    }

    template <typename T>
    __device__ __forceinline__ void load_rows(W *tile, const T *src, int64_t lds,
                                              int first, int time) const
    {
#pragma unroll 1
        for (int a = 0; a < A; a++) {
            const int row = ty + E * a;
            const T *from = src + (int64_t)(first + row) * lds;
            for (int c = tx; c < size; c += E)
                tile[row * ld + c] = first + row < time ? widen(from[c]) : (W)0;
        }
    }

    /* s = x (ROWS, size) times y (ROWS, size) transposed */
    __device__ __forceinline__ void scores(W s[A][A], const W *x, const W *y) const
    {
#pragma unroll
        for (int i = 0; i < A * A; i++)
            s[i / A][i % A] = 0;
        for (int d = 0; d < size; d++) {
            W column[A];
#pragma unroll
            for (int b = 0; b < A; b++)
                column[b] = y[(tx + E * b) * ld + d];
#pragma unroll
            for (int a = 0; a < A; a++) {
                const W value = x[(ty + E * a) * ld + d];
#pragma unroll
                for (int b = 0; b < A; b++)
                    s[a][b] += value * column[b];
            }
        }
    }

    /* acc += p (ROWS, ROWS) times y (ROWS, size) */
    __device__ __forceinline__ void mix(W acc[A][C], const W *p, const W *y) const
    {
        for (int j = 0; j < ROWS; j++) {
            W weight[A];
#pragma unroll
            for (int a = 0; a < A; a++)
                weight[a] = p[(ty + E * a) * LDP + j];
#pragma unroll
            for (int c = 0; c < C; c++) {
                if (tx + E * c >= size)
                    continue;
                const W value = y[j * ld + tx + E * c];
#pragma unroll
                for (int a = 0; a < A; a++)
                    acc[a][c] += weight[a] * value;
            }
        }
    }

    /* p = s, for the threads of the same row to read */
    __device__ __forceinline__ void keep(W *p, const W s[A][A]) const
    {
#pragma unroll
        for (int i = 0; i < A * A; i++)
            p[(ty + E * (i / A)) * LDP + tx + E * (i % A)] = s[i / A][i % A];
    }

    /* rows [first, ...) of a head, as far as it goes, = acc * by[a] */
    __device__ __forceinline__ void store(void *base, int64_t ldd, int64_t b, int head,
                                          int first, const W acc[A][C],
                                          const W by[A]) const
    {
        with_type<W>(view, [&](auto *type) {
            store_rows(cadre_attention_rows_out<pointed<decltype(type)>>(view, base,
                                                                         ldd, b, head),
                       ldd, first, view.time, acc, by);
        });
    }

    template <typename T>
    __device__ __forceinline__ void store_rows(T *dst, int64_t ldd, int first, int time,
                                               const W acc[A][C], const W by[A]) const
    {
#pragma unroll
        for (int a = 0; a < A; a++) {
            const int row = first + ty + E * a;
            if (row >= time)
                continue;
#pragma unroll
            for (int c = 0; c < C; c++)
                if (tx + E * c < size)
                    dst[(int64_t)row * ldd + tx + E * c] = narrow<T>(acc[a][c] * by[a]);
        }
    }

    static __device__ __forceinline__ W row_max(W x)
    {
#pragma unroll
        for (int o = E / 2; o; o /= 2)
            x = larger(x, __shfl_xor_sync(CADRE_FULL_WARP, x, o));
        return x;
    }

    static __device__ __forceinline__ W row_sum(W x)
    {
#pragma unroll
        for (int o = E / 2; o; o /= 2)
            x += __shfl_xor_sync(CADRE_FULL_WARP, x, o);
        return x;
    }
};

/* One step of the online softmax: s becomes exp(s * scale - most), 0 above the
 * diagonal; `most` and `sum` (this thread's part) are updated, and acc is rescaled. */
template <typename P, typename W>
__device__ __forceinline__ void softmax_step(const P &at, W s[P::A][P::A], W scale,
                                             int row, int key, W most[P::A],
                                             W sum[P::A], W acc[P::A][P::C])
{
#pragma unroll
    for (int a = 0; a < P::A; a++) {
        W top = most[a];
#pragma unroll
        for (int b = 0; b < P::A; b++) {
            const bool seen = key + at.tx + P::E * b <=
                              cadre_attention_last(at.view, row + at.ty + P::E * a);
            s[a][b] = seen ? s[a][b] * scale : (W)-INFINITY;
            top = larger(s[a][b], top);
        }
        top = P::row_max(top);
        const W shrink = real_exp(most[a] - top);
        most[a] = top;
        sum[a] *= shrink;
#pragma unroll
        for (int b = 0; b < P::A; b++) {
            s[a][b] = real_exp(s[a][b] - top);
            sum[a] += s[a][b];
        }
#pragma unroll
        for (int c = 0; c < P::C; c++)
            acc[a][c] *= shrink;
    }
}

template <typename P>
__global__ void __launch_bounds__(P::E *P::E) forward(struct cadre_attention_view a)
{
    typedef typename P::W W;
    CADRE_DYNAMIC_SHARED(W, q);
    const P at(a);
    W *k = q + P::ROWS * at.ld, *v = k + P::ROWS * at.ld, *p = v + P::ROWS * at.ld;
    const int head = (int)blockIdx.x % a.heads;
    const int64_t b = blockIdx.x / a.heads;
    const int kv = head / (a.heads / a.kv_heads);
    const int first = (int)(gridDim.y - 1 - blockIdx.y) * P::ROWS; /* long ones first */
    W acc[P::A][P::C] = {}, most[P::A], sum[P::A] = {};
    for (int i = 0; i < P::A; i++)
        most[i] = (W)-INFINITY;
    at.load(q, a.q, a.ldq, b, head, first);
    const int end = cadre_attention_end(a, first + 1);
    for (int key = 0; key < end; key += P::ROWS) {
        W s[P::A][P::A];
        __syncthreads();
        at.load(k, a.k, a.ldk, b, kv, key);
        at.load(v, a.v, a.ldv, b, kv, key);
        __syncthreads();
        at.scores(s, q, k);
        softmax_step<P, W>(at, s, (W)a.scale, first, key, most, sum, acc);
        at.keep(p, s);
        __syncwarp();
        at.mix(acc, p, v);
    }
    W *lse = (W *)a.lse + (int64_t)blockIdx.x * a.time;
    for (int i = 0; i < P::A; i++) {
        const int row = first + at.ty + P::E * i;
        sum[i] = P::row_sum(sum[i]);
        if (at.tx == 0 && row < a.time)
            lse[row] = most[i] + real_log(sum[i]);
        sum[i] = 1 / sum[i];
    }
    at.store(a.out, a.ldo, b, head, first, acc, sum);
}

/* s becomes the probabilities and ds the gradient of the scores before scaling; `row`
 * and `key` return the query and the key of a score. */
template <typename W>
__device__ __forceinline__ void score_gradient(W *s, W *ds, W scale, W lse, W delta,
                                               bool seen)
{
    *s = seen ? real_exp(*s * scale - lse) : (W)0;
    *ds = *s * (*ds - delta);
}

/* dq of a tile of queries: a loop over keys and values. */
template <typename P>
__global__ void __launch_bounds__(P::E *P::E)
    backward_queries(struct cadre_attention_view a)
{
    typedef typename P::W W;
    CADRE_DYNAMIC_SHARED(W, q);
    const P at(a);
    const int tile = P::ROWS * at.ld;
    W *dout = q + tile, *k = dout + tile, *v = k + tile, *p = v + tile;
    const int head = (int)blockIdx.x % a.heads;
    const int64_t b = blockIdx.x / a.heads;
    const int kv = head / (a.heads / a.kv_heads);
    const W *stats = (const W *)a.stats + (int64_t)blockIdx.x * a.padded * 2;
    const int first = (int)(gridDim.y - 1 - blockIdx.y) * P::ROWS;
    W acc[P::A][P::C] = {}, by[P::A];
    at.load(q, a.q, a.ldq, b, head, first);
    at.load(dout, a.dout, a.ldo, b, head, first);
    const int end = cadre_attention_end(a, first + 1);
    for (int key = 0; key < end; key += P::ROWS) {
        W s[P::A][P::A], ds[P::A][P::A];
        __syncthreads();
        at.load(k, a.k, a.ldk, b, kv, key);
        at.load(v, a.v, a.ldv, b, kv, key);
        __syncthreads();
        at.scores(s, q, k);
        at.scores(ds, dout, v);
        for (int i = 0; i < P::A * P::A; i++) {
            const int row = first + at.ty + P::E * (i / P::A);
            score_gradient(&s[i / P::A][i % P::A], &ds[i / P::A][i % P::A], (W)a.scale,
                           stats[2 * row], stats[2 * row + 1],
                           key + at.tx + P::E * (i % P::A) <=
                               cadre_attention_last(a, row));
        }
        at.keep(p, ds);
        __syncwarp();
        at.mix(acc, p, k);
    }
    for (int i = 0; i < P::A; i++)
        by[i] = (W)a.scale;
    at.store(a.dq, a.ldq, b, head, first, acc, by);
}

/* dk and dv of a tile of keys: a loop over the queries that see it, head after head of
 * the group, so that a sum has one order. Scores are transposed: a row is a key. */
template <typename P>
__global__ void __launch_bounds__(P::E *P::E)
    backward_keys(struct cadre_attention_view a)
{
    typedef typename P::W W;
    CADRE_DYNAMIC_SHARED(W, k);
    const P at(a);
    const int tile = P::ROWS * at.ld, group = a.heads / a.kv_heads;
    W *v = k + tile, *q = v + tile, *dout = q + tile, *p = dout + tile;
    W *dp = p + P::ROWS * P::LDP;
    const int kv = (int)blockIdx.x % a.kv_heads, first = (int)blockIdx.y * P::ROWS;
    const int64_t b = blockIdx.x / a.kv_heads;
    W dk[P::A][P::C] = {}, dv[P::A][P::C] = {}, by[P::A], one[P::A];
    at.load(k, a.k, a.ldk, b, kv, first);
    at.load(v, a.v, a.ldv, b, kv, first);
    for (int head = kv * group; head < (kv + 1) * group; head++) {
        const W *stats = (const W *)a.stats + (b * a.heads + head) * a.padded * 2;
        for (int row = a.full ? 0 : first; row < a.time; row += P::ROWS) {
            W s[P::A][P::A], ds[P::A][P::A];
            __syncthreads();
            at.load(q, a.q, a.ldq, b, head, row);
            at.load(dout, a.dout, a.ldo, b, head, row);
            __syncthreads();
            at.scores(s, k, q);
            at.scores(ds, v, dout);
            for (int i = 0; i < P::A * P::A; i++) {
                const int at_row = row + at.tx + P::E * (i % P::A);
                score_gradient(&s[i / P::A][i % P::A], &ds[i / P::A][i % P::A],
                               (W)a.scale, stats[2 * at_row], stats[2 * at_row + 1],
                               first + at.ty + P::E * (i / P::A) <=
                                   cadre_attention_last(a, at_row));
            }
            at.keep(p, s);
            at.keep(dp, ds);
            __syncwarp();
            at.mix(dv, p, dout);
            at.mix(dk, dp, q);
        }
    }
    for (int i = 0; i < P::A; i++) {
        by[i] = (W)a.scale;
        one[i] = 1;
    }
    at.store(a.dk, a.ldk, b, kv, first, dk, by);
    at.store(a.dv, a.ldv, b, kv, first, dv, one);
}

template <typename P>
cadre_status launch(bool backward, int64_t batch, const struct cadre_attention_view &a,
                    cudaStream_t stream)
{
    const size_t tile = (size_t)P::ROWS * (size_t)(a.head_size + 1);
    const size_t square = (size_t)P::ROWS * P::LDP, element = sizeof(typename P::W);
    const unsigned tiles = (unsigned)((a.time + P::ROWS - 1) / P::ROWS);
    const dim3 query_grid((unsigned)(batch * a.heads), tiles);
    const dim3 key_grid((unsigned)(batch * a.kv_heads), tiles);
    const dim3 block(P::E * P::E);
    void (*kernel)(struct cadre_attention_view) = forward<P>;
    if (!backward)
        return cadre_attention_launch(kernel, query_grid, block,
                                      (3 * tile + square) * element, stream, a);
    kernel = backward_queries<P>;
    CADRE_TRY(cadre_attention_launch(kernel, query_grid, block,
                                     (4 * tile + square) * element, stream, a));
    kernel = backward_keys<P>;
    return cadre_attention_launch(kernel, key_grid, block,
                                  (4 * tile + 2 * square) * element, stream, a);
}

/* Tiles such that the largest needs at most 80 KiB of shared memory. */
cadre_status by_size(bool backward, int64_t batch, const struct cadre_attention_view &a,
                     cudaStream_t stream)
{
    if (a.head_size <= 16)
        return launch<plain<float, 16, 2, 1>>(backward, batch, a, stream);
    if (a.head_size <= 64)
        return launch<plain<float, 16, 2, 4>>(backward, batch, a, stream);
    if (a.head_size <= 128)
        return launch<plain<float, 16, 2, 8>>(backward, batch, a, stream);
    return launch<plain<float, 16, 1, 16>>(backward, batch, a, stream);
}

cadre_status by_size_f64(bool backward, int64_t batch,
                         const struct cadre_attention_view &a, cudaStream_t stream)
{
    if (a.head_size <= 64)
        return launch<plain<double, 16, 1, 4>>(backward, batch, a, stream);
    if (a.head_size <= 128)
        return launch<plain<double, 16, 1, 8>>(backward, batch, a, stream);
    return launch<plain<double, 8, 1, 32>>(backward, batch, a, stream);
}

cadre_status by_dtype(uint32_t dtype, bool backward, int64_t batch,
                      struct cadre_attention_view a, cudaStream_t stream)
{
    a.dtype = dtype;
    switch (dtype) {
    case CADRE_F32:
    case CADRE_BF16:
    case CADRE_F16:
        return by_size(backward, batch, a, stream);
    case CADRE_F64:
        return by_size_f64(backward, batch, a, stream);
    default:
        return refuse_dtype("attention", dtype);
    }
}

} // namespace

cadre_status cadre_attention_plain_fwd(uint32_t dtype, int64_t batch,
                                       const struct cadre_attention_view &view,
                                       cudaStream_t stream)
{
    return by_dtype(dtype, false, batch, view, stream);
}

cadre_status cadre_attention_plain_bwd(uint32_t dtype, int64_t batch,
                                       const struct cadre_attention_view &view,
                                       cudaStream_t stream)
{
    return by_dtype(dtype, true, batch, view, stream);
}
