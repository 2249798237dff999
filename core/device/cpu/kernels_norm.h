/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of norms and column sums. Included once per copy by kernels_all.h. */
#ifndef CADRE_DEVICE_CPU_KERNELS_NORM_H
#define CADRE_DEVICE_CPU_KERNELS_NORM_H

#include "core/device/cpu/kernels_real.h"

/* Column sums: rows are added in groups of ROW_GROUP, then the groups in order. */
#define ROW_GROUP 32
#define COLUMN_TILE 64

static void norm_fwd(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_norm *a = args;
    const int64_t C = a->channels;
    const real *w = a->w, *b = a->layer ? a->b : NULL;
    for (int64_t row = begin; row < end; row++) {
        const real *x = (const real *)a->x + row * C;
        real *y = (real *)a->y + row * C;
        real *stats = (real *)a->stats + row * 2;
        real mean = 0, squares = 0;
        if (a->layer) {
#define TERM(AT) AT(x)
            SUM_ROW(mean, C, TERM);
#undef TERM
            mean /= (real)C;
        }
#define TERM(AT) ((AT(x) - mean) * (AT(x) - mean))
        SUM_ROW(squares, C, TERM);
#undef TERM
        real rstd = REAL(1.0) / real_sqrt(squares / (real)C + (real)a->eps);
        stats[0] = mean;
        stats[1] = rstd;
        if (b) {
            SIMD for (int64_t c = 0; c < C; c++) y[c] =
                (x[c] - mean) * rstd * w[c] + b[c];
        } else {
            SIMD for (int64_t c = 0; c < C; c++) y[c] = (x[c] - mean) * rstd * w[c];
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
        const real *residual = a->residual ? (const real *)a->residual + row * C : NULL;
        real *dx = (real *)a->dx + row * C;
        const real mean = ((const real *)a->stats)[row * 2];
        const real rstd = ((const real *)a->stats)[row * 2 + 1];
        real g = 0, gx = 0;
        if (a->layer) {
#define TERM(AT) (AT(dy) * AT(w))
            SUM_ROW(g, C, TERM);
#undef TERM
            g /= (real)C;
        }
#define TERM(AT) (AT(dy) * AT(w) * ((AT(x) - mean) * rstd))
        SUM_ROW(gx, C, TERM);
#undef TERM
        gx /= (real)C;
        if (residual) {
            SIMD for (int64_t c = 0; c < C; c++) dx[c] =
                residual[c] + rstd * (dy[c] * w[c] - g - (x[c] - mean) * rstd * gx);
        } else {
            SIMD for (int64_t c = 0; c < C; c++) dx[c] =
                rstd * (dy[c] * w[c] - g - (x[c] - mean) * rstd * gx);
        }
    }
}

/* out = beta * out + total over n columns. */
INLINE void store_columns(real *out, const real *total, int64_t n, int beta)
{
    for (int64_t j = 0; j < n; j++)
        out[j] = beta ? out[j] + total[j] : total[j];
}

/* At most COLUMN_TILE columns at a time. */
static void norm_bwd_weight(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_norm *a = args;
    const int64_t C = a->channels, n = end - begin;
    const real *stats = a->stats;
    real dw[COLUMN_TILE] = {0}, db[COLUMN_TILE] = {0};
    for (int64_t first = 0; first < a->rows; first += ROW_GROUP) {
        const int64_t last = first + ROW_GROUP < a->rows ? first + ROW_GROUP : a->rows;
        real group_w[COLUMN_TILE] = {0}, group_b[COLUMN_TILE] = {0};
        for (int64_t row = first; row < last; row++) {
            const real *x = (const real *)a->x + row * C + begin;
            const real *dy = (const real *)a->dy + row * C + begin;
            const real mean = stats[row * 2], rstd = stats[row * 2 + 1];
            SIMD for (int64_t j = 0; j < n; j++)
            {
                group_w[j] += dy[j] * ((x[j] - mean) * rstd);
                group_b[j] += dy[j];
            }
        }
        SIMD for (int64_t j = 0; j < n; j++)
        {
            dw[j] += group_w[j];
            db[j] += group_b[j];
        }
    }
    store_columns((real *)a->dw + begin, dw, n, a->beta);
    if (a->db)
        store_columns((real *)a->db + begin, db, n, a->beta);
}

static void bias_bwd(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_columns_args *a = args;
    const int64_t C = a->channels, n = end - begin;
    real db[COLUMN_TILE] = {0};
    for (int64_t first = 0; first < a->rows; first += ROW_GROUP) {
        const int64_t last = first + ROW_GROUP < a->rows ? first + ROW_GROUP : a->rows;
        real group[COLUMN_TILE] = {0};
        for (int64_t row = first; row < last; row++) {
            const real *dy = (const real *)a->dy + row * C + begin;
            SIMD for (int64_t j = 0; j < n; j++) group[j] += dy[j];
        }
        SIMD for (int64_t j = 0; j < n; j++) db[j] += group[j];
    }
    store_columns((real *)a->db + begin, db, n, a->beta);
}

#endif
