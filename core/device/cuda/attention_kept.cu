/* SPDX-License-Identifier: Apache-2.0 */
/* Queries that stand behind keys which were computed before, for every dtype: a block
 * for each query of each head. A warp takes every WARPS-th key with a softmax of its
 * own (Milakov & Gimelshein 2018), whose maxima and sums the block then joins in the
 * warps' order. */
#include "core/device/cuda/attention.cuh"

namespace
{

enum { WARPS = 8, MOST_HEAD_SIZE = 256, PER_LANE = MOST_HEAD_SIZE / 32 };

__device__ __forceinline__ float natural_log(float x)
{
    return logf(x);
}

__device__ __forceinline__ double natural_log(double x)
{
    return log(x);
}

__device__ __forceinline__ float power(float x)
{
    return expf(x);
}

__device__ __forceinline__ double power(double x)
{
    return exp(x);
}

/* What a warp has of its keys: the largest score, the sum of exp(score - most), and the
 * values weighted so; element lane + 32 * i in sum_of[i]. */
template <typename W> struct part {
    W most, sum, sum_of[PER_LANE];
};

template <typename T, typename W>
__device__ __forceinline__ void add_key(part<W> &p, const W *q, const T *k, const T *v,
                                        int size, W scale)
{
    const int lane = (int)threadIdx.x % 32;
    W score = 0;
#pragma unroll
    for (int i = 0; i < PER_LANE; i++)
        if (lane + 32 * i < size)
            score += q[i] * widen(k[lane + 32 * i]);
    score = warp_sum(score) * scale;
    const W most = score > p.most ? score : p.most;
    const W old = power(p.most - most), weight = power(score - most);
    p.most = most;
    p.sum = p.sum * old + weight;
#pragma unroll
    for (int i = 0; i < PER_LANE; i++)
        if (lane + 32 * i < size)
            p.sum_of[i] = p.sum_of[i] * old + weight * widen(v[lane + 32 * i]);
}

template <typename T> __global__ void forward_kept(struct cadre_attention_view a)
{
    typedef wide_t<T> W;
    CADRE_DYNAMIC_SHARED(W, room); /* (WARPS, 2 + size) */
    const int size = a.head_size, lane = (int)threadIdx.x % 32;
    const int warp = (int)threadIdx.x / 32, t = (int)blockIdx.y;
    const int head = (int)(blockIdx.x % (unsigned)a.heads);
    const int64_t b = blockIdx.x / (unsigned)a.heads, row = b * a.time + t;
    const int kv_head = head / (a.heads / a.kv_heads), keys = a.position + t + 1;
    const T *query = (const T *)a.q + row * a.ldq + (int64_t)head * size;
    const T *k = (const T *)a.k + b * a.keys * a.ldk + (int64_t)kv_head * size;
    const T *v = (const T *)a.v + b * a.keys * a.ldv + (int64_t)kv_head * size;
    part<W> p = {(W)-INFINITY, 0, {}};
    W q[PER_LANE];
#pragma unroll
    for (int i = 0; i < PER_LANE; i++)
        q[i] = lane + 32 * i < size ? (W)widen(query[lane + 32 * i]) : (W)0;
    for (int j = warp; j < keys; j += WARPS)
        add_key(p, q, k + j * a.ldk, v + j * a.ldv, size, (W)a.scale);
    W *own = room + warp * (2 + size);
    if (lane == 0) {
        own[0] = p.most;
        own[1] = p.sum;
    }
#pragma unroll
    for (int i = 0; i < PER_LANE; i++)
        if (lane + 32 * i < size)
            own[2 + lane + 32 * i] = p.sum_of[i];
    __syncthreads();
    W most = room[0], sum = 0;
    for (int w = 1; w < WARPS; w++)
        most = room[w * (2 + size)] > most ? room[w * (2 + size)] : most;
    for (int w = 0; w < WARPS; w++)
        sum += room[w * (2 + size) + 1] * power(room[w * (2 + size)] - most);
    T *out = (T *)a.out + row * a.ldo + (int64_t)head * size;
    for (int d = (int)threadIdx.x; d < size; d += 32 * WARPS) {
        W mixed = 0;
        for (int w = 0; w < WARPS; w++)
            mixed += room[w * (2 + size) + 2 + d] * power(room[w * (2 + size)] - most);
        out[d] = narrow<T>(mixed / sum);
    }
    if (threadIdx.x == 0)
        ((W *)a.lse)[(b * a.heads + head) * a.time + t] = most + natural_log(sum);
}

} /* namespace */

cadre_status cadre_attention_kept_fwd(uint32_t dtype, int64_t batch,
                                      const struct cadre_attention_view &view,
                                      cudaStream_t stream)
{
    const dim3 grid((unsigned)(batch * view.heads), (unsigned)view.time);
    const size_t wide = dtype == CADRE_F64 ? 8 : 4;
    const size_t shared = (size_t)(WARPS * (2 + view.head_size)) * wide;
    CADRE_DISPATCH(
        "attention", dtype,
        CADRE_LAUNCH(forward_kept<T>, grid, 32 * WARPS, shared, stream, view));
    return cadre_launch_check("attention behind kept keys");
}
