/* SPDX-License-Identifier: Apache-2.0 */
/* The k elements of largest magnitude, and the scatter back. Radix selection: the bits
 * of |x| are ordered as |x| is, so a few histograms, each over the elements that match
 * the digits known so far, find the k-th largest bit pattern; one more pass gathers in
 * order of index. Counts are integers, so the result does not depend on threads. */
#include <string.h>

#include "core/device/cpu/cpu.h"

enum {
    DIGIT_BITS = 11, /* three passes for f32, six for f64 */
    DIGITS = 1 << DIGIT_BITS,
    ELEMENTS = 16384, /* of a tile */
};

/* A tile's number of selected elements; then: the number before it. */
struct tile_count {
    int64_t above; /* above the k-th magnitude */
    int64_t equal; /* of exactly that magnitude */
};

struct topk {
    struct cadre_cpu *cpu;
    const void *x;
    bool wide; /* f64 */
    int64_t count;
    void *values;
    int32_t *indices;
    uint64_t known; /* the upper bits of the k-th magnitude, from `bit` on */
    int bit;
    int digit_bits; /* of the digit below `bit` that is counted now */
    int64_t equal; /* elements of exactly that magnitude to select */
    struct tile_count *tiles;
};

/* |x| as an integer of the same order. All NaN are one, above infinity. */
static inline uint64_t magnitude(const struct topk *t, int64_t i)
{
    if (t->wide) {
        uint64_t bits;
        memcpy(&bits, (const double *)t->x + i, sizeof bits);
        bits &= UINT64_MAX >> 1;
        return bits > UINT64_C(0x7ff0000000000000) ? UINT64_MAX >> 1 : bits;
    }
    uint32_t bits;
    memcpy(&bits, (const float *)t->x + i, sizeof bits);
    bits &= UINT32_MAX >> 1;
    return bits > UINT32_C(0x7f800000) ? UINT32_MAX >> 1 : bits;
}

static int64_t tile_end(const struct topk *t, int64_t tile)
{
    const int64_t end = (tile + 1) * ELEMENTS;
    return end < t->count ? end : t->count;
}

static int64_t *histogram(const struct topk *t, int worker)
{
    return cadre_cpu_scratch(&t->cpu->workers[worker], CADRE_SCRATCH_ROWS,
                             DIGITS * sizeof(int64_t));
}

static void count_digits(void *arg, int64_t tile, int worker)
{
    const struct topk *t = arg;
    const int64_t end = tile_end(t, tile);
    const int low = t->bit - t->digit_bits;
    const uint64_t mask = ((uint64_t)1 << t->digit_bits) - 1;
    int64_t *counts = histogram(t, worker);
    for (int64_t i = tile * ELEMENTS; i < end; i++) {
        const uint64_t m = magnitude(t, i);
        if (m >> t->bit == t->known)
            counts[m >> low & mask]++;
    }
}

static void count_tile(void *arg, int64_t tile, int worker)
{
    const struct topk *t = arg;
    const int64_t end = tile_end(t, tile);
    struct tile_count n = {0, 0};
    (void)worker;
    for (int64_t i = tile * ELEMENTS; i < end; i++) {
        const uint64_t m = magnitude(t, i);
        n.above += m > t->known;
        n.equal += m == t->known;
    }
    t->tiles[tile] = n;
}

static void gather_tile(void *arg, int64_t tile, int worker)
{
    const struct topk *t = arg;
    const int64_t end = tile_end(t, tile);
    int64_t equal = t->tiles[tile].equal;
    int64_t to = t->tiles[tile].above + (equal < t->equal ? equal : t->equal);
    (void)worker;
    for (int64_t i = tile * ELEMENTS; i < end; i++) {
        const uint64_t m = magnitude(t, i);
        if (m < t->known || (m == t->known && equal++ >= t->equal))
            continue;
        t->indices[to] = (int32_t)i;
        if (t->wide)
            ((double *)t->values)[to] = ((const double *)t->x)[i];
        else
            ((float *)t->values)[to] = ((const float *)t->x)[i];
        to++;
    }
}

/* Determine one more digit of the k-th magnitude; t->equal is how many to select of
 * those that match the known digits. */
static void find_digit(struct topk *t, int64_t tiles)
{
    const int threads = cadre_pool_threads(t->cpu->pool);
    int64_t digit = ((int64_t)1 << t->digit_bits) - 1, here = 0;
    for (int w = 0; w < threads; w++)
        memset(histogram(t, w), 0, DIGITS * sizeof(int64_t));
    cadre_pool_run(t->cpu->pool, tiles, count_digits, t);
    for (;; digit--) {
        here = 0;
        for (int w = 0; w < threads; w++)
            here += histogram(t, w)[digit];
        if (here >= t->equal)
            break;
        t->equal -= here;
    }
    t->known = t->known << t->digit_bits | (uint64_t)digit;
    t->bit -= t->digit_bits;
}

/* Scratch is made here, once, so that a tile's cannot fail. */
static bool make_scratch(struct topk *t, int64_t tiles)
{
    t->tiles = cadre_cpu_scratch(&t->cpu->workers[0], CADRE_SCRATCH_COLUMNS,
                                 (size_t)tiles * sizeof *t->tiles);
    bool made = t->tiles != NULL;
    for (int w = 0; made && w < cadre_pool_threads(t->cpu->pool); w++)
        made = histogram(t, w) != NULL;
    return made;
}

cadre_status cadre_cpu_topk(struct cadre_device *device, uint32_t dtype, const void *x,
                            int64_t count, int64_t k, void *values, int32_t *indices)
{
    struct cadre_cpu *cpu = (struct cadre_cpu *)device;
    const int64_t tiles = (count + ELEMENTS - 1) / ELEMENTS;
    struct topk t = {.cpu = cpu,
                     .x = x,
                     .wide = dtype == CADRE_F64,
                     .count = count,
                     .values = values,
                     .indices = indices,
                     .bit = dtype == CADRE_F64 ? 63 : 31,
                     .equal = k};
    struct tile_count before = {0, 0};
    if (!cadre_cpu_kernels(cpu, dtype) || k > count || count > INT32_MAX)
        return CADRE_E_DEVICE;
    if (k <= 0)
        return CADRE_OK;
    if (!make_scratch(&t, tiles))
        return CADRE_E_RESOURCE;
    while (t.bit > 0) {
        t.digit_bits = t.bit < DIGIT_BITS ? t.bit : DIGIT_BITS;
        find_digit(&t, tiles);
    }
    cadre_pool_run(cpu->pool, tiles, count_tile, &t);
    for (int64_t i = 0; i < tiles; i++) {
        const struct tile_count here = t.tiles[i];
        t.tiles[i] = before;
        before.above += here.above;
        before.equal += here.equal;
    }
    cadre_pool_run(cpu->pool, tiles, gather_tile, &t);
    return CADRE_OK;
}

struct scatter {
    bool wide; /* f64 */
    void *x;
    const void *values;
    const int32_t *indices;
    double by;
};

/* Indices differ, so no two ranges overlap. */
static void scatter_range(const void *args, int64_t begin, int64_t end)
{
    const struct scatter *s = args;
    const float by = (float)s->by;
    for (int64_t i = begin; i < end; i++) {
        const int32_t at = s->indices[i];
        if (s->wide)
            ((double *)s->x)[at] += s->by * ((const double *)s->values)[i];
        else
            ((float *)s->x)[at] += by * ((const float *)s->values)[i];
    }
}

cadre_status cadre_cpu_scatter_add(struct cadre_device *device, uint32_t dtype, void *x,
                                   int64_t count, const void *values,
                                   const int32_t *indices, int64_t k, double by)
{
    struct cadre_cpu *cpu = (struct cadre_cpu *)device;
    const struct scatter args = {.wide = dtype == CADRE_F64,
                                 .x = x,
                                 .values = values,
                                 .indices = indices,
                                 .by = by};
    if (!cadre_cpu_kernels(cpu, dtype))
        return CADRE_E_DEVICE;
    for (int64_t i = 0; i < k; i++)
        if (indices[i] < 0 || indices[i] >= count)
            return CADRE_E_DEVICE;
    cadre_cpu_ranges(cpu, scatter_range, &args, k, ELEMENTS);
    return CADRE_OK;
}
