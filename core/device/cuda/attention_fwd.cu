/* SPDX-License-Identifier: Apache-2.0 */
/* FlashAttention-2, forward (Dao 2023): a block has a tile of queries and loops over
 * the keys up to its end with an online softmax in base 2. The next keys are loaded
 * during the product with values, the values while scores are computed. */
#include "core/device/cuda/attention_mma.cuh"

namespace
{

const float LOG2_E = 1.44269504088896341f, LN_2 = 0.69314718055994531f;

enum { MT = 2, ROWS = 16 * MT * CADRE_MMA_WARPS };

/* Keys per loop iteration, as registers allow. */
template <int D> struct shape {
    enum { KEYS = D == 64 ? 64 : 32, NT = KEYS / 8 };
};

/* State of a warp between tiles; sums are this lane's part. */
template <int D> struct state {
    float acc[MT][D / 8][4];
    float most[MT][2], sum[MT][2];
};

/* One step of the softmax: s becomes 2^((s - most) * scale). `first` is the token of
 * this lane's first row, `key` that of its first column; `last` is the last key of all
 * rows, or -1 where a row sees the keys up to its own. */
template <int D>
__device__ __forceinline__ void softmax_step(struct state<D> &w,
                                             float s[MT][shape<D>::NT][4], float scale,
                                             int first, int key, bool masked, int last)
{
    enum { NT = shape<D>::NT };
#pragma unroll
    for (int i = 0; i < MT * 2; i++) {
        const int m = i / 2, half = i % 2, row = first + m * 16 + half * 8;
        float top = w.most[m][half], sum = 0;
#pragma unroll
        for (int j = 0; j < NT * 2; j++) {
            float *x = &s[m][j / 2][half * 2 + j % 2];
            if (masked && key + j / 2 * 8 + j % 2 > (last < 0 ? row : last))
                *x = -INFINITY;
            top = fmaxf(top, *x);
        }
        top = fmaxf(top, __shfl_xor_sync(CADRE_FULL_WARP, top, 1));
        top = fmaxf(top, __shfl_xor_sync(CADRE_FULL_WARP, top, 2));
        const float shrink = cadre_exp2((w.most[m][half] - top) * scale);
        const float base = top * scale;
        w.most[m][half] = top;
#pragma unroll
        for (int j = 0; j < NT * 2; j++) {
            float *x = &s[m][j / 2][half * 2 + j % 2];
            *x = cadre_exp2(*x * scale - base);
            sum += *x;
        }
        w.sum[m][half] = w.sum[m][half] * shrink + sum;
#pragma unroll
        for (int n = 0; n < D / 8; n++) {
            w.acc[m][n][half * 2] *= shrink;
            w.acc[m][n][half * 2 + 1] *= shrink;
        }
    }
}

/* lse of this lane's rows; sums become factors of the accumulators */
template <int D>
__device__ __forceinline__ void finish(struct state<D> &w, float *lse, float scale,
                                       int first, int time)
{
#pragma unroll
    for (int i = 0; i < MT * 2; i++) {
        const int m = i / 2, half = i % 2, row = first + m * 16 + half * 8;
        float sum = w.sum[m][half];
        sum += __shfl_xor_sync(CADRE_FULL_WARP, sum, 1);
        sum += __shfl_xor_sync(CADRE_FULL_WARP, sum, 2);
        if (cadre_mma_lane() % 4 == 0 && row < time)
            lse[row] = w.most[m][half] * scale * LN_2 + logf(sum);
        w.sum[m][half] = 1 / sum;
    }
}

template <int D> __device__ __forceinline__ void begin(struct state<D> &w)
{
#pragma unroll
    for (int i = 0; i < MT * D / 2; i++)
        w.acc[i / (D / 2)][i / 4 % (D / 8)][i % 4] = 0;
#pragma unroll
    for (int i = 0; i < MT * 2; i++) {
        w.most[i / 2][i % 2] = -INFINITY;
        w.sum[i / 2][i % 2] = 0;
    }
}

template <typename T, int D>
__global__ void __launch_bounds__(CADRE_MMA_THREADS)
    forward(struct cadre_attention_view a)
{
    enum { KEYS = shape<D>::KEYS, NT = shape<D>::NT };
    CADRE_DYNAMIC_SHARED(uint32_t, q);
    uint32_t *k = q + ROWS * D / 2, *v = k + KEYS * D / 2;
    const int head = (int)blockIdx.x % a.heads, kv = head / (a.heads / a.kv_heads);
    const int64_t b = blockIdx.x / a.heads;
    const T *from_k = cadre_attention_rows<T>(a, a.k, a.ldk, b, kv);
    const T *from_v = cadre_attention_rows<T>(a, a.v, a.ldv, b, kv);
    const int first = (int)(gridDim.y - 1 - blockIdx.y) * ROWS; /* long ones first */
    const int end = cadre_attention_end(a, first + ROWS);
    const int mine = first + cadre_mma_warp() * 16 * MT, lane = cadre_mma_lane();
    const float scale = (float)a.scale * LOG2_E;
    struct state<D> w;
    begin(w);
    cadre_mma_load<T, D, ROWS>(q, cadre_attention_rows<T>(a, a.q, a.ldq, b, head),
                               a.ldq, first, a.time);
    cadre_mma_load<T, D, KEYS>(k, from_k, a.ldk, 0, a.time);
    cadre_copy_commit();
    for (int key = 0; key < end; key += KEYS) {
        /* not all above the diagonal */
        const bool works = a.full || key < mine + 16 * MT;
        float s[MT][NT][4];
        cadre_copy_wait<0>();
        __syncthreads(); /* keys have arrived, the last values are free */
        cadre_mma_load<T, D, KEYS>(v, from_v, a.ldv, key, a.time);
        cadre_copy_commit();
        if (works)
            cadre_mma_scores<T, D, MT, NT>(s, q, k);
        cadre_copy_wait<0>();
        __syncthreads(); /* values have arrived, keys are free */
        if (key + KEYS < end)
            cadre_mma_load<T, D, KEYS>(k, from_k, a.ldk, key + KEYS, a.time);
        cadre_copy_commit();
        if (!works)
            continue;
        softmax_step<D>(w, s, scale, mine + lane / 4, key + lane % 4 * 2,
                        key + KEYS - 1 > (a.full ? a.time - 1 : mine),
                        a.full ? a.time - 1 : -1);
        cadre_mma_mix<T, D, MT, NT>(w.acc, s, v);
    }
    finish<D>(w, (float *)a.lse + (int64_t)blockIdx.x * a.time, scale, mine + lane / 4,
              a.time);
    cadre_mma_store<T, D, MT>(cadre_attention_rows_out<T>(a, a.out, a.ldo, b, head),
                              a.ldo, first, a.time, w.acc, w.sum, q);
}

template <typename T, int D>
cadre_status launch(int64_t batch, const struct cadre_attention_view &a,
                    cudaStream_t stream)
{
    const size_t shared = (size_t)(ROWS + 2 * shape<D>::KEYS) * D * 2;
    const unsigned tiles = (unsigned)((a.time + ROWS - 1) / ROWS);
    return cadre_attention_launch(forward<T, D>,
                                  dim3((unsigned)(batch * a.heads), tiles),
                                  dim3(CADRE_MMA_THREADS), shared, stream, a);
}

} // namespace

cadre_status cadre_attention_mma_fwd(uint32_t dtype, int64_t batch,
                                     const struct cadre_attention_view &view,
                                     cudaStream_t stream)
{
    if (dtype == CADRE_BF16)
        return view.head_size == 64 ? launch<bf16, 64>(batch, view, stream)
                                    : launch<bf16, 128>(batch, view, stream);
    return view.head_size == 64 ? launch<f16, 64>(batch, view, stream)
                                : launch<f16, 128>(batch, view, stream);
}
