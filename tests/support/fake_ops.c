/* SPDX-License-Identifier: Apache-2.0 */
/* cadre.ops of the fake host: the ops of its device, with the core's refusals. */
#include "tests/support/check_main.h"
#include "tests/support/fake_host.h"

#define OPS(ctx) (ctx)->device->ops

static cadre_status op_copy(struct cadre_ctx *ctx, void *dst, const void *src,
                            uint64_t bytes)
{
    return OPS(ctx)->copy(ctx->device, dst, src, bytes);
}

static cadre_status op_zero(struct cadre_ctx *ctx, void *dst, uint64_t bytes)
{
    return OPS(ctx)->zero(ctx->device, dst, bytes);
}

static cadre_status op_add(struct cadre_ctx *ctx, const struct cadre_buf *out,
                           const struct cadre_buf *a, const struct cadre_buf *b)
{
    if (a->count != out->count || b->count != out->count || a->dtype != out->dtype ||
        b->dtype != out->dtype)
        return CADRE_E_INVALID;
    return OPS(ctx)->tree_add(ctx->device, out->dtype, out->data, a->data, b->data,
                              (int64_t)out->count);
}

static cadre_status op_scale(struct cadre_ctx *ctx, const struct cadre_buf *x,
                             double by)
{
    return OPS(ctx)->scale(ctx->device, x->dtype, x->data, (int64_t)x->count, by);
}

static cadre_status op_cast(struct cadre_ctx *ctx, const struct cadre_buf *dst,
                            const struct cadre_buf *src)
{
    if (dst->count != src->count)
        return CADRE_E_INVALID;
    return OPS(ctx)->cast(ctx->device, dst->dtype, dst->data, src->dtype, src->data,
                          (int64_t)src->count);
}

static cadre_status op_gemm(struct cadre_ctx *ctx, const struct cadre_gemm_args *args)
{
    struct cadre_gemm gemm = {
        .dtype = args->dtype,
        .m = args->m,
        .n = args->n,
        .k = args->k,
        .a = args->a,
        .b = args->b,
        .lda = args->lda,
        .ldb = args->ldb,
        .ta = args->ta != 0,
        .tb = args->tb != 0,
        .c = args->c,
        .ldc = args->ldc,
        .beta = args->beta != 0,
    };
    ck_assert(!args->c_dtype && !args->a_scale && !args->b_scale && !args->c_amax);
    return OPS(ctx)->gemm(ctx->device, &gemm);
}

static cadre_status op_topk(struct cadre_ctx *ctx, const struct cadre_buf *x,
                            const struct cadre_buf *values,
                            const struct cadre_buf *indices)
{
    if (values->count > x->count || values->dtype != x->dtype ||
        indices->count != values->count || indices->dtype != CADRE_I32)
        return CADRE_E_INVALID;
    return OPS(ctx)->topk(ctx->device, x->dtype, x->data, (int64_t)x->count,
                          (int64_t)values->count, values->data, indices->data);
}

/* Do codes and scales fit x? */
static bool quantized_fits(const struct cadre_buf *x, const struct cadre_buf *q,
                           const struct cadre_buf *scales, uint64_t block)
{
    return q->dtype == CADRE_I8 && q->count == x->count && scales->dtype == CADRE_F32 &&
           scales->count == (x->count + block - 1) / block;
}

static cadre_status op_quantize(struct cadre_ctx *ctx, const struct cadre_buf *x,
                                uint64_t block, const struct cadre_buf *q,
                                const struct cadre_buf *scales)
{
    if (!quantized_fits(x, q, scales, block))
        return CADRE_E_INVALID;
    return OPS(ctx)->quantize(ctx->device, x->dtype, x->data, (int64_t)x->count,
                              (int64_t)block, q->data, scales->data);
}

static cadre_status op_dequantize(struct cadre_ctx *ctx, const struct cadre_buf *q,
                                  const struct cadre_buf *scales, uint64_t block,
                                  const struct cadre_buf *x)
{
    if (!quantized_fits(x, q, scales, block))
        return CADRE_E_INVALID;
    return OPS(ctx)->dequantize(ctx->device, q->data, scales->data, (int64_t)block,
                                x->dtype, x->data, (int64_t)x->count);
}

static cadre_status op_scatter_add(struct cadre_ctx *ctx, const struct cadre_buf *x,
                                   const struct cadre_buf *values,
                                   const struct cadre_buf *indices, double by)
{
    if (values->dtype != x->dtype || indices->dtype != CADRE_I32 ||
        values->count != indices->count)
        return CADRE_E_INVALID;
    return OPS(ctx)->scatter_add(ctx->device, x->dtype, x->data, (int64_t)x->count,
                                 values->data, indices->data, (int64_t)values->count,
                                 by);
}

static cadre_status op_orthonormalize(struct cadre_ctx *ctx, const struct cadre_buf *x,
                                      uint64_t columns)
{
    if (columns == 0 || x->count % columns || x->count / columns < columns)
        return CADRE_E_INVALID;
    return OPS(ctx)->orthonormalize(ctx->device, x->dtype, x->data,
                                    (int64_t)(x->count / columns), (int64_t)columns);
}

static cadre_status op_to_device(struct cadre_ctx *ctx, void *dst, const void *host,
                                 uint64_t bytes)
{
    return OPS(ctx)->to_device(ctx->device, dst, host, bytes);
}

static cadre_status op_to_host(struct cadre_ctx *ctx, void *host, const void *src,
                               uint64_t bytes)
{
    return OPS(ctx)->to_host(ctx->device, host, src, bytes);
}

const struct cadre_ops_svc fake_ops = {
    .struct_size = sizeof fake_ops,
    .copy = op_copy,
    .zero = op_zero,
    .add = op_add,
    .scale = op_scale,
    .cast = op_cast,
    .gemm = op_gemm,
    .topk = op_topk,
    .quantize = op_quantize,
    .dequantize = op_dequantize,
    .scatter_add = op_scatter_add,
    .orthonormalize = op_orthonormalize,
    .to_device = op_to_device,
    .to_host = op_to_host,
};
