/* SPDX-License-Identifier: Apache-2.0 */
/* FLOPs of a token. */
#ifndef CADRE_MODEL_FLOPS_H
#define CADRE_MODEL_FLOPS_H

#include "core/model/model.h"

/* FLOPs of forward plus backward per token, counted from the products of the model with
 * causal attention at context T (6 per weight of a product, 6 L C T for attention). */
double cadre_model_flops_per_token(const struct cadre_model *, int64_t T);

#endif
