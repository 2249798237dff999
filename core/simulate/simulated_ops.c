/* SPDX-License-Identifier: Apache-2.0 */
/* What the ops of a simulated device cost: products and attention by op_cost.h, all
 * others by the bytes that they read and write once. Nothing is read or written. */
#include "core/simulate/simulated_device.h"

#define WIDE_STATS 2 /* mean and 1/std of a row */

static struct cadre_simulated_device *of(struct cadre_device *device)
{
    return (struct cadre_simulated_device *)device;
}

static double size_of(uint32_t dtype)
{
    return (double)cadre_dtype_bytes(dtype);
}

static double wide_of(uint32_t dtype)
{
    return (double)cadre_dtype_bytes(cadre_dtype_wide(dtype));
}

/* n elements, `passes` times read or written. */
static cadre_status pass(struct cadre_device *device, uint32_t dtype, double n,
                         double passes)
{
    return cadre_simulated_pass(device, passes * n * size_of(dtype));
}

/* ---- linear algebra ---- */

static void multiply(struct cadre_simulated_device *d, const struct cadre_gemm *gemm)
{
    if (!cadre_op_cost_knows(d->hw, gemm->dtype))
        d->unknown = gemm->dtype;
    const struct cadre_op_work work = cadre_op_cost_product_work(gemm);
    d->flops += work.flops;
    cadre_simulated_spend(d, cadre_op_cost_product(d->hw, gemm), work);
}

static cadre_status gemm(struct cadre_device *device, const struct cadre_gemm *gemm)
{
    multiply(of(device), gemm);
    return CADRE_OK;
}

static cadre_status bias_bwd(struct cadre_device *device, uint32_t dtype,
                             const void *dy, int64_t rows, int64_t channels, void *db,
                             int beta)
{
    (void)dy;
    (void)db;
    (void)beta;
    return pass(device, dtype, (double)rows * (double)channels, 1);
}

static cadre_status attend(struct cadre_device *device,
                           const struct cadre_attention *attention, bool backward)
{
    struct cadre_simulated_device *d = of(device);
    if (!cadre_op_cost_knows(d->hw, attention->dtype))
        d->unknown = attention->dtype;
    cadre_simulated_spend(d, cadre_op_cost_attention(d->hw, attention, backward),
                          cadre_op_cost_attention_work(d->hw, attention, backward));
    return CADRE_OK;
}

static cadre_status attention_fwd(struct cadre_device *device,
                                  const struct cadre_attention *attention)
{
    return attend(device, attention, false);
}

static cadre_status attention_bwd(struct cadre_device *device,
                                  const struct cadre_attention *attention)
{
    return attend(device, attention, true);
}

/* Twice for each column, all columns before it (Gram-Schmidt). */
static cadre_status orthonormalize(struct cadre_device *device, uint32_t dtype, void *x,
                                   int64_t rows, int64_t columns)
{
    const struct cadre_gemm work = {
        .dtype = dtype, .m = columns, .n = columns, .k = 2 * rows};
    (void)x;
    multiply(of(device), &work);
    return CADRE_OK;
}

/* ---- rows ---- */

static cadre_status norm_fwd(struct cadre_device *device, const struct cadre_norm *a)
{
    const double n = (double)a->rows * (double)a->channels;
    const double sum = a->sum ? (a->b_sum ? 3 : 2) : 1; /* read; else x */
    return cadre_simulated_pass(device,
                                n * size_of(a->dtype) * (sum + 1 + (a->sum ? 1 : 0)) +
                                    (double)a->rows * WIDE_STATS * wide_of(a->dtype));
}

static cadre_status norm_bwd(struct cadre_device *device, const struct cadre_norm *a)
{
    const double n = (double)a->rows * (double)a->channels;
    return cadre_simulated_pass(device,
                                n * size_of(a->dtype) * (a->residual ? 4 : 3) +
                                    (double)a->rows * WIDE_STATS * wide_of(a->dtype));
}

/* lint: long because the op's parameters are the table's */
static cadre_status rope(struct cadre_device *device, uint32_t dtype, void *x,
                         int64_t ld, int64_t batch, int64_t time, int64_t heads,
                         int64_t head_size, const struct cadre_rotary *rotary,
                         int64_t position, bool inverse)
{
    (void)x;
    (void)ld;
    (void)rotary;
    (void)position;
    (void)inverse;
    return pass(device, dtype, (double)(batch * time * heads * head_size), 2);
}

static cadre_status gelu_bwd(struct cadre_device *device, uint32_t dtype, const void *x,
                             const void *dy, void *dx, int64_t count)
{
    (void)x;
    (void)dy;
    (void)dx;
    return pass(device, dtype, (double)count, 3);
}

static cadre_status swiglu_fwd(struct cadre_device *device, uint32_t dtype,
                               const void *gate, const void *up, void *y, int64_t count)
{
    (void)gate;
    (void)up;
    (void)y;
    return pass(device, dtype, (double)count, 3);
}

static cadre_status swiglu_bwd(struct cadre_device *device, uint32_t dtype,
                               const void *gate, const void *up, const void *dy,
                               void *dgate, void *dup, int64_t count)
{
    (void)gate;
    (void)up;
    (void)dy;
    (void)dgate;
    (void)dup;
    return pass(device, dtype, (double)count, 5);
}

static cadre_status add(struct cadre_device *device, uint32_t dtype, const void *a,
                        const void *bias, const void *b, void *y, int64_t rows,
                        int64_t channels)
{
    (void)a;
    (void)bias;
    (void)y;
    return pass(device, dtype, (double)rows * (double)channels, b ? 3 : 2);
}

static cadre_status copy_rows(struct cadre_device *device, uint32_t dtype, void *dst,
                              int64_t ldd, const void *src, int64_t lds, int64_t rows,
                              int64_t columns)
{
    (void)dst;
    (void)ldd;
    (void)src;
    (void)lds;
    return pass(device, dtype, (double)rows * (double)columns, 2);
}

static cadre_status transpose(struct cadre_device *device, uint32_t dtype, void *out,
                              const void *x, int64_t rows, int64_t columns)
{
    (void)out;
    (void)x;
    return pass(device, dtype, (double)rows * (double)columns, 2);
}

/* ---- embedding and loss ---- */

static cadre_status patches(struct cadre_device *device, const struct cadre_patches *a)
{
    const double pixels = (double)(a->batch * a->height * a->width * a->channels);
    return cadre_simulated_pass(device, pixels * (1 + size_of(a->dtype)));
}

static double embedded(const struct cadre_embed *a)
{
    return (double)(a->batch * a->time) * (double)a->channels;
}

static cadre_status embed_fwd(struct cadre_device *device, const struct cadre_embed *a)
{
    return pass(device, a->dtype, embedded(a), a->wpe ? 3 : 2);
}

/* The whole gradient is written where nothing is added to. */
static cadre_status embed_bwd_tokens(struct cadre_device *device,
                                     const struct cadre_embed *a)
{
    const double table = (double)a->count * (double)a->channels;
    return cadre_simulated_pass(
        device, embedded(a) * (size_of(a->dtype) + 2 * wide_of(a->dtype)) +
                    (a->beta ? 0 : table * wide_of(a->dtype)));
}

static cadre_status embed_bwd_positions(struct cadre_device *device,
                                        const struct cadre_embed *a)
{
    const double table = (double)a->positions * (double)a->channels;
    return cadre_simulated_pass(device,
                                embedded(a) * size_of(a->dtype) +
                                    (a->beta ? 2 : 1) * table * wide_of(a->dtype));
}

static cadre_status xent_fwd(struct cadre_device *device, const struct cadre_xent *a)
{
    return pass(device, a->dtype, (double)a->rows * (double)a->vocab, a->total ? 3 : 2);
}

static cadre_status xent_rescale(struct cadre_device *device,
                                 const struct cadre_xent *a)
{
    return cadre_simulated_pass(device, 4 * (double)a->rows * wide_of(a->dtype));
}

static cadre_status xent_loss(struct cadre_device *device, const struct cadre_xent *a)
{
    return cadre_simulated_pass(device, 4 * (double)a->rows * wide_of(a->dtype));
}

static cadre_status xent_bwd(struct cadre_device *device, const struct cadre_xent *a)
{
    return pass(device, a->dtype, (double)a->rows * (double)a->vocab, 2);
}

/* ---- optimizer and reductions ---- */

/* Parameter and `states` are read and written, the gradient is read; the rounded value
 * is written. */
static cadre_status update(struct cadre_device *device, uint32_t dtype,
                           uint32_t rounded, const struct cadre_slice *slices,
                           int64_t n, double state_bytes)
{
    double bytes = 0;
    for (int64_t i = 0; i < n; i++) {
        const double each = 3 * size_of(dtype) + 2 * state_bytes +
                            (slices[i].rounded ? size_of(rounded) : 0);
        bytes += (double)slices[i].count * each;
    }
    return cadre_simulated_pass(device, bytes);
}

static cadre_status adamw(struct cadre_device *device, const struct cadre_adamw *a)
{
    return update(device, a->dtype, a->rounded_dtype, a->slices, a->n,
                  2 * size_of(a->dtype));
}

static cadre_status adamw8(struct cadre_device *device, const struct cadre_adamw8 *a)
{
    const struct cadre_adamw *b = &a->adamw;
    return update(device, b->dtype, b->rounded_dtype, b->slices, b->n, 2);
}

static cadre_status sgd(struct cadre_device *device, const struct cadre_sgd *a)
{
    return update(device, a->dtype, a->rounded_dtype, a->slices, a->n,
                  a->momentum > 0 ? size_of(a->dtype) : 0);
}

static cadre_status lion(struct cadre_device *device, const struct cadre_lion *a)
{
    return update(device, a->dtype, a->rounded_dtype, a->slices, a->n,
                  size_of(a->dtype));
}

static cadre_status sum_squares(struct cadre_device *device, uint32_t dtype,
                                const struct cadre_squares *list, int64_t n)
{
    double count = 0;
    for (int64_t i = 0; i < n; i++)
        count += (double)list[i].count;
    return pass(device, dtype, count, 1);
}

static cadre_status norm_total(struct cadre_device *device, const double *chunks,
                               uint64_t n, double clip, double unscale, double *out)
{
    (void)chunks;
    (void)clip;
    (void)unscale;
    (void)out;
    return cadre_simulated_pass(device, (double)n * sizeof(double));
}

static cadre_status sum_rows(struct cadre_device *device, const double *rows, int64_t n,
                             double *out)
{
    (void)rows;
    (void)out;
    return cadre_simulated_pass(device, (double)n * sizeof(double));
}

static cadre_status scale(struct cadre_device *device, uint32_t dtype, void *x,
                          int64_t count, double by)
{
    (void)x;
    (void)by;
    return pass(device, dtype, (double)count, 2);
}

static cadre_status three(struct cadre_device *device, uint32_t dtype, void *out,
                          const void *a, const void *b, int64_t count)
{
    (void)out;
    (void)a;
    (void)b;
    return pass(device, dtype, (double)count, 3);
}

static cadre_status cast(struct cadre_device *device, uint32_t to, void *dst,
                         uint32_t from, const void *src, int64_t count)
{
    (void)dst;
    (void)src;
    return cadre_simulated_pass(device, (double)count * (size_of(to) + size_of(from)));
}

/* ---- compression ---- */

static cadre_status topk(struct cadre_device *device, uint32_t dtype, const void *x,
                         int64_t count, int64_t k, void *values, int32_t *indices)
{
    (void)x;
    (void)values;
    (void)indices;
    return cadre_simulated_pass(device, (double)count * size_of(dtype) +
                                            (double)k * (size_of(dtype) + 4));
}

static cadre_status quantize(struct cadre_device *device, uint32_t dtype, const void *x,
                             int64_t count, int64_t block, int8_t *q, float *scales)
{
    (void)x;
    (void)block;
    (void)q;
    (void)scales;
    return cadre_simulated_pass(device, (double)count * (size_of(dtype) + 1));
}

static cadre_status dequantize(struct cadre_device *device, const int8_t *q,
                               const float *scales, int64_t block, uint32_t dtype,
                               void *x, int64_t count)
{
    (void)q;
    (void)scales;
    (void)block;
    (void)x;
    return cadre_simulated_pass(device, (double)count * (size_of(dtype) + 1));
}

/* Largest magnitudes are read first. */
static cadre_status fake_quantize(struct cadre_device *device,
                                  const struct cadre_fake_quantize *a)
{
    const double count = (double)a->rows * (double)a->columns;
    const uint32_t grad = a->wide ? cadre_dtype_wide(a->dtype) : a->dtype;
    const int reads = (a->found || !a->range) + (a->y || a->grad);
    return cadre_simulated_pass(device, count * (reads * size_of(a->dtype) +
                                                 (a->y ? size_of(a->dtype) : 0) +
                                                 (a->grad ? 2 * size_of(grad) : 0)));
}

static cadre_status dropout(struct cadre_device *device, const struct cadre_dropout *a)
{
    const double rows = (double)a->batch * (double)a->time;
    return pass(device, a->dtype, rows * (double)a->columns, 2);
}

static cadre_status scatter_add(struct cadre_device *device, uint32_t dtype, void *x,
                                int64_t count, const void *values,
                                const int32_t *indices, int64_t k, double by)
{
    (void)x;
    (void)count;
    (void)values;
    (void)indices;
    (void)by;
    return cadre_simulated_pass(device, (double)k * (3 * size_of(dtype) + 4));
}

static cadre_status int8_encode(struct cadre_device *device, uint32_t dtype,
                                const void *x, int64_t count, void *blocks)
{
    (void)x;
    (void)blocks;
    return cadre_simulated_pass(device, (double)count * (size_of(dtype) + 1));
}

static cadre_status int8_decode(struct cadre_device *device, const void *blocks,
                                uint32_t dtype, void *x, int64_t count)
{
    (void)blocks;
    (void)x;
    return cadre_simulated_pass(device, (double)count * (size_of(dtype) + 1));
}

static cadre_status nf4_decode(struct cadre_device *device, const void *blocks,
                               const float *scales, int64_t first, uint32_t dtype,
                               void *x, int64_t count)
{
    (void)blocks;
    (void)scales;
    (void)first;
    (void)x;
    return cadre_simulated_pass(device, (double)count * (size_of(dtype) + 0.5));
}

/* ---- vectors ---- */

static cadre_status axpby(struct cadre_device *device, uint32_t dtype, double a,
                          const void *x, double b, void *y, int64_t count)
{
    (void)a;
    (void)x;
    (void)b;
    (void)y;
    return pass(device, dtype, (double)count, 3);
}

static cadre_status rsqrt(struct cadre_device *device, uint32_t dtype, void *x,
                          int64_t count, double eps)
{
    (void)x;
    (void)eps;
    return pass(device, dtype, (double)count, 2);
}

static cadre_status dot(struct cadre_device *device, uint32_t dtype, const void *x,
                        const void *y, int64_t count, double *out)
{
    (void)x;
    (void)y;
    *out = 0;
    return pass(device, dtype, (double)count, 2);
}

/* ---- experts ---- */

static cadre_status route_fwd(struct cadre_device *device, const struct cadre_route *a)
{
    return pass(device, a->dtype, (double)a->rows * (double)a->experts, 3);
}

static cadre_status route_bwd(struct cadre_device *device, const struct cadre_route *a)
{
    return pass(device, a->dtype, (double)a->rows * (double)a->experts, 3);
}

static cadre_status rows_moved(struct cadre_device *device, const struct cadre_rows *a)
{
    return pass(device, a->dtype, (double)a->rows * (double)a->channels, 2);
}

/* ---- the table ---- */

static void fill_rest(struct cadre_device_ops *ops)
{
    ops->topk = topk;
    ops->quantize = quantize;
    ops->dequantize = dequantize;
    ops->fake_quantize = fake_quantize;
    ops->dropout = dropout;
    ops->scatter_add = scatter_add;
    ops->orthonormalize = orthonormalize;
    ops->axpby = axpby;
    ops->mul = three;
    ops->rsqrt = rsqrt;
    ops->dot = dot;
    ops->transpose = transpose;
    ops->copy_rows = copy_rows;
    ops->route_fwd = route_fwd;
    ops->route_bwd = route_bwd;
    ops->rows_take = rows_moved;
    ops->rows_put = rows_moved;
    ops->rows_dot = rows_moved;
    ops->int8_encode = int8_encode;
    ops->int8_decode = int8_decode;
    ops->nf4_decode = nf4_decode;
}

void cadre_simulated_fill_ops(struct cadre_device_ops *ops)
{
    ops->gemm = gemm;
    ops->bias_bwd = bias_bwd;
    ops->attention_fwd = attention_fwd;
    ops->attention_bwd = attention_bwd;
    ops->norm_fwd = norm_fwd;
    ops->norm_bwd = norm_bwd;
    ops->rope = rope;
    ops->gelu_bwd = gelu_bwd;
    ops->swiglu_fwd = swiglu_fwd;
    ops->swiglu_bwd = swiglu_bwd;
    ops->add = add;
    ops->patches = patches;
    ops->embed_fwd = embed_fwd;
    ops->embed_bwd_tokens = embed_bwd_tokens;
    ops->embed_bwd_positions = embed_bwd_positions;
    ops->xent_fwd = xent_fwd;
    ops->xent_rescale = xent_rescale;
    ops->xent_loss = xent_loss;
    ops->xent_bwd = xent_bwd;
    ops->adamw = adamw;
    ops->sgd = sgd;
    ops->lion = lion;
    ops->adamw8 = adamw8;
    ops->sum_squares = sum_squares;
    ops->norm_total = norm_total;
    ops->sum_rows = sum_rows;
    ops->scale = scale;
    ops->tree_add = three;
    ops->maximum = three;
    ops->cast = cast;
    fill_rest(ops);
}
