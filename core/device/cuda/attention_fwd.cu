/* SPDX-License-Identifier: Apache-2.0 */
/* FlashAttention-2, forward (Dao 2023): a block has a tile of queries and loops over
 * the keys up to its end with an online softmax in base 2. The next keys are loaded
 * during the product with values, the values while scores are computed. */
#include "core/device/cuda/attention_softmax.cuh"

namespace
{

enum { MT = 2, ROWS = 16 * MT * CADRE_MMA_WARPS };

/* Keys per loop iteration, as registers allow. */
template <int D> struct shape {
    enum { KEYS = D == 64 ? 64 : 32, NT = KEYS / 8 };
};

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
    const float scale = (float)a.scale * CADRE_LOG2_E;
    struct cadre_softmax<D, MT> w;
    cadre_softmax_begin(w);
    cadre_mma_load<T, D, ROWS>(q, cadre_attention_rows<T>(a, a.q, a.ldq, b, head),
                               a.ldq, first, a.time);
    cadre_mma_load<T, D, KEYS>(k, from_k, a.ldk, 0, a.time);
    cadre_copy_commit();
    for (int key = 0; key < end; key += KEYS) {
        /* not all above the diagonal */
        const bool works = a.full || key < mine + 16 * MT;
        float s[MT][NT][4], shrink[MT][2];
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
        if (key + KEYS - 1 > (a.full ? a.time - 1 : mine))
            cadre_mask<MT, NT>(s, mine + lane / 4, key + lane % 4 * 2,
                               a.full ? a.time - 1 : -1);
        cadre_softmax_step<D, MT, NT>(w, s, scale, shrink);
        cadre_softmax_shrink<D, MT>(w, shrink);
        cadre_mma_mix<T, D, MT, NT>(w.acc, s, v);
    }
    cadre_softmax_end<D, MT>(w, (float *)a.lse + (int64_t)blockIdx.x * a.time, scale,
                             mine + lane / 4, a.time);
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
