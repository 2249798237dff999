/* SPDX-License-Identifier: Apache-2.0 */
/* Ops that are one kernel over independent rows, columns, elements or chunks: each
 * entry picks the kernel of its dtype and divides the range; half.h does so for 16
 * bits. The grain, like everything else, follows from the shape. */
#include <math.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/tree.h"
#include "core/device/cpu/cpu.h"
#include "core/device/cpu/half.h"

enum {
    ELEMENTS = 16384, /* of a range: 64 KiB of fp32 */
    COLUMNS = 64, /* of a column kernel, which holds this many sums */
};

struct range_job {
    cadre_cpu_range *kernel;
    const void *args;
    int64_t count, grain;
};

static void range_tile(void *arg, int64_t tile, int worker)
{
    const struct range_job *job = arg;
    const int64_t begin = tile * job->grain;
    const int64_t end = begin + job->grain;
    (void)worker;
    job->kernel(job->args, begin, end < job->count ? end : job->count);
}

void cadre_cpu_ranges(struct cadre_cpu *cpu, cadre_cpu_range *kernel, const void *args,
                      int64_t count, int64_t grain)
{
    struct range_job job = {kernel, args, count, grain};
    cadre_pool_run(cpu->pool, (count + grain - 1) / grain, range_tile, &job);
}

/* Rows of a range of about ELEMENTS elements. */
static int64_t row_grain(int64_t row_elements)
{
    const int64_t rows = row_elements > 0 ? ELEMENTS / row_elements : ELEMENTS;
    return rows > 0 ? rows : 1;
}

/* Run the kernel `slot` of the table of `dtype`. */
#define RUN(device, dtype, slot, args, count, grain)                                   \
    do {                                                                               \
        struct cadre_cpu *cpu_ = (struct cadre_cpu *)(device);                         \
        const struct cadre_cpu_kernels *kernels_ = cadre_cpu_kernels(cpu_, dtype);     \
        if (!kernels_)                                                                 \
            return CADRE_E_DEVICE;                                                     \
        cadre_cpu_ranges(cpu_, kernels_->slot, args, count, grain);                    \
    } while (0)

static int64_t row_groups(int64_t rows)
{
    return (rows + CADRE_ROW_GROUP - 1) / CADRE_ROW_GROUP;
}

/* Scratch for `groups` rows of partial sums. */
static void *partial_sums(struct cadre_cpu *cpu, uint32_t dtype, int64_t groups,
                          int64_t columns)
{
    const int64_t count = groups * columns;
    return cadre_cpu_scratch(&cpu->workers[0], CADRE_SCRATCH_COLUMNS,
                             (size_t)count *
                                 cadre_dtype_bytes(cadre_dtype_wide(dtype)));
}

static cadre_status bias_bwd(struct cadre_device *device, uint32_t dtype,
                             const void *dy, int64_t rows, int64_t channels, void *db,
                             int beta)
{
    struct cadre_cpu *cpu = (struct cadre_cpu *)device;
    const int64_t groups = row_groups(rows);
    struct cadre_columns_args args = {.dy = dy, .rows = rows, .columns = channels};
    args.partial = partial_sums(cpu, dtype, groups, channels);
    if (!args.partial)
        return CADRE_E_RESOURCE;
    if (cadre_dtype_is_half(dtype)) {
        CADRE_TRY(cadre_half_bias_bwd(device, dtype, &args, groups));
    } else {
        RUN(device, dtype, bias_bwd, &args, groups,
            row_grain(channels * CADRE_ROW_GROUP));
    }
    const struct cadre_totals_args totals = {.partial = args.partial,
                                             .out = db,
                                             .groups = groups,
                                             .stride = channels,
                                             .beta = beta};
    RUN(device, cadre_dtype_wide(dtype), column_total, &totals, channels,
        CADRE_COLUMNS);
    return CADRE_OK;
}

static cadre_status add(struct cadre_device *device, uint32_t dtype, const void *a,
                        const void *bias, const void *b, void *y, int64_t rows,
                        int64_t channels)
{
    const struct cadre_add_args args = {
        .a = a, .bias = bias, .b = b, .y = y, .channels = channels};
    if (cadre_dtype_is_half(dtype))
        return cadre_half_add(device, dtype, &args, rows);
    RUN(device, dtype, add, &args, rows, row_grain(channels));
    return CADRE_OK;
}

static cadre_status norm_fwd(struct cadre_device *device, const struct cadre_norm *a)
{
    struct cadre_norm job = *a;
    if (a->sum) {
        CADRE_TRY(add(device, a->dtype, a->a, a->bias, a->b_sum, a->sum, a->rows,
                      a->channels));
        job.x = a->sum;
    }
    if (cadre_dtype_is_half(a->dtype))
        return cadre_half_norm_fwd(device, &job);
    RUN(device, a->dtype, norm_fwd, &job, a->rows, row_grain(a->channels));
    return CADRE_OK;
}

static cadre_status norm_bwd_input(struct cadre_device *device,
                                   const struct cadre_norm *a)
{
    if (cadre_dtype_is_half(a->dtype))
        return cadre_half_norm_input(device, a);
    RUN(device, a->dtype, norm_bwd_input, a, a->rows, row_grain(a->channels));
    return CADRE_OK;
}

static cadre_status norm_bwd_weight(struct cadre_device *device,
                                    const struct cadre_norm *a)
{
    struct cadre_cpu *cpu = (struct cadre_cpu *)device;
    const int64_t groups = row_groups(a->rows), C = a->channels;
    const uint32_t wide = cadre_dtype_wide(a->dtype);
    struct cadre_norm_weight_args args = {.norm = a};
    args.partial = partial_sums(cpu, a->dtype, groups, 2 * C);
    if (!args.partial)
        return CADRE_E_RESOURCE;
    if (cadre_dtype_is_half(a->dtype)) {
        CADRE_TRY(cadre_half_norm_weight(device, a->dtype, &args, groups));
    } else {
        RUN(device, a->dtype, norm_bwd_weight, &args, groups,
            row_grain(C * CADRE_ROW_GROUP));
    }
    struct cadre_totals_args totals = {.partial = args.partial,
                                       .out = a->dw,
                                       .groups = groups,
                                       .stride = 2 * C,
                                       .beta = a->beta};
    RUN(device, wide, column_total, &totals, C, CADRE_COLUMNS);
    if (a->db) {
        totals.partial =
            (const char *)args.partial + (size_t)C * cadre_dtype_bytes(wide);
        totals.out = a->db;
        RUN(device, wide, column_total, &totals, C, CADRE_COLUMNS);
    }
    return CADRE_OK;
}

/* The weights' part first: dx may be dy. */
static cadre_status norm_bwd(struct cadre_device *device, const struct cadre_norm *a)
{
    cadre_status rc = norm_bwd_weight(device, a);
    return rc == CADRE_OK ? norm_bwd_input(device, a) : rc;
}

static cadre_status gelu_bwd(struct cadre_device *device, uint32_t dtype, const void *x,
                             const void *dy, void *dx, int64_t count)
{
    const struct cadre_pointwise_args args = {.x = x, .dy = dy, .y = dx};
    if (cadre_dtype_is_half(dtype))
        return cadre_half_gelu_bwd(device, dtype, &args, count);
    RUN(device, dtype, gelu_bwd, &args, count, ELEMENTS);
    return CADRE_OK;
}

static cadre_status swiglu_fwd(struct cadre_device *device, uint32_t dtype,
                               const void *gate, const void *up, void *y, int64_t count)
{
    const struct cadre_pointwise_args args = {.x = gate, .up = up, .y = y};
    if (cadre_dtype_is_half(dtype))
        return cadre_half_swiglu_fwd(device, dtype, &args, count);
    RUN(device, dtype, swiglu_fwd, &args, count, ELEMENTS);
    return CADRE_OK;
}

static cadre_status swiglu_bwd(struct cadre_device *device, uint32_t dtype,
                               const void *gate, const void *up, const void *dy,
                               void *dgate, void *dup, int64_t count)
{
    const struct cadre_pointwise_args args = {
        .x = gate, .up = up, .dy = dy, .y = dgate, .dup = dup};
    if (cadre_dtype_is_half(dtype))
        return cadre_half_swiglu_bwd(device, dtype, &args, count);
    RUN(device, dtype, swiglu_bwd, &args, count, ELEMENTS);
    return CADRE_OK;
}

static cadre_status embed_fwd(struct cadre_device *device, const struct cadre_embed *a)
{
    if (cadre_dtype_is_half(a->dtype))
        return cadre_half_embed_fwd(device, a);
    RUN(device, a->dtype, embed_fwd, a, a->batch * a->time, row_grain(a->channels));
    return CADRE_OK;
}

struct zero_args {
    char *bytes;
};

static void zero_range(const void *args, int64_t begin, int64_t end)
{
    const struct zero_args *a = args;
    memset(a->bytes + begin, 0, (size_t)(end - begin));
}

static cadre_status embed_bwd_tokens(struct cadre_device *device,
                                     const struct cadre_embed *a)
{
    const size_t element = cadre_dtype_bytes(cadre_dtype_wide(a->dtype));
    const int64_t bytes = a->count * a->channels * (int64_t)element;
    const struct zero_args zero = {.bytes = a->dwte};
    if (!a->beta)
        cadre_cpu_ranges((struct cadre_cpu *)device, zero_range, &zero, bytes, 1 << 18);
    if (cadre_dtype_is_half(a->dtype))
        return cadre_half_embed_tokens(device, a);
    RUN(device, a->dtype, embed_bwd_tokens, a, a->channels, CADRE_COLUMNS);
    return CADRE_OK;
}

static cadre_status embed_bwd_positions(struct cadre_device *device,
                                        const struct cadre_embed *a)
{
    if (cadre_dtype_is_half(a->dtype))
        return cadre_half_embed_positions(device, a);
    RUN(device, a->dtype, embed_bwd_positions, a, a->positions,
        row_grain(a->channels * a->batch));
    return CADRE_OK;
}

static cadre_status xent_fwd(struct cadre_device *device, const struct cadre_xent *a)
{
    if (cadre_dtype_is_half(a->dtype))
        return cadre_half_xent_fwd(device, a);
    RUN(device, a->dtype, xent_fwd, a, a->rows, row_grain(a->vocab));
    return CADRE_OK;
}

static cadre_status xent_rescale(struct cadre_device *device,
                                 const struct cadre_xent *a)
{
    RUN(device, cadre_dtype_wide(a->dtype), xent_rescale, a, a->rows, ELEMENTS);
    return CADRE_OK;
}

static cadre_status xent_loss(struct cadre_device *device, const struct cadre_xent *a)
{
    RUN(device, cadre_dtype_wide(a->dtype), xent_loss, a, a->rows, ELEMENTS);
    return CADRE_OK;
}

static cadre_status xent_bwd(struct cadre_device *device, const struct cadre_xent *a)
{
    if (cadre_dtype_is_half(a->dtype))
        return cadre_half_xent_bwd(device, a);
    RUN(device, a->dtype, xent_bwd, a, a->rows, row_grain(a->vocab));
    return CADRE_OK;
}

/* A slice's update, and its rounded copy while it is in the cache. */
struct update {
    cadre_cpu_range *kernel, *round; /* round: NULL where there is no copy */
    const void *args;
    struct cadre_cast_args copy;
};

static void update_range(const void *args, int64_t begin, int64_t end)
{
    const struct update *u = args;
    u->kernel(u->args, begin, end);
    if (u->round)
        u->round(&u->copy, begin, end);
}

static void update_slice(struct cadre_device *device, cadre_cpu_range *kernel,
                         const void *args, const struct cadre_slice *slice,
                         cadre_cpu_range *round)
{
    const struct update u = {.kernel = kernel,
                             .round = slice->rounded ? round : NULL,
                             .args = args,
                             .copy = {.dst = slice->rounded, .src = slice->param}};
    cadre_cpu_ranges((struct cadre_cpu *)device, update_range, &u, slice->count,
                     ELEMENTS);
}

static cadre_status adamw(struct cadre_device *device, const struct cadre_adamw *a)
{
    struct cadre_cpu *cpu = (struct cadre_cpu *)device;
    const struct cadre_cpu_kernels *kernels = cadre_cpu_kernels(cpu, a->dtype);
    if (!kernels)
        return CADRE_E_DEVICE;
    for (int64_t i = 0; i < a->n && isfinite(*a->grad_scale); i++) {
        const struct cadre_adamw_args args = {a, &a->slices[i]};
        update_slice(device, kernels->adamw, &args, args.slice,
                     cpu->casts->to[a->rounded_dtype][a->dtype]);
    }
    return CADRE_OK;
}

static cadre_status sgd(struct cadre_device *device, const struct cadre_sgd *a)
{
    struct cadre_cpu *cpu = (struct cadre_cpu *)device;
    const struct cadre_cpu_kernels *kernels = cadre_cpu_kernels(cpu, a->dtype);
    if (!kernels)
        return CADRE_E_DEVICE;
    for (int64_t i = 0; i < a->n && isfinite(*a->grad_scale); i++) {
        const struct cadre_sgd_args args = {a, &a->slices[i]};
        update_slice(device, kernels->sgd, &args, args.slice,
                     cpu->casts->to[a->rounded_dtype][a->dtype]);
    }
    return CADRE_OK;
}

static cadre_status lion(struct cadre_device *device, const struct cadre_lion *a)
{
    struct cadre_cpu *cpu = (struct cadre_cpu *)device;
    const struct cadre_cpu_kernels *kernels = cadre_cpu_kernels(cpu, a->dtype);
    if (!kernels)
        return CADRE_E_DEVICE;
    for (int64_t i = 0; i < a->n && isfinite(*a->grad_scale); i++) {
        const struct cadre_lion_args args = {a, &a->slices[i]};
        update_slice(device, kernels->lion, &args, args.slice,
                     cpu->casts->to[a->rounded_dtype][a->dtype]);
    }
    return CADRE_OK;
}

/* ---- states of 8 bits ---- */

/* update_range over blocks: they are the kernel's, the copy is of elements. */
static void update_blocks(const void *args, int64_t begin, int64_t end)
{
    const struct update *u = args;
    const struct cadre_adamw8_args *a = u->args;
    const int64_t last = end * CADRE_ADAMW8_BLOCK;
    u->kernel(a, begin, end);
    if (u->round)
        u->round(&u->copy, begin * CADRE_ADAMW8_BLOCK,
                 last < a->slice->count ? last : a->slice->count);
}

/* Values and middles of the codes in the kernels' type. */
struct code_table {
    union {
        float f32[256];
        double f64[256];
    } value, middle;
};

static void fill_codes(struct code_table *t, uint32_t dtype,
                       const struct cadre_codes *codes)
{
    for (int c = 0; c < 256 && dtype == CADRE_F64; c++) {
        t->value.f64[c] = codes->value[c];
        t->middle.f64[c] = c < 255 ? codes->middle[c] : 0;
    }
    for (int c = 0; c < 256 && dtype != CADRE_F64; c++) {
        t->value.f32[c] = (float)codes->value[c];
        t->middle.f32[c] = c < 255 ? (float)codes->middle[c] : 0;
    }
}

static cadre_status adamw8(struct cadre_device *device, const struct cadre_adamw8 *a)
{
    struct cadre_cpu *cpu = (struct cadre_cpu *)device;
    const struct cadre_adamw *op = &a->adamw;
    const struct cadre_cpu_kernels *kernels = cadre_cpu_kernels(cpu, op->dtype);
    struct code_table first, second;
    if (!kernels)
        return CADRE_E_DEVICE;
    fill_codes(&first, op->dtype, a->first);
    fill_codes(&second, op->dtype, a->second);
    for (int64_t i = 0; i < op->n && isfinite(*op->grad_scale); i++) {
        const struct cadre_slice *slice = &op->slices[i];
        const struct cadre_adamw8_args args = {op,
                                               slice,
                                               &a->absmax[i],
                                               {&first.value, &second.value},
                                               {&first.middle, &second.middle}};
        const struct update u = {
            .kernel = kernels->adamw8,
            .round =
                slice->rounded ? cpu->casts->to[op->rounded_dtype][op->dtype] : NULL,
            .args = &args,
            .copy = {.dst = slice->rounded, .src = slice->param}};
        cadre_cpu_ranges(cpu, update_blocks, &u,
                         (slice->count + CADRE_ADAMW8_BLOCK - 1) / CADRE_ADAMW8_BLOCK,
                         ELEMENTS / CADRE_ADAMW8_BLOCK);
    }
    return CADRE_OK;
}

static cadre_status sum_squares(struct cadre_device *device, uint32_t dtype,
                                const struct cadre_squares *list, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const struct cadre_squares_args args = {
            .x = list[i].x, .count = list[i].count, .sums = list[i].sums};
        const int64_t chunks =
            (list[i].count + CADRE_NORM_CHUNK - 1) / CADRE_NORM_CHUNK;
        if (cadre_dtype_is_half(dtype)) {
            CADRE_TRY(cadre_half_squares(device, dtype, &args, chunks));
            continue;
        }
        RUN(device, dtype, sum_squares, &args, chunks, ELEMENTS / CADRE_NORM_CHUNK);
    }
    return CADRE_OK;
}

static cadre_status norm_total(struct cadre_device *device, const double *chunks,
                               uint64_t n, double clip, double unscale, double *out)
{
    const double norm = unscale * sqrt(cadre_tree_sum(chunks, n));
    const double by = clip / (norm + 1e-6);
    (void)device;
    out[0] = isfinite(norm) ? norm : (double)NAN;
    out[1] = isfinite(norm) ? unscale * (clip > 0 && by < 1 ? by : 1.0) : (double)NAN;
    return CADRE_OK;
}

static cadre_status sum_rows(struct cadre_device *device, const double *rows, int64_t n,
                             double *out)
{
    double sum = 0.0;
    (void)device;
    for (int64_t i = 0; i < n; i++)
        sum += rows[i];
    *out = sum;
    return CADRE_OK;
}

static cadre_status scale(struct cadre_device *device, uint32_t dtype, void *x,
                          int64_t count, double by)
{
    const struct cadre_scale_args args = {.x = x, .by = by};
    if (cadre_dtype_is_half(dtype))
        return cadre_half_scale(device, dtype, &args, count);
    RUN(device, dtype, scale, &args, count, ELEMENTS);
    return CADRE_OK;
}

/* Sums wrap around, as the communicator's do. */
static void add_i32(int32_t *out, const int32_t *a, const int32_t *b, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = (int32_t)((uint32_t)a[i] + (uint32_t)b[i]);
}

static void maximum_i32(int32_t *out, const int32_t *a, const int32_t *b, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = a[i] > b[i] ? a[i] : b[i];
}

static void maximum_u8(uint8_t *out, const uint8_t *a, const uint8_t *b, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = a[i] > b[i] ? a[i] : b[i];
}

/* Any thread may call it, so it runs on that thread without the pool. */
static cadre_status tree_add(struct cadre_device *device, uint32_t dtype, void *out,
                             const void *a, const void *b, int64_t count)
{
    const struct cadre_add_args args = {.a = a, .b = b, .y = out};
    if (dtype == CADRE_I32) {
        add_i32(out, a, b, count);
        return CADRE_OK;
    }
    if (cadre_dtype_is_half(dtype)) {
        cadre_half_tree_add(device, dtype, &args, count);
        return CADRE_OK;
    }
    const struct cadre_cpu_kernels *kernels =
        cadre_cpu_kernels((struct cadre_cpu *)device, dtype);
    if (!kernels)
        return CADRE_E_DEVICE;
    kernels->tree_add(&args, 0, count);
    return CADRE_OK;
}

static cadre_status maximum(struct cadre_device *device, uint32_t dtype, void *out,
                            const void *a, const void *b, int64_t count)
{
    const struct cadre_add_args args = {.a = a, .b = b, .y = out};
    if (dtype == CADRE_I32 || dtype == CADRE_U8) {
        if (dtype == CADRE_I32)
            maximum_i32(out, a, b, count);
        else
            maximum_u8(out, a, b, count);
        return CADRE_OK;
    }
    if (cadre_dtype_is_half(dtype)) {
        cadre_half_maximum(device, dtype, &args, count);
        return CADRE_OK;
    }
    const struct cadre_cpu_kernels *kernels =
        cadre_cpu_kernels((struct cadre_cpu *)device, dtype);
    if (!kernels)
        return CADRE_E_DEVICE;
    kernels->maximum(&args, 0, count);
    return CADRE_OK;
}

static cadre_status cast(struct cadre_device *device, uint32_t dst_dtype, void *dst,
                         uint32_t src_dtype, const void *src, int64_t count)
{
    struct cadre_cpu *cpu = (struct cadre_cpu *)device;
    const struct cadre_cast_args args = {.dst = dst, .src = src};
    cadre_cpu_range *kernel = NULL;
    if (dst_dtype < CADRE_CAST_DTYPES && src_dtype < CADRE_CAST_DTYPES)
        kernel = cpu->casts->to[dst_dtype][src_dtype];
    if (!kernel) {
        cadre_log(CADRE_LOG_ERROR, "device", "no cast from %s to %s",
                  cadre_dtype_name(src_dtype), cadre_dtype_name(dst_dtype));
        return CADRE_E_DEVICE;
    }
    cadre_cpu_ranges(cpu, kernel, &args, count, ELEMENTS);
    return CADRE_OK;
}

void cadre_cpu_fill_row_ops(struct cadre_device_ops *ops)
{
    ops->bias_bwd = bias_bwd;
    ops->norm_fwd = norm_fwd;
    ops->norm_bwd = norm_bwd;
    ops->gelu_bwd = gelu_bwd;
    ops->swiglu_fwd = swiglu_fwd;
    ops->swiglu_bwd = swiglu_bwd;
    ops->add = add;
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
    ops->tree_add = tree_add;
    ops->maximum = maximum;
    ops->cast = cast;
}
