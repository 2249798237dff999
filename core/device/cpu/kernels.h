/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU kernels: plain C, compiled once per instruction set and real type, and chosen
 * when a device is opened. Every copy computes the same bits: element-wise code has no
 * contraction, and a sum has 16 lanes and one tree whatever the vector width.
 *
 * A kernel does a range [begin, end) of rows, columns, elements or chunks of what
 * `args` describes; ranges are independent, so any division gives the same bits. */
#ifndef CADRE_DEVICE_CPU_KERNELS_H
#define CADRE_DEVICE_CPU_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#include <cadre/types.h>

struct cadre_absmax;
struct cadre_adamw;
struct cadre_lion;
struct cadre_norm;
struct cadre_sgd;
struct cadre_slice;

typedef void cadre_cpu_range(const void *args, int64_t begin, int64_t end);

/* Arguments of kernels that have no struct in device.h. */
struct cadre_bias_args { /* rows of a tile: c += bias, then gelu through aux */
    void *c;
    const void *bias;
    void *aux; /* NULL: no gelu */
    int64_t ldc, columns;
    bool gelu;
};
/* Column sums over rows: each group of rows yields a row of partial sums, one pass over
 * contiguous memory; column_total then adds the groups in order. */
enum { CADRE_ROW_GROUP = 32, CADRE_COLUMNS = 64 };
struct cadre_columns_args { /* groups */
    const void *dy;
    void *partial; /* (groups, columns) */
    int64_t rows, columns;
};
struct cadre_norm_weight_args { /* groups */
    const struct cadre_norm *norm;
    void *partial; /* (groups, 2, C): of dw, of db */
};
struct cadre_totals_args { /* columns; out = beta * out + the sum of the groups */
    const void *partial;
    void *out;
    int64_t groups, stride;
    int beta;
};
struct cadre_pointwise_args { /* gelu and swiglu; unused pointers are NULL */
    const void *x, *up, *dy;
    void *y, *dup;
};
struct cadre_add_args {
    const void *a, *bias, *b;
    void *y;
    int64_t channels;
};
struct cadre_rope_args { /* rows are tokens */
    void *x;
    const void *table; /* (T, 2, pairs): cosines, then sines */
    int64_t ld, time, heads, pairs;
    bool inverse;
};
struct cadre_scale_args {
    void *x;
    double by;
};
struct cadre_axpby_args {
    const void *x;
    void *y;
    double a, b;
};
struct cadre_rsqrt_args {
    void *x;
    double eps;
};
struct cadre_adamw_args { /* elements of a slice */
    const struct cadre_adamw *op;
    const struct cadre_slice *slice;
};
struct cadre_sgd_args {
    const struct cadre_sgd *op;
    const struct cadre_slice *slice;
};
struct cadre_lion_args {
    const struct cadre_lion *op;
    const struct cadre_slice *slice;
};
struct cadre_adamw8_args { /* blocks of a slice */
    const struct cadre_adamw *op;
    const struct cadre_slice *slice;
    const struct cadre_absmax *absmax;
    /* of the first moment and the second: of the kernel's type, (256) and (255) */
    const void *value[2], *middle[2];
};
struct cadre_squares_args { /* a range of chunks */
    const void *x;
    int64_t count;
    double *sums;
};
struct cadre_dot_args { /* a range of chunks */
    const void *x, *y;
    int64_t count;
    double *sums;
};
struct cadre_softmax_args { /* a tile of scores */
    void *scores; /* (rows, columns): scores in, probabilities out */
    int64_t ld; /* of scores and dscores */
    void *dscores; /* bwd: gradient of probabilities in, of scores out */
    const void *delta; /* bwd: (rows) sum of out * dout */
    void *lse; /* (rows): written by fwd, read by bwd */
    void *inverse_sum; /* fwd: (rows) factor of the output */
    int64_t columns, first; /* row r sees columns [0, first + r], or all */
    double scale;
};
struct cadre_row_scale_args { /* x row r *= by[r] */
    void *x;
    const void *by;
    int64_t ld, columns;
};
struct cadre_row_dot_args { /* out[r] = sum of a * b */
    const void *a, *b;
    void *out;
    int64_t ld, columns;
};
/* What a causal mask lets a product of attention leave out, by groups of rows. */
enum cadre_product_cut {
    CADRE_CUT_NOTHING,
    CADRE_CUT_COLUMNS, /* c's columns that no row of a group sees may be left alone */
    CADRE_CUT_STEPS, /* a is 0 where a row does not see the step */
    CADRE_CUT_EARLY_STEPS, /* the same, where steps see rows */
};
/* What the factors of a product are stored as: the kernel's own type, or 16 bits that
 * are widened as they are read. */
enum cadre_product_source {
    CADRE_SOURCE_REAL,
    CADRE_SOURCE_BF16,
    CADRE_SOURCE_F16,
};
/* c (rows, n; ldc) = the chain of kernels_product.h, to which `from` (rows, n; ld_from)
 * is added where that is not NULL; with `adds`, c += it. A kernel does a range of rows
 * that begins at a multiple of product_group. Element (i, l) of a is a[i / that * group
 * + i % that * row + l * step]; b is what product_panels made. */
struct cadre_product_args {
    int64_t n, k;
    int64_t depth; /* steps of the panels in memory, of which the first k count */
    enum cadre_product_cut cut;
    int64_t seen; /* of a cut: row r sees the first seen + r columns or steps */
    const void *a, *b;
    int64_t group, row, step;
    enum cadre_product_source source; /* of a; 16 bits: step is 1, k at most 384 */
    void *c;
    int64_t ldc;
    const void *from;
    int64_t ld_from;
    bool adds;
};
/* All columns of a (k, n) matrix with leading dimension ld, or a (n, k) one where
 * `rows`, in panels of one to three vectors, filled up with zeros: element (l, j) of
 * the panel that begins at column i and has `width` columns lies at to[i * k + l *
 * width + j]. */
struct cadre_product_panels {
    void *to;
    const void *b;
    int64_t n, k, ld;
    bool rows;
    enum cadre_product_source source; /* of b */
};
/* A range of groups of rows of a, stored (k, m) with leading dimension ld: each at `to`
 * + its number * group, (k, rows of a group). */
struct cadre_product_rows {
    void *to;
    const void *a;
    int64_t m, k, ld, group;
    enum cadre_product_source source; /* of a */
};
struct cadre_cast_args {
    void *dst;
    const void *src;
};

struct cadre_cpu_kernels {
    cadre_cpu_range *bias_rows;
    cadre_cpu_range *bias_bwd, *norm_bwd_weight; /* groups of rows */
    cadre_cpu_range *column_total; /* columns */
    cadre_cpu_range *norm_fwd, *norm_bwd_input; /* rows */
    cadre_cpu_range *rope; /* rows */
    cadre_cpu_range *gelu_bwd, *swiglu_fwd, *swiglu_bwd; /* elements */
    cadre_cpu_range *add; /* rows */
    cadre_cpu_range *embed_fwd; /* rows */
    cadre_cpu_range *embed_bwd_tokens; /* columns */
    cadre_cpu_range *embed_bwd_positions; /* positions */
    cadre_cpu_range *xent_fwd, *xent_rescale, *xent_loss, *xent_bwd; /* rows */
    cadre_cpu_range *adamw, *sgd, *scale, *tree_add, *maximum; /* elements */
    cadre_cpu_range *lion; /* elements */
    cadre_cpu_range *adamw8; /* blocks */
    cadre_cpu_range *axpby, *mul, *rsqrt; /* elements */
    cadre_cpu_range *sum_squares, *dot; /* chunks */
    cadre_cpu_range *softmax_fwd, *softmax_bwd, *row_scale, *row_dot; /* rows */
    cadre_cpu_range *product; /* rows */
    cadre_cpu_range *product_panels; /* columns of b */
    cadre_cpu_range *product_rows; /* groups of rows of a */
    int product_lanes, product_group; /* columns of a vector, rows of a group */
    bool product_fused; /* multiplies and adds in one instruction */
};

/* to[dtype][dtype of the source] over elements; NULL where there is no cast. */
enum { CADRE_CAST_DTYPES = CADRE_F16 + 1 };
struct cadre_cpu_casts {
    cadre_cpu_range *to[CADRE_CAST_DTYPES][CADRE_CAST_DTYPES];
};

/* bf16 in, computed in f32, bf16 out. Arguments as those of the f32 kernels of the
 * name. */
struct cadre_finish_args { /* rows of c (rows, columns): out = round(c + bias), ... */
    const float *c;
    const uint16_t *bias; /* NULL: none */
    uint16_t *aux; /* c + bias where it is not NULL */
    uint16_t *out;
    int64_t ld, columns; /* ld: of aux and out */
    bool gelu; /* ... or its gelu */
};
struct cadre_cpu_bf16 {
    cadre_cpu_range *finish; /* rows */
    cadre_cpu_range *gelu_bwd, *swiglu_fwd, *swiglu_bwd; /* elements */
    cadre_cpu_range *add; /* rows */
    cadre_cpu_range *bias_bwd; /* groups of rows */
};

/* 16-bit matrices in the order in which a product of AMX or AVX512-BF16 reads them. A
 * panel holds `width` columns: pairs of rows (0 and 1, 2 and 3, ...), of each pair all
 * columns, of each column its two elements; k is filled up with zeros to a multiple of
 * 32, n to one of width. */
struct cadre_panels {
    int64_t k, n, width; /* width: a multiple of 16 */
    bool rows; /* the source is (n, k), else (k, n) */
    int64_t ld; /* of the source */
};
struct cadre_cpu_packs {
    /* dst (m, k) = src (k, m), whose leading dimension is ld */
    void (*columns)(uint16_t *dst, const uint16_t *src, int64_t ld, int64_t m,
                    int64_t k);
    void (*panels)(const struct cadre_panels *panels, uint16_t *dst,
                   const uint16_t *src);
};

extern const struct cadre_cpu_kernels cadre_kernels_f32_base, cadre_kernels_f64_base;
extern const struct cadre_cpu_casts cadre_casts_base;
extern const struct cadre_cpu_packs cadre_packs_base;
extern const struct cadre_cpu_bf16 cadre_bf16_base;
#if defined(__x86_64__)
extern const struct cadre_cpu_kernels cadre_kernels_f32_avx2, cadre_kernels_f64_avx2;
extern const struct cadre_cpu_casts cadre_casts_avx2;
extern const struct cadre_cpu_packs cadre_packs_avx2;
extern const struct cadre_cpu_bf16 cadre_bf16_avx2;
extern const struct cadre_cpu_kernels cadre_kernels_f32_avx512,
    cadre_kernels_f64_avx512;
extern const struct cadre_cpu_casts cadre_casts_avx512;
extern const struct cadre_cpu_packs cadre_packs_avx512;
extern const struct cadre_cpu_bf16 cadre_bf16_avx512;
#endif

#endif
