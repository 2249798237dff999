/* SPDX-License-Identifier: Apache-2.0 */
/* Common parts of the kinds of unit. Private to core/model and its tests. */
#ifndef CADRE_MODEL_UNIT_PRIVATE_H
#define CADRE_MODEL_UNIT_PRIVATE_H

#include "core/model/unit.h"

/* The buffers of a pass that a unit carves up. */
enum cadre_unit_buffer {
    CADRE_UNIT_SAVED, /* to the end of backward */
    CADRE_UNIT_SAVED_FOR_INPUT, /* not needed after INPUT */
    CADRE_UNIT_GRAD_OUTPUTS,
    CADRE_UNIT_SCRATCH,
    CADRE_UNIT_BUFFERS,
};

/* One unit on one micro-batch; sizes are local under tensor parallelism. */
struct cadre_unit {
    const struct cadre_model *model;
    const struct cadre_pass *pass; /* NULL: sizes only */
    struct cadre_device *device;
    const struct cadre_device_ops *ops;
    uint32_t index; /* of the unit */
    uint32_t first; /* index of the unit's first parameter */
    uint32_t dtype;
    size_t element, wide; /* bytes of an element of dtype, of its wide dtype */
    int64_t B, T, N, C, D; /* N = B*T, D = head size */
    int64_t R, begin; /* R own rows from row `begin` on where rows are sharded; else N,
                         0. For sizes only, R is the most a rank may have. */
    int64_t K, position; /* keys of a sequence, of all time ranks or with those of a
                            cache; where this rank's rows begin */
    int64_t M; /* most rows in an MLP: N, or of all ranks with its experts */
    int64_t H, G, F; /* local heads, key/value heads, hidden */
    int64_t A, Q; /* local: H*D, and the packed width (H + 2*G) * D */
};

/* Unit `index` of the model on (B, T) tokens; pass may be NULL for sizes. */
struct cadre_unit cadre_unit_of(const struct cadre_model *model, uint32_t index,
                                int64_t B, int64_t T, const struct cadre_pass *pass);

/* Assigns 64-byte aligned parts of the buffers of a unit's pass; only counts bytes
 * where the unit has no pass. */
struct cadre_carver {
    const struct cadre_unit *unit;
    size_t used[CADRE_UNIT_BUFFERS];
};
/* `count` elements of the unit's dtype, or of the wide one (statistics). What is saved
 * for INPUT only comes after everything else that is saved. */
void *cadre_carve(struct cadre_carver *carver, enum cadre_unit_buffer from,
                  int64_t count);
void *cadre_carve_wide(struct cadre_carver *carver, enum cadre_unit_buffer from,
                       int64_t count);

/* What one kind of unit does; cadre_unit_* checks, then calls these. */
struct cadre_unit_kind {
    void (*carve)(struct cadre_carver *carver); /* counts what the unit needs */
    cadre_status (*forward)(const struct cadre_unit *unit, const void *x, void *y);
    cadre_status (*backward_input)(const struct cadre_unit *unit, const void *x,
                                   const void *dy, void *dx);
    cadre_status (*backward_weight)(const struct cadre_unit *unit, const void *x);
};
extern const struct cadre_unit_kind cadre_embed_unit;
extern const struct cadre_unit_kind cadre_image_unit;
extern const struct cadre_unit_kind cadre_gpt2_unit;
extern const struct cadre_unit_kind cadre_llama_unit;
extern const struct cadre_unit_kind cadre_head_unit;
extern const struct cadre_unit_kind cadre_head_chunked_unit;

/* Is the head cadre_head_chunked_unit? */
bool cadre_head_is_chunked(const struct cadre_model *model);
/* Of a head in chunks: compute again the logits of rows from `begin` on; *rows of them
 * are at *out, in scratch. */
cadre_status cadre_head_chunk_logits(const struct cadre_unit *unit, int64_t begin,
                                     int64_t *rows, const void **out);

/* xent_bwd of the head's rows from `begin` on, with the seed of each one's sequence.
 * [stream] */
cadre_status cadre_head_xent_bwd(const struct cadre_unit *unit,
                                 const struct cadre_xent *xent, int64_t begin);

/* Positions of parameters, counted from unit->first. */
enum { EMBED_WTE, EMBED_WPE, EMBED_PATCHES, VIT_EMBED_PARAMS };
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
/* With experts: the router in place of the MLP, then each expert's MLP. */
enum {
    GPT2_ROUTER_W = GPT2_FC_W,
    GPT2_EXPERTS,
    GPT2_EXPERT_PARAMS = GPT2_BLOCK_PARAMS - GPT2_FC_W,
};
/* Rows of a table: a model has the biases with qkv_bias, the norms with qk_norm. */
enum {
    LLAMA_NORM1_W,
    LLAMA_Q_W,
    LLAMA_Q_B,
    LLAMA_K_W,
    LLAMA_K_B,
    LLAMA_V_W,
    LLAMA_V_B,
    LLAMA_Q_NORM,
    LLAMA_K_NORM,
    LLAMA_O_W,
    LLAMA_NORM2_W,
    LLAMA_GATE_W,
    LLAMA_UP_W,
    LLAMA_DOWN_W,
    LLAMA_ROWS,
};
/* The position of a row: how many rows before it the model has. */
uint32_t cadre_llama_place(const struct cadre_model_config *config, uint32_t row);

/* Data of parameter `position` of the unit. */
const void *cadre_unit_param(const struct cadre_unit *unit, uint32_t position);
/* Address of element `count` of a buffer of the unit's dtype. */
void *cadre_unit_at(const struct cadre_unit *unit, const void *buffer, int64_t count);

#endif
