/* SPDX-License-Identifier: Apache-2.0 */
/* Norms, column sums, embedding and loss in 16 bits; statistics and the gradients of
 * parameters are f32. */
#include <string.h>

#include "core/device/cpu/half.h"

enum { ELEMENTS = 4096 };

static int64_t row_grain(int64_t row_elements)
{
    const int64_t rows = row_elements > 0 ? ELEMENTS / row_elements : ELEMENTS;
    return rows > 0 ? rows : 1;
}

/* ---- norms and column sums ---- */

static void norm_fwd_tile(const struct cadre_half *half, const void *op, int64_t begin,
                          int64_t end, float *scratch)
{
    const struct cadre_norm *a = op;
    const int64_t C = a->channels, rows = end - begin;
    float *w = scratch, *b = w + C, *x = b + C;
    struct cadre_norm wide = *a;
    wide.x = wide.y = x;
    wide.w = w;
    wide.b = a->layer && a->b ? b : NULL;
    wide.stats = (float *)a->stats + 2 * begin;
    cadre_half_widen(half, w, a->w, 0, C);
    if (wide.b)
        cadre_half_widen(half, b, a->b, 0, C);
    cadre_half_widen(half, x, a->x, begin * C, rows * C);
    half->kernels->norm_fwd(&wide, 0, rows);
    cadre_half_narrow(half, a->y, begin * C, x, rows * C);
}

cadre_status cadre_half_norm_fwd(struct cadre_device *device,
                                 const struct cadre_norm *a)
{
    const struct cadre_half half = cadre_half_of(device, a->dtype);
    const int64_t grain = row_grain(a->channels);
    return cadre_half_run(&half, norm_fwd_tile, a, a->rows, grain,
                          (grain + 2) * a->channels);
}

static void norm_input_tile(const struct cadre_half *half, const void *op,
                            int64_t begin, int64_t end, float *scratch)
{
    const struct cadre_norm *a = op;
    const int64_t C = a->channels, rows = end - begin, n = rows * C;
    float *w = scratch, *x = w + C, *dy = x + n, *residual = dy + n;
    struct cadre_norm wide = *a;
    wide.x = x;
    wide.w = w;
    wide.dy = wide.dx = dy;
    wide.residual = a->residual ? residual : NULL;
    wide.stats = (float *)a->stats + 2 * begin;
    cadre_half_widen(half, w, a->w, 0, C);
    cadre_half_widen(half, x, a->x, begin * C, n);
    cadre_half_widen(half, dy, a->dy, begin * C, n);
    if (a->residual)
        cadre_half_widen(half, residual, a->residual, begin * C, n);
    half->kernels->norm_bwd_input(&wide, 0, rows);
    cadre_half_narrow(half, a->dx, begin * C, dy, n);
}

cadre_status cadre_half_norm_input(struct cadre_device *device,
                                   const struct cadre_norm *a)
{
    const struct cadre_half half = cadre_half_of(device, a->dtype);
    const int64_t grain = row_grain(a->channels);
    return cadre_half_run(&half, norm_input_tile, a, a->rows, grain,
                          (3 * grain + 1) * a->channels);
}

static int64_t group_rows(int64_t rows, int64_t group)
{
    const int64_t left = rows - group * CADRE_ROW_GROUP;
    return left < CADRE_ROW_GROUP ? left : CADRE_ROW_GROUP;
}

static void norm_weight_tile(const struct cadre_half *half, const void *op,
                             int64_t begin, int64_t end, float *scratch)
{
    const struct cadre_norm_weight_args *job = op;
    const struct cadre_norm *a = job->norm;
    const int64_t C = a->channels;
    float *x = scratch, *dy = x + CADRE_ROW_GROUP * C;
    for (int64_t group = begin; group < end; group++) {
        const int64_t first = group * CADRE_ROW_GROUP;
        struct cadre_norm wide = *a;
        wide.rows = group_rows(a->rows, group);
        wide.x = x;
        wide.dy = dy;
        wide.stats = (float *)a->stats + 2 * first;
        cadre_half_widen(half, x, a->x, first * C, wide.rows * C);
        cadre_half_widen(half, dy, a->dy, first * C, wide.rows * C);
        const struct cadre_norm_weight_args args = {
            .norm = &wide, .partial = (float *)job->partial + group * 2 * C};
        half->kernels->norm_bwd_weight(&args, 0, 1);
    }
}

cadre_status cadre_half_norm_weight(struct cadre_device *device, uint32_t dtype,
                                    const struct cadre_norm_weight_args *args,
                                    int64_t groups)
{
    const struct cadre_half half = cadre_half_of(device, dtype);
    return cadre_half_run(&half, norm_weight_tile, args, groups, 1,
                          2 * CADRE_ROW_GROUP * args->norm->channels);
}

static void bias_tile(const struct cadre_half *half, const void *op, int64_t begin,
                      int64_t end, float *scratch)
{
    const struct cadre_columns_args *a = op;
    const int64_t C = a->columns;
    for (int64_t group = begin; group < end; group++) {
        const struct cadre_columns_args wide = {.dy = scratch,
                                                .partial =
                                                    (float *)a->partial + group * C,
                                                .rows = group_rows(a->rows, group),
                                                .columns = C};
        cadre_half_widen(half, scratch, a->dy, group * CADRE_ROW_GROUP * C,
                         wide.rows * C);
        half->kernels->bias_bwd(&wide, 0, 1);
    }
}

cadre_status cadre_half_bias_bwd(struct cadre_device *device, uint32_t dtype,
                                 const struct cadre_columns_args *args, int64_t groups)
{
    const struct cadre_half half = cadre_half_of(device, dtype);
    if (half.bf16) {
        cadre_cpu_ranges(half.cpu, half.bf16->bias_bwd, args, groups, 1);
        return CADRE_OK;
    }
    return cadre_half_run(&half, bias_tile, args, groups, 1,
                          CADRE_ROW_GROUP * args->columns);
}

/* ---- embedding ---- */

static void embed_fwd_tile(const struct cadre_half *half, const void *op, int64_t begin,
                           int64_t end, float *scratch)
{
    const struct cadre_embed *a = op;
    const int64_t C = a->channels;
    const size_t bytes = (size_t)C * sizeof(uint16_t);
    float *token_row = scratch, *position_row = scratch + C;
    const struct cadre_add_args sum = {
        .a = token_row, .b = position_row, .y = token_row, .channels = C};
    for (int64_t row = begin; row < end; row++) {
        const int64_t token = (int64_t)a->tokens[row] - a->begin;
        uint16_t *out = (uint16_t *)a->out + row * C;
        if (token < 0 || token >= a->count) {
            memset(out, 0, bytes);
        } else if (!a->wpe) {
            memcpy(out, (const uint16_t *)a->wte + token * C, bytes);
        } else {
            cadre_half_widen(half, token_row, a->wte, token * C, C);
            cadre_half_widen(half, position_row, a->wpe,
                             (a->position + row % a->time) * C, C);
            half->kernels->add(&sum, 0, 1);
            cadre_half_narrow(half, out, 0, token_row, C);
        }
    }
}

cadre_status cadre_half_embed_fwd(struct cadre_device *device,
                                  const struct cadre_embed *a)
{
    const struct cadre_half half = cadre_half_of(device, a->dtype);
    return cadre_half_run(&half, embed_fwd_tile, a, a->batch * a->time,
                          row_grain(a->channels), 2 * a->channels);
}

/* Columns [begin, end) of every row. */
static void embed_tokens_tile(const struct cadre_half *half, const void *op,
                              int64_t begin, int64_t end, float *scratch)
{
    const struct cadre_embed *a = op;
    const int64_t C = a->channels, rows = a->batch * a->time, n = end - begin;
    for (int64_t row = 0; row < rows; row++) {
        const int64_t token = (int64_t)a->tokens[row] - a->begin;
        if (token < 0 || token >= a->count)
            continue;
        float *dwte = (float *)a->dwte + token * C + begin;
        const struct cadre_add_args sum = {.a = dwte, .b = scratch, .y = dwte};
        cadre_half_widen(half, scratch, a->dout, row * C + begin, n);
        half->kernels->tree_add(&sum, 0, n);
    }
}

cadre_status cadre_half_embed_tokens(struct cadre_device *device,
                                     const struct cadre_embed *a)
{
    const struct cadre_half half = cadre_half_of(device, a->dtype);
    return cadre_half_run(&half, embed_tokens_tile, a, a->channels, CADRE_COLUMNS,
                          CADRE_COLUMNS);
}

static void embed_positions_tile(const struct cadre_half *half, const void *op,
                                 int64_t begin, int64_t end, float *scratch)
{
    const struct cadre_embed *a = op;
    const int64_t C = a->channels;
    for (int64_t p = begin; p < end; p++) {
        float *dwpe = (float *)a->dwpe + p * C;
        const struct cadre_add_args sum = {.a = dwpe, .b = scratch, .y = dwpe};
        const int64_t t = p - a->position;
        if (!a->beta)
            memset(dwpe, 0, (size_t)C * sizeof *dwpe);
        for (int64_t b = 0; t >= 0 && t < a->time && b < a->batch; b++) {
            cadre_half_widen(half, scratch, a->dout, (b * a->time + t) * C, C);
            half->kernels->tree_add(&sum, 0, C);
        }
    }
}

cadre_status cadre_half_embed_positions(struct cadre_device *device,
                                        const struct cadre_embed *a)
{
    const struct cadre_half half = cadre_half_of(device, a->dtype);
    return cadre_half_run(&half, embed_positions_tile, a, a->positions,
                          row_grain(a->channels * a->batch), a->channels);
}

/* ---- loss and norm ---- */

/* Rows from `begin` on, their logits being in scratch. */
static struct cadre_xent xent_rows(const struct cadre_xent *a, int64_t begin,
                                   float *logits)
{
    struct cadre_xent wide = *a;
    wide.logits = logits;
    wide.targets += begin;
    wide.max = (float *)a->max + begin;
    wide.sum = (float *)a->sum + begin;
    return wide;
}

static void xent_fwd_tile(const struct cadre_half *half, const void *op, int64_t begin,
                          int64_t end, float *scratch)
{
    const struct cadre_xent *a = op;
    const int64_t V = a->vocab;
    struct cadre_xent wide = xent_rows(a, begin, scratch);
    const int64_t ld = a->ld ? a->ld : V;
    wide.picked = (float *)a->picked + begin;
    wide.total = a->total ? (float *)a->total + begin : NULL;
    wide.ld = 0;
    cadre_half_widen_rows(half, scratch, (const uint16_t *)a->logits + begin * ld,
                          end - begin, V, ld);
    half->kernels->xent_fwd(&wide, 0, end - begin);
}

cadre_status cadre_half_xent_fwd(struct cadre_device *device,
                                 const struct cadre_xent *a)
{
    const struct cadre_half half = cadre_half_of(device, a->dtype);
    const int64_t grain = row_grain(a->vocab);
    return cadre_half_run(&half, xent_fwd_tile, a, a->rows, grain, grain * a->vocab);
}

static void xent_bwd_tile(const struct cadre_half *half, const void *op, int64_t begin,
                          int64_t end, float *scratch)
{
    const struct cadre_xent *a = op;
    const int64_t V = a->vocab;
    const struct cadre_xent wide = xent_rows(a, begin, scratch);
    cadre_half_widen(half, scratch, a->logits, begin * V, (end - begin) * V);
    half->kernels->xent_bwd(&wide, 0, end - begin);
    cadre_half_narrow(half, a->logits, begin * V, scratch, (end - begin) * V);
}

cadre_status cadre_half_xent_bwd(struct cadre_device *device,
                                 const struct cadre_xent *a)
{
    const struct cadre_half half = cadre_half_of(device, a->dtype);
    const int64_t grain = row_grain(a->vocab);
    return cadre_half_run(&half, xent_bwd_tile, a, a->rows, grain, grain * a->vocab);
}

static void squares_tile(const struct cadre_half *half, const void *op, int64_t begin,
                         int64_t end, float *scratch)
{
    const struct cadre_squares_args *a = op;
    for (int64_t chunk = begin; chunk < end; chunk++) {
        const int64_t first = chunk * CADRE_NORM_CHUNK, left = a->count - first;
        const struct cadre_squares_args wide = {
            .x = scratch,
            .count = left < CADRE_NORM_CHUNK ? left : CADRE_NORM_CHUNK,
            .sums = a->sums + chunk};
        cadre_half_widen(half, scratch, a->x, first, wide.count);
        half->kernels->sum_squares(&wide, 0, 1);
    }
}

cadre_status cadre_half_squares(struct cadre_device *device, uint32_t dtype,
                                const struct cadre_squares_args *args, int64_t chunks)
{
    const struct cadre_half half = cadre_half_of(device, dtype);
    return cadre_half_run(&half, squares_tile, args, chunks, 4, CADRE_NORM_CHUNK);
}
