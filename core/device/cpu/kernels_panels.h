/* SPDX-License-Identifier: Apache-2.0 */
/* How the factors of a product lie in memory for kernels_product.h: columns of the
 * second in panels, rows of the first in groups; 16 bits are widened. Included once per
 * copy by kernels_product.h. */
#ifndef CADRE_DEVICE_CPU_KERNELS_PANELS_H
#define CADRE_DEVICE_CPU_KERNELS_PANELS_H

#include "core/device/cpu/kernels_real.h"
#include "core/device/cpu/kernels_transpose.h"
#include "core/tensor/half.h"

/* Rows of a group. */
#if defined(__AVX512F__)
enum { ROWS = 8 };
#else
enum { ROWS = 4 };
#endif

/* Vectors of the panel that begins `left` columns before the last: three, the fewest
 * loads a product, where no single one is left over, which takes about as long as two.
 */
INLINE int panel_vectors(int64_t left)
{
    const int64_t vectors = (left + WIDTH - 1) / WIDTH;
    return vectors == 4 ? 2 : vectors < 3 ? (int)vectors : 3;
}

INLINE const void *source_at(const void *from, enum cadre_product_source source,
                             int64_t offset)
{
    const bool half = source != CADRE_SOURCE_REAL;
    return (const char *)from +
           offset * (int64_t)(half ? sizeof(uint16_t) : sizeof(real));
}

INLINE void load_run(real *to, const void *from, enum cadre_product_source source,
                     int64_t n)
{
    const uint16_t *half = from;
    if (source == CADRE_SOURCE_REAL)
        memcpy(to, from, (size_t)n * sizeof *to);
    else if (source == CADRE_SOURCE_BF16)
        SIMD
    for (int64_t i = 0; i < n; i++)
        to[i] = (real)cadre_bf16_to_f32(half[i]);
    else SIMD
    for (int64_t i = 0; i < n; i++)
        to[i] = (real)cadre_f16_to_f32(half[i]);
}

/* A square of b, of which rows are columns of the panel, at `to`. */
INLINE void square_of_rows(const struct cadre_product_panels *p, real *to,
                           int64_t width, const void *b)
{
    real square[WIDTH][WIDTH];
    if (p->source == CADRE_SOURCE_REAL) {
        transpose_square(to, width, b, p->ld);
        return;
    }
    for (int i = 0; i < WIDTH; i++)
        load_run(square[i], source_at(b, p->source, i * p->ld), p->source, WIDTH);
    transpose_square(to, width, square[0], WIDTH);
}

/* A panel of n columns of b, stored by columns. */
static void panel_of_rows(const struct cadre_product_panels *p, real *to, const void *b,
                          int64_t n, int64_t width)
{
    for (int64_t l = 0; l < p->k; l += WIDTH) {
        const int64_t left = p->k - l, steps = left < WIDTH ? left : WIDTH;
        for (int64_t j = 0; j < n; j += WIDTH) {
            const void *from = source_at(b, p->source, j * p->ld + l);
            if (steps == WIDTH && n - j >= WIDTH) {
                square_of_rows(p, to + l * width + j, width, from);
                continue;
            }
            for (int64_t i = j; i < n && i < j + WIDTH; i++) {
                real run[WIDTH];
                load_run(run, source_at(b, p->source, i * p->ld + l), p->source, steps);
                for (int64_t at = 0; at < steps; at++)
                    to[(l + at) * width + i] = run[at];
            }
        }
    }
}

/* The same, stored by rows. */
static void panel_of_columns(const struct cadre_product_panels *p, real *to,
                             const void *b, int64_t n, int64_t width)
{
    for (int64_t l = 0; l < p->k; l++, to += width) {
        const void *from = source_at(b, p->source, l * p->ld);
        int64_t j = 0;
        for (; j + WIDTH <= n; j += WIDTH)
            load_run(to + j, source_at(from, p->source, j), p->source, WIDTH);
        if (j < n)
            load_run(to + j, source_at(from, p->source, j), p->source, n - j);
    }
}

static void product_panels(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_product_panels *p = args;
    int64_t width;
    for (int64_t column = begin; column < end; column += width) {
        width = (int64_t)panel_vectors(p->n - column) * WIDTH;
        const int64_t n = p->n - column < width ? p->n - column : width;
        real *to = (real *)p->to + column * p->k;
        const void *b = source_at(p->b, p->source, p->rows ? column * p->ld : column);
        if (n < width)
            memset(to, 0, (size_t)(p->k * width) * sizeof *to);
        if (p->rows)
            panel_of_rows(p, to, b, n, width);
        else
            panel_of_columns(p, to, b, n, width);
    }
}

/* Groups [begin, end) of ROWS rows of a, which is stored (k, m): element (i, l) of one
 * lies at l * ROWS + i. */
static void product_rows(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_product_rows *p = args;
    const int64_t whole = p->m / ROWS < end ? p->m / ROWS : end;
    for (int64_t l = 0; l < p->k; l++) {
        const void *a = source_at(p->a, p->source, l * p->ld);
        real *to = (real *)p->to + begin * p->group + l * ROWS;
        for (int64_t i = begin; i < whole; i++, to += p->group)
            load_run(to, source_at(a, p->source, i * ROWS), p->source, ROWS);
        if (whole < end)
            load_run(to, source_at(a, p->source, whole * ROWS), p->source,
                     p->m - whole * ROWS);
    }
}

#endif
