/* SPDX-License-Identifier: Apache-2.0 */
/* Plain types that cross the plugin boundary: fixed-width integers, double, pointers
 * and function pointers only. */
#ifndef CADRE_TYPES_H
#define CADRE_TYPES_H

#include <stddef.h>
#include <stdint.h>

#include <cadre/status.h>

/* element types */
#define CADRE_F32 1u
#define CADRE_F64 2u
#define CADRE_BF16 3u
#define CADRE_F16 4u
#define CADRE_I32 5u
#define CADRE_U8 6u
#define CADRE_I8 7u

/* memory spaces */
#define CADRE_SPACE_DEVICE 0u
#define CADRE_SPACE_PINNED 1u
#define CADRE_SPACE_HOST 2u

/* reductions */
#define CADRE_SUM 1u
#define CADRE_MAX 2u

/* Points of the model where an activation may be redistributed over the tensor axis,
 * and what is reduced there, (rows, channels) unless noted: */
#define CADRE_POINT_EMBED_OUT 0u /* forward: sum over shards of the vocabulary */
#define CADRE_POINT_ATTN_IN 1u /* backward: sum of dX */
#define CADRE_POINT_ATTN_OUT 2u /* forward: sum of row-parallel products, before bias */
#define CADRE_POINT_MLP_IN 3u /* backward: sum of dX */
#define CADRE_POINT_MLP_OUT 4u /* forward: as ATTN_OUT */
#define CADRE_POINT_HEAD_IN 5u /* backward: sum of dX */
#define CADRE_POINT_LOSS_MAX 6u /* forward: (rows, 1), maximum of the logits */
/* forward: (2, rows), sums of exponentials, then the target's logit */
#define CADRE_POINT_LOSS_SUM 7u

#define CADRE_REDISTRIBUTE_ALL_REDUCE 0u /* out = sum of in, maximum for LOSS_MAX */
#define CADRE_REDISTRIBUTE_REDUCE_SCATTER 1u /* out: this rank's range of the sum */
#define CADRE_REDISTRIBUTE_ALL_GATHER 2u /* in: this rank's range of out */

/* How tensor parallelism shards a parameter over the axis of the INTRA plugin */
#define CADRE_SHARD_NONE 0u /* replicated */
#define CADRE_SHARD_COLUMN 1u /* along its output features */
#define CADRE_SHARD_QKV 2u /* packed q, k, v: each third along its output features */
#define CADRE_SHARD_ROW 3u /* along its input features */
#define CADRE_SHARD_VOCAB 4u /* along dimension 0, the vocabulary */

/* A point in an ordered queue. Event 0 has already happened. Valid for the whole
 * run. */
typedef uint64_t cadre_event;

/* A view of `count` contiguous elements; never owns them. */
struct cadre_buf {
    uint32_t struct_size;
    uint32_t dtype;
    void *data;
    uint64_t count;
    uint32_t space;
    uint32_t flags;
};

#endif
