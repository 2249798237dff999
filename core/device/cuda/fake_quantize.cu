/* SPDX-License-Identifier: Apache-2.0 */
/* Fake quantization (see core/tensor/fake_quantize.h), in the bits of the CPU: fp32,
 * largest values whose order does not matter, and no contraction of products and sums.
 */
#include <float.h>

#include "core/device/cuda/kernels.h"
#include "core/device/cuda/math.cuh"

enum { THREADS = 128 };

struct grid {
    float scale, zero, low, high;
};

/* least <= 0 <= most; they are NaN where a value is not finite. */
__device__ static grid grid_of(bool weights, float least, float most)
{
    grid g;
    g.low = weights ? -8.0f : -128.0f;
    g.high = weights ? 7.0f : 127.0f;
    g.zero = 0;
    const float scale = weights ? fmaxf(-least, most) / 7.5f : (most - least) / 255.0f;
    const float floor = weights ? FLT_MIN : FLT_EPSILON;
    g.scale = isnan(least) ? least : scale > floor ? scale : floor;
    if (!weights) {
        const float zero = -128.0f - rintf(least / g.scale);
        g.zero = zero < -128 ? -128.0f : zero > 127 ? 127.0f : zero;
    }
    return g;
}

template <class T> __device__ static float load(const T *x, int64_t at)
{
    return (float)widen(x[at]);
}

/* The gradient's elements have `bytes` each. */
__device__ static void clear(void *grad, int bytes, int64_t at)
{
    if (bytes == 2)
        ((uint16_t *)grad)[at] = 0;
    else if (bytes == 4)
        ((uint32_t *)grad)[at] = 0;
    else
        ((uint64_t *)grad)[at] = 0;
}

template <class T>
__device__ static void apply(grid g, const T *x, T *y, void *grad, int bytes,
                             int64_t at)
{
    const float code = rintf(load(x, at) * (1.0f / g.scale)) + g.zero;
    const float kept = code < g.low ? g.low : code > g.high ? g.high : code;
    if (grad && (code < g.low || code > g.high))
        clear(grad, bytes, at);
    /* + 0: a code of -0 is 0 */
    if (y)
        y[at] = narrow<T>((wide_t<T>)((kept - g.zero + 0.0f) * g.scale));
}

/* -least and most of n elements from x[at] on, infinite where one is not finite. */
template <class T>
__device__ static void range_of(const T *x, int64_t at, int64_t n, float *range,
                                float *room)
{
    float low = 0, most = 0, bad = 0;
    for (int64_t i = threadIdx.x; i < n; i += THREADS) {
        const float v = load(x, at + i);
        low = -v > low ? -v : low;
        most = v > most ? v : most;
        bad = fabsf(v) <= FLT_MAX ? bad : 1.0f;
    }
    low = block_max(low, room);
    most = block_max(most, room);
    bad = block_max(bad, room);
    range[0] = bad > 0 ? INFINITY : low;
    range[1] = bad > 0 ? INFINITY : most;
}

/* A block has a group of a row. */
template <class T> __global__ void fake_along(struct cadre_fake_quantize a, int bytes)
{
    __shared__ float room[32];
    const T *x = (const T *)a.x;
    const wide_t<T> *given = (const wide_t<T> *)a.range;
    wide_t<T> *found = (wide_t<T> *)a.found;
    const int64_t group = a.group > 0 ? a.group : a.columns;
    const int64_t in_row = (a.columns + group - 1) / group;
    const int64_t from = blockIdx.x % in_row * group;
    const int64_t at = blockIdx.x / in_row * a.columns + from;
    const int64_t n = a.columns - from < group ? a.columns - from : group;
    const int64_t row = blockIdx.x / in_row;
    float range[2];
    if (found || !given)
        range_of(x, at, n, range, room);
    for (int i = (int)threadIdx.x; found && i < 2; i += THREADS)
        found[row * 2 + i] = (wide_t<T>)range[i];
    for (int i = 0; given && i < 2; i++)
        range[i] = (float)given[row * 2 + i];
    const bool finite = range[0] <= FLT_MAX && range[1] <= FLT_MAX;
    const grid g = grid_of(a.group > 0, finite ? -range[0] : NAN, range[1]);
    for (int64_t i = threadIdx.x; (a.y || a.grad) && i < n; i += THREADS)
        apply(g, x, (T *)a.y, a.grad, bytes, at + i);
}

/* A thread has a group of a column. */
template <class T> __global__ void fake_down(struct cadre_fake_quantize a, int bytes)
{
    const T *x = (const T *)a.x;
    const int64_t strips = (a.columns + THREADS - 1) / THREADS;
    const int64_t column = blockIdx.x % strips * THREADS + threadIdx.x;
    const int64_t row = blockIdx.x / strips * a.group;
    const int64_t last = row + a.group < a.rows ? row + a.group : a.rows;
    float most = 0;
    bool finite = true;
    if (column >= a.columns)
        return;
    for (int64_t r = row; r < last; r++) {
        const float v = fabsf(load(x, r * a.columns + column));
        most = v > most ? v : most;
        finite = finite && v <= FLT_MAX;
    }
    const grid g = grid_of(true, finite ? 0.0f : NAN, most);
    for (int64_t r = row; r < last; r++)
        apply(g, x, (T *)a.y, a.grad, bytes, r * a.columns + column);
}

template <class T>
static void launch(const struct cadre_fake_quantize *a, int bytes, void *stream)
{
    const int64_t group = a->group > 0 ? a->group : a->columns;
    const int64_t strips = (a->columns + THREADS - 1) / THREADS;
    const int64_t down = (a->rows + group - 1) / group * strips;
    const int64_t along = a->rows * ((a->columns + group - 1) / group);
    if (a->down)
        CADRE_LAUNCH(fake_down<T>, (unsigned)down, THREADS, 0, stream, *a, bytes);
    else
        CADRE_LAUNCH(fake_along<T>, (unsigned)along, THREADS, 0, stream, *a, bytes);
}

extern "C" cadre_status cadre_cuda_fake_quantize(const struct cadre_fake_quantize *a,
                                                 void *stream)
{
    const uint32_t dtype = a->dtype;
    const bool half = dtype == CADRE_BF16 || dtype == CADRE_F16;
    const int bytes = half && !a->wide ? 2 : dtype == CADRE_F64 ? 8 : 4;
    if (a->rows == 0 || a->columns == 0)
        return CADRE_OK;
    CADRE_DISPATCH("fake_quantize", dtype, launch<T>(a, bytes, stream));
    return cadre_launch_check("fake_quantize");
}
