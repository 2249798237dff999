/* SPDX-License-Identifier: Apache-2.0 */
/* int8 with a scale for each block of consecutive elements. Source: Dettmers et al.,
 * 8-bit Optimizers via Block-wise Quantization, ICLR 2022, with a linear code. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "core/device/cpu/cpu.h"
#include "core/device/cpu/half.h"

#define LARGEST 127.0

struct quantize {
    uint32_t dtype;
    int64_t count, block;
    const void *from; /* real numbers, to be quantised */
    void *to; /* real numbers, dequantised */
    const int8_t *q;
    int8_t *out_q;
    const float *scales;
    float *out_scales;
};

static inline double get(const struct quantize *a, int64_t i)
{
    return a->dtype == CADRE_F64 ? ((const double *)a->from)[i]
                                 : (double)((const float *)a->from)[i];
}

/* The largest magnitude of [begin, end); NaN where one is not finite. */
static double largest(const struct quantize *a, int64_t begin, int64_t end)
{
    double most = 0, bad = 0;
    for (int64_t i = begin; i < end; i++) {
        const double size = fabs(get(a, i));
        most = size > most ? size : most;
        bad += size - size; /* 0, or NaN of an infinity or a NaN */
    }
    return most + bad;
}

/* The scale as an f32. Among the smallest numbers rounding may halve it; then it is the
 * next number up, so that no element exceeds the largest code. */
static float scale_of(double most)
{
    if (!(most / LARGEST <= (double)FLT_MAX))
        return NAN;
    const float scale = (float)(most / LARGEST);
    const bool small = most > 0 && (double)scale * (LARGEST + 0.5) <= most;
    return small ? nextafterf(scale, INFINITY) : scale;
}

/* To the nearest whole number, ties to even; |x| is small. */
static inline double round_even(double x)
{
    const double shift = 0x1.8p52;
    return x + shift - shift;
}

static int64_t block_end(const struct quantize *a, int64_t begin)
{
    return a->count - begin < a->block ? a->count : begin + a->block;
}

static void quantize_blocks(const void *args, int64_t first, int64_t last)
{
    const struct quantize *a = args;
    for (int64_t b = first; b < last; b++) {
        const int64_t begin = b * a->block;
        const int64_t end = block_end(a, begin);
        const float scale = scale_of(largest(a, begin, end));
        a->out_scales[b] = scale;
        for (int64_t i = begin; i < end; i++)
            a->out_q[i] = scale > 0 ? (int8_t)round_even(get(a, i) / (double)scale) : 0;
    }
}

static void dequantize_blocks(const void *args, int64_t first, int64_t last)
{
    const struct quantize *a = args;
    for (int64_t b = first; b < last; b++) {
        const int64_t begin = b * a->block;
        const int64_t end = block_end(a, begin);
        const float scale = a->scales[b];
        for (int64_t i = begin; i < end; i++)
            if (a->dtype == CADRE_F64)
                ((double *)a->to)[i] = (double)a->q[i] * (double)scale;
            else
                ((float *)a->to)[i] = (float)a->q[i] * scale;
    }
}

/* Divide the blocks into ranges of about 16384 elements. */
static cadre_status run(struct cadre_device *device, cadre_cpu_range *kernel,
                        const struct quantize *a)
{
    struct cadre_cpu *cpu = (struct cadre_cpu *)device;
    if (!cadre_cpu_kernels(cpu, a->dtype) || a->block < 1)
        return CADRE_E_DEVICE;
    const int64_t blocks = a->count / a->block + (a->count % a->block != 0);
    const int64_t grain = 16384 / a->block;
    cadre_cpu_ranges(cpu, kernel, a, blocks, grain > 0 ? grain : 1);
    return CADRE_OK;
}

cadre_status cadre_cpu_quantize(struct cadre_device *device, uint32_t dtype,
                                const void *x, int64_t count, int64_t block, int8_t *q,
                                float *scales)
{
    const struct quantize args = {.dtype = dtype,
                                  .count = count,
                                  .block = block,
                                  .from = x,
                                  .out_q = q,
                                  .out_scales = scales};
    return run(device, quantize_blocks, &args);
}

cadre_status cadre_cpu_dequantize(struct cadre_device *device, const int8_t *q,
                                  const float *scales, int64_t block, uint32_t dtype,
                                  void *x, int64_t count)
{
    const struct quantize args = {.dtype = dtype,
                                  .count = count,
                                  .block = block,
                                  .to = x,
                                  .q = q,
                                  .scales = scales};
    return run(device, dequantize_blocks, &args);
}

/* ---- CADRE_FORM_INT8: codes and scale of a block together ---- */

enum { FORM_BLOCK = CADRE_INT8_BLOCK, FORM_GRAIN = 256 };

/* A range of blocks on elements of f32 or f64. */
struct form {
    uint32_t dtype;
    const void *from;
    void *to;
    int64_t count;
    char *out; /* blocks, written */
    const char *blocks; /* read */
};

/* A scale of 17 significant bits, at least FLT_MIN: a code times it is exact, and the
 * largest code is 127 or the scale is FLT_MIN, so what is decoded and encoded again has
 * the same scale and codes. Rounded down: 127 times it is finite. */
static float form_scale(double most)
{
    float scale = (float)(most / LARGEST);
    uint32_t bits;
    if (!(most / LARGEST <= (double)FLT_MAX))
        return NAN;
    if (scale < FLT_MIN)
        return most > (double)FLT_MIN / 2 ? FLT_MIN : 0;
    memcpy(&bits, &scale, sizeof bits);
    bits &= ~UINT32_C(0x7f);
    memcpy(&scale, &bits, sizeof scale);
    return scale;
}

static void encode_block(const struct form *a, int64_t block)
{
    const struct quantize q = {.dtype = a->dtype, .count = a->count, .from = a->from};
    const int64_t begin = block * FORM_BLOCK;
    const int64_t end = a->count - begin < FORM_BLOCK ? a->count : begin + FORM_BLOCK;
    const float scale = form_scale(largest(&q, begin, end));
    char *to = a->out + block * CADRE_INT8_BYTES;
    int8_t codes[FORM_BLOCK] = {0};
    for (int64_t i = begin; i < end && scale > 0; i++)
        codes[i - begin] = (int8_t)round_even(get(&q, i) / (double)scale);
    memcpy(to, codes, sizeof codes);
    memcpy(to + FORM_BLOCK, &scale, sizeof scale);
}

static void decode_block(const struct form *a, int64_t block)
{
    const char *from = a->blocks + block * CADRE_INT8_BYTES;
    const int64_t begin = block * FORM_BLOCK;
    const int64_t left = a->count - begin;
    const int64_t n = left < FORM_BLOCK ? left : FORM_BLOCK;
    float scale;
    int8_t codes[FORM_BLOCK];
    memcpy(codes, from, sizeof codes);
    memcpy(&scale, from + FORM_BLOCK, sizeof scale);
    for (int64_t i = 0; i < n; i++)
        if (a->dtype == CADRE_F64)
            ((double *)a->to)[begin + i] = (double)codes[i] * (double)scale;
        else
            ((float *)a->to)[begin + i] = (float)codes[i] * scale;
}

static void encode_blocks(const void *args, int64_t begin, int64_t end)
{
    for (int64_t b = begin; b < end; b++)
        encode_block(args, b);
}

static void decode_blocks(const void *args, int64_t begin, int64_t end)
{
    for (int64_t b = begin; b < end; b++)
        decode_block(args, b);
}

/* Elements of a 16-bit tile, from its first block on. */
static int64_t tile_count(const struct form *a, int64_t begin, int64_t end)
{
    const int64_t first = begin * FORM_BLOCK, last = end * FORM_BLOCK;
    return (last < a->count ? last : a->count) - first;
}

static void encode_tile(const struct cadre_half *half, const void *op, int64_t begin,
                        int64_t end, float *scratch)
{
    const struct form *a = op;
    const struct form wide = {.dtype = CADRE_F32,
                              .from = scratch,
                              .count = tile_count(a, begin, end),
                              .out = a->out + begin * CADRE_INT8_BYTES};
    cadre_half_widen(half, scratch, a->from, begin * FORM_BLOCK, wide.count);
    encode_blocks(&wide, 0, end - begin);
}

static void decode_tile(const struct cadre_half *half, const void *op, int64_t begin,
                        int64_t end, float *scratch)
{
    const struct form *a = op;
    const struct form wide = {.dtype = CADRE_F32,
                              .to = scratch,
                              .count = tile_count(a, begin, end),
                              .blocks = a->blocks + begin * CADRE_INT8_BYTES};
    decode_blocks(&wide, 0, end - begin);
    cadre_half_narrow(half, a->to, begin * FORM_BLOCK, scratch, wide.count);
}

static cadre_status run_form(struct cadre_device *device, cadre_cpu_range *kernel,
                             cadre_half_tile *tile, const struct form *a)
{
    struct cadre_cpu *cpu = (struct cadre_cpu *)device;
    const int64_t blocks = (a->count + FORM_BLOCK - 1) / FORM_BLOCK;
    if (cadre_dtype_is_half(a->dtype)) {
        const struct cadre_half half = cadre_half_of(device, a->dtype);
        return cadre_half_run(&half, tile, a, blocks, FORM_GRAIN,
                              FORM_GRAIN * FORM_BLOCK);
    }
    if (!cadre_cpu_kernels(cpu, a->dtype))
        return CADRE_E_DEVICE;
    cadre_cpu_ranges(cpu, kernel, a, blocks, FORM_GRAIN);
    return CADRE_OK;
}

cadre_status cadre_cpu_int8_encode(struct cadre_device *device, uint32_t dtype,
                                   const void *x, int64_t count, void *blocks)
{
    const struct form args = {.dtype = dtype, .from = x, .count = count, .out = blocks};
    return run_form(device, encode_blocks, encode_tile, &args);
}

cadre_status cadre_cpu_int8_decode(struct cadre_device *device, const void *blocks,
                                   uint32_t dtype, void *x, int64_t count)
{
    const struct form args = {
        .dtype = dtype, .to = x, .count = count, .blocks = blocks};
    return run_form(device, decode_blocks, decode_tile, &args);
}
