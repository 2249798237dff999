/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of norms and column sums. Included once per copy by kernels_all.h. */
#ifndef CADRE_DEVICE_CPU_KERNELS_NORM_H
#define CADRE_DEVICE_CPU_KERNELS_NORM_H

#include "core/device/cpu/kernels_real.h"

INLINE real row_sum(const real *x, int64_t n)
{
#define TERM(AT) AT(x)
    SUM_ROW(sum, n, TERM);
#undef TERM
    return sum;
}

INLINE real row_squares(const real *x, real mean, int64_t n)
{
#define TERM(AT) ((AT(x) - mean) * (AT(x) - mean))
    SUM_ROW(sum, n, TERM);
#undef TERM
    return sum;
}

INLINE real row_product(const real *x, const real *y, int64_t n)
{
#define TERM(AT) (AT(x) * AT(y))
    SUM_ROW(sum, n, TERM);
#undef TERM
    return sum;
}

/* sum of dy * w * xhat */
INLINE real row_moment(const real *dy, const real *w, const real *x, const real *stats,
                       int64_t n)
{
    const real mean = stats[0], rstd = stats[1];
#define TERM(AT) (AT(dy) * AT(w) * ((AT(x) - mean) * rstd))
    SUM_ROW(sum, n, TERM);
#undef TERM
    return sum;
}

static void norm_fwd(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_norm *a = args;
    const int64_t C = a->channels;
    const real *w = a->w, *b = a->layer ? a->b : NULL;
    for (int64_t row = begin; row < end; row++) {
        const real *x = (const real *)a->x + row * C;
        real *y = (real *)a->y + row * C;
        real *stats = (real *)a->stats + row * 2;
        const real mean = a->layer ? row_sum(x, C) / (real)C : 0;
        const real variance = row_squares(x, mean, C) / (real)C;
        const real rstd = REAL(1.0) / real_sqrt(variance + (real)a->eps);
        stats[0] = mean;
        stats[1] = rstd;
        if (b) {
            SIMD
            for (int64_t c = 0; c < C; c++)
                y[c] = (x[c] - mean) * rstd * w[c] + b[c];
        } else {
            SIMD
            for (int64_t c = 0; c < C; c++)
                y[c] = (x[c] - mean) * rstd * w[c];
        }
    }
}

static void norm_bwd_input(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_norm *a = args;
    const int64_t C = a->channels;
    const real *w = a->w;
    for (int64_t row = begin; row < end; row++) {
        const real *x = (const real *)a->x + row * C;
        const real *dy = (const real *)a->dy + row * C;
        const real *stats = (const real *)a->stats + row * 2;
        const real mean = stats[0], rstd = stats[1];
        const real g = a->layer ? row_product(dy, w, C) / (real)C : 0;
        const real gx = row_moment(dy, w, x, stats, C) / (real)C;
        real *dx = (real *)a->dx + row * C;
        if (a->residual) {
            const real *residual = (const real *)a->residual + row * C;
            SIMD
            for (int64_t c = 0; c < C; c++)
                dx[c] =
                    residual[c] + rstd * (dy[c] * w[c] - g - (x[c] - mean) * rstd * gx);
        } else {
            SIMD
            for (int64_t c = 0; c < C; c++)
                dx[c] = rstd * (dy[c] * w[c] - g - (x[c] - mean) * rstd * gx);
        }
    }
}

/* Rows [begin, end) of groups: each group's partial sum of every column. */
static void norm_bwd_weight(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_norm_weight_args *job = args;
    const struct cadre_norm *a = job->norm;
    const int64_t C = a->channels;
    const real *stats = a->stats;
    for (int64_t group = begin; group < end; group++) {
        real *dw = (real *)job->partial + group * 2 * C, *db = dw + C;
        const int64_t first = group * CADRE_ROW_GROUP, left = a->rows - first;
        const int64_t last = first + (left < CADRE_ROW_GROUP ? left : CADRE_ROW_GROUP);
        memset(dw, 0, (size_t)(2 * C) * sizeof *dw);
        for (int64_t row = first; row < last; row++) {
            const real *x = (const real *)a->x + row * C;
            const real *dy = (const real *)a->dy + row * C;
            const real mean = stats[row * 2], rstd = stats[row * 2 + 1];
            SIMD
            for (int64_t c = 0; c < C; c++) {
                dw[c] += dy[c] * ((x[c] - mean) * rstd);
                db[c] += dy[c];
            }
        }
    }
}

static void bias_bwd(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_columns_args *a = args;
    const int64_t C = a->columns;
    for (int64_t group = begin; group < end; group++) {
        real *db = (real *)a->partial + group * C;
        const int64_t first = group * CADRE_ROW_GROUP, left = a->rows - first;
        const int64_t last = first + (left < CADRE_ROW_GROUP ? left : CADRE_ROW_GROUP);
        memset(db, 0, (size_t)C * sizeof *db);
        for (int64_t row = first; row < last; row++) {
            const real *dy = (const real *)a->dy + row * C;
            SIMD
            for (int64_t c = 0; c < C; c++)
                db[c] += dy[c];
        }
    }
}

/* Columns [begin, end), CADRE_COLUMNS at most: the groups' sums are added in order. */
static void column_total(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_totals_args *a = args;
    const int64_t n = end - begin;
    const real *partial = (const real *)a->partial + begin;
    real *out = (real *)a->out + begin, total[CADRE_COLUMNS] = {0};
    for (int64_t group = 0; group < a->groups; group++, partial += a->stride) {
        SIMD
        for (int64_t j = 0; j < n; j++)
            total[j] += partial[j];
    }
    for (int64_t j = 0; j < n; j++)
        out[j] = a->beta ? out[j] + total[j] : total[j];
}

#endif
