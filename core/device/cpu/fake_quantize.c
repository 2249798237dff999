/* SPDX-License-Identifier: Apache-2.0 */
/* Fake quantization: the grids of core/tensor/fake_quantize.h over rows and groups. */
#include "core/tensor/fake_quantize.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "core/base/log.h"
#include "core/device/cpu/cpu.h"
#include "core/tensor/dtype.h"
#include "core/tensor/half.h"

enum { STRIP = 256, LANES = 16, GRAIN = 16 };

/* Elements [at, at + n) of a tensor of one of four dtypes, in fp32 and back. */
static void load(uint32_t dtype, const void *x, int64_t at, int64_t n, float *to)
{
    if (dtype == CADRE_F32)
        memcpy(to, (const float *)x + at, (size_t)n * sizeof *to);
    else
        for (int64_t i = 0; i < n; i++)
            to[i] = dtype == CADRE_F64 ? (float)((const double *)x)[at + i]
                    : dtype == CADRE_BF16
                        ? cadre_bf16_to_f32(((const uint16_t *)x)[at + i])
                        : cadre_f16_to_f32(((const uint16_t *)x)[at + i]);
}

static void store(uint32_t dtype, void *y, int64_t at, int64_t n, const float *from)
{
    if (dtype == CADRE_F32)
        memcpy((float *)y + at, from, (size_t)n * sizeof *from);
    for (int64_t i = 0; dtype == CADRE_F64 && i < n; i++)
        ((double *)y)[at + i] = (double)from[i];
    for (int64_t i = 0; dtype == CADRE_BF16 && i < n; i++)
        ((uint16_t *)y)[at + i] = cadre_bf16_from_f32(from[i]);
    for (int64_t i = 0; dtype == CADRE_F16 && i < n; i++)
        ((uint16_t *)y)[at + i] = cadre_f16_from_f32(from[i]);
}

/* What columns hold, each for itself; or all of them what one group does. */
struct range {
    float least[STRIP], most[STRIP];
    float bad[STRIP]; /* 0; NaN where a value is not finite */
};

static void clear_range(struct range *range, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        range->least[i] = range->most[i] = range->bad[i] = 0; /* 0 is in every grid */
}

/* LANES of them: a number that the compiler knows, for vector code. */
static void widen_lanes(struct range *range, int64_t at, const float *x)
{
    float *least = range->least + at, *most = range->most + at, *bad = range->bad + at;
    for (int k = 0; k < LANES; k++) {
        least[k] = x[k] < least[k] ? x[k] : least[k];
        most[k] = x[k] > most[k] ? x[k] : most[k];
        bad[k] += x[k] - x[k];
    }
}

static struct cadre_grid grid_of(const struct cadre_fake_quantize *a,
                                 const struct range *range, int64_t i)
{
    const float least = range->least[i], most = range->most[i];
    const bool finite = range->bad[i] == 0;
    return a->group > 0 ? cadre_grid_int4(-least > most ? -least : most, finite)
                        : cadre_grid_int8(least, most, finite);
}

/* The first lane's becomes that of all. */
static void join_lanes(struct range *range)
{
    for (int k = 1; k < LANES; k++) {
        range->least[0] = fminf(range->least[0], range->least[k]);
        range->most[0] = fmaxf(range->most[0], range->most[k]);
        range->bad[0] += range->bad[k];
    }
}

/* What lies at `row` of (rows, 2) wide elements: of `range`. */
static struct cadre_grid grid_given(const struct cadre_fake_quantize *a, int64_t row)
{
    float range[2];
    load(cadre_dtype_wide(a->dtype), a->range, row * 2, 2, range);
    return cadre_grid_int8(-range[0], range[1],
                           range[0] <= FLT_MAX && range[1] <= FLT_MAX);
}

static void store_found(const struct cadre_fake_quantize *a, const struct range *range,
                        int64_t row)
{
    const bool finite = range->bad[0] == 0;
    const float found[2] = {finite ? 0 - range->least[0] : INFINITY,
                            finite ? range->most[0] : INFINITY};
    store(cadre_dtype_wide(a->dtype), a->found, row * 2, 2, found);
}

static void clear_element(const struct cadre_fake_quantize *a, int64_t at)
{
    const size_t bytes =
        cadre_dtype_bytes(a->wide ? cadre_dtype_wide(a->dtype) : a->dtype);
    memset((char *)a->grad + (size_t)at * bytes, 0, bytes);
}

/* Elements [at, at + n) of x and zeros up to whole lanes: those change no range. */
static void load_lanes(const struct cadre_fake_quantize *a, int64_t at, int64_t n,
                       float x[STRIP])
{
    load(a->dtype, a->x, at, n, x);
    for (int64_t i = n; i % LANES != 0; i++)
        x[i] = 0;
}

/* Codes and values of LANES elements by one grid. */
static void code_lanes(struct cadre_grid g, float *x, float *codes)
{
    for (int k = 0; k < LANES; k++) {
        codes[k] = cadre_grid_code(g, x[k]);
        x[k] = cadre_grid_value(g, cadre_grid_clamp(g, codes[k]));
    }
}

/* Elements [at, at + n), element i by grid i * step. */
static void apply(const struct cadre_fake_quantize *a, int64_t at, int64_t n,
                  const struct cadre_grid *grid, int step)
{
    float x[STRIP], codes[STRIP];
    load_lanes(a, at, n, x);
    for (int64_t i = 0; step == 0 && i < n; i += LANES)
        code_lanes(*grid, x + i, codes + i);
    for (int64_t i = 0; step == 1 && i < n; i++) {
        codes[i] = cadre_grid_code(grid[i], x[i]);
        x[i] = cadre_grid_value(grid[i], cadre_grid_clamp(grid[i], codes[i]));
    }
    if (a->y)
        store(a->dtype, a->y, at, n, x);
    for (int64_t i = 0; a->grad && i < n; i++)
        if (codes[i] < grid[i * step].low || codes[i] > grid[i * step].high)
            clear_element(a, at + i);
}

static int64_t least_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Of elements [at, at + n), which are a group, or row `row`, a token. */
static struct cadre_grid grid_of_run(const struct cadre_fake_quantize *a, int64_t row,
                                     int64_t at, int64_t n)
{
    struct range range;
    float x[STRIP];
    if (a->range && !a->found)
        return grid_given(a, row);
    clear_range(&range, LANES);
    for (int64_t i = 0; i < n; i += STRIP) {
        const int64_t m = least_of(STRIP, n - i);
        load_lanes(a, at + i, m, x);
        for (int64_t k = 0; k < m; k += LANES)
            widen_lanes(&range, 0, x + k);
    }
    join_lanes(&range);
    if (a->found)
        store_found(a, &range, row);
    return a->range ? grid_given(a, row) : grid_of(a, &range, 0);
}

/* Units are groups of rows: a row of tokens is one. */
static void along(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_fake_quantize *a = args;
    const int64_t group = a->group > 0 ? a->group : a->columns;
    const int64_t in_row = (a->columns + group - 1) / group;
    for (int64_t u = begin; u < end; u++) {
        const int64_t from = u % in_row * group;
        const int64_t at = u / in_row * a->columns + from;
        const int64_t n = least_of(group, a->columns - from);
        const struct cadre_grid grid = grid_of_run(a, u / in_row, at, n);
        for (int64_t i = 0; (a->y || a->grad) && i < n; i += STRIP)
            apply(a, at + i, least_of(STRIP, n - i), &grid, 0);
    }
}

/* Units are strips of columns of a group of rows. */
static void down(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_fake_quantize *a = args;
    const int64_t strips = (a->columns + STRIP - 1) / STRIP;
    struct range range;
    struct cadre_grid grid[STRIP];
    float x[STRIP];
    for (int64_t u = begin; u < end; u++) {
        const int64_t column = u % strips * STRIP, row = u / strips * a->group;
        const int64_t n = least_of(STRIP, a->columns - column);
        const int64_t last = least_of(row + a->group, a->rows);
        clear_range(&range, STRIP);
        for (int64_t r = row; r < last; r++) {
            load_lanes(a, r * a->columns + column, n, x);
            for (int64_t k = 0; k < n; k += LANES)
                widen_lanes(&range, k, x + k);
        }
        for (int64_t i = 0; i < n; i++)
            grid[i] = grid_of(a, &range, i);
        for (int64_t r = row; r < last; r++)
            apply(a, r * a->columns + column, n, grid, 1);
    }
}

cadre_status cadre_cpu_fake_quantize(struct cadre_device *device,
                                     const struct cadre_fake_quantize *a)
{
    struct cadre_cpu *cpu = (struct cadre_cpu *)device;
    const int64_t group = a->group > 0 ? a->group : a->columns;
    if (a->dtype != CADRE_F32 && a->dtype != CADRE_F64 && a->dtype != CADRE_BF16 &&
        a->dtype != CADRE_F16) {
        cadre_log(CADRE_LOG_ERROR, "cpu", "fake_quantize: unsupported dtype %s",
                  cadre_dtype_name(a->dtype));
        return CADRE_E_DEVICE;
    }
    if (a->rows == 0 || a->columns == 0)
        return CADRE_OK;
    if (a->down)
        cadre_cpu_ranges(
            cpu, down, a,
            (a->rows + group - 1) / group * ((a->columns + STRIP - 1) / STRIP), 1);
    else
        cadre_cpu_ranges(cpu, along, a, a->rows * ((a->columns + group - 1) / group),
                         GRAIN);
    return CADRE_OK;
}
