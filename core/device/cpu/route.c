/* SPDX-License-Identifier: Apache-2.0 */
/* Routing of rows to experts, and rows in the order of their experts. Values of every
 * dtype are computed in double and rounded where they are stored; a task has whole
 * rows, so the bits do not depend on the number of threads. */
#include <math.h>
#include <string.h>

#include "core/base/log.h"
#include "core/device/cpu/cpu.h"
#include "core/tensor/half.h"

enum {
    ELEMENTS = 16384, /* of a range */
    TILE = 512, /* values in double at a time */
};

/* out (n) = elements [at, at + n) of src, of f16 where the dtype is no other. */
static void load(uint32_t dtype, const void *src, int64_t at, int64_t n, double *out)
{
    const uint16_t *half = src;
    switch (dtype) {
    case CADRE_F32:
        for (int64_t i = 0; i < n; i++)
            out[i] = (double)((const float *)src)[at + i];
        break;
    case CADRE_F64:
        memcpy(out, (const double *)src + at, (size_t)n * sizeof *out);
        break;
    case CADRE_BF16:
        for (int64_t i = 0; i < n; i++)
            out[i] = (double)cadre_bf16_to_f32(half[at + i]);
        break;
    default:
        for (int64_t i = 0; i < n; i++)
            out[i] = (double)cadre_f16_to_f32(half[at + i]);
    }
}

static void store(uint32_t dtype, void *dst, int64_t at, int64_t n, const double *in)
{
    uint16_t *half = dst;
    switch (dtype) {
    case CADRE_F32:
        for (int64_t i = 0; i < n; i++)
            ((float *)dst)[at + i] = (float)in[i];
        break;
    case CADRE_F64:
        memcpy((double *)dst + at, in, (size_t)n * sizeof *in);
        break;
    case CADRE_BF16:
        for (int64_t i = 0; i < n; i++)
            half[at + i] = cadre_bf16_from_f32((float)in[i]);
        break;
    default:
        for (int64_t i = 0; i < n; i++)
            half[at + i] = cadre_f16_from_f32((float)in[i]);
    }
}

static double value_at(uint32_t dtype, const void *src, int64_t at)
{
    double value;
    load(dtype, src, at, 1, &value);
    return value;
}

static bool computes(uint32_t dtype)
{
    return dtype == CADRE_F32 || dtype == CADRE_F64 || dtype == CADRE_BF16 ||
           dtype == CADRE_F16;
}

/* Ranges of rows that are `width` long. */
static cadre_status run(struct cadre_device *device, uint32_t dtype,
                        cadre_cpu_range *range, const void *args, int64_t rows,
                        int64_t width)
{
    const int64_t grain = width > 0 && width < ELEMENTS ? ELEMENTS / width : 1;
    if (!computes(dtype)) {
        cadre_log(CADRE_LOG_ERROR, "cpu", "experts in %s, expected f32, f64, bf16, f16",
                  cadre_dtype_name(dtype));
        return CADRE_E_DEVICE;
    }
    cadre_cpu_ranges((struct cadre_cpu *)device, range, args, rows, grain);
    return CADRE_OK;
}

/* ---- routing ---- */

static void route_fwd(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_route *a = args;
    const uint32_t wide = cadre_dtype_wide(a->dtype);
    const int64_t E = a->experts;
    double p[CADRE_MAX_EXPERTS];
    for (int64_t row = begin; row < end; row++) {
        int32_t best = 0;
        double sum = 0;
        load(a->dtype, a->logits, row * E, E, p);
        for (int32_t e = 1; e < E; e++)
            best = p[e] > p[best] ? e : best;
        const double most = p[best];
        for (int64_t e = 0; e < E; e++) {
            p[e] = exp(p[e] - most);
            sum += p[e];
        }
        for (int64_t e = 0; e < E; e++)
            p[e] /= sum;
        store(wide, a->probs, row * E, E, p);
        store(wide, a->gate, row, 1, &p[best]);
        a->choice[row] = best;
    }
}

/* dlogit = p * (g - sum of g * p), g the gradient of the probabilities. */
static void route_bwd(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_route *a = args;
    const uint32_t wide = cadre_dtype_wide(a->dtype);
    const int64_t E = a->experts;
    double p[CADRE_MAX_EXPERTS], d[CADRE_MAX_EXPERTS];
    for (int64_t row = begin; row < end; row++) {
        double sum = 0;
        load(wide, a->probs, row * E, E, p);
        for (int64_t e = 0; e < E; e++)
            d[e] = a->balance[e];
        d[a->choice[row]] += value_at(wide, a->dgate, row);
        for (int64_t e = 0; e < E; e++)
            sum += d[e] * p[e];
        for (int64_t e = 0; e < E; e++)
            d[e] = p[e] * (d[e] - sum);
        store(a->dtype, a->dlogits, row * E, E, d);
    }
}

static cadre_status check_experts(const struct cadre_route *a)
{
    if (a->experts >= 1 && a->experts <= CADRE_MAX_EXPERTS)
        return CADRE_OK;
    cadre_log(CADRE_LOG_ERROR, "cpu", "routing to %lld experts, expected 1 to %d",
              (long long)a->experts, CADRE_MAX_EXPERTS);
    return CADRE_E_DEVICE;
}

cadre_status cadre_cpu_route_fwd(struct cadre_device *device,
                                 const struct cadre_route *a)
{
    CADRE_TRY(check_experts(a));
    return run(device, a->dtype, route_fwd, a, a->rows, a->experts);
}

cadre_status cadre_cpu_route_bwd(struct cadre_device *device,
                                 const struct cadre_route *a)
{
    CADRE_TRY(check_experts(a));
    return run(device, a->dtype, route_bwd, a, a->rows, a->experts);
}

/* ---- rows ---- */

/* out row `to` = weight * x row `from`. */
static void move_row(const struct cadre_rows *a, int64_t to, int64_t from,
                     int64_t weighted)
{
    const int64_t C = a->channels;
    const size_t element = cadre_dtype_bytes(a->dtype);
    if (!a->weight) {
        memcpy((char *)a->out + (size_t)(to * C) * element,
               (const char *)a->x + (size_t)(from * C) * element, (size_t)C * element);
        return;
    }
    const double by = value_at(cadre_dtype_wide(a->dtype), a->weight, weighted);
    double tile[TILE];
    for (int64_t c = 0; c < C; c += TILE) {
        const int64_t n = C - c < TILE ? C - c : TILE;
        load(a->dtype, a->x, from * C + c, n, tile);
        for (int64_t i = 0; i < n; i++)
            tile[i] *= by;
        store(a->dtype, a->out, to * C + c, n, tile);
    }
}

static void take(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_rows *a = args;
    for (int64_t i = begin; i < end; i++)
        move_row(a, i, a->order[i], a->order[i]);
}

static void put(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_rows *a = args;
    for (int64_t i = begin; i < end; i++)
        move_row(a, a->order[i], i, a->order[i]);
}

static void dot(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_rows *a = args;
    const int64_t C = a->channels;
    double x[TILE], y[TILE];
    for (int64_t row = begin; row < end; row++) {
        double sum = 0;
        for (int64_t c = 0; c < C; c += TILE) {
            const int64_t n = C - c < TILE ? C - c : TILE;
            load(a->dtype, a->x, a->order[row] * C + c, n, x);
            load(a->dtype, a->y, row * C + c, n, y);
            for (int64_t i = 0; i < n; i++)
                sum += x[i] * y[i];
        }
        store(cadre_dtype_wide(a->dtype), a->dots, a->order[row], 1, &sum);
    }
}

cadre_status cadre_cpu_rows_take(struct cadre_device *device,
                                 const struct cadre_rows *a)
{
    return run(device, a->dtype, take, a, a->rows, a->channels);
}

cadre_status cadre_cpu_rows_put(struct cadre_device *device, const struct cadre_rows *a)
{
    return run(device, a->dtype, put, a, a->rows, a->channels);
}

cadre_status cadre_cpu_rows_dot(struct cadre_device *device, const struct cadre_rows *a)
{
    return run(device, a->dtype, dot, a, a->rows, a->channels);
}
