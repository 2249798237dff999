/* SPDX-License-Identifier: Apache-2.0 */
/* int8 with a scale for each block of consecutive elements. Source: Dettmers et al.,
 * 8-bit Optimizers via Block-wise Quantization, ICLR 2022, with a linear code. */
#include <float.h>
#include <math.h>

#include "core/device/cpu/cpu.h"

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
