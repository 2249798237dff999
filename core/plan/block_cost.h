/* SPDX-License-Identifier: Apache-2.0 */
/* Seconds that one rank computes for one micro-batch: of a block, of the head, and what
 * recomputing adds. docs/planning.md has every formula. */
#ifndef CADRE_PLAN_BLOCK_COST_H
#define CADRE_PLAN_BLOCK_COST_H

#include "core/plan/candidate.h"

struct cadre_block_cost {
    double forward, backward;
    double weight; /* the part of backward that is gradients of weights */
    double core_forward; /* the part of forward that is scores and their product */
};

/* Seconds of a product of m rows, k deep, n columns: its FLOPs at a rate that grows
 * with its size, or its operands' bytes, whichever takes longer. `extra` bytes are
 * moved besides. [any thread] */
double cadre_product_seconds(const struct cadre_hardware *hw,
                             enum cadre_plan_dtype dtype, const double mkn[3],
                             double extra);

/* One block. [any thread] */
struct cadre_block_cost cadre_block_cost(const struct cadre_transformer *t,
                                         const struct cadre_candidate *c,
                                         const struct cadre_hardware *hw);

/* The head's product and the cross-entropy over its logits. [any thread] */
struct cadre_block_cost cadre_head_cost(const struct cadre_transformer *t,
                                        const struct cadre_candidate *c,
                                        const struct cadre_hardware *hw);

#endif
