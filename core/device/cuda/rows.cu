/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of columns: sums with a bias, the epilogue of a GEMM, column sums, rotary
 * embedding. A block has a row, a thread packs of it at a fixed stride. */
#include "core/device/cuda/columns.cuh"
#include "core/device/cuda/kernels.h"
#include "core/device/cuda/math.cuh"

template <class T> struct add_job {
    int64_t channels;
    const T *a, *bias, *b;
    T *y;
    bool vec;
};

template <class T> __global__ void add(const add_job<T> a)
{
    constexpr int N = pack_size<T>::N;
    const int64_t C = a.channels, row = blockIdx.x;
    for (int64_t c = (int64_t)threadIdx.x * N; c < C; c += blockDim.x * N) {
        const int64_t at = row * C + c;
        pack<T> x = load<N>(a.a + at, C - c, a.vec), bias{}, b{};
        if (a.bias)
            bias = load<N>(a.bias + c, C - c, a.vec);
        if (a.b)
            b = load<N>(a.b + at, C - c, a.vec);
        for (int i = 0; i < N; i++) {
            wide_t<T> v = widen(x.v[i]);
            if (a.bias)
                v += widen(bias.v[i]);
            if (a.b)
                v += widen(b.v[i]);
            x.v[i] = narrow<T>(v);
        }
        store<N>(a.y + at, x, C - c, a.vec);
    }
}

extern "C" cadre_status cadre_cuda_add(uint32_t dtype, const void *a, const void *bias,
                                       const void *b, void *y, int64_t rows,
                                       int64_t channels, void *stream)
{
    if (rows <= 0 || channels <= 0)
        return CADRE_OK;
    CADRE_DISPATCH("add", dtype, {
        constexpr int N = pack_size<T>::N;
        const bool vec = channels % N == 0 && aligned(a, bias, b, y);
        const add_job<T> job = {channels,     (const T *)a, (const T *)bias,
                                (const T *)b, (T *)y,       vec};
        CADRE_LAUNCH(add<T>, (unsigned)rows, row_threads(ceil_div(channels, N)), 0,
                     stream, job);
    });
    return cadre_launch_check("add");
}

/* ---- epilogues ---- */

/* Rows of `columns` of arrays of one leading dimension, NULL where there is none. */
template <class T> struct epilogue_job {
    int64_t blocks, columns, ld; /* blocks of a row */
    const T *x, *bias;
    T *c, *aux;
    bool vec;
};

enum { EPILOGUE_THREADS = 256, EPILOGUE_PACKS = 4 };

/* F::at maps a pack of x and of another operand. A thread has several packs, a block
 * apart, whose loads are all in flight before the first is used. */
template <class F, class T> __global__ void epilogue(const epilogue_job<T> a)
{
    constexpr int N = pack_size<T>::N;
    const int64_t row = blockIdx.x / a.blocks * a.ld, step = (int64_t)blockDim.x * N;
    const int64_t first =
        blockIdx.x % a.blocks * step * EPILOGUE_PACKS + (int64_t)threadIdx.x * N;
    pack<T> x[EPILOGUE_PACKS], y[EPILOGUE_PACKS];
    CADRE_UNROLL
    for (int i = 0; i < EPILOGUE_PACKS; i++) {
        const int64_t c = first + i * step;
        x[i] = y[i] = pack<T>{};
        if (c < a.columns) {
            x[i] = load<N>(a.x + row + c, a.columns - c, a.vec);
            y[i] = F::other(a, row, c);
        }
    }
    CADRE_UNROLL
    for (int i = 0; i < EPILOGUE_PACKS; i++) {
        const int64_t c = first + i * step;
        if (c < a.columns)
            F::at(a, row, c, x[i], y[i]);
    }
}

template <class T> struct add_bias {
    __device__ static pack<T> other(const epilogue_job<T> &a, int64_t, int64_t c)
    {
        return load<pack_size<T>::N>(a.bias + c, a.columns - c, a.vec);
    }
    __device__ static void at(const epilogue_job<T> &a, int64_t row, int64_t c,
                              const pack<T> &x, pack<T> &y)
    {
        constexpr int N = pack_size<T>::N;
        for (int i = 0; i < N; i++)
            y.v[i] = narrow<T>(widen(x.v[i]) + widen(y.v[i]));
        store<N>(a.c + row + c, y, a.columns - c, a.vec);
    }
};

/* The input of gelu is the rounded value that `aux` keeps. */
template <class T> struct gelu_fwd {
    __device__ static pack<T> other(const epilogue_job<T> &, int64_t, int64_t)
    {
        return pack<T>{};
    }
    __device__ static void at(const epilogue_job<T> &a, int64_t row, int64_t c,
                              const pack<T> &x, pack<T> &y)
    {
        constexpr int N = pack_size<T>::N;
        const int64_t left = a.columns - c;
        if (a.aux)
            store<N>(a.aux + row + c, x, left, a.vec);
        for (int i = 0; i < N; i++)
            y.v[i] = narrow<T>(gelu<T>(widen(x.v[i])));
        store<N>(a.c + row + c, y, left, a.vec);
    }
};

/* The element of gelu_bwd, where rows may be longer than their used part. */
template <class T> struct gelu_back {
    __device__ static pack<T> other(const epilogue_job<T> &a, int64_t row, int64_t c)
    {
        return load<pack_size<T>::N>(a.aux + row + c, a.columns - c, a.vec);
    }
    __device__ static void at(const epilogue_job<T> &a, int64_t row, int64_t c,
                              const pack<T> &d, pack<T> &x)
    {
        constexpr int N = pack_size<T>::N;
        for (int i = 0; i < N; i++)
            x.v[i] = narrow<T>(widen(d.v[i]) * gelu_slope<T>(widen(x.v[i])));
        store<N>(a.c + row + c, x, a.columns - c, a.vec);
    }
};

/* Rows without a bias that follow each other without a gap are one row. */
template <class F, class T>
static void launch_epilogue(epilogue_job<T> a, int64_t rows, void *stream)
{
    const int64_t most = (int64_t)EPILOGUE_THREADS * pack_size<T>::N * EPILOGUE_PACKS;
    if (!a.bias && a.columns == a.ld) {
        a.columns *= rows;
        rows = 1;
    }
    a.vec =
        aligned(a.x, a.bias, a.c, a.aux) && (rows == 1 || a.ld % pack_size<T>::N == 0);
    a.blocks = ceil_div(a.columns, most);
    CADRE_LAUNCH((epilogue<F, T>), (unsigned)(rows * a.blocks), EPILOGUE_THREADS, 0,
                 stream, a);
}

extern "C" cadre_status cadre_cuda_bias(const struct cadre_gemm *g, void *stream)
{
    if (g->m <= 0 || g->n <= 0 || !g->bias)
        return CADRE_OK;
    CADRE_DISPATCH("a bias", g->dtype, {
        const epilogue_job<T> job = {
            0,         g->n, g->ldc, (const T *)g->c, (const T *)g->bias,
            (T *)g->c, NULL, false};
        launch_epilogue<add_bias<T>>(job, g->m, stream);
    });
    return cadre_launch_check("a bias");
}

extern "C" cadre_status cadre_cuda_gelu_of(const struct cadre_gemm *g, const void *x,
                                           void *stream)
{
    const bool backward = g->epilogue == CADRE_EPILOGUE_GELU_BWD;
    if (g->m <= 0 || g->n <= 0)
        return CADRE_OK;
    CADRE_DISPATCH("gelu", g->dtype, {
        const epilogue_job<T> job = {0,
                                     g->n,
                                     g->ldc,
                                     (const T *)x,
                                     NULL,
                                     (T *)g->c,
                                     backward || g->aux != x ? (T *)g->aux : NULL,
                                     false};
        if (backward)
            launch_epilogue<gelu_back<T>>(job, g->m, stream);
        else
            launch_epilogue<gelu_fwd<T>>(job, g->m, stream);
    });
    return cadre_launch_check("gelu");
}

/* ---- column sums ---- */

/* A block has 32 packs of columns and a group of rows; its warps take rows in turn. */
enum { BIAS_WARPS = 8, BIAS_ROWS = 128, BIAS_MOST_GROUPS = 256 };

static int64_t bias_group(int64_t rows)
{
    const int64_t group = ceil_div(rows, BIAS_MOST_GROUPS);
    return group < BIAS_ROWS ? (int64_t)BIAS_ROWS : group;
}

template <class T>
__global__ void bias_bwd(const T *dy, int64_t rows, int64_t group, int64_t columns,
                         wide_t<T> *partial, bool vec)
{
    typedef wide_t<T> W;
    constexpr int N = pack_size<T>::N;
    __shared__ W sums[BIAS_WARPS][32 * N];
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int64_t c = ((int64_t)blockIdx.x * 32 + lane) * N;
    const int64_t first = (int64_t)blockIdx.y * group;
    const int64_t last = first + group < rows ? first + group : rows;
    pack<W, N> sum{};
    for (int64_t row = first + warp; row < last && c < columns; row += BIAS_WARPS) {
        const pack<T> d = load<N>(dy + row * columns + c, columns - c, vec);
        for (int i = 0; i < N; i++)
            sum.v[i] += widen(d.v[i]);
    }
    for (int i = 0; i < N; i++)
        sums[warp][lane * N + i] = sum.v[i];
    __syncthreads();
    for (int at = (int)threadIdx.x; at < 32 * N; at += (int)blockDim.x) {
        const int64_t column = (int64_t)blockIdx.x * 32 * N + at;
        W total = 0;
        for (int w = 0; w < BIAS_WARPS; w++)
            total += sums[w][at];
        if (column < columns)
            partial[(int64_t)blockIdx.y * columns + column] = total;
    }
}

extern "C" size_t cadre_cuda_bias_bwd_scratch(uint32_t dtype, int64_t rows,
                                              int64_t channels)
{
    return (size_t)(ceil_div(rows, bias_group(rows)) * channels) *
           cadre_dtype_bytes(cadre_dtype_wide(dtype));
}

extern "C" cadre_status cadre_cuda_bias_bwd(uint32_t dtype, const void *dy,
                                            int64_t rows, int64_t channels, void *db,
                                            int beta, void *scratch, void *stream)
{
    const int64_t group = bias_group(rows), groups = ceil_div(rows, group);
    if (channels <= 0)
        return CADRE_OK;
    CADRE_DISPATCH("bias_bwd", dtype, {
        constexpr int N = pack_size<T>::N;
        const bool vec = channels % N == 0 && aligned(dy);
        const dim3 grid((unsigned)ceil_div(channels, 32 * N), (unsigned)groups);
        if (groups > 0)
            CADRE_LAUNCH(bias_bwd<T>, grid, BIAS_WARPS * 32, 0, stream, (const T *)dy,
                         rows, group, channels, (wide_t<T> *)scratch, vec);
        launch_column_total<wide_t<T>>((const wide_t<T> *)scratch, groups, channels,
                                       channels, (wide_t<T> *)db, beta, stream);
    });
    return cadre_launch_check("bias_bwd");
}

/* ---- rotary embedding ---- */

template <class T> struct rope_job {
    T *x;
    int64_t ld, batch, time, heads, pairs, position;
    cadre_rotary rotary;
    bool inverse, vec;
};

/* As cadre_rotary_frequency, which the host has. */
__device__ inline double rotary_frequency(const cadre_rotary &r, int64_t i,
                                          int64_t pairs)
{
    const double plain = pow(r.theta, -(double)i / (double)pairs);
    if (r.scaling == CADRE_ROTARY_PLAIN)
        return plain;
    if (r.scaling == CADRE_ROTARY_LINEAR)
        return plain / r.factor;
    const double waves = (double)r.original / (2 * 3.14159265358979323846 / plain);
    if (waves < r.low)
        return plain / r.factor;
    if (waves > r.high)
        return plain;
    const double part = (waves - r.low) / (r.high - r.low);
    return (1 - part) * plain / r.factor + part * plain;
}

/* A block has a position of all sequences. Angles are in double and turned into cosines
 * and sines once. */
template <class T> __global__ void rope(const rope_job<T> a)
{
    typedef wide_t<T> W;
    constexpr int N = pack_size<T>::N;
    CADRE_DYNAMIC_SHARED(W, turn); /* (2, pairs): cosines, then sines */
    const int64_t P = a.pairs, packs = ceil_div(P, N), row = packs * a.heads;
    const double t = (double)(a.position + blockIdx.x);
    for (int64_t i = threadIdx.x; i < P; i += blockDim.x) {
        const double angle = t * rotary_frequency(a.rotary, i, P);
        turn[i] = (W)cos(angle);
        turn[P + i] = (W)(a.inverse ? -sin(angle) : sin(angle));
    }
    __syncthreads();
    for (int64_t k = threadIdx.x; k < row * a.batch; k += blockDim.x) {
        const int64_t i = k % packs * N, left = P - i, head = k % row / packs;
        T *x = a.x + (k / row * a.time + blockIdx.x) * a.ld + head * 2 * P + i;
        pack<T> p = load<N>(x, left, a.vec), q = load<N>(x + P, left, a.vec);
        for (int j = 0; j < N; j++) {
            const W u = widen(p.v[j]), v = widen(q.v[j]);
            const W cosine = j < left ? turn[i + j] : 0;
            const W sine = j < left ? turn[P + i + j] : 0;
            p.v[j] = narrow<T>(u * cosine - v * sine);
            q.v[j] = narrow<T>(v * cosine + u * sine);
        }
        store<N>(x, p, left, a.vec);
        store<N>(x + P, q, left, a.vec);
    }
}

/* lint: long because it fills a slot of the table of ops */
extern "C" cadre_status cadre_cuda_rope(uint32_t dtype, void *x, int64_t ld,
                                        int64_t batch, int64_t time, int64_t heads,
                                        int64_t head_size,
                                        const struct cadre_rotary *rotary,
                                        int64_t position, bool inverse, void *stream)
{
    const int64_t pairs = head_size / 2;
    if (batch * time <= 0 || heads <= 0 || pairs <= 0)
        return CADRE_OK;
    CADRE_DISPATCH("rope", dtype, {
        constexpr int N = pack_size<T>::N;
        const bool vec = pairs % N == 0 && ld % N == 0 && aligned(x);
        const rope_job<T> job = {(T *)x, ld,       batch,   time,    heads,
                                 pairs,  position, *rotary, inverse, vec};
        CADRE_LAUNCH(rope<T>, (unsigned)time,
                     row_threads(batch * heads * ceil_div(pairs, N)),
                     (size_t)(2 * pairs) * sizeof(wide_t<T>), stream, job);
    });
    return cadre_launch_check("rope");
}
