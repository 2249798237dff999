/* SPDX-License-Identifier: Apache-2.0 */
/* Token and position embeddings. The token gradient is a sum over the rows of each
 * token in order of rows: keys (token, row) are sorted, a bitonic sort that has one
 * outcome since no two keys are equal, and then a block adds up a token's rows. */
#include "core/device/cuda/kernels.h"
#include "core/device/cuda/math.cuh"

enum { TILE = 2048, SORT_THREADS = 512, AHEAD = 8 };

template <class T> struct embed_job {
    int64_t time, channels, begin, count, position;
    const int32_t *tokens;
    const T *wte, *wpe;
    T *out;
    bool vec;
};

template <class T> __global__ void embed_fwd(const embed_job<T> a)
{
    constexpr int N = pack_size<T>::N;
    const int64_t C = a.channels, row = blockIdx.x;
    const int64_t token = (int64_t)a.tokens[row] - a.begin;
    const bool here = token >= 0 && token < a.count;
    const T *position = a.wpe ? a.wpe + (a.position + row % a.time) * C : NULL;
    for (int64_t c = (int64_t)threadIdx.x * N; c < C; c += blockDim.x * N) {
        pack<T> x{}, p{};
        if (here)
            x = load<N>(a.wte + token * C + c, C - c, a.vec);
        if (here && position)
            p = load<N>(position + c, C - c, a.vec);
        for (int i = 0; i < N && here && position; i++)
            x.v[i] = narrow<T>(widen(x.v[i]) + widen(p.v[i]));
        store<N>(a.out + row * C + c, x, C - c, a.vec);
    }
}

extern "C" cadre_status cadre_cuda_embed_fwd(const struct cadre_embed *a, void *stream)
{
    const int64_t rows = a->batch * a->time;
    if (rows <= 0 || a->channels <= 0)
        return CADRE_OK;
    CADRE_DISPATCH("embed_fwd", a->dtype, {
        constexpr int N = pack_size<T>::N;
        embed_job<T> job = {
            a->time,   a->channels,       a->begin,          a->count,    a->position,
            a->tokens, (const T *)a->wte, (const T *)a->wpe, (T *)a->out, false};
        job.vec = a->channels % N == 0 && aligned(a->wte, a->wpe, a->out);
        CADRE_LAUNCH(embed_fwd<T>, (unsigned)rows,
                     row_threads(ceil_div(a->channels, N)), 0, stream, job);
    });
    return cadre_launch_check("embed_fwd");
}

/* ---- sorting ---- */

/* Keys of rows whose token is another rank's, and those beyond the rows, come last. */
__global__ static void make_keys(const int32_t *tokens, int64_t rows, int64_t begin,
                                 int64_t count, uint64_t *keys, int64_t n)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const int64_t token = i < rows ? (int64_t)tokens[i] - begin : -1;
    keys[i] =
        token >= 0 && token < count ? (uint64_t)token << 32 | (uint64_t)i : UINT64_MAX;
}

__device__ static inline void order(uint64_t *a, uint64_t *b, bool up)
{
    const uint64_t x = *a, y = *b;
    if ((x > y) == up) {
        *a = y;
        *b = x;
    }
}

/* Steps of size j, j / 2, ... 1 within a tile, for runs of `first`, ... `last`. */
__global__ static void sort_tile(uint64_t *keys, int64_t first, int64_t last)
{
    __shared__ uint64_t tile[TILE];
    const int64_t base = (int64_t)blockIdx.x * TILE;
    for (int i = (int)threadIdx.x; i < TILE; i += SORT_THREADS)
        tile[i] = keys[base + i];
    __syncthreads();
    for (int64_t run = first; run <= last; run *= 2) {
        for (int j = (int)(run / 2 < TILE / 2 ? run / 2 : TILE / 2); j > 0; j /= 2) {
            for (int k = (int)threadIdx.x; k < TILE / 2; k += SORT_THREADS) {
                const int i = k / j * 2 * j + k % j;
                order(&tile[i], &tile[i + j], ((base + i) & run) == 0);
            }
            __syncthreads();
        }
    }
    for (int i = (int)threadIdx.x; i < TILE; i += SORT_THREADS)
        keys[base + i] = tile[i];
}

/* One step of size j >= TILE. */
__global__ static void sort_step(uint64_t *keys, int64_t run, int64_t j, int64_t half)
{
    const int64_t k = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= half)
        return;
    const int64_t i = k / j * 2 * j + k % j;
    order(&keys[i], &keys[i + j], (i & run) == 0);
}

static int64_t padded(int64_t rows)
{
    int64_t n = TILE;
    while (n < rows)
        n *= 2;
    return n;
}

static void sort_keys(uint64_t *keys, int64_t n, void *stream)
{
    const unsigned tiles = (unsigned)(n / TILE);
    CADRE_LAUNCH(sort_tile, tiles, SORT_THREADS, 0, stream, keys, 2, TILE);
    for (int64_t run = 2 * TILE; run <= n; run *= 2) {
        for (int64_t j = run / 2; j >= TILE; j /= 2)
            CADRE_LAUNCH(sort_step, (unsigned)(n / 2 / 256), 256, 0, stream, keys, run,
                         j, n / 2);
        CADRE_LAUNCH(sort_tile, tiles, SORT_THREADS, 0, stream, keys, run, run);
    }
}

/* ---- the gradient ---- */

/* The block of the first key of a token adds all its rows. Several are read before the
 * first is added: only the additions depend on each other. */
template <class T>
__global__ void add_rows(const uint64_t *keys, int64_t rows, const T *dout,
                         int64_t channels, wide_t<T> *dwte, bool vec)
{
    typedef wide_t<T> W;
    constexpr int N = pack_size<T>::N;
    const int64_t C = channels, first = blockIdx.x;
    const uint64_t token = keys[first] >> 32;
    if (keys[first] == UINT64_MAX || (first > 0 && keys[first - 1] >> 32 == token))
        return;
    int64_t last = first + 1;
    while (last < rows && keys[last] >> 32 == token)
        last++;
    for (int64_t c = (int64_t)threadIdx.x * N; c < C; c += blockDim.x * N) {
        W *out = dwte + (int64_t)token * C + c;
        pack<W, N> sum = load<N>(out, C - c, vec);
        for (int64_t at = first; at < last; at += AHEAD) {
            pack<T> d[AHEAD];
            CADRE_UNROLL
            for (int k = 0; k < AHEAD; k++) {
                const int64_t row =
                    (int64_t)(uint32_t)keys[at + k < last ? at + k : at];
                d[k] = load<N>(dout + row * C + c, C - c, vec);
            }
            CADRE_UNROLL
            for (int k = 0; k < AHEAD; k++)
                for (int i = 0; i < N && at + k < last; i++)
                    sum.v[i] += widen(d[k].v[i]);
        }
        store<N>(out, sum, C - c, vec);
    }
}

template <class W> __global__ void clear(W *x, int64_t count, bool vec)
{
    constexpr int N = pack_size<W>::N;
    const int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * N;
    if (i < count)
        store<N>(x + i, pack<W>{}, count - i, vec);
}

extern "C" size_t cadre_cuda_embed_bwd_tokens_scratch(const struct cadre_embed *a)
{
    return (size_t)padded(a->batch * a->time) * sizeof(uint64_t);
}

template <class T>
static void bwd_tokens(const struct cadre_embed *a, void *scratch, void *stream)
{
    typedef wide_t<T> W;
    constexpr int N = pack_size<T>::N;
    const int64_t rows = a->batch * a->time, n = padded(rows), C = a->channels;
    const int64_t count = a->count * C;
    const bool vec = C % N == 0 && aligned(a->dout, a->dwte);
    uint64_t *keys = (uint64_t *)scratch;
    if (!a->beta && count > 0)
        CADRE_LAUNCH(clear<W>, (unsigned)ceil_div(count, 256 * pack_size<W>::N), 256, 0,
                     stream, (W *)a->dwte, count, aligned(a->dwte));
    if (rows <= 0 || count <= 0)
        return;
    CADRE_LAUNCH(make_keys, (unsigned)(n / 256), 256, 0, stream, a->tokens, rows,
                 a->begin, a->count, keys, n);
    sort_keys(keys, n, stream);
    CADRE_LAUNCH(add_rows<T>, (unsigned)rows, row_threads(ceil_div(C, N)), 0, stream,
                 keys, rows, (const T *)a->dout, C, (W *)a->dwte, vec);
}

extern "C" cadre_status cadre_cuda_embed_bwd_tokens(const struct cadre_embed *a,
                                                    void *scratch, void *stream)
{
    CADRE_DISPATCH("embed_bwd_tokens", a->dtype, bwd_tokens<T>(a, scratch, stream));
    return cadre_launch_check("embed_bwd_tokens");
}

template <class T> struct positions_job {
    int64_t batch, time, channels, position;
    const T *dout;
    wide_t<T> *dwpe;
    int beta;
    bool vec;
};

template <class T> __global__ void bwd_positions(const positions_job<T> a)
{
    typedef wide_t<T> W;
    constexpr int N = pack_size<T>::N;
    const int64_t C = a.channels, t = (int64_t)blockIdx.x - a.position;
    const bool here = t >= 0 && t < a.time;
    if (!here && a.beta)
        return;
    for (int64_t c = (int64_t)threadIdx.x * N; c < C; c += blockDim.x * N) {
        W *out = a.dwpe + (int64_t)blockIdx.x * C + c;
        pack<W, N> sum{};
        if (a.beta)
            sum = load<N>(out, C - c, a.vec);
        for (int64_t b = 0; b < a.batch && here; b++) {
            const T *from = a.dout + (b * a.time + t) * C + c;
            const pack<T> d = load<N>(from, C - c, a.vec);
            for (int i = 0; i < N; i++)
                sum.v[i] += widen(d.v[i]);
        }
        store<N>(out, sum, C - c, a.vec);
    }
}

extern "C" cadre_status cadre_cuda_embed_bwd_positions(const struct cadre_embed *a,
                                                       void *stream)
{
    if (a->positions <= 0 || a->channels <= 0)
        return CADRE_OK;
    CADRE_DISPATCH("embed_bwd_positions", a->dtype, {
        constexpr int N = pack_size<T>::N;
        const bool vec = a->channels % N == 0 && aligned(a->dout, a->dwpe);
        const positions_job<T> job = {a->batch,
                                      a->time,
                                      a->channels,
                                      a->position,
                                      (const T *)a->dout,
                                      (wide_t<T> *)a->dwpe,
                                      a->beta,
                                      vec};
        CADRE_LAUNCH(bwd_positions<T>, (unsigned)a->positions,
                     row_threads(ceil_div(a->channels, N)), 0, stream, job);
    });
    return cadre_launch_check("embed_bwd_positions");
}
