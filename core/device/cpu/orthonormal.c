/* SPDX-License-Identifier: Apache-2.0 */
/* An orthonormal basis of a few columns, by classical Gram-Schmidt with each column
 * projected twice, which is as good as Householder's (Giraud, Langou & Rozloznik, The
 * loss of orthogonality in the Gram-Schmidt process, 2005). One thread: the columns are
 * few and the products that made them cost far more. Sums are in double and in order of
 * rows. */
#include <float.h>
#include <math.h>

#include "core/device/cpu/cpu.h"

struct basis {
    bool wide; /* f64 */
    void *x;
    int64_t rows, columns;
    double *dots; /* (columns) */
};

static inline double get(const struct basis *b, int64_t row, int64_t column)
{
    const int64_t at = row * b->columns + column;
    return b->wide ? ((const double *)b->x)[at] : (double)((const float *)b->x)[at];
}

static inline void set(const struct basis *b, int64_t row, int64_t column, double value)
{
    const int64_t at = row * b->columns + column;
    if (b->wide)
        ((double *)b->x)[at] = value;
    else
        ((float *)b->x)[at] = (float)value;
}

static double length_of(const struct basis *b, int64_t column)
{
    double most = 0, sum = 0;
    for (int64_t r = 0; r < b->rows; r++) {
        const double size = fabs(get(b, r, column));
        most = size > most || size != size ? size : most;
    }
    if (!(most > 0))
        return most;
    for (int64_t r = 0; r < b->rows; r++) {
        const double part = get(b, r, column) / most;
        sum += part * part;
    }
    return most * sqrt(sum);
}

/* Subtract from a column its projections onto the columns before it. */
static void project(const struct basis *b, int64_t column)
{
    for (int64_t k = 0; k < column; k++)
        b->dots[k] = 0;
    for (int64_t r = 0; r < b->rows; r++)
        for (int64_t k = 0; k < column; k++)
            b->dots[k] += get(b, r, k) * get(b, r, column);
    for (int64_t r = 0; r < b->rows; r++) {
        double value = get(b, r, column);
        for (int64_t k = 0; k < column; k++)
            value -= b->dots[k] * get(b, r, k);
        set(b, r, column, value);
    }
}

static void divide(const struct basis *b, int64_t column, double by)
{
    for (int64_t r = 0; r < b->rows; r++)
        set(b, r, column, get(b, r, column) / by);
}

/* The coordinate direction with the smallest projection onto the columns before; one
 * with a long remainder always exists, since there are fewer columns than rows. */
static void take_coordinate(const struct basis *b, int64_t column)
{
    int64_t best = 0;
    double least = INFINITY;
    for (int64_t r = 0; r < b->rows; r++) {
        double has = 0;
        for (int64_t k = 0; k < column; k++)
            has += get(b, r, k) * get(b, r, k);
        if (has < least) {
            least = has;
            best = r;
        }
    }
    for (int64_t r = 0; r < b->rows; r++)
        set(b, r, column, r == best);
}

static void fix_column(const struct basis *b, int64_t column)
{
    const double eps = b->wide ? DBL_EPSILON : (double)FLT_EPSILON;
    const double before = length_of(b, column);
    if (before > 0) { /* now no square is beyond the range */
        divide(b, column, before);
        project(b, column);
    }
    if (before == 0 || length_of(b, column) <= 64 * eps) {
        take_coordinate(b, column);
        project(b, column);
    }
    divide(b, column, length_of(b, column));
    project(b, column);
    divide(b, column, length_of(b, column));
}

cadre_status cadre_cpu_orthonormalize(struct cadre_device *device, uint32_t dtype,
                                      void *x, int64_t rows, int64_t columns)
{
    struct cadre_cpu *cpu = (struct cadre_cpu *)device;
    struct basis b = {
        .wide = dtype == CADRE_F64, .x = x, .rows = rows, .columns = columns};
    if (!cadre_cpu_kernels(cpu, dtype) || columns > rows || columns < 0)
        return CADRE_E_DEVICE;
    b.dots = cadre_cpu_scratch(&cpu->workers[0], CADRE_SCRATCH_COLUMNS,
                               ((size_t)columns + 1) * sizeof *b.dots);
    if (!b.dots)
        return CADRE_E_RESOURCE;
    for (int64_t k = 0; k < columns; k++)
        fix_column(&b, k);
    return CADRE_OK;
}
