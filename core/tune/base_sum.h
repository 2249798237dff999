/* SPDX-License-Identifier: Apache-2.0 */
/* What the frozen weights of a run are: checkpoints of adapters name them by this. */
#ifndef CADRE_TUNE_BASE_SUM_H
#define CADRE_TUNE_BASE_SUM_H

#include "core/model/model.h"

/* XXH64 of the names and bytes of the folder's model*.safetensors, in the order of
 * their names; where `init` is empty, of the model's form and the seed that made its
 * initial values. Reads every byte once. [main] Errors: CADRE_E_INVALID the folder has
 * none, CADRE_E_IO, CADRE_E_RESOURCE. */
cadre_status cadre_base_sum(const char *init, const struct cadre_model_config *model,
                            uint64_t seed, uint64_t *sum, struct cadre_error *err);

#endif
