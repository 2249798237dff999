/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products of which each element depends on its own row and column alone: it is
 * one chain sum = a * b + sum over the inner dimension from zero upwards, whatever the
 * number of rows and columns, their position and their leading dimensions. No library
 * promises that (docs/precision.md). Included once per copy by kernels_all.h.
 *
 * A block of ROWS rows and up to three vectors of columns stays in registers. */
#ifndef CADRE_DEVICE_CPU_KERNELS_PRODUCT_H
#define CADRE_DEVICE_CPU_KERNELS_PRODUCT_H

#include "core/device/cpu/kernels_real.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define UNROLL PRAGMA(GCC unroll 16)

typedef real block_vector __attribute__((vector_size(VECTOR_BYTES), may_alias));

/* The processors that have these vectors fuse multiplication and addition. */
#if defined(__AVX512F__)
#define FUSED
enum { ROWS = 8 };
#if CADRE_REAL_BITS == 64
#define CHAIN(a, b, sum) _mm512_fmadd_pd(_mm512_set1_pd(a), b, sum)
#else
#define CHAIN(a, b, sum) _mm512_fmadd_ps(_mm512_set1_ps(a), b, sum)
#endif
#elif defined(__AVX2__)
#define FUSED __attribute__((target("avx2,fma")))
enum { ROWS = 4 };
#if CADRE_REAL_BITS == 64
#define CHAIN(a, b, sum) _mm256_fmadd_pd(_mm256_set1_pd(a), b, sum)
#else
#define CHAIN(a, b, sum) _mm256_fmadd_ps(_mm256_set1_ps(a), b, sum)
#endif
#else
#define FUSED
enum { ROWS = 4 };
#define CHAIN(a, b, sum) ((a) * (b) + (sum))
#endif

/* A block: `rows` rows from `a` on, times the panel at `b`, of which `columns` count.
 * The last of fewer rows is computed more than once. */
struct block {
    const real *a, *b;
    int64_t rows, columns;
    int64_t at, at_from; /* of its first element in c and plus; in from */
};

/* Whole blocks are read and written in place; those at an edge through this. */
struct edge {
    _Alignas(64) real at[ROWS][3 * WIDTH];
};

INLINE void take_edge(struct edge *edge, const real *from, int64_t ld,
                      const struct block *o)
{
    for (int64_t i = 0; i < o->rows; i++)
        memcpy(edge->at[i], from + i * ld, (size_t)o->columns * sizeof *from);
}

INLINE void put_edge(const struct edge *edge, const struct cadre_product_args *p,
                     const struct block *o)
{
    for (int64_t i = 0; i < o->rows; i++) {
        real *c = (real *)p->c + o->at + i * p->ldc;
        for (int64_t j = 0; j < o->columns; j++)
            c[j] = p->adds ? c[j] + edge->at[i][j] : edge->at[i][j];
    }
}

/* Address of vector v of row i. */
#define VECTOR_AT(x, ld) (*(real_vector *)(uintptr_t)((x) + i * (ld) + v * WIDTH))
#define EACH_VECTOR                                                                    \
    UNROLL for (int i = 0; i < ROWS; i++) UNROLL for (int v = 0; v < vectors; v++)

FUSED INLINE void run_block(const struct cadre_product_args *p, const struct block *o,
                            const int vectors)
{
    const bool whole = o->rows == ROWS && o->columns == vectors * WIDTH;
    const real *row[ROWS];
    block_vector sum[ROWS][3];
    struct edge edge;
    UNROLL
    for (int i = 0; i < ROWS; i++)
        row[i] = o->a + (i < o->rows ? i : o->rows - 1) * p->row;
    if (!p->from) {
        EACH_VECTOR sum[i][v] = (block_vector){0};
    } else if (whole) {
        const real *from = (const real *)p->from + o->at_from;
        EACH_VECTOR sum[i][v] = VECTOR_AT(from, p->ld_from);
    } else {
        memset(&edge, 0, sizeof edge);
        take_edge(&edge, (const real *)p->from + o->at_from, p->ld_from, o);
        EACH_VECTOR sum[i][v] = VECTOR_AT(&edge.at[0][0], 3 * WIDTH);
    }
    const real *b = o->b;
    const int64_t step = p->step, end = p->k * step;
    for (int64_t l = 0; l < end; l += step, b += vectors * WIDTH) {
        block_vector column[3];
        UNROLL
        for (int v = 0; v < vectors; v++)
            column[v] = *(const real_vector *)(b + v * WIDTH);
        UNROLL
        for (int i = 0; i < ROWS; i++) {
            const real factor = row[i][l];
            UNROLL
            for (int v = 0; v < vectors; v++)
                sum[i][v] = CHAIN(factor, column[v], sum[i][v]);
        }
    }
    real *c = (real *)p->c + o->at;
    if (!whole) {
        EACH_VECTOR VECTOR_AT(&edge.at[0][0], 3 * WIDTH) = sum[i][v];
        put_edge(&edge, p, o);
    } else if (p->adds) {
        EACH_VECTOR VECTOR_AT(c, p->ldc) += sum[i][v];
    } else {
        EACH_VECTOR VECTOR_AT(c, p->ldc) = sum[i][v];
    }
}

FUSED static void block1(const struct cadre_product_args *p, const struct block *o)
{
    run_block(p, o, 1);
}

FUSED static void block2(const struct cadre_product_args *p, const struct block *o)
{
    run_block(p, o, 2);
}

FUSED static void block3(const struct cadre_product_args *p, const struct block *o)
{
    run_block(p, o, 3);
}

static void product(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_product_args *p = args;
    const int64_t vectors = p->width / WIDTH;
    for (int64_t panel = begin; panel < end; panel++) {
        const int64_t column = panel * p->width, left = p->n - column;
        for (int64_t i = 0; i < p->m; i += ROWS) {
            const struct block o = {.a = (const real *)p->a + i * p->row,
                                    .b = (const real *)p->b + panel * p->k * p->width,
                                    .rows = p->m - i < ROWS ? p->m - i : ROWS,
                                    .columns = left < p->width ? left : p->width,
                                    .at = i * p->ldc + column,
                                    .at_from = i * p->ld_from + column};
            if (vectors == 1)
                block1(p, &o);
            else if (vectors == 2)
                block2(p, &o);
            else
                block3(p, &o);
        }
    }
}

/* Panels [begin, end) of b: element (l, j) of one lies at l * width + j; columns past
 * the last are zero. */
static void product_panels(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_product_panels *p = args;
    for (int64_t panel = begin; panel < end; panel++) {
        const int64_t column = panel * p->width, left = p->n - column;
        const int64_t n = left < p->width ? left : p->width;
        real *to = (real *)p->to + panel * p->k * p->width;
        const real *b = (const real *)p->b + (p->rows ? column * p->ld : column);
        if (n < p->width)
            memset(to, 0, (size_t)(p->k * p->width) * sizeof *to);
        if (!p->rows) {
            for (int64_t l = 0; l < p->k; l++)
                memcpy(to + l * p->width, b + l * p->ld, (size_t)n * sizeof *to);
            continue;
        }
        enum { LINE = 16 };
        for (int64_t j = 0; j < n; j += LINE)
            for (int64_t l = 0; l < p->k; l++)
                for (int64_t i = j; i < n && i < j + LINE; i++)
                    to[l * p->width + i] = b[i * p->ld + l];
    }
}

#undef UNROLL
#undef EACH_VECTOR
#undef VECTOR_AT
#endif
