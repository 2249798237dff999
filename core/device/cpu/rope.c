/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary embedding. Cosines and sines of every (position, pair) are computed once in
 * double and kept: a training run asks for the same positions at every call. */
#include <math.h>

#include "core/base/log.h"
#include "core/device/cpu/half.h"

static bool table_holds(const struct cadre_cpu *cpu, uint32_t dtype, int64_t pairs,
                        const struct cadre_rotary *rotary, int64_t begin, int64_t end)
{
    return cpu->rope_table && cpu->rope_dtype == dtype && cpu->rope_pairs == pairs &&
           cadre_rotary_equal(&cpu->rotary, rotary) && cpu->rope_begin <= begin &&
           end <= cpu->rope_end;
}

static void fill_table(struct cadre_cpu *cpu)
{
    const int64_t pairs = cpu->rope_pairs;
    float *f32 = cpu->rope_table;
    double *f64 = cpu->rope_table;
    for (int64_t i = 0; i < pairs; i++) {
        const double frequency = cadre_rotary_frequency(&cpu->rotary, i, pairs);
        for (int64_t p = cpu->rope_begin; p < cpu->rope_end; p++) {
            const double angle = (double)p * frequency;
            const int64_t at = (p - cpu->rope_begin) * pairs * 2 + i;
            if (cpu->rope_dtype == CADRE_F64) {
                f64[at] = cos(angle);
                f64[at + pairs] = sin(angle);
            } else {
                f32[at] = (float)cos(angle);
                f32[at + pairs] = (float)sin(angle);
            }
        }
    }
}

/* Generation asks for one position at a time: the table then grows by doubling. */
static cadre_status make_table(struct cadre_cpu *cpu, uint32_t dtype, int64_t pairs,
                               const struct cadre_rotary *rotary, int64_t begin,
                               int64_t end)
{
    const bool grows = begin > 0 && begin >= cpu->rope_begin && begin <= cpu->rope_end;
    const int64_t first = grows ? cpu->rope_begin : begin;
    const int64_t last = grows ? first + 2 * (end - first) : end;
    const size_t bytes =
        (size_t)((last - first) * pairs * 2) * (dtype == CADRE_F64 ? 8 : 4);
    if (bytes > cpu->rope_bytes) {
        cadre_cpu_free(cpu->rope_table);
        cpu->rope_table = cadre_cpu_alloc(bytes);
        cpu->rope_bytes = cpu->rope_table ? bytes : 0;
        if (!cpu->rope_table) {
            cadre_log(CADRE_LOG_ERROR, "device", "no memory for a table of %zu bytes",
                      bytes);
            return CADRE_E_RESOURCE;
        }
    }
    cpu->rope_dtype = dtype;
    cpu->rope_pairs = pairs;
    cpu->rotary = *rotary;
    cpu->rope_begin = first;
    cpu->rope_end = last;
    fill_table(cpu);
    return CADRE_OK;
}

/* lint: long because it fills a slot of the table of ops */
cadre_status cadre_cpu_rope(struct cadre_device *device, uint32_t dtype, void *x,
                            int64_t ld, int64_t batch, int64_t time, int64_t heads,
                            int64_t head_size, const struct cadre_rotary *rotary,
                            int64_t position, bool inverse)
{
    struct cadre_cpu *cpu = (struct cadre_cpu *)device;
    const uint32_t wide = cadre_dtype_wide(dtype); /* of the table */
    const struct cadre_cpu_kernels *kernels = cadre_cpu_kernels(cpu, wide);
    const int64_t pairs = head_size / 2, end = position + time;
    if (!kernels)
        return CADRE_E_DEVICE;
    if (!table_holds(cpu, wide, pairs, rotary, position, end)) {
        CADRE_TRY(make_table(cpu, wide, pairs, rotary, position, end));
    }
    const size_t skip = (size_t)((position - cpu->rope_begin) * pairs * 2);
    const struct cadre_rope_args args = {.x = x,
                                         .table = (const char *)cpu->rope_table +
                                                  skip * cadre_dtype_bytes(wide),
                                         .ld = ld,
                                         .time = time,
                                         .heads = heads,
                                         .pairs = pairs,
                                         .inverse = inverse};
    if (wide != dtype)
        return cadre_half_rope(device, dtype, &args, batch * time);
    cadre_cpu_ranges(cpu, kernels->rope, &args, batch * time, 16);
    return CADRE_OK;
}
