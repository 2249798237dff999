/* SPDX-License-Identifier: Apache-2.0 */
/* Low-rank adapters of a block's products (Hu et al. 2021):
 *   y = x W + scale * (dropout(x) A^T) B^T, A (rank, in), B (out, rank).
 * They have the names that PEFT saves, `base_model.model.<weight>.lora_A.weight`. Under
 * tensor parallelism each is cut like its weight: B where the weight is cut by columns
 * and A where it is by rows; then the gradient of the other one is a partial sum.
 * With run.exact_parts that sum is made in parts and completed in every micro-batch,
 * and where the weight's own product is made in parts, the adapter's belongs to them.
 * Private to core/model and its tests. */
#ifndef CADRE_MODEL_LORA_H
#define CADRE_MODEL_LORA_H

#include "core/model/layer.h"

#define CADRE_LORA_PREFIX "base_model.model."

/* Adapters' parameters of a block. */
uint32_t cadre_lora_params(const struct cadre_model_config *config);

/* Append them to the table, behind the parameters of block `unit`. */
void cadre_lora_append(struct cadre_model *model, uint32_t unit);

/* What cannot be combined with adapters. Errors: CADRE_E_INVALID, CADRE_E_UNSUPPORTED.
 */
cadre_status cadre_lora_check(const struct cadre_model_config *config,
                              struct cadre_error *err);

/* The buffers of all adapters of a block; before anything else of it is carved. */
void cadre_lora_carve(struct cadre_carver *carver);

/* Not in a pass without adapters. */
bool cadre_lora_adapts(const struct cadre_unit *unit,
                       const struct cadre_linear *linear);

/* Is the adapter's product in forward a term of the weight's own, whose sums are made
 * in parts: that of cadre_lora_fwd_term in place of cadre_lora_fwd? */
bool cadre_lora_is_term(const struct cadre_unit *unit,
                        const struct cadre_linear *linear);
/* That term, of y; b is the same for each part. */
cadre_status cadre_lora_fwd_term(const struct cadre_unit *unit,
                                 const struct cadre_linear *linear, const void *x,
                                 struct cadre_gemm_term *term);
/* The term of dx where dy W^T is made in parts, in place of cadre_lora_bwd_input. */
cadre_status cadre_lora_bwd_term(const struct cadre_unit *unit,
                                 const struct cadre_linear *linear, const void *dy,
                                 struct cadre_gemm_term *term);

/* y += the adapter's product, then the epilogue, as of cadre_linear_fwd. */
cadre_status cadre_lora_fwd(const struct cadre_unit *unit,
                            const struct cadre_linear *linear, const void *x, void *y,
                            enum cadre_epilogue epilogue, void *aux);
/* dx += the gradient of x through the adapter; with `pre`, dx is then multiplied by
 * gelu'(pre). */
cadre_status cadre_lora_bwd_input(const struct cadre_unit *unit,
                                  const struct cadre_linear *linear, const void *dy,
                                  void *dx, const void *pre);
/* The gradients of A and B, after forward and bwd_input with the same buffers. In
 * parts, all tensor ranks call it together. */
cadre_status cadre_lora_bwd_weight(const struct cadre_unit *unit,
                                   const struct cadre_linear *linear, const void *x,
                                   const void *dy);

#endif
