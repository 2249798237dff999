/* SPDX-License-Identifier: Apache-2.0 */
/* The table: every entry that is a kernel, with the scratch it needs. */
#include "core/device/cuda/cuda.h"
#include "core/device/cuda/gemm.h"
#include "core/device/cuda/kernels.h"

/* An op without scratch: make the device current, launch on its stream. */
#define LAUNCH(...)                                                                    \
    struct cadre_cuda *cuda = cadre_cuda_of(device);                                   \
    cadre_status rc = cadre_cuda_use(cuda);                                            \
    void *stream = cadre_cuda_current(cuda);                                           \
    return rc != CADRE_OK ? rc : (__VA_ARGS__)

/* The same with `bytes` of scratch, which the call names `scratch`. */
#define LAUNCH_WITH(bytes, ...)                                                        \
    struct cadre_cuda *cuda = cadre_cuda_of(device);                                   \
    cadre_status rc = cadre_cuda_use(cuda);                                            \
    void *stream = cadre_cuda_current(cuda);                                           \
    void *scratch = rc == CADRE_OK ? cadre_cuda_scratch(cuda, (bytes)) : NULL;         \
    if (rc != CADRE_OK || !scratch)                                                    \
        return rc != CADRE_OK ? rc : CADRE_E_RESOURCE;                                 \
    return (__VA_ARGS__)

static cadre_status bias_bwd(struct cadre_device *device, uint32_t dtype,
                             const void *dy, int64_t rows, int64_t channels, void *db,
                             int beta)
{
    LAUNCH_WITH(
        cadre_cuda_bias_bwd_scratch(dtype, rows, channels),
        cadre_cuda_bias_bwd(dtype, dy, rows, channels, db, beta, scratch, stream));
}

static cadre_status attention_fwd(struct cadre_device *device,
                                  const struct cadre_attention *a)
{
    LAUNCH(cadre_cuda_attention_fwd(a, NULL, stream));
}

static cadre_status attention_bwd(struct cadre_device *device,
                                  const struct cadre_attention *a)
{
    LAUNCH_WITH(cadre_cuda_attention_scratch(a),
                cadre_cuda_attention_bwd(a, scratch, stream));
}

static cadre_status norm_fwd(struct cadre_device *device, const struct cadre_norm *a)
{
    LAUNCH(cadre_cuda_norm_fwd(a, stream));
}

static cadre_status norm_bwd(struct cadre_device *device, const struct cadre_norm *a)
{
    LAUNCH_WITH(cadre_cuda_norm_bwd_scratch(a),
                cadre_cuda_norm_bwd(a, scratch, stream));
}

/* lint: long because it is an entry of the table */
static cadre_status rope(struct cadre_device *device, uint32_t dtype, void *x,
                         int64_t ld, int64_t batch, int64_t time, int64_t heads,
                         int64_t head_size, const struct cadre_rotary *rotary,
                         int64_t position, bool inverse)
{
    LAUNCH(cadre_cuda_rope(dtype, x, ld, batch, time, heads, head_size, rotary,
                           position, inverse, stream));
}

static cadre_status gelu_bwd(struct cadre_device *device, uint32_t dtype, const void *x,
                             const void *dy, void *dx, int64_t count)
{
    LAUNCH(cadre_cuda_gelu_bwd(dtype, x, dy, dx, count, stream));
}

static cadre_status swiglu_fwd(struct cadre_device *device, uint32_t dtype,
                               const void *gate, const void *up, void *y, int64_t count)
{
    LAUNCH(cadre_cuda_swiglu_fwd(dtype, gate, up, y, count, stream));
}

static cadre_status swiglu_bwd(struct cadre_device *device, uint32_t dtype,
                               const void *gate, const void *up, const void *dy,
                               void *dgate, void *dup, int64_t count)
{
    LAUNCH(cadre_cuda_swiglu_bwd(dtype, gate, up, dy, dgate, dup, count, stream));
}

static cadre_status add(struct cadre_device *device, uint32_t dtype, const void *a,
                        const void *bias, const void *b, void *y, int64_t rows,
                        int64_t channels)
{
    LAUNCH(cadre_cuda_add(dtype, a, bias, b, y, rows, channels, stream));
}

static cadre_status embed_fwd(struct cadre_device *device, const struct cadre_embed *a)
{
    LAUNCH(cadre_cuda_embed_fwd(a, stream));
}

static cadre_status embed_bwd_tokens(struct cadre_device *device,
                                     const struct cadre_embed *a)
{
    LAUNCH_WITH(cadre_cuda_embed_bwd_tokens_scratch(a),
                cadre_cuda_embed_bwd_tokens(a, scratch, stream));
}

static cadre_status embed_bwd_positions(struct cadre_device *device,
                                        const struct cadre_embed *a)
{
    LAUNCH(cadre_cuda_embed_bwd_positions(a, stream));
}

static cadre_status patches(struct cadre_device *device, const struct cadre_patches *a)
{
    LAUNCH(cadre_cuda_patches(a, stream));
}

static cadre_status xent_fwd(struct cadre_device *device, const struct cadre_xent *a)
{
    LAUNCH(cadre_cuda_xent_fwd(a, stream));
}

static cadre_status xent_rescale(struct cadre_device *device,
                                 const struct cadre_xent *a)
{
    LAUNCH(cadre_cuda_xent_rescale(a, stream));
}

static cadre_status xent_loss(struct cadre_device *device, const struct cadre_xent *a)
{
    LAUNCH(cadre_cuda_xent_loss(a, stream));
}

static cadre_status xent_bwd(struct cadre_device *device, const struct cadre_xent *a)
{
    LAUNCH(cadre_cuda_xent_bwd(a, stream));
}

static cadre_status adamw(struct cadre_device *device, const struct cadre_adamw *a)
{
    LAUNCH(cadre_cuda_adamw(a, stream));
}

static cadre_status sgd(struct cadre_device *device, const struct cadre_sgd *a)
{
    LAUNCH(cadre_cuda_sgd(a, stream));
}

static cadre_status lion(struct cadre_device *device, const struct cadre_lion *a)
{
    LAUNCH(cadre_cuda_lion(a, stream));
}

static cadre_status adamw8(struct cadre_device *device, const struct cadre_adamw8 *a)
{
    LAUNCH(cadre_cuda_adamw8(a, stream));
}

static cadre_status sum_squares(struct cadre_device *device, uint32_t dtype,
                                const struct cadre_squares *list, int64_t n)
{
    LAUNCH(cadre_cuda_sum_squares(dtype, list, n, stream));
}

static cadre_status norm_total(struct cadre_device *device, const double *chunks,
                               uint64_t n, double clip, double unscale, double *out)
{
    LAUNCH(cadre_cuda_norm_total(chunks, n, clip, unscale, out, stream));
}

static cadre_status sum_rows(struct cadre_device *device, const double *rows, int64_t n,
                             double *out)
{
    LAUNCH(cadre_cuda_sum_rows(rows, n, out, stream));
}

static cadre_status scale(struct cadre_device *device, uint32_t dtype, void *x,
                          int64_t count, double by)
{
    LAUNCH(cadre_cuda_scale(dtype, x, count, by, stream));
}

static cadre_status tree_add(struct cadre_device *device, uint32_t dtype, void *out,
                             const void *a, const void *b, int64_t count)
{
    LAUNCH(cadre_cuda_tree_add(dtype, out, a, b, count, stream));
}

static cadre_status maximum(struct cadre_device *device, uint32_t dtype, void *out,
                            const void *a, const void *b, int64_t count)
{
    LAUNCH(cadre_cuda_maximum(dtype, out, a, b, count, stream));
}

static cadre_status cast(struct cadre_device *device, uint32_t to, void *dst,
                         uint32_t from, const void *src, int64_t count)
{
    LAUNCH(cadre_cuda_cast(to, dst, from, src, count, stream));
}

static cadre_status topk(struct cadre_device *device, uint32_t dtype, const void *x,
                         int64_t count, int64_t k, void *values, int32_t *indices)
{
    LAUNCH_WITH(cadre_cuda_topk_scratch(count),
                cadre_cuda_topk(dtype, x, count, k, values, indices, scratch, stream));
}

static cadre_status quantize(struct cadre_device *device, uint32_t dtype, const void *x,
                             int64_t count, int64_t block, int8_t *q, float *scales)
{
    LAUNCH(cadre_cuda_quantize(dtype, x, count, block, q, scales, stream));
}

static cadre_status dequantize(struct cadre_device *device, const int8_t *q,
                               const float *scales, int64_t block, uint32_t dtype,
                               void *x, int64_t count)
{
    LAUNCH(cadre_cuda_dequantize(q, scales, block, dtype, x, count, stream));
}

/* The one op whose error only the device knows: the host waits for it. */
static cadre_status scatter_add(struct cadre_device *device, uint32_t dtype, void *x,
                                int64_t count, const void *values,
                                const int32_t *indices, int64_t k, double by)
{
    struct cadre_cuda *cuda = cadre_cuda_of(device);
    cadre_status rc = cadre_cuda_use(cuda);
    int32_t *bad = rc == CADRE_OK ? cadre_cuda_scratch(cuda, sizeof *bad) : NULL;
    int32_t found = 0;
    if (!bad || k <= 0)
        return rc != CADRE_OK ? rc : bad ? CADRE_OK : CADRE_E_RESOURCE;
    rc = cadre_cuda_scatter_add(dtype, x, count, values, indices, k, by, bad,
                                cadre_cuda_current(cuda));
    if (rc == CADRE_OK)
        rc = cadre_cuda_op_to_host(device, &found, bad, sizeof found);
    if (rc == CADRE_OK && found) {
        cadre_log(CADRE_LOG_ERROR, "device",
                  "scatter_add: an index lies outside the %lld elements",
                  (long long)count);
        rc = CADRE_E_DEVICE;
    }
    return rc;
}

static cadre_status orthonormalize(struct cadre_device *device, uint32_t dtype, void *x,
                                   int64_t rows, int64_t columns)
{
    LAUNCH_WITH(cadre_cuda_orthonormalize_scratch(columns),
                cadre_cuda_orthonormalize(dtype, x, rows, columns, scratch, stream));
}

static cadre_status axpby(struct cadre_device *device, uint32_t dtype, double a,
                          const void *x, double b, void *y, int64_t count)
{
    LAUNCH(cadre_cuda_axpby(dtype, a, x, b, y, count, stream));
}

static cadre_status mul(struct cadre_device *device, uint32_t dtype, void *out,
                        const void *a, const void *b, int64_t count)
{
    LAUNCH(cadre_cuda_mul(dtype, out, a, b, count, stream));
}

static cadre_status inverse_root(struct cadre_device *device, uint32_t dtype, void *x,
                                 int64_t count, double eps)
{
    LAUNCH(cadre_cuda_rsqrt(dtype, x, count, eps, stream));
}

/* The result is the host's, which waits for it. */
static cadre_status dot(struct cadre_device *device, uint32_t dtype, const void *x,
                        const void *y, int64_t count, double *out)
{
    struct cadre_cuda *cuda = cadre_cuda_of(device);
    CADRE_TRY(cadre_cuda_use(cuda));
    void *scratch = cadre_cuda_scratch(cuda, cadre_cuda_dot_scratch(count));
    if (!scratch)
        return CADRE_E_RESOURCE;
    CADRE_TRY(cadre_cuda_dot(dtype, x, y, count, scratch, cadre_cuda_current(cuda)));
    return cadre_cuda_op_to_host(device, out, scratch, sizeof *out);
}

static cadre_status transpose(struct cadre_device *device, uint32_t dtype, void *out,
                              const void *x, int64_t rows, int64_t columns)
{
    LAUNCH(cadre_cuda_transpose(dtype, out, x, rows, columns, stream));
}

static cadre_status copy_rows(struct cadre_device *device, uint32_t dtype, void *dst,
                              int64_t ldd, const void *src, int64_t lds, int64_t rows,
                              int64_t columns)
{
    LAUNCH(cadre_cuda_copy_rows(dtype, dst, ldd, src, lds, rows, columns, stream));
}

/* Plans refuse experts on this device before any op runs. */
static cadre_status no_experts(void)
{
    cadre_log(CADRE_LOG_ERROR, "cuda",
              "experts have no kernels on this device; set device.kind = cpu");
    return CADRE_E_UNSUPPORTED;
}

static cadre_status no_route(struct cadre_device *device, const struct cadre_route *a)
{
    (void)device, (void)a;
    return no_experts();
}

static cadre_status no_rows(struct cadre_device *device, const struct cadre_rows *a)
{
    (void)device, (void)a;
    return no_experts();
}

static cadre_status int8_encode(struct cadre_device *device, uint32_t dtype,
                                const void *x, int64_t count, void *blocks)
{
    LAUNCH(cadre_cuda_int8_encode(dtype, x, count, blocks, stream));
}

static cadre_status int8_decode(struct cadre_device *device, const void *blocks,
                                uint32_t dtype, void *x, int64_t count)
{
    LAUNCH(cadre_cuda_int8_decode(blocks, dtype, x, count, stream));
}

static cadre_status nf4_decode(struct cadre_device *device, const void *blocks,
                               const float *scales, int64_t first, uint32_t dtype,
                               void *x, int64_t count)
{
    LAUNCH(cadre_cuda_nf4_decode(blocks, scales, first, dtype, x, count, stream));
}

static cadre_status fake_quantize(struct cadre_device *device,
                                  const struct cadre_fake_quantize *a)
{
    LAUNCH(cadre_cuda_fake_quantize(a, stream));
}

static cadre_status dropout(struct cadre_device *device, const struct cadre_dropout *a)
{
    LAUNCH(cadre_cuda_dropout(a, stream));
}

const struct cadre_device_ops cadre_cuda_ops = {
    .name = "cuda",
    .async = true,
    .destroy = cadre_cuda_op_destroy,
    .alloc = cadre_cuda_op_alloc,
    .free = cadre_cuda_op_free,
    .alloc_pinned = cadre_cuda_op_alloc_pinned,
    .free_pinned = cadre_cuda_op_free_pinned,
    .memory = cadre_cuda_op_memory,
    .host_reaches = cadre_cuda_op_host_reaches,
    .copy = cadre_cuda_op_copy,
    .to_device = cadre_cuda_op_to_device,
    .to_host = cadre_cuda_op_to_host,
    .zero = cadre_cuda_op_zero,
    .upload = cadre_cuda_op_upload,
    .download = cadre_cuda_op_download,
    .stream_create = cadre_cuda_op_stream_create,
    .stream_destroy = cadre_cuda_op_stream_destroy,
    .set_stream = cadre_cuda_op_set_stream,
    .native_stream = cadre_cuda_op_native_stream,
    .event_record = cadre_cuda_op_event_record,
    .event_wait = cadre_cuda_op_event_wait,
    .event_sync = cadre_cuda_op_event_sync,
    .event_query = cadre_cuda_op_event_query,
    .synchronize = cadre_cuda_op_synchronize,
    .worker_stream_open = cadre_cuda_op_worker_stream_open,
    .worker_stream_close = cadre_cuda_op_worker_stream_close,
    .graph_begin = cadre_cuda_op_graph_begin,
    .graph_end = cadre_cuda_op_graph_end,
    .graph_launch = cadre_cuda_op_graph_launch,
    .tuning_export = cadre_cuda_op_tuning_export,
    .tuning_import = cadre_cuda_op_tuning_import,
    .tuning_library = cadre_cuda_op_tuning_library,
    .range_begin = cadre_cuda_op_range_begin,
    .range_end = cadre_cuda_op_range_end,
    .gemm = cadre_cuda_op_gemm,
    .bias_bwd = bias_bwd,
    .attention_fwd = attention_fwd,
    .attention_bwd = attention_bwd,
    .norm_fwd = norm_fwd,
    .norm_bwd = norm_bwd,
    .rope = rope,
    .gelu_bwd = gelu_bwd,
    .swiglu_fwd = swiglu_fwd,
    .swiglu_bwd = swiglu_bwd,
    .add = add,
    .patches = patches,
    .embed_fwd = embed_fwd,
    .embed_bwd_tokens = embed_bwd_tokens,
    .embed_bwd_positions = embed_bwd_positions,
    .xent_fwd = xent_fwd,
    .xent_rescale = xent_rescale,
    .xent_loss = xent_loss,
    .xent_bwd = xent_bwd,
    .adamw = adamw,
    .sgd = sgd,
    .lion = lion,
    .adamw8 = adamw8,
    .sum_squares = sum_squares,
    .norm_total = norm_total,
    .sum_rows = sum_rows,
    .scale = scale,
    .tree_add = tree_add,
    .maximum = maximum,
    .cast = cast,
    .topk = topk,
    .quantize = quantize,
    .dequantize = dequantize,
    .scatter_add = scatter_add,
    .orthonormalize = orthonormalize,
    .axpby = axpby,
    .mul = mul,
    .rsqrt = inverse_root,
    .dot = dot,
    .transpose = transpose,
    .copy_rows = copy_rows,
    .route_fwd = no_route,
    .route_bwd = no_route,
    .rows_take = no_rows,
    .rows_put = no_rows,
    .rows_dot = no_rows,
    .int8_encode = int8_encode,
    .int8_decode = int8_decode,
    .nf4_decode = nf4_decode,
    .fake_quantize = fake_quantize,
    .dropout = dropout,
};
