/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products of which each element depends on its own row and column alone: it is
 * one chain sum = a * b + sum over a block of the inner dimension, from zero upwards,
 * whatever the number of rows and columns, their position and their leading dimensions.
 * No library promises that (docs/precision.md). Included once per copy by
 * kernels_all.h.
 *
 * A block of ROWS rows and up to three vectors of columns stays in registers. */
#ifndef CADRE_DEVICE_CPU_KERNELS_PRODUCT_H
#define CADRE_DEVICE_CPU_KERNELS_PRODUCT_H

#include "core/device/cpu/kernels_panels.h"
#include "core/device/cpu/own_product.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define UNROLL PRAGMA(GCC unroll 16)

typedef real block_vector __attribute__((vector_size(VECTOR_BYTES), may_alias));

/* The processors that have these vectors fuse multiplication and addition. */
#if defined(__AVX512F__)
#define FUSED
enum { FUSES = 1 };
#if CADRE_REAL_BITS == 64
#define CHAIN(a, b, sum) _mm512_fmadd_pd(_mm512_set1_pd(a), b, sum)
#else
#define CHAIN(a, b, sum) _mm512_fmadd_ps(_mm512_set1_ps(a), b, sum)
#endif
#elif defined(__AVX2__)
#define FUSED __attribute__((target("avx2,fma")))
enum { FUSES = 1 };
#if CADRE_REAL_BITS == 64
#define CHAIN(a, b, sum) _mm256_fmadd_pd(_mm256_set1_pd(a), b, sum)
#else
#define CHAIN(a, b, sum) _mm256_fmadd_ps(_mm256_set1_ps(a), b, sum)
#endif
#else
#define FUSED
enum { FUSES = 0 };
#define CHAIN(a, b, sum) ((a) * (b) + (sum))
#endif

/* Steps of the inner dimension from a panel's load to its use. */
enum { AHEAD = 8 };

/* A block: `rows` rows from `a` on, times the panel at `b`, of which `columns` count.
 * The last of fewer rows is computed more than once. */
struct block {
    const real *a, *b;
    int64_t k, rows, columns;
    int64_t at, at_from; /* of its first element in c and plus; in from */
};

/* Whole blocks are read and written in place; those at an edge through this. */
struct edge {
    _Alignas(64) real at[ROWS][3 * WIDTH];
};

INLINE void put_edge(const struct edge *edge, const struct cadre_product_args *p,
                     const struct block *o)
{
    for (int64_t i = 0; i < o->rows; i++) {
        real *c = (real *)p->c + o->at + i * p->ldc;
        const real *from =
            p->from ? (const real *)p->from + o->at_from + i * p->ld_from : NULL;
        for (int64_t j = 0; j < o->columns; j++) {
            const real sum = from ? from[j] + edge->at[i][j] : edge->at[i][j];
            c[j] = p->adds ? c[j] + sum : sum;
        }
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
    EACH_VECTOR sum[i][v] = (block_vector){0};
    const real *b = o->b;
    const int64_t step = p->step, end = o->k * step;
    for (int64_t l = 0; l < end; l += step, b += vectors * WIDTH) {
        block_vector column[3];
        UNROLL
        for (int v = 0; v < vectors; v++) {
            __builtin_prefetch(b + (AHEAD * vectors + v) * WIDTH);
            column[v] = *(const real_vector *)(b + v * WIDTH);
        }
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
        return;
    }
    if (p->from) {
        const real *from = (const real *)p->from + o->at_from;
        EACH_VECTOR sum[i][v] += VECTOR_AT(from, p->ld_from);
    }
    if (p->adds)
        EACH_VECTOR VECTOR_AT(c, p->ldc) += sum[i][v];
    else
        EACH_VECTOR VECTOR_AT(c, p->ldc) = sum[i][v];
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

/* The block of all columns of the rows from i on: what a causal mask leaves of it. */
INLINE struct block rows_block(const struct cadre_product_args *p, int64_t i,
                               int64_t rows, int64_t *columns, int64_t *skipped)
{
    const int64_t seen = p->seen + i + rows - 1; /* by the last row */
    const int64_t early = i - p->seen + 1; /* steps that do not see the first row */
    struct block o = {
        .a = (const real *)p->a + i / ROWS * p->group, .k = p->k, .rows = rows};
    *columns = p->cut == CADRE_CUT_COLUMNS && seen < p->n ? seen : p->n;
    *skipped = p->cut == CADRE_CUT_EARLY_STEPS && early > 0 ? early : 0;
    if (p->cut == CADRE_CUT_STEPS && seen < p->k)
        o.k = seen > 0 ? seen : 0;
    o.k = o.k > *skipped ? o.k - *skipped : 0;
    o.a += *skipped * p->step;
    return o;
}

/* A group of rows, widened. */
struct wide_rows {
    _Alignas(64) real at[ROWS][CADRE_OWN_BLOCK];
};

INLINE void widen_rows(const struct cadre_product_args *p, int64_t i, int64_t rows,
                       struct wide_rows *to)
{
    const uint16_t *from = (const uint16_t *)p->a + i / ROWS * p->group;
    for (int64_t r = 0; r < rows; r++)
        load_run(to->at[r], from + r * p->row, p->source, p->k);
}

/* ---- products ---- */

/* The group of rows from i on. */
static void product_group(const struct cadre_product_args *p, int64_t i, int64_t rows)
{
    int64_t width, columns, skipped;
    struct block o = rows_block(p, i, rows, &columns, &skipped);
    const real *panel = p->b;
    for (int64_t column = 0; column < columns; column += width) {
        const int vectors = panel_vectors(p->n - column);
        width = (int64_t)vectors * WIDTH;
        o.b = panel + skipped * width;
        o.columns = p->n - column < width ? p->n - column : width;
        o.at = i * p->ldc + column;
        o.at_from = i * p->ld_from + column;
        if (vectors == 1)
            block1(p, &o);
        else if (vectors == 2)
            block2(p, &o);
        else
            block3(p, &o);
        panel += p->depth * width;
    }
}

/* Rows outside, panels inside: a block's rows stay in the first cache while the panels,
 * which the second cache holds, come in order. */
static void product(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_product_args *p = args;
    struct cadre_product_args widened = *p;
    struct wide_rows wide;
    widened.a = wide.at;
    widened.group = 0;
    widened.row = CADRE_OWN_BLOCK;
    for (int64_t i = begin; i < end; i += ROWS) {
        const int64_t rows = end - i < ROWS ? end - i : ROWS;
        if (p->source != CADRE_SOURCE_REAL)
            widen_rows(p, i, rows, &wide);
        product_group(p->source == CADRE_SOURCE_REAL ? p : &widened, i, rows);
    }
}

#undef UNROLL
#undef EACH_VECTOR
#undef VECTOR_AT
#endif
