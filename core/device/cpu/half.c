/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles in f32 scratch, and the ops on elements in 16 bits. */
#include "core/device/cpu/half.h"

enum {
    ELEMENTS = 4096, /* of a tile: 16 KiB of f32 for each tensor */
    BLOCK = 512, /* on the stack of the caller of tree_add */
};

struct cadre_half cadre_half_of(struct cadre_device *device, uint32_t dtype)
{
    struct cadre_cpu *cpu = (struct cadre_cpu *)device;
    return (struct cadre_half){.cpu = cpu,
                               .kernels = cpu->f32,
                               .widen = cpu->casts->to[CADRE_F32][dtype],
                               .narrow = cpu->casts->to[dtype][CADRE_F32],
                               .bf16 = dtype == CADRE_BF16 ? cpu->bf16 : NULL};
}

void cadre_half_widen(const struct cadre_half *half, float *dst, const void *src,
                      int64_t at, int64_t n)
{
    const struct cadre_cast_args args = {.dst = dst, .src = (const uint16_t *)src + at};
    half->widen(&args, 0, n);
}

void cadre_half_narrow(const struct cadre_half *half, void *dst, int64_t at,
                       const float *src, int64_t n)
{
    const struct cadre_cast_args args = {.dst = (uint16_t *)dst + at, .src = src};
    half->narrow(&args, 0, n);
}

void cadre_half_widen_rows(const struct cadre_half *half, float *dst, const void *src,
                           int64_t rows, int64_t n, int64_t ld)
{
    for (int64_t r = 0; r < rows; r++)
        cadre_half_widen(half, dst + r * n, src, r * ld, n);
}

void cadre_half_narrow_rows(const struct cadre_half *half, void *dst, int64_t ld,
                            const float *src, int64_t rows, int64_t n)
{
    if (half->bf16) {
        const struct cadre_finish_args args = {
            .c = src, .out = dst, .ld = ld, .columns = n};
        half->bf16->finish(&args, 0, rows);
        return;
    }
    for (int64_t r = 0; r < rows; r++)
        cadre_half_narrow(half, dst, r * ld, src + r * n, n);
}

struct half_job {
    const struct cadre_half *half;
    cadre_half_tile *tile;
    const void *op;
    int64_t count, grain;
    size_t bytes;
    atomic_int status;
};

static void half_tile(void *arg, int64_t index, int worker)
{
    struct half_job *job = arg;
    const int64_t begin = index * job->grain, end = begin + job->grain;
    float *scratch = cadre_cpu_scratch(&job->half->cpu->workers[worker],
                                       CADRE_SCRATCH_HALF, job->bytes);
    if (!scratch) {
        atomic_store(&job->status, CADRE_E_RESOURCE);
        return;
    }
    job->tile(job->half, job->op, begin, end < job->count ? end : job->count, scratch);
}

cadre_status cadre_half_run(const struct cadre_half *half, cadre_half_tile *tile,
                            const void *op, int64_t count, int64_t grain,
                            int64_t floats)
{
    struct half_job job = {.half = half,
                           .tile = tile,
                           .op = op,
                           .count = count,
                           .grain = grain,
                           .bytes = (size_t)floats * sizeof(float)};
    cadre_pool_run(half->cpu->pool, (count + grain - 1) / grain, half_tile, &job);
    return atomic_load(&job.status);
}

/* ---- gelu and swiglu ---- */

struct pointwise {
    const struct cadre_pointwise_args *args;
    cadre_cpu_range *kernel;
};

/* Everything is read before anything is written, so outputs may be inputs. */
static void pointwise_tile(const struct cadre_half *half, const void *op, int64_t begin,
                           int64_t end, float *scratch)
{
    const struct pointwise *job = op;
    const struct cadre_pointwise_args *a = job->args;
    const int64_t n = end - begin;
    float *x = scratch, *up = x + ELEMENTS, *dy = up + ELEMENTS, *y = dy + ELEMENTS,
          *dup = y + ELEMENTS;
    const struct cadre_pointwise_args wide = {
        .x = x, .up = up, .dy = dy, .y = y, .dup = dup};
    cadre_half_widen(half, x, a->x, begin, n);
    if (a->up)
        cadre_half_widen(half, up, a->up, begin, n);
    if (a->dy)
        cadre_half_widen(half, dy, a->dy, begin, n);
    job->kernel(&wide, 0, n);
    cadre_half_narrow(half, a->y, begin, y, n);
    if (a->dup)
        cadre_half_narrow(half, a->dup, begin, dup, n);
}

static cadre_status pointwise(const struct cadre_half *half, cadre_cpu_range *kernel,
                              const struct cadre_pointwise_args *args, int64_t count)
{
    const struct pointwise job = {args, kernel};
    return cadre_half_run(half, pointwise_tile, &job, count, ELEMENTS, 5 * ELEMENTS);
}

cadre_status cadre_half_gelu_bwd(struct cadre_device *device, uint32_t dtype,
                                 const struct cadre_pointwise_args *args, int64_t count)
{
    const struct cadre_half half = cadre_half_of(device, dtype);
    if (half.bf16)
        cadre_cpu_ranges(half.cpu, half.bf16->gelu_bwd, args, count, 4 * ELEMENTS);
    else
        return pointwise(&half, half.kernels->gelu_bwd, args, count);
    return CADRE_OK;
}

cadre_status cadre_half_swiglu_fwd(struct cadre_device *device, uint32_t dtype,
                                   const struct cadre_pointwise_args *args,
                                   int64_t count)
{
    const struct cadre_half half = cadre_half_of(device, dtype);
    if (half.bf16)
        cadre_cpu_ranges(half.cpu, half.bf16->swiglu_fwd, args, count, 4 * ELEMENTS);
    else
        return pointwise(&half, half.kernels->swiglu_fwd, args, count);
    return CADRE_OK;
}

cadre_status cadre_half_swiglu_bwd(struct cadre_device *device, uint32_t dtype,
                                   const struct cadre_pointwise_args *args,
                                   int64_t count)
{
    const struct cadre_half half = cadre_half_of(device, dtype);
    if (half.bf16)
        cadre_cpu_ranges(half.cpu, half.bf16->swiglu_bwd, args, count, 4 * ELEMENTS);
    else
        return pointwise(&half, half.kernels->swiglu_bwd, args, count);
    return CADRE_OK;
}

/* ---- additions ---- */

static void add_tile(const struct cadre_half *half, const void *op, int64_t begin,
                     int64_t end, float *scratch)
{
    const struct cadre_add_args *a = op;
    const int64_t C = a->channels, rows = end - begin, n = rows * C;
    float *x = scratch, *b = x + n, *bias = b + n;
    const struct cadre_add_args wide = {.a = x,
                                        .bias = a->bias ? bias : NULL,
                                        .b = a->b ? b : NULL,
                                        .y = x,
                                        .channels = C};
    cadre_half_widen(half, x, a->a, begin * C, n);
    if (a->bias)
        cadre_half_widen(half, bias, a->bias, 0, C);
    if (a->b)
        cadre_half_widen(half, b, a->b, begin * C, n);
    half->kernels->add(&wide, 0, rows);
    cadre_half_narrow(half, a->y, begin * C, x, n);
}

cadre_status cadre_half_add(struct cadre_device *device, uint32_t dtype,
                            const struct cadre_add_args *args, int64_t rows)
{
    const struct cadre_half half = cadre_half_of(device, dtype);
    const int64_t C = args->channels, fit = C > 0 ? ELEMENTS / C : 0;
    const int64_t grain = fit > 0 ? fit : 1;
    if (half.bf16) {
        cadre_cpu_ranges(half.cpu, half.bf16->add, args, rows, 4 * grain);
        return CADRE_OK;
    }
    return cadre_half_run(&half, add_tile, args, rows, grain, (2 * grain + 1) * C);
}

static void pair_blocks(const struct cadre_half *half, cadre_cpu_range *kernel,
                        const struct cadre_add_args *args, int64_t count)
{
    float a[BLOCK], b[BLOCK];
    const struct cadre_add_args wide = {.a = a, .b = b, .y = a};
    for (int64_t at = 0; at < count; at += BLOCK) {
        const int64_t n = count - at < BLOCK ? count - at : BLOCK;
        cadre_half_widen(half, a, args->a, at, n);
        cadre_half_widen(half, b, args->b, at, n);
        kernel(&wide, 0, n);
        cadre_half_narrow(half, args->y, at, a, n);
    }
}

void cadre_half_tree_add(struct cadre_device *device, uint32_t dtype,
                         const struct cadre_add_args *args, int64_t count)
{
    const struct cadre_half half = cadre_half_of(device, dtype);
    pair_blocks(&half, half.kernels->tree_add, args, count);
}

void cadre_half_maximum(struct cadre_device *device, uint32_t dtype,
                        const struct cadre_add_args *args, int64_t count)
{
    const struct cadre_half half = cadre_half_of(device, dtype);
    pair_blocks(&half, half.kernels->maximum, args, count);
}

/* ---- in place ---- */

static void scale_tile(const struct cadre_half *half, const void *op, int64_t begin,
                       int64_t end, float *scratch)
{
    const struct cadre_scale_args *a = op;
    const struct cadre_scale_args wide = {.x = scratch, .by = a->by};
    cadre_half_widen(half, scratch, a->x, begin, end - begin);
    half->kernels->scale(&wide, 0, end - begin);
    cadre_half_narrow(half, a->x, begin, scratch, end - begin);
}

cadre_status cadre_half_scale(struct cadre_device *device, uint32_t dtype,
                              const struct cadre_scale_args *args, int64_t count)
{
    const struct cadre_half half = cadre_half_of(device, dtype);
    return cadre_half_run(&half, scale_tile, args, count, ELEMENTS, ELEMENTS);
}

/* The kernel finds a row's angles by its number; with ld 0 its values are scratch. */
static void rope_tile(const struct cadre_half *half, const void *op, int64_t begin,
                      int64_t end, float *scratch)
{
    const struct cadre_rope_args *a = op;
    struct cadre_rope_args wide = *a;
    const int64_t width = a->heads * a->pairs * 2;
    wide.x = scratch;
    wide.ld = 0;
    for (int64_t row = begin; row < end; row++) {
        cadre_half_widen(half, scratch, a->x, row * a->ld, width);
        half->kernels->rope(&wide, row, row + 1);
        cadre_half_narrow(half, a->x, row * a->ld, scratch, width);
    }
}

cadre_status cadre_half_rope(struct cadre_device *device, uint32_t dtype,
                             const struct cadre_rope_args *args, int64_t rows)
{
    const struct cadre_half half = cadre_half_of(device, dtype);
    return cadre_half_run(&half, rope_tile, args, rows, 16,
                          args->heads * args->pairs * 2);
}
