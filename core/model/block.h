/* SPDX-License-Identifier: Apache-2.0 */
/* Common parts of the blocks of all forms: their buffers, and the products that end
 * attention and MLP. Private to core/model and its tests. */
#ifndef CADRE_MODEL_BLOCK_H
#define CADRE_MODEL_BLOCK_H

#include "core/model/head_norm.h"
#include "core/model/keys.h"

/* Buffers of a block's two parts (attention, MLP): norms, statistics, inputs and
 * outputs. */
struct cadre_block {
    void *norm1, *attn, *norm2, *act; /* saved */
    void *stats1, *qkv, *lse, *x1, *stats2; /* saved for INPUT, with the next two */
    void *gate, *up; /* before the activation; up: gated MLP only */
    void *dy, *dgate, *dup, *dx1, *dqkv; /* gradients of outputs */
    void *partial, *whole; /* scratch */
    void *wide; /* scratch, rows of `wide` elements */
    void *norm_parts; /* scratch, cadre_norm_parts_carve */
    struct cadre_keys keys; /* saved for INPUT, and scratch */
    struct cadre_head_norm head_norm;
};

/* Carve a block's buffers; `gated`: its MLP has `up`. */
struct cadre_block cadre_block_carve(struct cadre_carver *carver, bool gated,
                                     int64_t wide);

/* The block's attention; in backward `wide` holds the gradient of its output. */
struct cadre_attention cadre_block_attention(const struct cadre_unit *unit,
                                             const struct cadre_block *block,
                                             bool backward);

/* whole = redistribution(partial), the gradient of a norm's output x, own rows; clipped
 * (qat.h) once, as all products that read x clamp it alike. */
cadre_status cadre_block_complete(const struct cadre_unit *unit, uint32_t point,
                                  const void *partial, const void *x, void *whole);

/* sum = redistribution(in W): the end of attention and of the MLP, before bias and
 * residual. */
cadre_status cadre_block_row_split(const struct cadre_unit *unit,
                                   const struct cadre_linear *linear, uint32_t point,
                                   const void *in, void *spare, void *sum);

#endif
