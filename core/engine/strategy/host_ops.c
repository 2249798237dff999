/* SPDX-License-Identifier: Apache-2.0 */
/* cadre.ops/1: views of the device table, with the checks that its ops leave out. */
#include "core/engine/strategy/host_private.h"
#include "core/tensor/dtype.h"

#define AT (CADRE_AT_BIND | CADRE_AT_RUN)

/* One call while it is checked. */
struct op {
    struct cadre_ctx *ctx;
    struct cadre_device *device;
    const char *name;
};

static cadre_status open_op(struct op *op, struct cadre_ctx *ctx, const char *name)
{
    CADRE_TRY(cadre_guard(ctx, AT, name));
    *op = (struct op){ctx, ctx->services->device, name};
    return CADRE_OK;
}

static cadre_status need(const struct op *op, const char *argument,
                         const struct cadre_buf *buf)
{
    return cadre_guard_buf(op->ctx, op->name, argument, buf);
}

static cadre_status must(const struct op *op, bool holds, const char *what)
{
    return holds ? CADRE_OK
                 : cadre_guard_refuse(op->ctx, CADRE_E_INVALID, op->name, "expected %s",
                                      what);
}

static bool alike(const struct cadre_buf *a, const struct cadre_buf *b)
{
    return a->count == b->count && a->dtype == b->dtype;
}

static cadre_status done(const struct op *op, cadre_status rc)
{
    return cadre_guard_result(op->ctx, op->name, rc);
}

/* ---- bytes ---- */

static cadre_status op_copy(struct cadre_ctx *ctx, void *dst, const void *src,
                            uint64_t bytes)
{
    struct op op;
    CADRE_TRY(open_op(&op, ctx, "copy of cadre.ops"));
    CADRE_TRY(cadre_guard_bytes(ctx, op.name, "dst", dst, bytes));
    CADRE_TRY(cadre_guard_bytes(ctx, op.name, "src", src, bytes));
    return done(&op, op.device->ops->copy(op.device, dst, src, bytes));
}

static cadre_status op_zero(struct cadre_ctx *ctx, void *dst, uint64_t bytes)
{
    struct op op;
    CADRE_TRY(open_op(&op, ctx, "zero of cadre.ops"));
    CADRE_TRY(cadre_guard_bytes(ctx, op.name, "dst", dst, bytes));
    return done(&op, op.device->ops->zero(op.device, dst, bytes));
}

static cadre_status op_to_device(struct cadre_ctx *ctx, void *dst, const void *host,
                                 uint64_t bytes)
{
    struct op op;
    CADRE_TRY(open_op(&op, ctx, "to_device of cadre.ops"));
    CADRE_TRY(cadre_guard_bytes(ctx, op.name, "dst", dst, bytes));
    CADRE_TRY(must(&op, host || bytes == 0, "host memory, found NULL"));
    return done(&op, op.device->ops->to_device(op.device, dst, host, bytes));
}

static cadre_status op_to_host(struct cadre_ctx *ctx, void *host, const void *src,
                               uint64_t bytes)
{
    struct op op;
    CADRE_TRY(open_op(&op, ctx, "to_host of cadre.ops"));
    CADRE_TRY(cadre_guard_bytes(ctx, op.name, "src", src, bytes));
    CADRE_TRY(must(&op, host || bytes == 0, "host memory, found NULL"));
    ctx->services->value_reads++;
    return done(&op, op.device->ops->to_host(op.device, host, src, bytes));
}

/* ---- elementwise ---- */

static cadre_status need_three(const struct op *op, const struct cadre_buf *out,
                               const struct cadre_buf *a, const struct cadre_buf *b)
{
    CADRE_TRY(need(op, "out", out));
    CADRE_TRY(need(op, "a", a));
    CADRE_TRY(need(op, "b", b));
    return must(op, alike(out, a) && alike(out, b),
                "three buffers of one dtype and count");
}

static cadre_status op_add(struct cadre_ctx *ctx, const struct cadre_buf *out,
                           const struct cadre_buf *a, const struct cadre_buf *b)
{
    struct op op;
    CADRE_TRY(open_op(&op, ctx, "add of cadre.ops"));
    CADRE_TRY(need_three(&op, out, a, b));
    return done(&op, op.device->ops->tree_add(op.device, out->dtype, out->data, a->data,
                                              b->data, (int64_t)out->count));
}

static cadre_status op_mul(struct cadre_ctx *ctx, const struct cadre_buf *out,
                           const struct cadre_buf *a, const struct cadre_buf *b)
{
    struct op op;
    CADRE_TRY(open_op(&op, ctx, "mul of cadre.ops"));
    CADRE_TRY(need_three(&op, out, a, b));
    return done(&op, op.device->ops->mul(op.device, out->dtype, out->data, a->data,
                                         b->data, (int64_t)out->count));
}

static cadre_status op_scale(struct cadre_ctx *ctx, const struct cadre_buf *x,
                             double by)
{
    struct op op;
    CADRE_TRY(open_op(&op, ctx, "scale of cadre.ops"));
    CADRE_TRY(need(&op, "x", x));
    return done(&op, op.device->ops->scale(op.device, x->dtype, x->data,
                                           (int64_t)x->count, by));
}

static cadre_status op_axpby(struct cadre_ctx *ctx, double a, const struct cadre_buf *x,
                             double b, const struct cadre_buf *y)
{
    struct op op;
    CADRE_TRY(open_op(&op, ctx, "axpby of cadre.ops"));
    CADRE_TRY(need(&op, "x", x));
    CADRE_TRY(need(&op, "y", y));
    CADRE_TRY(must(&op, alike(x, y), "x and y of one dtype and count"));
    return done(&op, op.device->ops->axpby(op.device, x->dtype, a, x->data, b, y->data,
                                           (int64_t)x->count));
}

static cadre_status op_rsqrt(struct cadre_ctx *ctx, const struct cadre_buf *x,
                             double eps)
{
    struct op op;
    CADRE_TRY(open_op(&op, ctx, "rsqrt of cadre.ops"));
    CADRE_TRY(need(&op, "x", x));
    return done(&op, op.device->ops->rsqrt(op.device, x->dtype, x->data,
                                           (int64_t)x->count, eps));
}

static cadre_status op_cast(struct cadre_ctx *ctx, const struct cadre_buf *dst,
                            const struct cadre_buf *src)
{
    struct op op;
    CADRE_TRY(open_op(&op, ctx, "cast of cadre.ops"));
    CADRE_TRY(need(&op, "dst", dst));
    CADRE_TRY(need(&op, "src", src));
    CADRE_TRY(must(&op, dst->count == src->count, "dst and src of one count"));
    return done(&op, op.device->ops->cast(op.device, dst->dtype, dst->data, src->dtype,
                                          src->data, (int64_t)src->count));
}

/* ---- matrices ---- */

/* Bytes from the first to the last element of a matrix that is stored (rows, columns)
 * with leading dimension ld. */
static uint64_t extent(int64_t rows, int64_t columns, int64_t ld, uint32_t dtype)
{
    if (rows <= 0 || columns <= 0)
        return 0;
    return (uint64_t)((rows - 1) * ld + columns) * cadre_dtype_bytes(dtype);
}

static cadre_status check_gemm(const struct op *op, const struct cadre_gemm_args *args)
{
    CADRE_TRY(
        must(op, args && args->struct_size >= offsetof(struct cadre_gemm_args, c_dtype),
             "args with struct_size set"));
    if (!args)
        return CADRE_E_INVALID;
    CADRE_TRY(must(op, cadre_dtype_bytes(args->dtype) > 0, "a dtype that is known"));
    CADRE_TRY(must(op, args->m >= 0 && args->n >= 0 && args->k >= 0,
                   "m, n and k of 0 or more"));
    int64_t a_rows = args->ta ? args->k : args->m,
            a_columns = args->ta ? args->m : args->k;
    int64_t b_rows = args->tb ? args->n : args->k,
            b_columns = args->tb ? args->k : args->n;
    CADRE_TRY(must(
        op, args->lda >= a_columns && args->ldb >= b_columns && args->ldc >= args->n,
        "lda, ldb and ldc of at least a row"));
    if (args->struct_size >= sizeof *args)
        CADRE_TRY(must(
            op, !args->c_dtype && !args->a_scale && !args->b_scale && !args->c_amax,
            "0 and NULL in the fields for fp8, which this version does not "
            "have"));
    CADRE_TRY(cadre_guard_bytes(op->ctx, op->name, "a", args->a,
                                extent(a_rows, a_columns, args->lda, args->dtype)));
    CADRE_TRY(cadre_guard_bytes(op->ctx, op->name, "b", args->b,
                                extent(b_rows, b_columns, args->ldb, args->dtype)));
    return cadre_guard_bytes(op->ctx, op->name, "c", args->c,
                             extent(args->m, args->n, args->ldc, args->dtype));
}

static cadre_status op_gemm(struct cadre_ctx *ctx, const struct cadre_gemm_args *args)
{
    struct op op;
    CADRE_TRY(open_op(&op, ctx, "gemm of cadre.ops"));
    CADRE_TRY(check_gemm(&op, args));
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
    return done(&op, op.device->ops->gemm(op.device, &gemm));
}

static cadre_status op_transpose(struct cadre_ctx *ctx, const struct cadre_buf *out,
                                 const struct cadre_buf *x, uint64_t rows,
                                 uint64_t columns)
{
    struct op op;
    CADRE_TRY(open_op(&op, ctx, "transpose of cadre.ops"));
    CADRE_TRY(need(&op, "out", out));
    CADRE_TRY(need(&op, "x", x));
    CADRE_TRY(must(&op,
                   alike(out, x) && out->data != x->data && columns > 0 &&
                       x->count / columns == rows && x->count % columns == 0,
                   "two buffers of one dtype and rows * columns elements"));
    return done(&op, op.device->ops->transpose(op.device, x->dtype, out->data, x->data,
                                               (int64_t)rows, (int64_t)columns));
}

static cadre_status op_orthonormalize(struct cadre_ctx *ctx, const struct cadre_buf *x,
                                      uint64_t columns)
{
    struct op op;
    CADRE_TRY(open_op(&op, ctx, "orthonormalize of cadre.ops"));
    CADRE_TRY(need(&op, "x", x));
    CADRE_TRY(must(
        &op, columns > 0 && x->count % columns == 0 && x->count / columns >= columns,
        "whole rows, and no more columns than rows"));
    return done(&op, op.device->ops->orthonormalize(op.device, x->dtype, x->data,
                                                    (int64_t)(x->count / columns),
                                                    (int64_t)columns));
}

static cadre_status op_dot(struct cadre_ctx *ctx, const struct cadre_buf *x,
                           const struct cadre_buf *y, double *out)
{
    struct op op;
    CADRE_TRY(open_op(&op, ctx, "dot of cadre.ops"));
    CADRE_TRY(need(&op, "x", x));
    CADRE_TRY(need(&op, "y", y));
    CADRE_TRY(must(&op, alike(x, y) && out, "x and y of one dtype and count, and out"));
    ctx->services->value_reads++;
    return done(&op, op.device->ops->dot(op.device, x->dtype, x->data, y->data,
                                         (int64_t)x->count, out));
}

/* ---- compression ---- */

static cadre_status op_topk(struct cadre_ctx *ctx, const struct cadre_buf *x,
                            const struct cadre_buf *values,
                            const struct cadre_buf *indices)
{
    struct op op;
    CADRE_TRY(open_op(&op, ctx, "topk of cadre.ops"));
    CADRE_TRY(need(&op, "x", x));
    CADRE_TRY(need(&op, "values", values));
    CADRE_TRY(need(&op, "indices", indices));
    CADRE_TRY(must(&op,
                   values->count <= x->count && x->count <= INT32_MAX &&
                       values->dtype == x->dtype && indices->count == values->count &&
                       indices->dtype == CADRE_I32,
                   "k values of the dtype of x and k indices of I32, k at most the "
                   "count of x"));
    return done(&op, op.device->ops->topk(op.device, x->dtype, x->data,
                                          (int64_t)x->count, (int64_t)values->count,
                                          values->data, indices->data));
}

/* Do codes and scales fit x? */
static cadre_status need_quantized(const struct op *op, const struct cadre_buf *x,
                                   const struct cadre_buf *q,
                                   const struct cadre_buf *scales, uint64_t block)
{
    CADRE_TRY(need(op, "x", x));
    CADRE_TRY(need(op, "q", q));
    CADRE_TRY(need(op, "scales", scales));
    return must(op,
                block > 0 && block <= INT64_MAX && q->dtype == CADRE_I8 &&
                    q->count == x->count && scales->dtype == CADRE_F32 &&
                    scales->count == x->count / block + (x->count % block != 0),
                "codes of I8, one an element, and scales of F32, one a block");
}

static cadre_status op_quantize(struct cadre_ctx *ctx, const struct cadre_buf *x,
                                uint64_t block, const struct cadre_buf *q,
                                const struct cadre_buf *scales)
{
    struct op op;
    CADRE_TRY(open_op(&op, ctx, "quantize of cadre.ops"));
    CADRE_TRY(need_quantized(&op, x, q, scales, block));
    return done(&op, op.device->ops->quantize(op.device, x->dtype, x->data,
                                              (int64_t)x->count, (int64_t)block,
                                              q->data, scales->data));
}

static cadre_status op_dequantize(struct cadre_ctx *ctx, const struct cadre_buf *q,
                                  const struct cadre_buf *scales, uint64_t block,
                                  const struct cadre_buf *x)
{
    struct op op;
    CADRE_TRY(open_op(&op, ctx, "dequantize of cadre.ops"));
    CADRE_TRY(need_quantized(&op, x, q, scales, block));
    return done(&op, op.device->ops->dequantize(op.device, q->data, scales->data,
                                                (int64_t)block, x->dtype, x->data,
                                                (int64_t)x->count));
}

static cadre_status op_scatter_add(struct cadre_ctx *ctx, const struct cadre_buf *x,
                                   const struct cadre_buf *values,
                                   const struct cadre_buf *indices, double by)
{
    struct op op;
    CADRE_TRY(open_op(&op, ctx, "scatter_add of cadre.ops"));
    CADRE_TRY(need(&op, "x", x));
    CADRE_TRY(need(&op, "values", values));
    CADRE_TRY(need(&op, "indices", indices));
    CADRE_TRY(must(&op,
                   values->dtype == x->dtype && indices->dtype == CADRE_I32 &&
                       values->count == indices->count && x->count <= INT64_MAX,
                   "k values of the dtype of x and k indices of I32"));
    return done(&op, op.device->ops->scatter_add(
                         op.device, x->dtype, x->data, (int64_t)x->count, values->data,
                         indices->data, (int64_t)values->count, by));
}

const struct cadre_ops_svc cadre_ops_service = {
    .struct_size = sizeof cadre_ops_service,
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
    .axpby = op_axpby,
    .mul = op_mul,
    .rsqrt = op_rsqrt,
    .dot = op_dot,
    .transpose = op_transpose,
};
