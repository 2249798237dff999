/* SPDX-License-Identifier: Apache-2.0 */
/* The transformer that a plan is made of: its sizes, parameters and FLOPs. No weights,
 * no ops: core/model/ has those. */
#ifndef CADRE_PLAN_TRANSFORMER_H
#define CADRE_PLAN_TRANSFORMER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"

/* A low-rank adapter beside a product of a block. */
struct cadre_plan_adapter {
    int64_t in, out; /* of the product */
    bool rows; /* tensor ranks divide what goes in, else what comes out */
};
enum { CADRE_PLAN_ADAPTERS = 8 };

struct cadre_transformer {
    int64_t layers, channels, heads, kv_heads, hidden, vocab, context;
    bool gated; /* the MLP has three products (SwiGLU), else two */
    bool tied; /* embedding and head are one weight */
    int64_t experts; /* MLPs of a block, of which a token takes one; 0: a plain one */
    /* Adapters of each block, which alone train; 0: all parameters do. */
    int n_adapters;
    int64_t adapter_rank;
    struct cadre_plan_adapter adapter[CADRE_PLAN_ADAPTERS];
    bool nf4; /* the frozen matrices of blocks are stored in 4 bits */
};

/* Channels that keys take, and values as many. [any thread] */
double cadre_transformer_kv(const struct cadre_transformer *t);

/* Weights of the products of one block, all of its experts, and of the head. Norms and
 * biases, about 1e-4 of these, are left out, as in the published formulas. [any thread]
 */
double cadre_transformer_block_weights(const struct cadre_transformer *t);
double cadre_transformer_head_weights(const struct cadre_transformer *t);

/* Parameters of a block's adapters on each of `ranks` tensor ranks, which divide one of
 * the two matrices. [any thread] */
double cadre_transformer_adapters(const struct cadre_transformer *t, int64_t ranks);

/* Parameters of the whole model without adapters: blocks, embedding, and a head of its
 * own unless tied. [any thread] */
double cadre_transformer_parameters(const struct cadre_transformer *t);

/* What its parameters do not say: ", 4 experts a block", ", adapters of rank 8, nf4";
 * or "". [any thread] */
enum { CADRE_TRANSFORMER_TRAITS = 64 };
void cadre_transformer_traits(const struct cadre_transformer *t,
                              char out[CADRE_TRANSFORMER_TRAITS]);

/* FLOPs of a step of `batch` sequences as equation 3 of Narayanan et al. 2021 counts
 * them: 96 B s l h^2 (1 + s / 6h + V / 16lh), all blocks computed twice forward.
 * [any thread] */
double cadre_transformer_eq3(const struct cadre_transformer *t, double batch);

/* Model FLOPs of a step of `batch` sequences: 6 a token and weight that it meets (of
 * experts one), and the scores' products; `causal` counts the half of them that a
 * causal mask leaves. [any thread] */
double cadre_transformer_flops(const struct cadre_transformer *t, double batch,
                               bool causal);

/* All sizes are positive and divide as they must. Errors: CADRE_E_INVALID. */
cadre_status cadre_transformer_check(const struct cadre_transformer *t,
                                     struct cadre_error *err);

#endif
