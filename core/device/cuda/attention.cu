/* SPDX-License-Identifier: Apache-2.0 */
/* Attention: which kernels, what they need, and the statistics of the backward
 * pass. 16-bit types with heads of 64 or 128 and rows aligned to 16 bytes run on the
 * tensor cores, queries behind keys that are not theirs in attention_kept.cu, forward
 * alone, and all else on the plain kernels. */
#include "core/device/cuda/attention.cuh"
#include "core/device/cuda/kernels.h"

#include <cuda_runtime_api.h>

enum { MOST_HEAD_SIZE = 256, MOST_TIME = 65535 * 8, MOST_BEHIND = 65535, WARPS = 8 };

static const double LOG2_E = 1.4426950408889634074;

/* Lanes of a row of statistics, a pack each where 32 are enough. Two at least, so that
 * the rows of a block divide CADRE_ATTENTION_PAD. */
template <class T> static int row_lanes(int64_t head_size)
{
    int lanes = 2;
    while (lanes < 32 && lanes * pack_size<T>::N < head_size)
        lanes *= 2;
    return lanes;
}

/* stats of row t of head (b, h): `lanes` threads each. */
template <class T>
static __global__ void statistics(struct cadre_attention_view a, int lanes, bool vec)
{
    typedef wide_t<T> W;
    constexpr int N = pack_size<T>::N;
    const int rows = WARPS * 32 / lanes, blocks = a.padded / rows; /* of a head */
    const int head = (int)blockIdx.x / blocks; /* b * H + h */
    const int t = (int)blockIdx.x % blocks * rows + (int)threadIdx.x / lanes;
    const int lane = (int)threadIdx.x % lanes, size = a.head_size;
    const int64_t first = ((int64_t)(head / a.heads) * a.time + t) * a.ldo +
                          (int64_t)(head % a.heads) * size;
    const bool inside = t < a.time;
    W lse = (W)INFINITY, delta = 0;
    if (inside && lane == 0)
        lse = ((const W *)a.lse)[(int64_t)head * a.time + t] * (W)a.lse_factor;
    for (int d = lane * N; inside && d < size; d += lanes * N) {
        const pack<T> out = load<N>((const T *)a.out + first + d, size - d, vec);
        const pack<T> dout = load<N>((const T *)a.dout + first + d, size - d, vec);
        CADRE_UNROLL
        for (int i = 0; i < N; i++)
            delta += widen(out.v[i]) * widen(dout.v[i]);
    }
    for (int with = lanes / 2; with > 0; with /= 2)
        delta += __shfl_xor_sync(CADRE_FULL_WARP, delta, with);
    if (lane == 0) {
        const pack<W, 2> both = {lse, delta};
        store<2>((W *)a.stats + 2 * ((int64_t)head * a.padded + t), both, 2, true);
    }
}

static int64_t padded_time(const struct cadre_attention *a)
{
    return ceil_div(a->time, CADRE_ATTENTION_PAD) * CADRE_ATTENTION_PAD;
}

static bool is_16_bit(uint32_t dtype)
{
    return dtype == CADRE_BF16 || dtype == CADRE_F16;
}

static bool for_tensor_cores(const struct cadre_attention *a, bool backward)
{
    if (!is_16_bit(a->dtype) || (a->head_size != 64 && a->head_size != 128))
        return false;
    if (a->ldq % 8 || a->ldk % 8 || a->ldv % 8 || a->ldo % 8)
        return false;
    if (!aligned(a->q, a->k, a->v, backward ? NULL : a->out))
        return false;
    return !backward || aligned(a->dout, a->dq, a->dk, a->dv);
}

/* wgmma is of compute capability 9.0 alone. */
static bool has_wgmma(const struct cadre_attention *a)
{
    int gpu = 0, major = 0, minor = 0;
    return a->head_size == 64 && cudaGetDevice(&gpu) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, gpu) ==
               cudaSuccess &&
           cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, gpu) ==
               cudaSuccess &&
           major == 9 && minor == 0;
}

/* Are there keys without a query? */
static bool is_behind(const struct cadre_attention *a)
{
    return a->position != 0 || cadre_attention_keys(a) != a->time;
}

static bool is_supported(const struct cadre_attention *a, bool backward)
{
    if (is_behind(a) && (backward || a->position < 0 || a->time > MOST_BEHIND ||
                         a->position + a->time > cadre_attention_keys(a) ||
                         cadre_attention_keys(a) > MOST_TIME)) {
        cadre_log(CADRE_LOG_ERROR, "device",
                  "cuda: %s attention of %lld queries at %lld over %lld keys: expected "
                  "the queries of all keys, or forward of at most %d over up to %d",
                  backward ? "backward" : "forward", (long long)a->time,
                  (long long)a->position, (long long)cadre_attention_keys(a),
                  MOST_BEHIND, MOST_TIME);
        return false;
    }
    if (a->head_size >= 1 && a->head_size <= MOST_HEAD_SIZE && a->time <= MOST_TIME &&
        a->kv_heads >= 1 && a->heads % a->kv_heads == 0 &&
        a->batch * a->heads <= INT32_MAX / 2)
        return true;
    cadre_log(CADRE_LOG_ERROR, "device",
              "cuda: attention of %lld sequences of %lld, %lld heads over %lld of size "
              "%lld: sizes up to %d and sequences up to %d are supported",
              (long long)a->batch, (long long)a->time, (long long)a->heads,
              (long long)a->kv_heads, (long long)a->head_size, MOST_HEAD_SIZE,
              MOST_TIME);
    return false;
}

static struct cadre_attention_view make_view(const struct cadre_attention *a,
                                             void *scratch, bool tensor_cores)
{
    struct cadre_attention_view v = {};
    v.q = a->q;
    v.k = a->k;
    v.v = a->v;
    v.dout = a->dout;
    v.out = a->out;
    v.lse = a->lse;
    v.dq = a->dq;
    v.dk = a->dk;
    v.dv = a->dv;
    v.stats = scratch;
    v.ldq = a->ldq;
    v.ldk = a->ldk;
    v.ldv = a->ldv;
    v.ldo = a->ldo;
    v.time = (int)a->time;
    v.full = a->full;
    v.position = (int)a->position;
    v.keys = (int)cadre_attention_keys(a);
    v.padded = (int)padded_time(a);
    v.heads = (int)a->heads;
    v.kv_heads = (int)a->kv_heads;
    v.head_size = (int)a->head_size;
    v.scale = 1.0 / sqrt((double)a->head_size);
    v.lse_factor = tensor_cores ? LOG2_E : 1;
    return v;
}

extern "C" size_t cadre_cuda_attention_scratch(const struct cadre_attention *a)
{
    const int64_t wide = a->dtype == CADRE_F64 ? 8 : 4;
    return (size_t)(a->batch * a->heads * padded_time(a) * 2 * wide);
}

extern "C" cadre_status cadre_cuda_attention_fwd(const struct cadre_attention *a,
                                                 void *scratch, void *stream)
{
    const bool tensor_cores = for_tensor_cores(a, false);
    const struct cadre_attention_view view = make_view(a, scratch, tensor_cores);
    if (a->batch <= 0 || a->time <= 0)
        return CADRE_OK;
    if (!is_supported(a, false))
        return CADRE_E_DEVICE;
    if (is_behind(a))
        return cadre_attention_kept_fwd(a->dtype, a->batch, view, (cudaStream_t)stream);
    if (tensor_cores && has_wgmma(a))
        return cadre_attention_wgmma_fwd(a->dtype, a->batch, view,
                                         (cudaStream_t)stream);
    if (tensor_cores)
        return cadre_attention_mma_fwd(a->dtype, a->batch, view, (cudaStream_t)stream);
    return cadre_attention_plain_fwd(a->dtype, a->batch, view, (cudaStream_t)stream);
}

static cadre_status launch_statistics(const struct cadre_attention *a,
                                      const struct cadre_attention_view &view,
                                      void *stream)
{
    CADRE_DISPATCH("attention", a->dtype, {
        constexpr int N = pack_size<T>::N;
        const int lanes = row_lanes<T>(a->head_size);
        const int64_t rows = a->batch * a->heads * view.padded;
        const bool vec =
            a->head_size % N == 0 && a->ldo % N == 0 && aligned(a->out, a->dout);
        CADRE_LAUNCH(statistics<T>, (unsigned)(rows * lanes / (WARPS * 32)), WARPS * 32,
                     0, stream, view, lanes, vec);
    });
    return cadre_launch_check("attention's statistics");
}

extern "C" cadre_status cadre_cuda_attention_bwd(const struct cadre_attention *a,
                                                 void *scratch, void *stream)
{
    const bool tensor_cores = for_tensor_cores(a, true);
    const struct cadre_attention_view view = make_view(a, scratch, tensor_cores);
    cadre_status rc;
    if (a->batch <= 0 || a->time <= 0)
        return CADRE_OK;
    if (!is_supported(a, true))
        return CADRE_E_DEVICE;
    CADRE_TRY(launch_statistics(a, view, stream));
    if (tensor_cores && has_wgmma(a))
        rc = cadre_attention_wgmma_bwd(a->dtype, a->batch, view, (cudaStream_t)stream);
    else if (tensor_cores)
        rc = cadre_attention_mma_bwd(a->dtype, a->batch, view, (cudaStream_t)stream);
    else
        rc = cadre_attention_plain_bwd(a->dtype, a->batch, view, (cudaStream_t)stream);
    return rc;
}
