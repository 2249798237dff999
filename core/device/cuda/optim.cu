/* SPDX-License-Identifier: Apache-2.0 */
/* AdamW, SGD, Lion and sums of squares over lists of slices. The list is an argument of
 * the launch; a block has a chunk of one slice, and finds it by bisection. */
#include "core/device/cuda/kernels.h"
#include "core/device/cuda/math.cuh"

enum { THREADS = 256, CHUNK = 4096, FEW = 16, MANY = 384 };
/* Elements that a block updates, so many that finding their slice costs little; packs
 * of each array that a thread loads before it uses the first. */
enum { UPDATE_CHUNK = 8192, AHEAD = 2 };

/* Slices that share a launch; first[i] is the first chunk of slice i. */
template <class S, int most> struct table {
    int n;
    unsigned first[most + 1];
    S slice[most];
};

template <class S, int most>
__device__ static int find(const table<S, most> &t, unsigned chunk)
{
    int low = 0, high = t.n;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (t.first[middle] <= chunk)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The first slices of a list that fit, in chunks of `chunk`; how many. */
template <class S, int most>
static int64_t fill(table<S, most> *t, const S *list, int64_t n, int64_t chunk)
{
    uint64_t chunks = 0;
    t->n = 0;
    while (t->n < n && t->n < most) {
        const uint64_t more = (uint64_t)ceil_div(list[t->n].count, chunk);
        if (chunks + more > INT32_MAX)
            break;
        t->slice[t->n] = list[t->n];
        t->first[t->n++] = (unsigned)chunks;
        chunks += more;
    }
    t->first[t->n] = (unsigned)chunks;
    return t->n;
}

__device__ static inline bool is_finite(double x)
{
    return x - x == 0;
}

__device__ static inline bool aligned_slice(const struct cadre_slice &s)
{
    return (((uintptr_t)s.param | (uintptr_t)s.rounded | (uintptr_t)s.grad |
             (uintptr_t)s.exp_avg | (uintptr_t)s.exp_avg_sq) %
            16) == 0;
}

/* ---- optimizers ---- */

/* A step on one element. */
template <class R> struct adamw_step {
    R beta1, rest1, beta2, rest2, step_size, root, eps;
    double lr;
    __device__ R factor(double weight_decay) const
    {
        return (R)(1.0 - lr * weight_decay);
    }
    __device__ bool has_first(const struct cadre_slice &) const
    {
        return true;
    }
    __device__ bool has_second(const struct cadre_slice &) const
    {
        return true;
    }
    __device__ void run(R *p, R g, R *m, R *v, R keep, bool) const
    {
        const R first = beta1 * *m + rest1 * g;
        const R second = beta2 * *v + rest2 * g * g;
        *m = first;
        *v = second;
        *p = *p * keep - step_size * first / (sqrt(second) / root + eps);
    }
};

template <class R> struct sgd_step {
    R lr, momentum;
    __device__ R factor(double weight_decay) const
    {
        return (R)weight_decay;
    }
    __device__ bool has_first(const struct cadre_slice &s) const
    {
        return s.exp_avg != NULL;
    }
    __device__ bool has_second(const struct cadre_slice &) const
    {
        return false;
    }
    __device__ void run(R *p, R g, R *buf, R *, R decay, bool has_buf) const
    {
        const R pull = g + decay * *p;
        const R moved = has_buf ? momentum * *buf + pull : pull;
        *buf = moved;
        *p -= lr * moved;
    }
};

template <class R> struct lion_step {
    R beta1, rest1, beta2, rest2, rate;
    double lr;
    __device__ R factor(double weight_decay) const
    {
        return (R)(1.0 - lr * weight_decay);
    }
    __device__ bool has_first(const struct cadre_slice &) const
    {
        return true;
    }
    __device__ bool has_second(const struct cadre_slice &) const
    {
        return false;
    }
    __device__ void run(R *p, R g, R *m, R *, R keep, bool) const
    {
        const R c = beta1 * *m + rest1 * g;
        const R up = c > 0 ? rate : (R)0, down = c < 0 ? rate : (R)0;
        *m = beta2 * *m + rest2 * g;
        *p = *p * keep - (up - down);
    }
};

/* What a thread has of a slice: one access each. */
template <class R> struct element_pack {
    pack<R> p, g, m, v;
};

template <class R, class Step>
__device__ static inline element_pack<R>
fetch(const Step &step, const struct cadre_slice &s, int64_t i, int64_t left, bool vec)
{
    constexpr int N = pack_size<R>::N;
    element_pack<R> x{};
    x.p = load<N>((const R *)s.param + i, left, vec);
    x.g = load<N>((const R *)s.grad + i, left, vec);
    if (step.has_first(s))
        x.m = load<N>((const R *)s.exp_avg + i, left, vec);
    if (step.has_second(s))
        x.v = load<N>((const R *)s.exp_avg_sq + i, left, vec);
    return x;
}

/* `rounded` is the only memory of dtype T, 16 bits wide; R is f32 or f64. */
template <class T, class R, class Step>
__device__ static inline void finish(const Step &step, const struct cadre_slice &s,
                                     R scale, R factor, element_pack<R> x, int64_t i,
                                     int64_t left, bool vec)
{
    constexpr int N = pack_size<R>::N;
    const bool has_m = step.has_first(s);
    pack<T, N> rounded;
    CADRE_UNROLL
    for (int j = 0; j < N; j++) {
        step.run(&x.p.v[j], x.g.v[j] * scale, &x.m.v[j], &x.v.v[j], factor, has_m);
        rounded.v[j] = narrow<T>(x.p.v[j]);
    }
    store<N>((R *)s.param + i, x.p, left, vec);
    if (has_m)
        store<N>((R *)s.exp_avg + i, x.m, left, vec);
    if (step.has_second(s))
        store<N>((R *)s.exp_avg_sq + i, x.v, left, vec);
    if (s.rounded)
        store<N>((T *)s.rounded + i, rounded, left, vec);
}

/* A thread has AHEAD packs in flight where they are whole; a warp's accesses are
 * contiguous. */
template <class R, class T, class Step, int most>
__global__ void update(const __grid_constant__ Step step,
                       const __grid_constant__ table<struct cadre_slice, most> t,
                       const double *grad_scale)
{
    constexpr int N = pack_size<R>::N, TILE = THREADS * N;
    if (!is_finite(*grad_scale))
        return;
    const R scale = (R)*grad_scale;
    const int which = find(t, blockIdx.x);
    const struct cadre_slice &s = t.slice[which];
    const int64_t first = (int64_t)(blockIdx.x - t.first[which]) * UPDATE_CHUNK;
    const int64_t end = first + UPDATE_CHUNK < s.count ? first + UPDATE_CHUNK : s.count;
    const bool vec = aligned_slice(s);
    const R factor = step.factor(s.weight_decay);
    int64_t i = first + (int)threadIdx.x * N;
    for (; vec && i + (AHEAD - 1) * TILE + N <= end; i += AHEAD * TILE) {
        element_pack<R> x[AHEAD];
        CADRE_UNROLL
        for (int k = 0; k < AHEAD; k++)
            x[k] = fetch<R>(step, s, i + k * TILE, N, true);
        CADRE_UNROLL
        for (int k = 0; k < AHEAD; k++)
            finish<T>(step, s, scale, factor, x[k], i + k * TILE, N, true);
    }
    for (; i < end; i += TILE)
        finish<T>(step, s, scale, factor, fetch<R>(step, s, i, end - i, vec), i,
                  end - i, vec);
}

template <class R, class T, int most, class Step>
static void update_slices(const Step &step, const struct cadre_slice *slices, int64_t n,
                          const double *grad_scale, void *stream)
{
    table<struct cadre_slice, most> t;
    while (n > 0) {
        const int64_t taken = fill(&t, slices, n, UPDATE_CHUNK);
        if (t.first[t.n] > 0)
            CADRE_LAUNCH((update<R, T, Step, most>), t.first[t.n], THREADS, 0, stream,
                         step, t, grad_scale);
        slices += taken;
        n -= taken;
    }
}

template <class R, class Step>
static void update_all(const Step &step, uint32_t rounded,
                       const struct cadre_slice *slices, int64_t n,
                       const double *grad_scale, void *stream)
{
    const bool half = rounded == CADRE_F16;
    if (n <= FEW && half)
        update_slices<R, f16, FEW>(step, slices, n, grad_scale, stream);
    else if (n <= FEW)
        update_slices<R, bf16, FEW>(step, slices, n, grad_scale, stream);
    else if (half)
        update_slices<R, f16, MANY>(step, slices, n, grad_scale, stream);
    else
        update_slices<R, bf16, MANY>(step, slices, n, grad_scale, stream);
}

template <class R> static adamw_step<R> adamw_of(const struct cadre_adamw *a)
{
    const double decay1 = a->held ? 0.0 : a->beta1, decay2 = a->held ? 1.0 : a->beta2;
    const double correction1 = 1.0 - pow(decay1, (double)a->step);
    const double correction2 =
        1.0 - pow(a->beta2, (double)(a->held ? a->held : a->step));
    const adamw_step<R> step = {(R)decay1,
                                (R)(1.0 - decay1),
                                (R)decay2,
                                (R)(1.0 - decay2),
                                (R)(a->lr / correction1),
                                (R)sqrt(correction2),
                                (R)a->eps,
                                a->lr};
    return step;
}

template <class R> static void adamw(const struct cadre_adamw *a, void *stream)
{
    update_all<R>(adamw_of<R>(a), a->rounded_dtype, a->slices, a->n, a->grad_scale,
                  stream);
}

template <class R> static void lion(const struct cadre_lion *a, void *stream)
{
    const lion_step<R> step = {(R)a->beta1, (R)(1.0 - a->beta1),
                               (R)a->beta2, (R)(1.0 - a->beta2),
                               (R)a->lr,    a->lr};
    update_all<R>(step, a->rounded_dtype, a->slices, a->n, a->grad_scale, stream);
}

template <class R> static void sgd(const struct cadre_sgd *a, void *stream)
{
    const sgd_step<R> step = {(R)a->lr, (R)a->momentum};
    update_all<R>(step, a->rounded_dtype, a->slices, a->n, a->grad_scale, stream);
}

static bool refused(const char *what, uint32_t dtype, uint32_t rounded)
{
    const bool real = dtype == CADRE_F32 || dtype == CADRE_F64;
    const bool half = rounded == 0 || rounded == CADRE_BF16 || rounded == CADRE_F16;
    if (real && half)
        return false;
    refuse_dtype(what, real ? rounded : dtype);
    return true;
}

extern "C" cadre_status cadre_cuda_adamw(const struct cadre_adamw *a, void *stream)
{
    if (refused("adamw", a->dtype, a->rounded_dtype))
        return CADRE_E_DEVICE;
    if (a->dtype == CADRE_F64)
        adamw<double>(a, stream);
    else
        adamw<float>(a, stream);
    return cadre_launch_check("adamw");
}

extern "C" cadre_status cadre_cuda_sgd(const struct cadre_sgd *a, void *stream)
{
    if (refused("sgd", a->dtype, a->rounded_dtype))
        return CADRE_E_DEVICE;
    if (a->dtype == CADRE_F64)
        sgd<double>(a, stream);
    else
        sgd<float>(a, stream);
    return cadre_launch_check("sgd");
}

extern "C" cadre_status cadre_cuda_lion(const struct cadre_lion *a, void *stream)
{
    if (refused("lion", a->dtype, a->rounded_dtype))
        return CADRE_E_DEVICE;
    if (a->dtype == CADRE_F64)
        lion<double>(a, stream);
    else
        lion<float>(a, stream);
    return cadre_launch_check("lion");
}

/* ---- AdamW with states of 8 bits ---- */

enum { BLOCK = CADRE_ADAMW8_BLOCK };
static_assert((int)BLOCK == (int)THREADS && CHUNK % BLOCK == 0, "a thread has one");

struct coded_slice {
    int64_t count;
    void *param, *rounded;
    const void *grad;
    unsigned char *code[2];
    void *absmax[2];
    double weight_decay;
};

/* Values and middles of the codes, of the first moment and the second. */
template <class R> struct code_table {
    R value[2][256], middle[2][256];
};

/* The number of middles below x, by bisection. */
template <class R> __device__ static int code_of(const R *middle, R x)
{
    int code = 0;
    for (int step = 128; step > 0; step /= 2)
        code += x > middle[code + step - 1] ? step : 0;
    return code;
}

/* The code of this thread's x under the largest magnitude of the block, which is *top;
 * at least `least` where x is not 0. */
template <class R>
__device__ static int encode(const R *middle, R x, int least, R *room, R *top)
{
    *top = block_max(x < 0 ? -x : x, room);
    const int code = code_of(middle, x / (*top > 0 ? *top : (R)1));
    return code < least && x != 0 ? least : code;
}

template <class R, class T, int most>
__global__ void update_coded(const __grid_constant__ adamw_step<R> step,
                             const __grid_constant__ code_table<R> codes,
                             const __grid_constant__ table<coded_slice, most> t,
                             const double *grad_scale)
{
    __shared__ R room[32];
    if (!is_finite(*grad_scale))
        return;
    const R scale = (R)*grad_scale;
    const int which = find(t, blockIdx.x);
    const coded_slice &s = t.slice[which];
    const int64_t chunk = (int64_t)(blockIdx.x - t.first[which]);
    const R keep = step.factor(s.weight_decay);
    for (int64_t at = chunk * CHUNK; at < (chunk + 1) * CHUNK && at < s.count;
         at += BLOCK) {
        const int64_t i = at + (int)threadIdx.x, block = at / BLOCK;
        const bool mine = i < s.count;
        R *const first_top = (R *)s.absmax[0] + block;
        R *const second_top = (R *)s.absmax[1] + block;
        R m = 0, v = 0, top[2];
        if (mine) {
            R p = ((R *)s.param)[i];
            m = codes.value[0][s.code[0][i]] * *first_top;
            v = codes.value[1][s.code[1][i]] * *second_top;
            step.run(&p, ((const R *)s.grad)[i] * scale, &m, &v, keep, true);
            ((R *)s.param)[i] = p;
            if (s.rounded)
                ((T *)s.rounded)[i] = narrow<T>(p);
        }
        /* all have read the old magnitudes when the first maximum is known */
        const int first = encode(codes.middle[0], m, 0, room, &top[0]);
        const int second = encode(codes.middle[1], v, 1, room, &top[1]);
        if (mine) {
            s.code[0][i] = (unsigned char)first;
            s.code[1][i] = (unsigned char)second;
        }
        if (threadIdx.x == 0) {
            *first_top = top[0];
            *second_top = top[1];
        }
    }
}

template <class R, class T>
static void adamw8_rounded(const struct cadre_adamw8 *a, const code_table<R> &codes,
                           void *stream)
{
    table<coded_slice, FEW> t;
    coded_slice some[FEW];
    int64_t n = 0;
    for (int64_t i = 0; i < a->adamw.n; i += n) {
        for (n = 0; n < FEW && i + n < a->adamw.n; n++) {
            const struct cadre_slice &s = a->adamw.slices[i + n];
            const struct cadre_absmax &top = a->absmax[i + n];
            const coded_slice one = {
                s.count,
                s.param,
                s.rounded,
                s.grad,
                {(unsigned char *)s.exp_avg, (unsigned char *)s.exp_avg_sq},
                {top.first, top.second},
                s.weight_decay};
            some[n] = one;
        }
        n = fill(&t, some, n, CHUNK);
        if (t.first[t.n] > 0)
            CADRE_LAUNCH((update_coded<R, T, FEW>), t.first[t.n], THREADS, 0, stream,
                         adamw_of<R>(&a->adamw), codes, t, a->adamw.grad_scale);
    }
}

template <class R> static void adamw8(const struct cadre_adamw8 *a, void *stream)
{
    code_table<R> codes;
    for (int c = 0; c < 256; c++) {
        codes.value[0][c] = (R)a->first->value[c];
        codes.value[1][c] = (R)a->second->value[c];
        codes.middle[0][c] = c < 255 ? (R)a->first->middle[c] : (R)0;
        codes.middle[1][c] = c < 255 ? (R)a->second->middle[c] : (R)0;
    }
    if (a->adamw.rounded_dtype == CADRE_F16)
        adamw8_rounded<R, f16>(a, codes, stream);
    else
        adamw8_rounded<R, bf16>(a, codes, stream);
}

extern "C" cadre_status cadre_cuda_adamw8(const struct cadre_adamw8 *a, void *stream)
{
    if (refused("adamw8", a->adamw.dtype, a->adamw.rounded_dtype))
        return CADRE_E_DEVICE;
    if (a->adamw.dtype == CADRE_F64)
        adamw8<double>(a, stream);
    else
        adamw8<float>(a, stream);
    return cadre_launch_check("adamw8");
}

/* ---- sums of squares ---- */

static_assert(CHUNK == CADRE_NORM_CHUNK, "a block has a chunk of the norm");

template <class T, int most>
__global__ void sum_squares(const __grid_constant__ table<struct cadre_squares, most> t)
{
    constexpr int N = pack_size<T>::N;
    __shared__ double room[32];
    const int which = find(t, blockIdx.x);
    const struct cadre_squares &s = t.slice[which];
    const int64_t chunk = (int64_t)(blockIdx.x - t.first[which]), first = chunk * CHUNK;
    const int64_t end = first + CHUNK < s.count ? first + CHUNK : s.count;
    const bool vec = (uintptr_t)s.x % 16 == 0;
    double sum = 0;
    for (int64_t i = first + (int)threadIdx.x * N; i < end; i += THREADS * N) {
        const pack<T> x = load<N>((const T *)s.x + i, end - i, vec);
        for (int j = 0; j < N; j++)
            sum += (double)widen(x.v[j]) * (double)widen(x.v[j]);
    }
    sum = block_sum(sum, room);
    if (threadIdx.x == 0)
        s.sums[chunk] = sum;
}

template <class T, int most>
static void squares(const struct cadre_squares *list, int64_t n, void *stream)
{
    table<struct cadre_squares, most> t;
    while (n > 0) {
        const int64_t taken = fill(&t, list, n, CHUNK);
        if (t.first[t.n] > 0)
            CADRE_LAUNCH((sum_squares<T, most>), t.first[t.n], THREADS, 0, stream, t);
        list += taken;
        n -= taken;
    }
}

extern "C" cadre_status cadre_cuda_sum_squares(uint32_t dtype,
                                               const struct cadre_squares *list,
                                               int64_t n, void *stream)
{
    if (n <= FEW)
        CADRE_DISPATCH("sum_squares", dtype, (squares<T, FEW>(list, n, stream)))
    else
        CADRE_DISPATCH("sum_squares", dtype, (squares<T, MANY>(list, n, stream)))
    return cadre_launch_check("sum_squares");
}
