/* SPDX-License-Identifier: Apache-2.0 */
/* Fake quantization of the products of blocks, for quantization-aware training in 8da4w
 * (Jacob et al. 2018; torchao's Int8DynActInt4WeightQATQuantizer): they read quantised
 * values, and gradients go straight through to what was not clamped. The embedding and
 * the head are not quantised. Private to core/model and its tests. */
#ifndef CADRE_MODEL_QAT_H
#define CADRE_MODEL_QAT_H

#include "core/model/layer.h"

/* What is refused: the keys of struct cadre_qat_config with others. */
cadre_status cadre_qat_check(const struct cadre_model_config *config, int tp_size,
                             struct cadre_error *err);

/* Buffers of a block, first of all of it; nothing without quantization. */
void cadre_qat_carve(struct cadre_carver *carver);

/* Is the unit a block of such a model? Else the rest gives what it got. */
bool cadre_qat_quantises(const struct cadre_unit *unit);

/* *out = the quantised weight, or x (rows, in): in scratch until the next call for a
 * product of the unit. Weights that one product reads lie behind each other, this one
 * `at` elements from the first. */
cadre_status cadre_qat_weight(const struct cadre_unit *unit,
                              const struct cadre_linear *linear, int64_t at,
                              const void **out);
cadre_status cadre_qat_input(const struct cadre_unit *unit,
                             const struct cadre_linear *linear, const void *x,
                             const void **out);

/* Forward, before cadre_qat_input of a product whose tokens' channels tensor ranks
 * share: the scale of a token is of all of them. Those ranks call it together; what it
 * finds is kept for backward. Nothing for other products. */
cadre_status cadre_qat_range(const struct cadre_unit *unit,
                             const struct cadre_linear *linear, const void *x);

/* Zero the gradients of what was clamped: dx (rows, in) of linear->x of a row-split
 * product, dx of the own rows x (R, C) of a norm's output, which the products that
 * share it clamp alike, and dw, wide. */
cadre_status cadre_qat_clip_input(const struct cadre_unit *unit,
                                  const struct cadre_linear *linear, void *dx);
cadre_status cadre_qat_clip_rows(const struct cadre_unit *unit, const void *x,
                                 void *dx);
cadre_status cadre_qat_clip_weight(const struct cadre_unit *unit,
                                   const struct cadre_linear *linear, void *dw);

#endif
