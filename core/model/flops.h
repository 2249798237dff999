/* SPDX-License-Identifier: Apache-2.0 */
/* FLOPs of a token, forward and backward, by the convention of published figures:
 *     model FLOPs    = 6 N + 12 L C T
 *     hardware FLOPs = model FLOPs + what activation checkpointing computes again
 * N: weights of the products that a token takes part in. The head is one, an embedding
 * and a norm are none; of E experts a token takes one; a classifier's weight counts
 * 1 / T, as it scores one row of T. 12 L C T: scores and their product with the values,
 * over all T keys; that causal attention needs half of them is left out, as in most
 * published figures (Chowdhery et al. 2022, appendix B). A frozen weight has no
 * gradient of its own and counts 4 in the place of 6. Activation checkpointing of
 * blocks adds their forward: 2 a weight of a block and 4 L C T (Korthikanti et al.
 * 2022). */
#ifndef CADRE_MODEL_FLOPS_H
#define CADRE_MODEL_FLOPS_H

#include "core/model/model.h"

struct cadre_flops {
    double model; /* of a token, whatever is computed twice */
    double hardware; /* of a token, with what is */
};

/* Of the whole model at context T, however many ranks divide it. frozen (n_params): a
 * parameter is not trained; NULL: all are. recompute: train.recompute = block. [any
 * thread] */
struct cadre_flops cadre_model_flops(const struct cadre_model *model, int64_t T,
                                     const bool *frozen, bool recompute);

#endif
