/* SPDX-License-Identifier: Apache-2.0 */
/* "cadre.ops/1" in plain loops: as <cadre/ops.h> says, for fp32 and fp64, and for the
 * whole numbers that it names. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/check/rehearsal/private.h"

/* What an op reads or writes is no operation's. */
static cadre_status read_buf(struct cadre_player *p, const struct cadre_buf *x,
                             const char *what)
{
    return play_touch(p, x->data, play_buf_bytes(x), false, what);
}

static cadre_status write_buf(struct cadre_player *p, const struct cadre_buf *x,
                              const char *what)
{
    return play_touch(p, x->data, play_buf_bytes(x), true, what);
}

static cadre_status enter_ops(struct cadre_player *p, bool good, const char *what)
{
    CADRE_TRY(play_enter(p, IN_BIND | IN_RUN, what));
    if (!good)
        return play_refuse(
            p, CADRE_RULE_ARGUMENT,
            "%s with NULL, or with buffers whose counts or types do not fit", what);
    return CADRE_OK;
}

static bool is_real(const struct cadre_buf *x)
{
    return x && (x->data || x->count == 0) &&
           (x->dtype == CADRE_F32 || x->dtype == CADRE_F64);
}

static bool alike(const struct cadre_buf *a, const struct cadre_buf *b)
{
    return is_real(a) && is_real(b) && a->count == b->count && a->dtype == b->dtype;
}

static double at(const struct cadre_buf *x, uint64_t k)
{
    return play_get_value(x->dtype, x->data, k);
}

static void set(const struct cadre_buf *x, uint64_t k, double value)
{
    play_put_value(x->dtype, x->data, k, value);
}

static int32_t index_at(const struct cadre_buf *x, uint64_t k)
{
    int32_t value;
    memcpy(&value, (const char *)x->data + k * sizeof value, sizeof value);
    return value;
}

/* ---- bytes ---- */

static cadre_status ops_copy(struct cadre_ctx *ctx, void *dst, const void *src,
                             uint64_t bytes)
{
    CADRE_TRY(enter_ops(play_player_of(ctx), (dst && src) || !bytes, "ops.copy"));
    CADRE_TRY(play_touch(play_player_of(ctx), src, bytes, false, "ops.copy"));
    CADRE_TRY(play_touch(play_player_of(ctx), dst, bytes, true, "ops.copy"));
    if (bytes)
        memmove(dst, src, bytes);
    return CADRE_OK;
}

static cadre_status ops_zero(struct cadre_ctx *ctx, void *dst, uint64_t bytes)
{
    CADRE_TRY(enter_ops(play_player_of(ctx), dst || !bytes, "ops.zero"));
    CADRE_TRY(play_touch(play_player_of(ctx), dst, bytes, true, "ops.zero"));
    if (bytes)
        memset(dst, 0, bytes);
    return CADRE_OK;
}

static cadre_status ops_to_device(struct cadre_ctx *ctx, void *dst, const void *host,
                                  uint64_t bytes)
{
    CADRE_TRY(enter_ops(play_player_of(ctx), (dst && host) || !bytes, "ops.to_device"));
    CADRE_TRY(play_touch(play_player_of(ctx), dst, bytes, true, "ops.to_device"));
    if (bytes)
        memcpy(dst, host, bytes);
    return CADRE_OK;
}

static cadre_status ops_to_host(struct cadre_ctx *ctx, void *host, const void *src,
                                uint64_t bytes)
{
    CADRE_TRY(enter_ops(play_player_of(ctx), (host && src) || !bytes, "ops.to_host"));
    CADRE_TRY(play_touch(play_player_of(ctx), src, bytes, false, "ops.to_host"));
    if (bytes)
        memcpy(host, src, bytes);
    return CADRE_OK;
}

/* ---- elementwise ---- */

static cadre_status ops_add(struct cadre_ctx *ctx, const struct cadre_buf *out,
                            const struct cadre_buf *a, const struct cadre_buf *b)
{
    CADRE_TRY(enter_ops(play_player_of(ctx), alike(out, a) && alike(a, b), "ops.add"));
    CADRE_TRY(read_buf(play_player_of(ctx), a, "ops.add"));
    CADRE_TRY(read_buf(play_player_of(ctx), b, "ops.add"));
    CADRE_TRY(write_buf(play_player_of(ctx), out, "ops.add"));
    for (uint64_t k = 0; k < out->count; k++)
        set(out, k, at(a, k) + at(b, k));
    return CADRE_OK;
}

static cadre_status ops_mul(struct cadre_ctx *ctx, const struct cadre_buf *out,
                            const struct cadre_buf *a, const struct cadre_buf *b)
{
    CADRE_TRY(enter_ops(play_player_of(ctx), alike(out, a) && alike(a, b), "ops.mul"));
    CADRE_TRY(read_buf(play_player_of(ctx), a, "ops.mul"));
    CADRE_TRY(read_buf(play_player_of(ctx), b, "ops.mul"));
    CADRE_TRY(write_buf(play_player_of(ctx), out, "ops.mul"));
    for (uint64_t k = 0; k < out->count; k++)
        set(out, k, at(a, k) * at(b, k));
    return CADRE_OK;
}

static cadre_status ops_scale(struct cadre_ctx *ctx, const struct cadre_buf *x,
                              double by)
{
    CADRE_TRY(enter_ops(play_player_of(ctx), is_real(x), "ops.scale"));
    CADRE_TRY(write_buf(play_player_of(ctx), x, "ops.scale"));
    for (uint64_t k = 0; k < x->count; k++)
        set(x, k, at(x, k) * by);
    return CADRE_OK;
}

static cadre_status ops_axpby(struct cadre_ctx *ctx, double a,
                              const struct cadre_buf *x, double b,
                              const struct cadre_buf *y)
{
    CADRE_TRY(enter_ops(play_player_of(ctx), alike(x, y), "ops.axpby"));
    CADRE_TRY(read_buf(play_player_of(ctx), x, "ops.axpby"));
    CADRE_TRY(write_buf(play_player_of(ctx), y, "ops.axpby"));
    for (uint64_t k = 0; k < x->count; k++)
        set(y, k, a * at(x, k) + b * at(y, k));
    return CADRE_OK;
}

static cadre_status ops_rsqrt(struct cadre_ctx *ctx, const struct cadre_buf *x,
                              double eps)
{
    CADRE_TRY(enter_ops(play_player_of(ctx), is_real(x), "ops.rsqrt"));
    CADRE_TRY(write_buf(play_player_of(ctx), x, "ops.rsqrt"));
    for (uint64_t k = 0; k < x->count; k++)
        set(x, k, 1 / (sqrt(at(x, k)) + eps));
    return CADRE_OK;
}

static cadre_status ops_dot(struct cadre_ctx *ctx, const struct cadre_buf *x,
                            const struct cadre_buf *y, double *out)
{
    CADRE_TRY(enter_ops(play_player_of(ctx), alike(x, y) && out, "ops.dot"));
    CADRE_TRY(read_buf(play_player_of(ctx), x, "ops.dot"));
    CADRE_TRY(read_buf(play_player_of(ctx), y, "ops.dot"));
    *out = 0;
    for (uint64_t k = 0; k < x->count; k++)
        *out += at(x, k) * at(y, k);
    return CADRE_OK;
}

/* 16-bit types are truncated, not rounded: a rehearsal compares no such values. */
static cadre_status ops_cast(struct cadre_ctx *ctx, const struct cadre_buf *dst,
                             const struct cadre_buf *src)
{
    struct cadre_player *p = play_player_of(ctx);
    CADRE_TRY(enter_ops(p, dst && src && dst->count == src->count, "ops.cast"));
    CADRE_TRY(read_buf(play_player_of(ctx), src, "ops.cast"));
    CADRE_TRY(write_buf(play_player_of(ctx), dst, "ops.cast"));
    if (!is_real(dst) || !is_real(src))
        return play_beyond(p, "16-bit numbers");
    for (uint64_t k = 0; k < dst->count; k++)
        set(dst, k, at(src, k));
    return CADRE_OK;
}

/* ---- matrices ---- */

static cadre_status ops_gemm(struct cadre_ctx *ctx, const struct cadre_gemm_args *args)
{
    struct cadre_player *p = play_player_of(ctx);
    CADRE_TRY(enter_ops(p,
                        args && args->a && args->b && args->c && args->c_dtype == 0 &&
                            !args->a_scale && !args->b_scale && !args->c_amax,
                        "ops.gemm"));
    if (args->dtype != CADRE_F32 && args->dtype != CADRE_F64)
        return play_beyond(p, "16-bit numbers");
    for (int64_t i = 0; i < args->m; i++)
        for (int64_t j = 0; j < args->n; j++) {
            uint64_t to = (uint64_t)(i * args->ldc + j);
            double sum = args->beta ? play_get_value(args->dtype, args->c, to) : 0;
            for (int64_t k = 0; k < args->k; k++)
                sum += play_get_value(args->dtype, args->a,
                                      (uint64_t)(args->ta ? k * args->lda + i
                                                          : i * args->lda + k)) *
                       play_get_value(args->dtype, args->b,
                                      (uint64_t)(args->tb ? j * args->ldb + k
                                                          : k * args->ldb + j));
            play_put_value(args->dtype, args->c, to, sum);
        }
    return CADRE_OK;
}

static cadre_status ops_transpose(struct cadre_ctx *ctx, const struct cadre_buf *out,
                                  const struct cadre_buf *x, uint64_t rows,
                                  uint64_t columns)
{
    CADRE_TRY(enter_ops(play_player_of(ctx),
                        alike(out, x) && x->count == rows * columns, "ops.transpose"));
    for (uint64_t i = 0; i < rows; i++)
        for (uint64_t j = 0; j < columns; j++)
            set(out, j * rows + i, at(x, i * columns + j));
    return CADRE_OK;
}

/* Modified Gram-Schmidt; a column that vanishes becomes a unit vector that does not. */
static cadre_status ops_orthonormalize(struct cadre_ctx *ctx, const struct cadre_buf *x,
                                       uint64_t columns)
{
    CADRE_TRY(enter_ops(play_player_of(ctx),
                        is_real(x) && columns && x->count % columns == 0 &&
                            columns <= x->count / columns,
                        "ops.orthonormalize"));
    uint64_t rows = x->count / columns;
    for (uint64_t c = 0; c < columns; c++) {
        double norm = 0;
        for (uint64_t unit = 0; unit <= rows && norm < 1e-9; unit++) {
            for (uint64_t i = 0; unit > 0 && i < rows; i++)
                set(x, i * columns + c, i == unit - 1);
            for (uint64_t before = 0; before < c; before++) {
                double dot = 0;
                for (uint64_t i = 0; i < rows; i++)
                    dot += at(x, i * columns + before) * at(x, i * columns + c);
                for (uint64_t i = 0; i < rows; i++)
                    set(x, i * columns + c,
                        at(x, i * columns + c) - dot * at(x, i * columns + before));
            }
            norm = 0;
            for (uint64_t i = 0; i < rows; i++)
                norm += at(x, i * columns + c) * at(x, i * columns + c);
            norm = sqrt(norm);
        }
        for (uint64_t i = 0; i < rows; i++)
            set(x, i * columns + c, at(x, i * columns + c) / norm);
    }
    return CADRE_OK;
}

/* ---- compression ---- */

static cadre_status ops_topk(struct cadre_ctx *ctx, const struct cadre_buf *x,
                             const struct cadre_buf *values,
                             const struct cadre_buf *indices)
{
    CADRE_TRY(enter_ops(
        play_player_of(ctx),
        is_real(x) && is_real(values) && indices && indices->dtype == CADRE_I32 &&
            values->count == indices->count && values->count <= x->count,
        "ops.topk"));
    CADRE_TRY(read_buf(play_player_of(ctx), x, "ops.topk"));
    bool *taken = calloc(x->count + 1, sizeof *taken);
    if (!taken)
        return CADRE_E_RESOURCE;
    for (uint64_t n = 0; n < values->count; n++) {
        uint64_t best = x->count;
        for (uint64_t k = 0; k < x->count; k++)
            if (!taken[k] && (best == x->count || fabs(at(x, k)) > fabs(at(x, best))))
                best = k;
        taken[best] = true;
    }
    uint64_t n = 0;
    for (uint64_t k = 0; k < x->count; k++) {
        int32_t index = (int32_t)k;
        if (!taken[k])
            continue;
        set(values, n, at(x, k));
        memcpy((char *)indices->data + n++ * sizeof index, &index, sizeof index);
    }
    free(taken);
    return CADRE_OK;
}

static cadre_status ops_quantize(struct cadre_ctx *ctx, const struct cadre_buf *x,
                                 uint64_t block, const struct cadre_buf *q,
                                 const struct cadre_buf *scales)
{
    CADRE_TRY(enter_ops(play_player_of(ctx),
                        is_real(x) && block && q && scales && q->dtype == CADRE_I8 &&
                            scales->dtype == CADRE_F32 && q->count == x->count &&
                            scales->count == (x->count + block - 1) / block,
                        "ops.quantize"));
    CADRE_TRY(read_buf(play_player_of(ctx), x, "ops.quantize"));
    CADRE_TRY(write_buf(play_player_of(ctx), q, "ops.quantize"));
    for (uint64_t b = 0; b < scales->count; b++) {
        uint64_t end = (b + 1) * block < x->count ? (b + 1) * block : x->count;
        double most = 0;
        for (uint64_t k = b * block; k < end; k++)
            most = fmax(most, fabs(at(x, k)));
        set(scales, b, most / 127);
        for (uint64_t k = b * block; k < end; k++)
            ((int8_t *)q->data)[k] =
                (int8_t)(most > 0 ? nearbyint(at(x, k) * 127 / most) : 0);
    }
    return CADRE_OK;
}

static cadre_status ops_dequantize(struct cadre_ctx *ctx, const struct cadre_buf *q,
                                   const struct cadre_buf *scales, uint64_t block,
                                   const struct cadre_buf *x)
{
    CADRE_TRY(enter_ops(play_player_of(ctx),
                        is_real(x) && block && q && scales && q->dtype == CADRE_I8 &&
                            scales->dtype == CADRE_F32 && q->count == x->count &&
                            scales->count == (x->count + block - 1) / block,
                        "ops.dequantize"));
    CADRE_TRY(read_buf(play_player_of(ctx), q, "ops.dequantize"));
    CADRE_TRY(write_buf(play_player_of(ctx), x, "ops.dequantize"));
    for (uint64_t k = 0; k < x->count; k++)
        set(x, k, ((const int8_t *)q->data)[k] * at(scales, k / block));
    return CADRE_OK;
}

static cadre_status ops_scatter_add(struct cadre_ctx *ctx, const struct cadre_buf *x,
                                    const struct cadre_buf *values,
                                    const struct cadre_buf *indices, double by)
{
    struct cadre_player *p = play_player_of(ctx);
    CADRE_TRY(enter_ops(p,
                        is_real(x) && is_real(values) && indices &&
                            indices->dtype == CADRE_I32 &&
                            values->count == indices->count,
                        "ops.scatter_add"));
    CADRE_TRY(write_buf(play_player_of(ctx), x, "ops.scatter_add"));
    for (uint64_t n = 0; n < values->count; n++) {
        int32_t k = index_at(indices, n);
        if (k < 0 || (uint64_t)k >= x->count)
            return play_refuse(p, CADRE_RULE_ARGUMENT,
                               "ops.scatter_add to element %d of %llu", (int)k,
                               (unsigned long long)x->count);
        set(x, (uint64_t)k, at(x, (uint64_t)k) + by * at(values, n));
    }
    return CADRE_OK;
}

const struct cadre_ops_svc play_ops = {
    .struct_size = sizeof play_ops,
    .copy = ops_copy,
    .zero = ops_zero,
    .add = ops_add,
    .scale = ops_scale,
    .cast = ops_cast,
    .gemm = ops_gemm,
    .topk = ops_topk,
    .quantize = ops_quantize,
    .dequantize = ops_dequantize,
    .scatter_add = ops_scatter_add,
    .orthonormalize = ops_orthonormalize,
    .to_device = ops_to_device,
    .to_host = ops_to_host,
    .axpby = ops_axpby,
    .mul = ops_mul,
    .rsqrt = ops_rsqrt,
    .dot = ops_dot,
    .transpose = ops_transpose,
};
