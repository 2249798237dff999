/* SPDX-License-Identifier: Apache-2.0 */
/* LayerNorm and RMSNorm. A warp has a row, and a lane has the same elements of it in
 * every pass, so that a row needs no barrier. Parameter gradients: every warp adds its
 * rows' parts in shared memory, a block its warps', and column_total the blocks'; the
 * shape determines how many warps and blocks there are. Where a block can have a row in
 * its registers, a pack a thread, it has several rows at a time in the backward pass:
 * nothing is read twice, and parameter gradients stay in registers. */
#include "core/device/cuda/columns.cuh"
#include "core/device/cuda/kernels.h"
#include "core/device/cuda/math.cuh"

/* Warps of a forward block; bytes of shared memory that a block may ask for. */
enum { FWD_WARPS = 4, STASH_BYTES = 48 << 10, BWD_BYTES = 96 << 10 };
enum { MOST_BYTES = 227 << 10, MOST_WARPS = 8, MOST_GROUPS = 528 };
/* Of a block with rows in registers: rows at a time, threads of a row. */
enum { HELD_ROWS = 4, LEAST_HELD = 64, MOST_HELD = 512 };

template <class T> struct norm_job {
    int64_t rows, channels;
    const T *x, *w, *b, *bias, *b_sum;
    T *sum, *y;
    wide_t<T> *stats;
    wide_t<T> eps;
    bool layer, vec;
    bool stash; /* keep the row in shared memory */
};

/* sum = x + bias + b_sum of a lane's pack. */
template <class T>
__device__ static pack<T> sum_pack(const norm_job<T> &a, int64_t at, int64_t c)
{
    constexpr int N = pack_size<T>::N;
    const int64_t left = a.channels - c;
    pack<T> x = load<N>(a.x + at, left, a.vec);
    if (!a.sum)
        return x;
    pack<T> bias{}, b{};
    if (a.bias)
        bias = load<N>(a.bias + c, left, a.vec);
    if (a.b_sum)
        b = load<N>(a.b_sum + at, left, a.vec);
    for (int i = 0; i < N; i++) {
        wide_t<T> v = widen(x.v[i]);
        if (a.bias)
            v += widen(bias.v[i]);
        if (a.b_sum)
            v += widen(b.v[i]);
        x.v[i] = narrow<T>(v);
    }
    store<N>(a.sum + at, x, left, a.vec);
    return x;
}

template <class T> __global__ void norm_fwd(const norm_job<T> a)
{
    typedef wide_t<T> W;
    constexpr int N = pack_size<T>::N;
    CADRE_DYNAMIC_SHARED(T, stashed);
    const int64_t C = a.channels;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int64_t row = (int64_t)blockIdx.x * FWD_WARPS + warp;
    if (row >= a.rows)
        return;
    const int64_t room = ceil_div(C, N) * N;
    T *mine = a.stash ? stashed + warp * room : (a.sum ? a.sum : (T *)a.x) + row * C;
    const bool vec = a.vec || a.stash;
    W sum = 0, squares = 0;
    for (int64_t c = lane * N; c < C; c += 32 * N) {
        const pack<T> x = sum_pack(a, row * C + c, c);
        if (a.stash)
            store_shared<N>(mine + c, x);
        for (int i = 0; i < N; i++)
            sum += widen(x.v[i]);
    }
    const W mean = a.layer ? warp_sum(sum) / (W)C : 0;
    for (int64_t c = lane * N; c < C; c += 32 * N) {
        const pack<T> x = load<N>(mine + c, C - c, vec);
        for (int i = 0; i < N; i++) {
            const W d = widen(x.v[i]) - mean;
            squares += i < C - c ? d * d : 0;
        }
    }
    const W rstd = (W)1 / sqrt(warp_sum(squares) / (W)C + a.eps);
    for (int64_t c = lane * N; c < C; c += 32 * N) {
        const pack<T> x = load<N>(mine + c, C - c, vec);
        const pack<T> w = load<N>(a.w + c, C - c, a.vec);
        const pack<T> b = a.b ? load<N>(a.b + c, C - c, a.vec) : pack<T>{};
        pack<T> y;
        for (int i = 0; i < N; i++) {
            W v = (widen(x.v[i]) - mean) * rstd * widen(w.v[i]);
            y.v[i] = narrow<T>(a.b ? v + widen(b.v[i]) : v);
        }
        store<N>(a.y + row * C + c, y, C - c, a.vec);
    }
    if (lane == 0) {
        a.stats[row * 2] = mean;
        a.stats[row * 2 + 1] = rstd;
    }
}

template <class T> static void fwd(const struct cadre_norm *a, void *stream)
{
    constexpr int N = pack_size<T>::N;
    const size_t bytes = (size_t)(FWD_WARPS * ceil_div(a->channels, N) * 16);
    const T *x = (const T *)(a->sum ? a->a : a->x);
    norm_job<T> job = {a->rows,
                       a->channels,
                       x,
                       (const T *)a->w,
                       a->layer ? (const T *)a->b : NULL,
                       a->sum ? (const T *)a->bias : NULL,
                       a->sum ? (const T *)a->b_sum : NULL,
                       (T *)a->sum,
                       (T *)a->y,
                       (wide_t<T> *)a->stats,
                       (wide_t<T>)a->eps,
                       a->layer,
                       false,
                       bytes <= STASH_BYTES};
    job.vec = a->channels % N == 0 && aligned(x, a->w, job.b, job.bias, job.b_sum) &&
              aligned(a->sum, a->y);
    CADRE_LAUNCH(norm_fwd<T>, (unsigned)ceil_div(a->rows, FWD_WARPS), FWD_WARPS * 32,
                 job.stash ? bytes : 0, stream, job);
}

extern "C" cadre_status cadre_cuda_norm_fwd(const struct cadre_norm *a, void *stream)
{
    if (a->rows <= 0)
        return CADRE_OK;
    CADRE_DISPATCH("norm_fwd", a->dtype, fwd<T>(a, stream));
    return cadre_launch_check("norm_fwd");
}

/* ---- backward ---- */

template <class T> struct norm_bwd_job {
    int64_t rows, channels;
    const T *x, *w, *dy, *residual;
    const wide_t<T> *stats;
    T *dx;
    wide_t<T> *partial; /* (groups, 2, C) */
    bool layer, vec;
};

/* The two means over a row that dx needs. */
template <class T>
__device__ static void row_means(const norm_bwd_job<T> &a, int64_t row, wide_t<T> *g,
                                 wide_t<T> *gx)
{
    typedef wide_t<T> W;
    constexpr int N = pack_size<T>::N;
    const int64_t C = a.channels;
    const W mean = a.stats[row * 2], rstd = a.stats[row * 2 + 1];
    W plain = 0, moment = 0;
    for (int64_t c = (int)threadIdx.x % 32 * N; c < C; c += 32 * N) {
        const pack<T> x = load<N>(a.x + row * C + c, C - c, a.vec);
        const pack<T> dy = load<N>(a.dy + row * C + c, C - c, a.vec);
        const pack<T> w = load<N>(a.w + c, C - c, a.vec);
        for (int i = 0; i < N; i++) {
            const W d = widen(dy.v[i]) * widen(w.v[i]);
            plain += d;
            moment += d * ((widen(x.v[i]) - mean) * rstd);
        }
    }
    *g = a.layer ? warp_sum(plain) / (W)C : 0;
    *gx = warp_sum(moment) / (W)C;
}

/* dx of a row; its contributions to dw and db are added to this lane's elements of
 * both. */
template <class T>
__device__ static void bwd_row(const norm_bwd_job<T> &a, int64_t row, wide_t<T> *dw,
                               wide_t<T> *db)
{
    typedef wide_t<T> W;
    constexpr int N = pack_size<T>::N;
    const int64_t C = a.channels;
    const W mean = a.stats[row * 2], rstd = a.stats[row * 2 + 1];
    W g, gx;
    row_means(a, row, &g, &gx);
    for (int64_t c = (int)threadIdx.x % 32 * N; c < C; c += 32 * N) {
        const int64_t at = row * C + c;
        const pack<T> x = load<N>(a.x + at, C - c, a.vec);
        const pack<T> dy = load<N>(a.dy + at, C - c, a.vec);
        const pack<T> w = load<N>(a.w + c, C - c, a.vec);
        pack<T> dx = a.residual ? load<N>(a.residual + at, C - c, a.vec) : pack<T>{};
        pack<W, N> sw = load<N>(dw + c, N, true), sb = load<N>(db + c, N, true);
        for (int i = 0; i < N; i++) {
            const W d = widen(dy.v[i]), xhat = (widen(x.v[i]) - mean) * rstd;
            const W v = rstd * (d * widen(w.v[i]) - g - xhat * gx);
            dx.v[i] = narrow<T>(a.residual ? widen(dx.v[i]) + v : v);
            sw.v[i] += i < C - c ? d * xhat : 0;
            sb.v[i] += d;
        }
        store<N>(a.dx + at, dx, C - c, a.vec);
        store_shared<N>(dw + c, sw);
        store_shared<N>(db + c, sb);
    }
}

template <class T> __global__ void norm_bwd(const norm_bwd_job<T> a)
{
    typedef wide_t<T> W;
    constexpr int N = pack_size<T>::N;
    CADRE_DYNAMIC_SHARED(W, sums); /* (warps, 2, room) */
    const int64_t C = a.channels, room = ceil_div(C, N) * N;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int warps = (int)blockDim.x / 32;
    W *dw = sums + warp * 2 * room, *db = dw + room;
    for (int64_t c = lane * N; c < room; c += 32 * N) {
        store_shared<N>(dw + c, pack<W, N>{});
        store_shared<N>(db + c, pack<W, N>{});
    }
    for (int64_t row = (int64_t)blockIdx.x * warps + warp; row < a.rows;
         row += (int64_t)gridDim.x * warps)
        bwd_row(a, row, dw, db);
    __syncthreads();
    W *out = a.partial + (int64_t)blockIdx.x * 2 * C;
    for (int64_t c = (int)threadIdx.x; c < 2 * C; c += (int)blockDim.x) {
        const int64_t at = c < C ? c : room + c - C;
        W sum = 0;
        for (int w = 0; w < warps; w++)
            sum += sums[w * 2 * room + at];
        out[c] = sum;
    }
}

/* HELD_ROWS rows, of which a thread has a pack each, as it was loaded: unpacked they
 * would not fit into the registers. */
template <class T> struct held_rows {
    uint4 x[HELD_ROWS], dy[HELD_ROWS], residual[HELD_ROWS];
    wide_t<T> mean[HELD_ROWS], rstd[HELD_ROWS];
};

template <class T> __device__ static uint4 hold(const T *from, bool has, bool vec)
{
    constexpr int N = pack_size<T>::N;
    const pack<T> in = has ? load<N>(from, N, vec) : pack<T>{};
    uint4 out;
    memcpy(&out, &in, sizeof out);
    return out;
}

template <class T> __device__ static pack<T> unpack(const uint4 &held)
{
    pack<T> out;
    memcpy(&out, &held, sizeof out);
    return out;
}

/* Zeros beyond the last row and the last column: they add nothing. */
template <class T>
__device__ static void hold_rows(held_rows<T> &h, const norm_bwd_job<T> &a, int64_t row,
                                 int64_t c)
{
    CADRE_UNROLL
    for (int r = 0; r < HELD_ROWS; r++) {
        const int64_t at = (row + r) * a.channels + c;
        const bool has = row + r < a.rows && c < a.channels;
        h.x[r] = hold(a.x + at, has, a.vec);
        h.dy[r] = hold(a.dy + at, has, a.vec);
        h.residual[r] = a.residual ? hold(a.residual + at, has, a.vec) : uint4{};
        h.mean[r] = has ? a.stats[(row + r) * 2] : 0;
        h.rstd[r] = has ? a.stats[(row + r) * 2 + 1] : 0;
    }
}

/* This warp's part of the sums that row_means divides: for each row two. */
template <class T>
__device__ static void sum_held(const held_rows<T> &h, const pack<T> &w,
                                wide_t<T> *sums)
{
    typedef wide_t<T> W;
    CADRE_UNROLL
    for (int r = 0; r < HELD_ROWS; r++) {
        const pack<T> x = unpack<T>(h.x[r]), dy = unpack<T>(h.dy[r]);
        W plain = 0, moment = 0;
        CADRE_UNROLL
        for (int i = 0; i < pack_size<T>::N; i++) {
            const W d = widen(dy.v[i]) * widen(w.v[i]);
            plain += d;
            moment += d * ((widen(x.v[i]) - h.mean[r]) * h.rstd[r]);
        }
        plain = warp_sum(plain);
        moment = warp_sum(moment);
        if (threadIdx.x % 32 == 0) {
            sums[2 * r] = plain;
            sums[2 * r + 1] = moment;
        }
    }
}

/* dx of row r, and its contributions to dw and db; g and gx are the means of
 * row_means. */
template <class T>
__device__ static pack<T> finish_held(const held_rows<T> &h, int r, const pack<T> &w,
                                      wide_t<T> g, wide_t<T> gx, wide_t<T> *dw,
                                      wide_t<T> *db)
{
    typedef wide_t<T> W;
    const pack<T> x = unpack<T>(h.x[r]), dy = unpack<T>(h.dy[r]);
    pack<T> dx = unpack<T>(h.residual[r]);
    CADRE_UNROLL
    for (int i = 0; i < pack_size<T>::N; i++) {
        const W d = widen(dy.v[i]), xhat = (widen(x.v[i]) - h.mean[r]) * h.rstd[r];
        const W v = h.rstd[r] * (d * widen(w.v[i]) - g - xhat * gx);
        dx.v[i] = narrow<T>(widen(dx.v[i]) + v);
        dw[i] += d * xhat;
        db[i] += d;
    }
    return dx;
}

template <class T>
__global__ void __launch_bounds__(MOST_HELD) norm_bwd_held(const norm_bwd_job<T> a)
{
    typedef wide_t<T> W;
    constexpr int N = pack_size<T>::N;
    /* two, so that one barrier a turn will do */
    __shared__ __align__(16) W sums[2][MOST_HELD / 32][2 * HELD_ROWS];
    const int64_t C = a.channels, c = (int64_t)threadIdx.x * N;
    const int warp = (int)threadIdx.x / 32, warps = (int)blockDim.x / 32;
    const int64_t turn = (int64_t)gridDim.x * HELD_ROWS;
    const pack<T> w = c < C ? load<N>(a.w + c, N, a.vec) : pack<T>{};
    pack<W, N> dw{}, db{};
    int at = 0;
    for (int64_t row = (int64_t)blockIdx.x * HELD_ROWS; row < a.rows; row += turn) {
        held_rows<T> h;
        pack<W, 2 * HELD_ROWS> means{};
        hold_rows(h, a, row, c);
        sum_held(h, w, sums[at][warp]);
        __syncthreads();
        for (int from = 0; from < warps; from++) {
            const pack<W, 2 *HELD_ROWS> part =
                load<2 * HELD_ROWS>(sums[at][from], 2 * HELD_ROWS, true);
            CADRE_UNROLL
            for (int i = 0; i < 2 * HELD_ROWS; i++)
                means.v[i] += part.v[i];
        }
        CADRE_UNROLL
        for (int r = 0; r < HELD_ROWS; r++) {
            const W g = a.layer ? means.v[2 * r] / (W)C : 0;
            const pack<T> dx =
                finish_held(h, r, w, g, means.v[2 * r + 1] / (W)C, dw.v, db.v);
            if (row + r < a.rows && c < C)
                store<N>(a.dx + (row + r) * C + c, dx, N, a.vec);
        }
        at ^= 1;
    }
    if (c >= C)
        return;
    store<N>(a.partial + (int64_t)blockIdx.x * 2 * C + c, dw, N, true);
    store<N>(a.partial + (int64_t)blockIdx.x * 2 * C + C + c, db, N, true);
}

/* Threads of a block that holds rows, or 0 where one does not: by the shape alone. */
static unsigned held_threads(const struct cadre_norm *a)
{
    const int64_t n = 16 / (int64_t)cadre_dtype_bytes(a->dtype), C = a->channels;
    if (C % n != 0 || C / n < LEAST_HELD || C / n > MOST_HELD)
        return 0;
    return (unsigned)(ceil_div(C / n, 32) * 32);
}

/* Bytes of shared memory for the sums of a warp. */
static size_t warp_bytes(const struct cadre_norm *a)
{
    const int64_t n = 16 / (int64_t)cadre_dtype_bytes(a->dtype);
    return (size_t)(2 * ceil_div(a->channels, n) * n) *
           cadre_dtype_bytes(cadre_dtype_wide(a->dtype));
}

static int64_t bwd_warps(const struct cadre_norm *a)
{
    const int64_t warps = (int64_t)(BWD_BYTES / warp_bytes(a));
    return warps < 1 ? 1 : warps > MOST_WARPS ? (int64_t)MOST_WARPS : warps;
}

static int64_t bwd_groups(const struct cadre_norm *a)
{
    const int64_t held = held_threads(a);
    const int64_t groups = ceil_div(a->rows, held ? (int64_t)HELD_ROWS : bwd_warps(a));
    const int64_t most = held > 128 ? MOST_GROUPS / 2 : MOST_GROUPS;
    return groups < most ? groups : most;
}

extern "C" size_t cadre_cuda_norm_bwd_scratch(const struct cadre_norm *a)
{
    return (size_t)(bwd_groups(a) * 2 * a->channels) *
           cadre_dtype_bytes(cadre_dtype_wide(a->dtype));
}

template <class T>
static void bwd(const struct cadre_norm *a, void *scratch, void *stream)
{
    typedef wide_t<T> W;
    const int64_t groups = bwd_groups(a), C = a->channels;
    const unsigned held = held_threads(a);
    const size_t bytes = (size_t)bwd_warps(a) * warp_bytes(a);
    norm_bwd_job<T> job = {a->rows,
                           C,
                           (const T *)a->x,
                           (const T *)a->w,
                           (const T *)a->dy,
                           (const T *)a->residual,
                           (const W *)a->stats,
                           (T *)a->dx,
                           (W *)scratch,
                           a->layer,
                           false};
    job.vec =
        C % pack_size<T>::N == 0 && aligned(a->x, a->w, a->dy, a->residual, a->dx);
    if (held) {
        CADRE_LAUNCH(norm_bwd_held<T>, (unsigned)groups, held, 0, stream, job);
    } else {
        CADRE_ALLOW_SHARED(norm_bwd<T>, bytes);
        CADRE_LAUNCH(norm_bwd<T>, (unsigned)groups, (unsigned)bwd_warps(a) * 32, bytes,
                     stream, job);
    }
    launch_column_total<W>((const W *)scratch, groups, 2 * C, C, (W *)a->dw, a->beta,
                           stream);
    if (a->db)
        launch_column_total<W>((const W *)scratch + C, groups, 2 * C, C, (W *)a->db,
                               a->beta, stream);
}

extern "C" cadre_status cadre_cuda_norm_bwd(const struct cadre_norm *a, void *scratch,
                                            void *stream)
{
    if (warp_bytes(a) > MOST_BYTES) {
        cadre_log(CADRE_LOG_ERROR, "device",
                  "cuda: norm_bwd of %lld channels: a row's sums do not fit into the "
                  "%d bytes of shared memory",
                  (long long)a->channels, (int)MOST_BYTES);
        return CADRE_E_DEVICE;
    }
    CADRE_DISPATCH("norm_bwd", a->dtype, bwd<T>(a, scratch, stream));
    return cadre_launch_check("norm_bwd");
}
