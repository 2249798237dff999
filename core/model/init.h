/* SPDX-License-Identifier: Apache-2.0 */
/* Initial values of parameters, the same however they are sharded. */
#ifndef CADRE_MODEL_INIT_H
#define CADRE_MODEL_INIT_H

#include "core/model/model.h"

/* Fill elements [begin, begin + count) of the flat local part of parameter `index` with
 * its initial values, keyed by (seed, name, logical element), into host memory `out` of
 * the model's wide dtype. The same logical element has the same bits however the
 * parameter is sharded. Many elements are made by as many threads as the caller has
 * cores. [any thread] */
void cadre_model_init_range(const struct cadre_model *model, uint32_t index,
                            uint64_t seed, uint64_t begin, uint64_t count, void *out);

/* Logical flat index of local flat element `element` of a parameter. */
uint64_t cadre_param_logical(const struct cadre_param *param, int tp_rank, int tp_size,
                             uint64_t element);

/* As cadre_model_init_range, of the whole parameter, whatever part of it is local. */
void cadre_model_init_whole(const struct cadre_model *model, uint32_t index,
                            uint64_t seed, uint64_t begin, uint64_t count, void *out);

/* How many local elements from `element` on are consecutive in the whole parameter;
 * *logical is the index of the first there. */
uint64_t cadre_param_run(const struct cadre_param *param, int tp_rank, int tp_size,
                         uint64_t element, uint64_t *logical);

#endif
