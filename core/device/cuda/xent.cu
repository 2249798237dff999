/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax cross-entropy. A block has a row of the vocabulary. Rows need not start on 16
 * bytes: packs are counted from the first element of all rows, so that a row may begin
 * and end inside one. */
#include "core/device/cuda/kernels.h"
#include "core/device/cuda/math.cuh"

/* AHEAD: packs that a thread of the forward pass loads before it uses the first. */
enum { THREADS = 256, AHEAD = 4 };

template <class T> struct xent_job {
    int64_t rows, vocab, begin;
    T *logits;
    const int32_t *targets;
    wide_t<T> *max, *sum, *picked, *total;
    wide_t<T> seed;
    bool vec;
};

/* Columns [c, c + N) of a row, of which those in [0, vocab) exist; c may be < 0. */
template <int N, class T>
__device__ static inline pack<T> load_part(const T *x, int64_t c, int64_t vocab,
                                           bool vec)
{
    if (c >= 0)
        return load<N>(x + c, vocab - c, vec);
    pack<T> p;
    for (int i = 0; i < N; i++)
        p.v[i] = c + i >= 0 && c + i < vocab ? x[c + i] : T{};
    return p;
}

template <int N, class T>
__device__ static inline void store_part(T *x, int64_t c, int64_t vocab,
                                         const pack<T> &p, bool vec)
{
    if (c >= 0) {
        store<N>(x + c, p, vocab - c, vec);
        return;
    }
    for (int i = 0; i < N; i++)
        if (c + i >= 0 && c + i < vocab)
            x[c + i] = p.v[i];
}

/* Add a part to a sum of exponentials: `sum` is relative to `most`. */
template <class T, class W>
__device__ static inline void join(W *most, W *sum, W other_most, W other_sum)
{
    if (other_most > *most) {
        *sum = *sum * exp_of<T>(*most - other_most) + other_sum;
        *most = other_most;
    } else if (other_most == *most) {
        *sum += other_sum;
    } else { /* smaller, or NaN */
        *sum += other_sum * exp_of<T>(other_most - *most);
    }
}

/* exp of a number that is added to 1 or more, and so need not be subnormal. */
template <class T, class W> __device__ static inline W term_of(W x)
{
#ifdef __CUDA_ARCH__
    if (sizeof(T) == 2) {
        float y;
        asm("ex2.approx.ftz.f32 %0,%1;"
            : "=f"(y)
            : "f"((float)x * 1.4426950408889634f));
        return (W)y;
    }
#endif
    return exp(x);
}

/* Add a pack to the largest and the sum of a thread. One of only minus infinity adds
 * nothing. */
template <class T, int N>
__device__ static inline void scan_pack(const pack<T, N> &p, wide_t<T> *most,
                                        wide_t<T> *sum)
{
    typedef wide_t<T> W;
    W high = -INFINITY, part = 0;
    CADRE_UNROLL
    for (int i = 0; i < N; i++)
        high = widen(p.v[i]) > high ? widen(p.v[i]) : high;
    const W least = high > (W)-INFINITY ? high : (W)0; /* no infinity less itself */
    CADRE_UNROLL
    for (int i = 0; i < N; i++)
        part += term_of<T>(widen(p.v[i]) - least);
    if (high > (W)-INFINITY || part != part)
        join<T>(most, sum, high, part);
}

/* The largest and the sum over a thread's packs. Where the row's are aligned, AHEAD
 * whole ones are in flight; the order is the same. */
template <class T>
__device__ static void scan_row(const xent_job<T> &a, const T *x, int shift,
                                wide_t<T> *most, wide_t<T> *sum)
{
    constexpr int N = pack_size<T>::N, STEP = THREADS * N;
    const int64_t V = a.vocab;
    int64_t c = (int64_t)threadIdx.x * N - shift;
    while (c < V) {
        for (; a.vec && c >= 0 && c + (AHEAD - 1) * STEP + N <= V; c += AHEAD * STEP) {
            pack<T> p[AHEAD];
            CADRE_UNROLL
            for (int k = 0; k < AHEAD; k++)
                p[k] = load<N>(x + c + k * STEP, N, true);
            CADRE_UNROLL
            for (int k = 0; k < AHEAD; k++)
                scan_pack(p[k], most, sum);
        }
        if (c >= V)
            break;
        pack<T> p = load_part<N>(x, c, V, a.vec);
        for (int i = 0; i < N; i++)
            if (c + i < 0 || c + i >= V)
                p.v[i] = narrow<T>((wide_t<T>)-INFINITY);
        scan_pack(p, most, sum);
        c += STEP;
    }
}

/* The sum of a row, by all of the block. */
template <class T>
__device__ static wide_t<T> row_total(const T *x, int shift, int64_t V, bool vec,
                                      wide_t<T> *room)
{
    typedef wide_t<T> W;
    constexpr int N = pack_size<T>::N;
    W sum = 0;
    for (int64_t c = (int64_t)threadIdx.x * N - shift; c < V; c += THREADS * N) {
        const pack<T> p = load_part<N>(x, c, V, vec);
        for (int i = 0; i < N; i++)
            sum += c + i >= 0 && c + i < V ? widen(p.v[i]) : (W)0;
    }
    return block_sum(sum, room);
}

template <class T> __global__ void xent_fwd(const xent_job<T> a)
{
    typedef wide_t<T> W;
    constexpr int N = pack_size<T>::N;
    __shared__ W room[32];
    const int64_t row = blockIdx.x, V = a.vocab;
    const T *x = a.logits + row * V;
    W most = -INFINITY, sum = 0;
    scan_row(a, x, (int)(row * V % N), &most, &sum);
    const W high = block_max(most, room);
    W part = 0;
    if (most == high)
        part = sum;
    else if (most > (W)-INFINITY || sum != sum)
        part = sum * exp_of<T>(most - high);
    const W total = block_sum(part, room);
    W logits = 0;
    if (a.total && a.targets[row] >= 0)
        logits = row_total(x, (int)(row * V % N), V, a.vec, room);
    if (threadIdx.x != 0)
        return;
    if (a.total)
        a.total[row] = logits;
    const int64_t target = (int64_t)a.targets[row] - a.begin;
    const bool here = a.targets[row] >= 0 && target >= 0 && target < V;
    a.max[row] = high;
    a.sum[row] = high == (W)-INFINITY ? (W)NAN : total;
    a.picked[row] = here ? widen(x[target]) : (W)0;
}

template <class T> __global__ void xent_bwd(const xent_job<T> a)
{
    typedef wide_t<T> W;
    constexpr int N = pack_size<T>::N;
    const int64_t row = blockIdx.x, V = a.vocab;
    const int32_t named = a.targets[row];
    const int64_t target = named < 0 ? -1 : (int64_t)named - a.begin;
    const W most = a.max[row], by = a.seed / a.sum[row];
    T *x = a.logits + row * V;
    for (int64_t c = (int64_t)threadIdx.x * N - row * V % N; c < V; c += THREADS * N) {
        pack<T> p = load_part<N>(x, c, V, a.vec);
        for (int i = 0; i < N; i++) {
            W v = exp_of<T>(widen(p.v[i]) - most) * by;
            if (named >= 0 && c + i == target)
                v -= a.seed;
            p.v[i] = narrow<T>(named < 0 ? (W)0 : v);
        }
        store_part<N>(x, c, V, p, a.vec);
    }
}

template <class T> static xent_job<T> job_of(const struct cadre_xent *a)
{
    return {a->rows,
            a->vocab,
            a->begin,
            (T *)a->logits,
            a->targets,
            (wide_t<T> *)a->max,
            (wide_t<T> *)a->sum,
            (wide_t<T> *)a->picked,
            (wide_t<T> *)a->total,
            (wide_t<T>)a->seed,
            aligned(a->logits)};
}

extern "C" cadre_status cadre_cuda_xent_fwd(const struct cadre_xent *a, void *stream)
{
    if (a->rows <= 0)
        return CADRE_OK;
    CADRE_DISPATCH(
        "xent_fwd", a->dtype,
        CADRE_LAUNCH(xent_fwd<T>, (unsigned)a->rows, THREADS, 0, stream, job_of<T>(a)));
    return cadre_launch_check("xent_fwd");
}

extern "C" cadre_status cadre_cuda_xent_bwd(const struct cadre_xent *a, void *stream)
{
    if (a->rows <= 0)
        return CADRE_OK;
    CADRE_DISPATCH(
        "xent_bwd", a->dtype,
        CADRE_LAUNCH(xent_bwd<T>, (unsigned)a->rows, THREADS, 0, stream, job_of<T>(a)));
    return cadre_launch_check("xent_bwd");
}

/* ---- a number of each row ---- */

template <class W>
__global__ void xent_rescale(int64_t rows, const W *old_max, const W *max, W *sum)
{
    const int64_t row = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows)
        sum[row] *= exp(old_max[row] - max[row]);
}

template <class W>
__global__ void xent_loss(int64_t rows, const int32_t *targets, const W *max,
                          const W *sum, const W *picked, const W *total, double *loss,
                          double *logits)
{
    const int64_t row = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    const double l = log((double)sum[row]) + ((double)max[row] - (double)picked[row]);
    loss[row] = targets[row] < 0 ? 0.0 : l;
    if (total)
        logits[row] = (double)total[row];
}

extern "C" cadre_status cadre_cuda_xent_rescale(const struct cadre_xent *a,
                                                void *stream)
{
    const unsigned blocks = (unsigned)ceil_div(a->rows, THREADS);
    if (a->rows <= 0)
        return CADRE_OK;
    CADRE_DISPATCH("xent_rescale", cadre_dtype_wide(a->dtype), {
        typedef wide_t<T> W;
        CADRE_LAUNCH(xent_rescale<W>, blocks, THREADS, 0, stream, a->rows,
                     (const W *)a->old_max, (const W *)a->max, (W *)a->sum);
    });
    return cadre_launch_check("xent_rescale");
}

extern "C" cadre_status cadre_cuda_xent_loss(const struct cadre_xent *a, void *stream)
{
    const unsigned blocks = (unsigned)ceil_div(a->rows, THREADS);
    if (a->rows <= 0)
        return CADRE_OK;
    CADRE_DISPATCH("xent_loss", cadre_dtype_wide(a->dtype), {
        typedef wide_t<T> W;
        CADRE_LAUNCH(xent_loss<W>, blocks, THREADS, 0, stream, a->rows, a->targets,
                     (const W *)a->max, (const W *)a->sum, (const W *)a->picked,
                     (const W *)a->total, a->loss_rows, a->logit_rows);
    });
    return cadre_launch_check("xent_loss");
}
