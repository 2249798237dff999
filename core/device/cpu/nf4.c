/* SPDX-License-Identifier: Apache-2.0 */
/* CADRE_FORM_NF4: core/tensor/nf4.c on ranges of blocks. */
#include "core/tensor/nf4.h"

#include "core/device/cpu/cpu.h"
#include "core/device/cpu/half.h"

enum { BLOCK = CADRE_NF4_BLOCK, BYTES = CADRE_NF4_BYTES, GRAIN = 256 };

struct decode {
    uint32_t dtype;
    const uint8_t *blocks;
    const float *scales;
    int64_t first, count;
    void *to;
};

/* Elements of blocks [begin, end). */
static int64_t elements(const struct decode *a, int64_t begin, int64_t end)
{
    const int64_t last = end * BLOCK;
    return (last < a->count ? last : a->count) - begin * BLOCK;
}

static void decode_floats(const struct decode *a, int64_t begin, int64_t end, float *to)
{
    cadre_nf4_decode(a->scales, (uint64_t)(a->first + begin), a->blocks + begin * BYTES,
                     (uint64_t)elements(a, begin, end), to);
}

static void decode_blocks(const void *args, int64_t begin, int64_t end)
{
    const struct decode *a = args;
    float block[BLOCK];
    if (a->dtype == CADRE_F32) {
        decode_floats(a, begin, end, (float *)a->to + begin * BLOCK);
        return;
    }
    for (int64_t b = begin; b < end; b++) {
        double *to = (double *)a->to + b * BLOCK;
        decode_floats(a, b, b + 1, block);
        for (int64_t i = 0; i < elements(a, b, b + 1); i++)
            to[i] = (double)block[i];
    }
}

static void decode_tile(const struct cadre_half *half, const void *op, int64_t begin,
                        int64_t end, float *scratch)
{
    const struct decode *a = op;
    decode_floats(a, begin, end, scratch);
    cadre_half_narrow(half, a->to, begin * BLOCK, scratch, elements(a, begin, end));
}

cadre_status cadre_cpu_nf4_decode(struct cadre_device *device, const void *blocks,
                                  const float *scales, int64_t first, uint32_t dtype,
                                  void *x, int64_t count)
{
    const struct decode args = {.dtype = dtype,
                                .blocks = blocks,
                                .scales = scales,
                                .first = first,
                                .count = count,
                                .to = x};
    struct cadre_cpu *cpu = (struct cadre_cpu *)device;
    const int64_t n = (int64_t)cadre_nf4_blocks((uint64_t)count);
    if (cadre_dtype_is_half(dtype)) {
        const struct cadre_half half = cadre_half_of(device, dtype);
        return cadre_half_run(&half, decode_tile, &args, n, GRAIN, GRAIN * BLOCK);
    }
    if (!cadre_cpu_kernels(cpu, dtype))
        return CADRE_E_DEVICE;
    cadre_cpu_ranges(cpu, decode_blocks, &args, n, GRAIN);
    return CADRE_OK;
}
