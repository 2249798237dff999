/* SPDX-License-Identifier: Apache-2.0 */
/* Inside core/model: what the kinds of unit share. Not for other folders. */
#ifndef CADRE_MODEL_UNIT_H
#define CADRE_MODEL_UNIT_H

#include "core/model/model.h"

/* The three buffers of a pass that a unit carves up. */
enum cadre_unit_buffer {
    CADRE_UNIT_SAVED, /* the early part included */
    CADRE_UNIT_EARLY, /* of what is saved: not needed after INPUT */
    CADRE_UNIT_DOUTS,
    CADRE_UNIT_SCRATCH,
    CADRE_UNIT_BUFFERS,
};

/* One unit on one micro-batch; sizes are local where tensor parallelism cuts. */
struct cadre_unit {
    const struct cadre_model *model;
    const struct cadre_pass *pass; /* NULL while only sizes are asked for */
    struct cadre_device *device;
    const struct cadre_device_ops *ops;
    uint32_t first; /* index of the unit's first parameter */
    uint32_t dtype;
    size_t element, wide; /* bytes of one of dtype, of its wide dtype */
    int64_t B, T, N, C, D; /* N = B*T, D = head size */
    int64_t R, begin; /* own rows where rows are cut: R of them, from row `begin` on;
                         else N, 0. For sizes alone R is the most a rank may have. */
    int64_t H, G, F; /* local heads, key/value heads, hidden */
    int64_t A, Q; /* local: H*D, and the packed width (H + 2*G) * D */
};

/* Unit `index` of the model on (B, T) tokens; pass may be NULL for sizes. */
struct cadre_unit cadre_unit_of(const struct cadre_model *model, uint32_t index,
                                int64_t B, int64_t T, const struct cadre_pass *pass);

/* Hands out 64-byte aligned pieces of one buffer; only counts where base is NULL. */
struct cadre_carver {
    unsigned char *base;
    size_t used;
    size_t element, wide;
};
/* `count` elements of the unit's dtype, or of the wide one: statistics. */
void *cadre_carve(struct cadre_carver *carver, int64_t count);
void *cadre_carve_wide(struct cadre_carver *carver, int64_t count);
/* A carver of the early part, when `saved` has carved the rest. */
struct cadre_carver cadre_carver_early(const struct cadre_unit *unit,
                                       const struct cadre_carver *saved);
/* A carver of a buffer of the unit's pass, or one that counts. */
struct cadre_carver cadre_carver_of(const struct cadre_unit *unit,
                                    enum cadre_unit_buffer buffer);

/* What one kind of unit does; cadre_unit_* checks, then calls these. */
struct cadre_unit_kind {
    void (*sizes)(const struct cadre_unit *unit, size_t bytes[CADRE_UNIT_BUFFERS]);
    cadre_status (*forward)(const struct cadre_unit *unit, const void *x, void *y);
    cadre_status (*backward_input)(const struct cadre_unit *unit, const void *x,
                                   const void *dy, void *dx);
    cadre_status (*backward_weight)(const struct cadre_unit *unit, const void *x);
};
extern const struct cadre_unit_kind cadre_embed_unit;
extern const struct cadre_unit_kind cadre_gpt2_unit;
extern const struct cadre_unit_kind cadre_llama_unit;
extern const struct cadre_unit_kind cadre_head_unit;
extern const struct cadre_unit_kind cadre_head_chunked_unit;

/* Is the head cadre_head_chunked_unit? */
bool cadre_head_is_chunked(const struct cadre_model *model);
/* Of a head in chunks: the logits of rows from `begin` on, computed anew; *rows of them
 * at *out, in scratch. */
cadre_status cadre_head_chunk_logits(const struct cadre_unit *unit, int64_t begin,
                                     int64_t *rows, const void **out);

/* Positions of parameters, counted from unit->first. */
enum { EMBED_WTE, EMBED_WPE };
enum {
    GPT2_LN1_W,
    GPT2_LN1_B,
    GPT2_QKV_W,
    GPT2_QKV_B,
    GPT2_PROJ_W,
    GPT2_PROJ_B,
    GPT2_LN2_W,
    GPT2_LN2_B,
    GPT2_FC_W,
    GPT2_FC_B,
    GPT2_OUT_W,
    GPT2_OUT_B,
    GPT2_BLOCK_PARAMS,
};
enum {
    LLAMA_NORM1_W,
    LLAMA_Q_W,
    LLAMA_K_W,
    LLAMA_V_W,
    LLAMA_O_W,
    LLAMA_NORM2_W,
    LLAMA_GATE_W,
    LLAMA_UP_W,
    LLAMA_DOWN_W,
    LLAMA_BLOCK_PARAMS,
};

/* A product with one weight: y (rows, out) = x (rows, in) * W (+ bias). The weight is
 * stored (in, out) where `conv1d` is set, else (out, in). weight and bias are positions
 * from unit->first, bias -1 where there is none. */
struct cadre_linear {
    uint32_t weight;
    int32_t bias;
    bool conv1d;
    int64_t rows, in, out;
    int64_t ldx, ldy; /* also of dx and dy */
};

/* y = x W, then the epilogue with this product's bias; aux as in struct cadre_gemm. */
cadre_status cadre_linear_fwd(const struct cadre_unit *unit,
                              const struct cadre_linear *linear, const void *x, void *y,
                              enum cadre_epilogue epilogue, void *aux);
/* dx = beta * dx + dy W^T */
cadre_status cadre_linear_bwd_input(const struct cadre_unit *unit,
                                    const struct cadre_linear *linear, const void *dy,
                                    void *dx, int beta);
/* dpre = (dy W^T) * gelu'(pre); pre and dpre have the leading dimension of x */
cadre_status cadre_linear_bwd_gelu(const struct cadre_unit *unit,
                                   const struct cadre_linear *linear, const void *dy,
                                   const void *pre, void *dpre);
/* dst = beta * dst + the gradient of the weight, wide, of these rows; no hook. */
cadre_status cadre_linear_add_weight(const struct cadre_unit *unit,
                                     const struct cadre_linear *linear, const void *x,
                                     const void *dy, void *dst, int beta);
/* The gradients of weight and bias, through the pass's grad_begin and grad_end. With a
 * bias ldy is `out`. */
cadre_status cadre_linear_bwd_weight(const struct cadre_unit *unit,
                                     const struct cadre_linear *linear, const void *x,
                                     const void *dy);

/* The norm whose weight is parameter `weight` from unit->first (and its bias the next
 * one, in GPT-2 form), over the R own rows. */
cadre_status cadre_norm_layer_fwd(const struct cadre_unit *unit, uint32_t weight,
                                  const void *x, void *y, void *stats);
/* sum = sum + bias + residual, then the norm of that: the bits of `add` and the norm
 * one after the other. bias (C), the parameter at a position, -1: none. */
cadre_status cadre_norm_layer_add(const struct cadre_unit *unit, uint32_t weight,
                                  int32_t bias, const void *residual, void *sum,
                                  void *y, void *stats);
/* dx = d/dx + residual (may be NULL), and the norm's own gradients. */
cadre_status cadre_norm_layer_bwd(const struct cadre_unit *unit, uint32_t weight,
                                  const void *x, const void *stats, const void *dy,
                                  const void *residual, void *dx);

/* Self-attention over packed rows (N, Q): q, then k, then v. */
struct cadre_attention cadre_packed_attention(const struct cadre_unit *unit,
                                              const void *qkv, void *out, void *lse);

/* Where a partial result is to be written: `whole` itself where no joint completes it.
 */
void *cadre_partial(const struct cadre_unit *unit, void *spare, void *whole);
/* Complete it over the tensor axis: whole = joint(partial). Nothing to do without one.
 * Where rows are cut, the own rows alone are written: whole is (R, channels). */
cadre_status cadre_complete(const struct cadre_unit *unit, enum cadre_joint joint,
                            bool backward, const void *partial, void *whole,
                            int64_t channels);
/* *all (N, C) = the rows that each rank has in `own` (R, C): `own` itself unless rows
 * are cut, else gathered into spare (N, C). */
cadre_status cadre_gather(const struct cadre_unit *unit, enum cadre_joint joint,
                          bool backward, const void *own, void *spare,
                          const void **all);
/* A copy of such rows: all (N, C) = own (R, C) of every rank. */
cadre_status cadre_gather_copy(const struct cadre_unit *unit, enum cadre_joint joint,
                               const void *own, void *all);
/* The own rows inside of a buffer (N, C). */
void *cadre_own_rows(const struct cadre_unit *unit, const void *all);

/* Index of the first parameter of a unit. */
uint32_t cadre_table_first(const struct cadre_model *model, uint32_t unit);

/* Data of parameter `position` of the unit. */
const void *cadre_unit_param(const struct cadre_unit *unit, uint32_t position);
/* Address of element `count` of a buffer of the unit's dtype. */
void *cadre_unit_at(const struct cadre_unit *unit, const void *buffer, int64_t count);

#endif
