/* SPDX-License-Identifier: Apache-2.0 */
/* Building blocks of blocks and head: products, norms, packed attention, and
 * redistribution of partial results over the tensor axis. Private to core/model and its
 * tests. */
#ifndef CADRE_MODEL_LAYER_H
#define CADRE_MODEL_LAYER_H

#include "core/model/unit_private.h"

/* A product with one weight: y (rows, out) = x (rows, in) * W (+ bias). The weight is
 * stored (in, out) where `conv1d` is set, else (out, in). weight and bias are positions
 * from unit->first, bias -1 where there is none. */
struct cadre_linear {
    uint32_t weight;
    int32_t bias;
    bool conv1d;
    int64_t rows, in, out;
    int64_t ldx, ldy; /* also of dx and dy */
    const void *x; /* input of a row-split product, which qat.c reads in backward */
};

/* Does tensor parallelism cut the product's inputs? */
bool cadre_linear_is_row_split(const struct cadre_unit *unit,
                               const struct cadre_linear *linear);

/* y = x W, then the epilogue with this product's bias; aux as in struct cadre_gemm. */
cadre_status cadre_linear_fwd(const struct cadre_unit *unit,
                              const struct cadre_linear *linear, const void *x, void *y,
                              enum cadre_epilogue epilogue, void *aux);
/* dx = beta * dx + dy W^T; of a row-split product clipped (qat.h) */
cadre_status cadre_linear_bwd_input(const struct cadre_unit *unit,
                                    const struct cadre_linear *linear, const void *dy,
                                    void *dx, int beta);
/* dx = the sum of the products dy[i] W^T of n, up to CADRE_GEMM_TERMS. Where sums are
 * made in parts, all belong to a part before parts are added. They are not row-split,
 * and the caller clips dx once it is complete. */
cadre_status cadre_linear_bwd_inputs(const struct cadre_unit *unit,
                                     const struct cadre_linear *const linear[],
                                     const void *const dy[], int n, void *dx);
/* dpre = (dy W^T) * gelu'(pre); pre and dpre have the leading dimension of x */
cadre_status cadre_linear_bwd_gelu(const struct cadre_unit *unit,
                                   const struct cadre_linear *linear, const void *dy,
                                   const void *pre, void *dpre);
/* dst = beta * dst + the gradient of the weight, wide, of these rows; no hook. */
cadre_status cadre_linear_add_weight(const struct cadre_unit *unit,
                                     const struct cadre_linear *linear, const void *x,
                                     const void *dy, void *dst, int beta);
/* Is the parameter at `position` frozen? */
bool cadre_param_is_frozen(const struct cadre_unit *unit, uint32_t position);
/* Are weight and bias frozen, so that nobody wants their gradients? */
bool cadre_linear_is_frozen(const struct cadre_unit *unit,
                            const struct cadre_linear *linear);
/* The gradients of weight and bias, through the pass's grad_begin and grad_end; nothing
 * where both are frozen. With a bias ldy is `out`. */
cadre_status cadre_linear_bwd_weight(const struct cadre_unit *unit,
                                     const struct cadre_linear *linear, const void *x,
                                     const void *dy);

/* The norm whose weight is parameter `weight` from unit->first (and its bias the next
 * one, in GPT-2 form), over the R own rows. */
cadre_status cadre_norm_layer_fwd(const struct cadre_unit *unit, uint32_t weight,
                                  const void *x, void *y, void *stats);
/* sum = sum + bias + residual, then its norm: the same bits as `add` followed by the
 * norm. bias (C): position of the parameter, -1: none. */
cadre_status cadre_norm_layer_add(const struct cadre_unit *unit, uint32_t weight,
                                  int32_t bias, const void *residual, void *sum,
                                  void *y, void *stats);
/* dx = d/dx + residual (may be NULL), and the norm's own gradients. */
struct cadre_norm_bwd {
    const void *x, *stats, *dy, *residual;
    void *dx;
    void *parts; /* cadre_norm_parts_carve */
};
cadre_status cadre_norm_layer_bwd(const struct cadre_unit *unit, uint32_t weight,
                                  const struct cadre_norm_bwd *in);

/* Self-attention over packed rows (N, Q): q, then k, then v. */
struct cadre_attention cadre_packed_attention(const struct cadre_unit *unit,
                                              const void *qkv, void *out, void *lse);

/* norm_parts.c: scratch for a norm's gradients where sums are made in parts. */
void *cadre_norm_parts_carve(struct cadre_carver *carver);
/* As ops->norm_bwd: the gradients are the tree of those of parts of the rows, of all
 * tensor ranks where each has its own. `room` is such scratch. */
cadre_status cadre_norm_parts_bwd(const struct cadre_unit *unit,
                                  const struct cadre_norm *norm, void *room);

/* Where to write a partial result: `whole` itself where it needs no redistribution. */
void *cadre_partial(const struct cadre_unit *unit, void *spare, void *whole);
/* Complete it over the tensor axis: whole = redistribution(partial), if one is needed.
 * Where rows are sharded, only the own rows are written: whole is (R, channels). */
cadre_status cadre_complete(const struct cadre_unit *unit, uint32_t point,
                            bool backward, const void *partial, void *whole,
                            int64_t channels);
/* *all (N, C) = the rows that each rank has in `own` (R, C): `own` itself unless rows
 * are sharded, else gathered into spare (N, C). */
cadre_status cadre_gather(const struct cadre_unit *unit, uint32_t point, bool backward,
                          const void *own, void *spare, const void **all);
/* A copy of such rows: all (N, C) = own (R, C) of every rank. */
cadre_status cadre_gather_copy(const struct cadre_unit *unit, uint32_t point,
                               const void *own, void *all);
/* The own rows inside a buffer (N, C). */
void *cadre_own_rows(const struct cadre_unit *unit, const void *all);

#endif
