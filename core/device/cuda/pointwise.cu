/* SPDX-License-Identifier: Apache-2.0 */
/* Element by element: activations, sums of two, scaling, conversions. A thread has a
 * pack; an incomplete last pack is processed by elements. */
#include "core/device/cuda/kernels.h"
#include "core/device/cuda/math.cuh"

enum { THREADS = 256 };

/* f.at(i, left): the elements of the pack from i on. */
template <class F> __global__ void each(const F f, int64_t count)
{
    const int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * F::N;
    if (i < count)
        f.at(i, count - i);
}

template <class F> static void launch_each(const F &f, int64_t count, void *stream)
{
    const int64_t packs = ceil_div(count, F::N);
    if (count > 0)
        CADRE_LAUNCH(each<F>, (unsigned)ceil_div(packs, THREADS), THREADS, 0, stream, f,
                     count);
}

/* ---- activations ---- */

template <class T> struct gelu_bwd {
    static constexpr int N = pack_size<T>::N;
    const T *x, *dy;
    T *dx;
    bool vec;
    __device__ void at(int64_t i, int64_t left) const
    {
        const pack<T> px = load<N>(x + i, left, vec);
        pack<T> d = load<N>(dy + i, left, vec);
        for (int j = 0; j < N; j++)
            d.v[j] = narrow<T>(widen(d.v[j]) * gelu_slope<T>(widen(px.v[j])));
        store<N>(dx + i, d, left, vec);
    }
};

template <class T> struct swiglu_fwd {
    static constexpr int N = pack_size<T>::N;
    const T *gate, *up;
    T *y;
    bool vec;
    __device__ void at(int64_t i, int64_t left) const
    {
        pack<T> g = load<N>(gate + i, left, vec);
        const pack<T> u = load<N>(up + i, left, vec);
        for (int j = 0; j < N; j++) {
            const wide_t<T> v = widen(g.v[j]);
            g.v[j] = narrow<T>(v * sigmoid_of<T>(v) * widen(u.v[j]));
        }
        store<N>(y + i, g, left, vec);
    }
};

template <class T> struct swiglu_bwd {
    static constexpr int N = pack_size<T>::N;
    const T *gate, *up, *dy;
    T *dgate, *dup;
    bool vec;
    __device__ void at(int64_t i, int64_t left) const
    {
        typedef wide_t<T> W;
        pack<T> g = load<N>(gate + i, left, vec);
        pack<T> u = load<N>(up + i, left, vec);
        const pack<T> d = load<N>(dy + i, left, vec);
        for (int j = 0; j < N; j++) {
            const W v = widen(g.v[j]), s = sigmoid_of<T>(v), by = widen(d.v[j]);
            const W slope = s + v * s * ((W)1 - s);
            g.v[j] = narrow<T>(by * widen(u.v[j]) * slope);
            u.v[j] = narrow<T>(by * (v * s));
        }
        store<N>(dgate + i, g, left, vec);
        store<N>(dup + i, u, left, vec);
    }
};

extern "C" cadre_status cadre_cuda_gelu_bwd(uint32_t dtype, const void *x,
                                            const void *dy, void *dx, int64_t count,
                                            void *stream)
{
    CADRE_DISPATCH("gelu_bwd", dtype,
                   launch_each(gelu_bwd<T>{(const T *)x, (const T *)dy, (T *)dx,
                                           aligned(x, dy, dx)},
                               count, stream));
    return cadre_launch_check("gelu_bwd");
}

extern "C" cadre_status cadre_cuda_swiglu_fwd(uint32_t dtype, const void *gate,
                                              const void *up, void *y, int64_t count,
                                              void *stream)
{
    CADRE_DISPATCH("swiglu_fwd", dtype,
                   launch_each(swiglu_fwd<T>{(const T *)gate, (const T *)up, (T *)y,
                                             aligned(gate, up, y)},
                               count, stream));
    return cadre_launch_check("swiglu_fwd");
}

extern "C" cadre_status cadre_cuda_swiglu_bwd(uint32_t dtype, const void *gate,
                                              const void *up, const void *dy,
                                              void *dgate, void *dup, int64_t count,
                                              void *stream)
{
    CADRE_DISPATCH("swiglu_bwd", dtype,
                   launch_each(swiglu_bwd<T>{(const T *)gate, (const T *)up,
                                             (const T *)dy, (T *)dgate, (T *)dup,
                                             aligned(gate, up, dy, dgate, dup)},
                               count, stream));
    return cadre_launch_check("swiglu_bwd");
}

/* ---- scale, tree_add, maximum ---- */

/* Integers are added and compared without widening. */
CADRE_DEVICE int32_t widen(int32_t x)
{
    return x;
}
CADRE_DEVICE int widen(uint8_t x)
{
    return x;
}
template <> struct narrow_to<int32_t> {
    CADRE_DEVICE int32_t of(int32_t x)
    {
        return x;
    }
};

template <class T> struct scale {
    static constexpr int N = pack_size<T>::N;
    T *x;
    wide_t<T> by;
    bool vec;
    __device__ void at(int64_t i, int64_t left) const
    {
        pack<T> p = load<N>(x + i, left, vec);
        for (int j = 0; j < N; j++)
            p.v[j] = narrow<T>(widen(p.v[j]) * by);
        store<N>(x + i, p, left, vec);
    }
};

template <class T> struct tree_add {
    static constexpr int N = pack_size<T>::N;
    const T *a, *b;
    T *out;
    bool vec;
    __device__ void at(int64_t i, int64_t left) const
    {
        pack<T> x = load<N>(a + i, left, vec);
        const pack<T> y = load<N>(b + i, left, vec);
        for (int j = 0; j < N; j++)
            x.v[j] = narrow<T>(widen(x.v[j]) + widen(y.v[j]));
        store<N>(out + i, x, left, vec);
    }
};

template <class T> struct maximum {
    static constexpr int N = pack_size<T>::N;
    const T *a, *b;
    T *out;
    bool vec;
    __device__ void at(int64_t i, int64_t left) const
    {
        pack<T> x = load<N>(a + i, left, vec);
        const pack<T> y = load<N>(b + i, left, vec);
        for (int j = 0; j < N; j++) {
            const auto u = widen(x.v[j]), v = widen(y.v[j]);
            if (v > u || v != v)
                x.v[j] = y.v[j];
        }
        store<N>(out + i, x, left, vec);
    }
};

extern "C" cadre_status cadre_cuda_scale(uint32_t dtype, void *x, int64_t count,
                                         double by, void *stream)
{
    CADRE_DISPATCH(
        "scale", dtype,
        launch_each(scale<T>{(T *)x, (wide_t<T>)by, aligned(x)}, count, stream));
    return cadre_launch_check("scale");
}

template <class T>
static void add_two(void *out, const void *a, const void *b, int64_t count,
                    void *stream)
{
    launch_each(tree_add<T>{(const T *)a, (const T *)b, (T *)out, aligned(a, b, out)},
                count, stream);
}

template <class T>
static void larger(void *out, const void *a, const void *b, int64_t count, void *stream)
{
    launch_each(maximum<T>{(const T *)a, (const T *)b, (T *)out, aligned(a, b, out)},
                count, stream);
}

extern "C" cadre_status cadre_cuda_tree_add(uint32_t dtype, void *out, const void *a,
                                            const void *b, int64_t count, void *stream)
{
    if (dtype == CADRE_I32)
        add_two<int32_t>(out, a, b, count, stream);
    else
        CADRE_DISPATCH("tree_add", dtype, add_two<T>(out, a, b, count, stream));
    return cadre_launch_check("tree_add");
}

extern "C" cadre_status cadre_cuda_maximum(uint32_t dtype, void *out, const void *a,
                                           const void *b, int64_t count, void *stream)
{
    if (dtype == CADRE_I32)
        larger<int32_t>(out, a, b, count, stream);
    else if (dtype == CADRE_U8)
        larger<uint8_t>(out, a, b, count, stream);
    else
        CADRE_DISPATCH("maximum", dtype, larger<T>(out, a, b, count, stream));
    return cadre_launch_check("maximum");
}

/* ---- axpby, mul, rsqrt ---- */

template <class T> struct axpby {
    static constexpr int N = pack_size<T>::N;
    const T *x;
    T *y;
    wide_t<T> a, b;
    bool vec;
    __device__ void at(int64_t i, int64_t left) const
    {
        const pack<T> px = load<N>(x + i, left, vec);
        pack<T> py = load<N>(y + i, left, vec);
        for (int j = 0; j < N; j++)
            py.v[j] = narrow<T>(a * widen(px.v[j]) + b * widen(py.v[j]));
        store<N>(y + i, py, left, vec);
    }
};

template <class T> struct product {
    static constexpr int N = pack_size<T>::N;
    const T *a, *b;
    T *out;
    bool vec;
    __device__ void at(int64_t i, int64_t left) const
    {
        pack<T> x = load<N>(a + i, left, vec);
        const pack<T> y = load<N>(b + i, left, vec);
        for (int j = 0; j < N; j++)
            x.v[j] = narrow<T>(widen(x.v[j]) * widen(y.v[j]));
        store<N>(out + i, x, left, vec);
    }
};

template <class T> struct inverse_root {
    static constexpr int N = pack_size<T>::N;
    T *x;
    wide_t<T> eps;
    bool vec;
    __device__ void at(int64_t i, int64_t left) const
    {
        pack<T> p = load<N>(x + i, left, vec);
        for (int j = 0; j < N; j++)
            p.v[j] = narrow<T>((wide_t<T>)1 / (sqrt(widen(p.v[j])) + eps));
        store<N>(x + i, p, left, vec);
    }
};

extern "C" cadre_status cadre_cuda_axpby(uint32_t dtype, double a, const void *x,
                                         double b, void *y, int64_t count, void *stream)
{
    CADRE_DISPATCH("axpby", dtype,
                   launch_each(axpby<T>{(const T *)x, (T *)y, (wide_t<T>)a,
                                        (wide_t<T>)b, aligned(x, y)},
                               count, stream));
    return cadre_launch_check("axpby");
}

extern "C" cadre_status cadre_cuda_mul(uint32_t dtype, void *out, const void *a,
                                       const void *b, int64_t count, void *stream)
{
    CADRE_DISPATCH("mul", dtype,
                   launch_each(product<T>{(const T *)a, (const T *)b, (T *)out,
                                          aligned(a, b, out)},
                               count, stream));
    return cadre_launch_check("mul");
}

extern "C" cadre_status cadre_cuda_rsqrt(uint32_t dtype, void *x, int64_t count,
                                         double eps, void *stream)
{
    CADRE_DISPATCH("rsqrt", dtype,
                   launch_each(inverse_root<T>{(T *)x, (wide_t<T>)eps, aligned(x)},
                               count, stream));
    return cadre_launch_check("rsqrt");
}

/* ---- casts ---- */

/* f32 to f64 does not round, and 16 bits are converted to f64 through f32. */
template <class To, class From> struct convert {
    CADRE_DEVICE To of(From x)
    {
        return narrow<To>(widen(x));
    }
};
template <class From> struct convert<double, From> {
    CADRE_DEVICE double of(From x)
    {
        return (double)widen(x);
    }
};
template <class T> struct convert<T, T> {
    CADRE_DEVICE T of(T x)
    {
        return x;
    }
};
template <> struct convert<double, double> {
    CADRE_DEVICE double of(double x)
    {
        return x;
    }
};

template <class To, class From> struct cast {
    static constexpr int N = 8; /* 16 to 64 bytes of either */
    To *dst;
    const From *src;
    bool vec;
    __device__ void at(int64_t i, int64_t left) const
    {
        const pack<From, N> x = load<N>(src + i, left, vec);
        pack<To, N> y;
        for (int j = 0; j < N; j++)
            y.v[j] = convert<To, From>::of(x.v[j]);
        store<N>(dst + i, y, left, vec);
    }
};

template <class To>
static cadre_status cast_to(void *dst, uint32_t from, const void *src, int64_t count,
                            void *stream)
{
    CADRE_DISPATCH(
        "cast", from,
        launch_each(cast<To, T>{(To *)dst, (const T *)src, aligned(dst, src)}, count,
                    stream));
    return cadre_launch_check("cast");
}

extern "C" cadre_status cadre_cuda_cast(uint32_t to, void *dst, uint32_t from,
                                        const void *src, int64_t count, void *stream)
{
    CADRE_DISPATCH("cast", to, return cast_to<T>(dst, from, src, count, stream));
    return CADRE_OK;
}
