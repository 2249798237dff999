/* SPDX-License-Identifier: Apache-2.0 */
/* The MLP of a GPT-2 block with experts, of which each token takes one (Fedus et al.,
 * Switch Transformers, JMLR 2022). There is no capacity, so no token is dropped and the
 * result does not depend on the number of ranks; buffers hold the worst case, all rows
 * of all ranks on one expert (Gale et al., MegaBlocks, MLSys 2023, dispatch alike).
 * Private to core/model and its tests.
 *
 * Own rows are sorted by expert, so that those for one rank are contiguous; rows that a
 * rank receives are sorted by its experts, then by the rank they are from. */
#ifndef CADRE_MODEL_EXPERTS_H
#define CADRE_MODEL_EXPERTS_H

#include "core/model/block.h"

/* E experts, N own rows, S = unit->M the most that this rank's experts get. */
struct cadre_experts {
    void *probs, *gate; /* saved, wide: (N, E), (N) */
    int32_t *choice, *order, *counts; /* saved: (N), (N), (ranks, E) rows an expert */
    void *out; /* saved: (N, C) experts' outputs, in the order of experts */
    void *rows; /* saved: (S, C) inputs of this rank's experts */
    void *drows, *dlogits; /* gradients of outputs: (S, C), (N, E) */
    void *logits, *dgate; /* scratch: (N, E), wide (N) */
    double *balance; /* scratch: (E) gradients of the balance loss */
    void *received, *grouped; /* scratch: (S, C) each; several ranks only */
};

/* Carve the buffers, which are none without experts; before those of the block. The
 * MLP's act, gate and dgate are the block's. */
struct cadre_experts cadre_experts_carve(struct cadre_carver *carver);

/* y (N, C) = the chosen expert's output for each row of b->norm2, times the probability
 * of the choice. [collective: the ranks with the block's experts] Waits for the device.
 */
cadre_status cadre_experts_forward(const struct cadre_unit *unit,
                                   const struct cadre_experts *experts,
                                   const struct cadre_block *b, void *y);
/* dx (N, C) = the gradient of b->norm2 from b->dy and the balance loss; dx is not b->dy
 * or b->partial. [collective: likewise] */
cadre_status cadre_experts_backward_input(const struct cadre_unit *unit,
                                          const struct cadre_experts *experts,
                                          const struct cadre_block *b, void *dx);
/* Gradients of the router and of this rank's experts, each once and in one order, zero
 * where an expert got no row. */
cadre_status cadre_experts_backward_weight(const struct cadre_unit *unit,
                                           const struct cadre_experts *experts,
                                           const struct cadre_block *b);

#endif
