/* SPDX-License-Identifier: Apache-2.0 */
/* Plain types that cross the plugin boundary: fixed-width integers, double, pointers
 * and function pointers only. */
#ifndef CADRE_TYPES_H
#define CADRE_TYPES_H

#include <stddef.h>
#include <stdint.h>

#include <cadre/status.h>

/* Limits of names; longer ones are refused, never cut. With the terminating 0. */
#define CADRE_AXIS_CHARS 32u /* of a mesh axis, also of a product of axes */
#define CADRE_EFFECT_CHARS 64u
#define CADRE_TAG_CHARS 32u /* of memory */
#define CADRE_KEY_CHARS 48u /* of an entry of a plugin's state */

/* element types */
#define CADRE_F32 1u
#define CADRE_F64 2u
#define CADRE_BF16 3u
#define CADRE_F16 4u
#define CADRE_I32 5u
#define CADRE_U8 6u
#define CADRE_I8 7u
#define CADRE_F8_E4M3 8u /* these two are reserved: no host computes in them yet */
#define CADRE_F8_E5M2 9u

/* memory spaces */
#define CADRE_SPACE_DEVICE 0u
#define CADRE_SPACE_PINNED 1u
#define CADRE_SPACE_HOST 2u

/* reductions */
#define CADRE_SUM 1u
#define CADRE_MAX 2u

/* kinds of storage of a parameter */
#define CADRE_KIND_PARAM 1u
#define CADRE_KIND_GRAD 2u
#define CADRE_KIND_OPT 3u /* the optimizer's: what a rank updates */

/* How the values of a parameter are stored: blocks of consecutive elements of its flat
 * local part, each in a fixed number of bytes. Ranges, gathers and attached buffers of
 * a parameter that is not PLAIN are whole blocks, counted in bytes (CADRE_U8); the last
 * block of a parameter is padded. The core decodes a unit's parameters before it runs
 * the unit. */
#define CADRE_FORM_PLAIN 0u /* elements of the parameter's dtype: 1 element a block */
#define CADRE_FORM_INT8 1u /* CADRE_INT8_BLOCK codes (I8), then their scale (F32) */
#define CADRE_FORM_NF4 2u /* 64 codes of 4 bits, then that of their scale; see abi.md */
#define CADRE_FORM_F8 3u /* reserved */
#define CADRE_INT8_BLOCK 64u

/* Points of the model where an activation is redistributed over the ranks of an axis,
 * and what happens there; (rows, channels) unless noted. The plugin that claims the
 * effect gets the event. */
/* act.complete */
#define CADRE_POINT_EMBED_OUT 0u /* forward: sum over shards of the vocabulary */
#define CADRE_POINT_ATTN_IN 1u /* backward: sum of dX */
#define CADRE_POINT_ATTN_OUT 2u /* forward: sum of row-parallel products, before bias */
#define CADRE_POINT_MLP_IN 3u /* backward: sum of dX */
#define CADRE_POINT_MLP_OUT 4u /* forward: as ATTN_OUT */
#define CADRE_POINT_HEAD_IN 5u /* backward: sum of dX */
/* forward: (rows, 1), maximum of the logits; in blocks, of quantised products, (rows,
 * 2), -least and most of a token, infinite where a value is not finite */
#define CADRE_POINT_LOSS_MAX 6u
/* forward: (2, rows), sums of exponentials, then the target's logit; of training on
 * pairs (3, rows), then sums of logits; backward, under run.exact_parts: a norm's
 * gradients (1 or 2, channels) where rows are sharded, an adapter's matrix that is not
 * cut */
#define CADRE_POINT_LOSS_SUM 7u
/* time.shard: keys and values of the whole time. A rank's part is (2, batch, its time,
 * kv channels), keys then values; the whole is those of all ranks, rank after rank.
 * Forward: all-gather; backward: reduce-scatter of their gradients */
#define CADRE_POINT_ATTN_KV 8u
/* expert.shard: rows to the ranks of their experts, and back; all-to-all with unequal
 * slices. In backward the gradients take the opposite way. */
#define CADRE_POINT_EXPERT_IN 9u
#define CADRE_POINT_EXPERT_OUT 10u

#define CADRE_REDISTRIBUTE_ALL_REDUCE 0u /* out = sum of in, maximum for LOSS_MAX */
#define CADRE_REDISTRIBUTE_REDUCE_SCATTER 1u /* out: this rank's range of the sum */
#define CADRE_REDISTRIBUTE_ALL_GATHER 2u /* in: this rank's range of out */
#define CADRE_REDISTRIBUTE_ALL_TO_ALL_V 3u /* slice r of in goes to rank r */

/* How a parameter is sharded over the axis of act.complete */
#define CADRE_SHARD_NONE 0u /* replicated */
#define CADRE_SHARD_COLUMN 1u /* along its output features */
#define CADRE_SHARD_QKV 2u /* packed q, k, v: each third along its output features */
#define CADRE_SHARD_ROW 3u /* along its input features */
#define CADRE_SHARD_VOCAB 4u /* along dimension 0, the vocabulary */

/* A point in an ordered queue. Event 0 has already happened. Valid for the whole
 * run. */
typedef uint64_t cadre_event;

/* Index of a gradient entry of the model. A tied head is an entry of its own. */
typedef uint32_t cadre_param_id;

/* A view of `count` contiguous elements; never owns them. Frozen: it has no
 * struct_size, since arrays of it cross the boundary. */
struct cadre_buf {
    void *data; /* NULL: no storage */
    uint64_t count;
    uint32_t dtype;
    uint32_t space;
};

#endif
