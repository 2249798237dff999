/* SPDX-License-Identifier: Apache-2.0 */
/* Ops on the vectors and matrices of optimizers: element by element, the dot product,
 * moves of matrices. */
#include <string.h>

#include "core/base/log.h"
#include "core/base/tree.h"
#include "core/device/cpu/cpu.h"
#include "core/device/cpu/half.h"

enum {
    ELEMENTS = 16384, /* of a range */
    TILE = 4096, /* of a range in 16 bits */
    EDGE = 32, /* of a square that is transposed at once */
};

/* Run a kernel of elements, in 16 bits tile by tile, each with `inputs` widened
 * vectors. */
#define EACH(device, dtype, slot, tile, args, count, inputs)                           \
    do {                                                                               \
        struct cadre_cpu *cpu_ = (struct cadre_cpu *)(device);                         \
        if (cadre_dtype_is_half(dtype)) {                                              \
            const struct cadre_half half_ = cadre_half_of(device, dtype);              \
            return cadre_half_run(&half_, tile, args, count, TILE, (inputs)*TILE);     \
        }                                                                              \
        const struct cadre_cpu_kernels *kernels_ = cadre_cpu_kernels(cpu_, dtype);     \
        if (!kernels_)                                                                 \
            return CADRE_E_DEVICE;                                                     \
        cadre_cpu_ranges(cpu_, kernels_->slot, args, count, ELEMENTS);                 \
        return CADRE_OK;                                                               \
    } while (0)

static void axpby_tile(const struct cadre_half *half, const void *op, int64_t begin,
                       int64_t end, float *scratch)
{
    const struct cadre_axpby_args *a = op;
    const int64_t n = end - begin;
    float *x = scratch, *y = x + n;
    const struct cadre_axpby_args wide = {.x = x, .y = y, .a = a->a, .b = a->b};
    cadre_half_widen(half, x, a->x, begin, n);
    cadre_half_widen(half, y, a->y, begin, n);
    half->kernels->axpby(&wide, 0, n);
    cadre_half_narrow(half, a->y, begin, y, n);
}

cadre_status cadre_cpu_axpby(struct cadre_device *device, uint32_t dtype, double a,
                             const void *x, double b, void *y, int64_t count)
{
    const struct cadre_axpby_args args = {.x = x, .y = y, .a = a, .b = b};
    EACH(device, dtype, axpby, axpby_tile, &args, count, 2);
}

static void mul_tile(const struct cadre_half *half, const void *op, int64_t begin,
                     int64_t end, float *scratch)
{
    const struct cadre_add_args *args = op;
    const int64_t n = end - begin;
    float *a = scratch, *b = a + n;
    const struct cadre_add_args wide = {.a = a, .b = b, .y = a};
    cadre_half_widen(half, a, args->a, begin, n);
    cadre_half_widen(half, b, args->b, begin, n);
    half->kernels->mul(&wide, 0, n);
    cadre_half_narrow(half, args->y, begin, a, n);
}

cadre_status cadre_cpu_mul(struct cadre_device *device, uint32_t dtype, void *out,
                           const void *a, const void *b, int64_t count)
{
    const struct cadre_add_args args = {.a = a, .b = b, .y = out};
    EACH(device, dtype, mul, mul_tile, &args, count, 2);
}

static void rsqrt_tile(const struct cadre_half *half, const void *op, int64_t begin,
                       int64_t end, float *scratch)
{
    const struct cadre_rsqrt_args *a = op;
    const struct cadre_rsqrt_args wide = {.x = scratch, .eps = a->eps};
    cadre_half_widen(half, scratch, a->x, begin, end - begin);
    half->kernels->rsqrt(&wide, 0, end - begin);
    cadre_half_narrow(half, a->x, begin, scratch, end - begin);
}

cadre_status cadre_cpu_rsqrt(struct cadre_device *device, uint32_t dtype, void *x,
                             int64_t count, double eps)
{
    const struct cadre_rsqrt_args args = {.x = x, .eps = eps};
    EACH(device, dtype, rsqrt, rsqrt_tile, &args, count, 1);
}

/* ---- the dot product ---- */

static void dot_tile(const struct cadre_half *half, const void *op, int64_t begin,
                     int64_t end, float *scratch)
{
    const struct cadre_dot_args *a = op;
    float *x = scratch, *y = x + CADRE_NORM_CHUNK;
    for (int64_t chunk = begin; chunk < end; chunk++) {
        const int64_t first = chunk * CADRE_NORM_CHUNK;
        struct cadre_dot_args wide = {.x = x, .y = y, .sums = a->sums + chunk};
        wide.count =
            a->count - first < CADRE_NORM_CHUNK ? a->count - first : CADRE_NORM_CHUNK;
        cadre_half_widen(half, x, a->x, first, wide.count);
        cadre_half_widen(half, y, a->y, first, wide.count);
        half->kernels->dot(&wide, 0, 1);
    }
}

static cadre_status dot_chunks(struct cadre_device *device, uint32_t dtype,
                               const struct cadre_dot_args *args, int64_t chunks)
{
    struct cadre_cpu *cpu = (struct cadre_cpu *)device;
    if (cadre_dtype_is_half(dtype)) {
        const struct cadre_half half = cadre_half_of(device, dtype);
        return cadre_half_run(&half, dot_tile, args, chunks, 1, 2 * CADRE_NORM_CHUNK);
    }
    const struct cadre_cpu_kernels *kernels = cadre_cpu_kernels(cpu, dtype);
    if (!kernels)
        return CADRE_E_DEVICE;
    cadre_cpu_ranges(cpu, kernels->dot, args, chunks, ELEMENTS / CADRE_NORM_CHUNK);
    return CADRE_OK;
}

cadre_status cadre_cpu_dot(struct cadre_device *device, uint32_t dtype, const void *x,
                           const void *y, int64_t count, double *out)
{
    struct cadre_cpu *cpu = (struct cadre_cpu *)device;
    const int64_t chunks = (count + CADRE_NORM_CHUNK - 1) / CADRE_NORM_CHUNK;
    const struct cadre_dot_args args = {
        .x = x,
        .y = y,
        .count = count,
        .sums = cadre_cpu_scratch(&cpu->workers[0], CADRE_SCRATCH_COLUMNS,
                                  ((size_t)chunks + 1) * sizeof *args.sums)};
    if (!args.sums)
        return CADRE_E_RESOURCE;
    CADRE_TRY(dot_chunks(device, dtype, &args, chunks));
    *out = cadre_tree_sum(args.sums, (size_t)chunks);
    return CADRE_OK;
}

/* ---- matrices ---- */

struct transpose {
    const char *from;
    char *to;
    int64_t rows, columns; /* of `from` */
};

#define TRANSPOSE(name, type)                                                          \
    static void name(const struct transpose *t, int64_t row, int64_t column)           \
    {                                                                                  \
        const type *from = (const void *)t->from;                                      \
        type *to = (void *)t->to;                                                      \
        const int64_t rows = row + EDGE < t->rows ? row + EDGE : t->rows;              \
        const int64_t columns =                                                        \
            column + EDGE < t->columns ? column + EDGE : t->columns;                   \
        for (int64_t c = column; c < columns; c++)                                     \
            for (int64_t r = row; r < rows; r++)                                       \
                to[c * t->rows + r] = from[r * t->columns + c];                        \
    }
TRANSPOSE(transpose_16, uint16_t)
TRANSPOSE(transpose_32, uint32_t)
TRANSPOSE(transpose_64, uint64_t)

/* Bands of EDGE rows of the source. */
#define BANDS(name, square)                                                            \
    static void name(const void *args, int64_t begin, int64_t end)                     \
    {                                                                                  \
        const struct transpose *t = args;                                              \
        for (int64_t band = begin; band < end; band++)                                 \
            for (int64_t column = 0; column < t->columns; column += EDGE)              \
                square(t, band *EDGE, column);                                         \
    }
BANDS(bands_16, transpose_16)
BANDS(bands_32, transpose_32)
BANDS(bands_64, transpose_64)

cadre_status cadre_cpu_transpose(struct cadre_device *device, uint32_t dtype, void *out,
                                 const void *x, int64_t rows, int64_t columns)
{
    const struct transpose args = {
        .from = x, .to = out, .rows = rows, .columns = columns};
    const size_t bytes = cadre_dtype_bytes(dtype);
    cadre_cpu_range *kernel = bytes == 2   ? bands_16
                              : bytes == 4 ? bands_32
                              : bytes == 8 ? bands_64
                                           : NULL;
    if (!kernel) {
        cadre_log(CADRE_LOG_ERROR, "device", "there is no transpose on the CPU for %s",
                  cadre_dtype_name(dtype));
        return CADRE_E_DEVICE;
    }
    cadre_cpu_ranges((struct cadre_cpu *)device, kernel, &args,
                     (rows + EDGE - 1) / EDGE, 4);
    return CADRE_OK;
}

struct copy_rows {
    char *to;
    const char *from;
    size_t to_row, from_row, bytes; /* from row to row; of a row */
};

static void copy_range(const void *args, int64_t begin, int64_t end)
{
    const struct copy_rows *c = args;
    for (int64_t row = begin; row < end; row++)
        memcpy(c->to + (size_t)row * c->to_row, c->from + (size_t)row * c->from_row,
               c->bytes);
}

cadre_status cadre_cpu_copy_rows(struct cadre_device *device, uint32_t dtype, void *dst,
                                 int64_t ldd, const void *src, int64_t lds,
                                 int64_t rows, int64_t columns)
{
    const size_t element = cadre_dtype_bytes(dtype);
    const struct copy_rows args = {.to = dst,
                                   .from = src,
                                   .to_row = (size_t)ldd * element,
                                   .from_row = (size_t)lds * element,
                                   .bytes = (size_t)columns * element};
    const int64_t grain = columns > 0 ? ELEMENTS / columns : ELEMENTS;
    if (element == 0)
        return CADRE_E_DEVICE;
    cadre_cpu_ranges((struct cadre_cpu *)device, copy_range, &args, rows,
                     grain > 0 ? grain : 1);
    return CADRE_OK;
}
