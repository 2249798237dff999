/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration of a run's model, from [model] and the folder model.init. */
#ifndef CADRE_RUN_MODEL_SETUP_H
#define CADRE_RUN_MODEL_SETUP_H

#include "core/config/config.h"
#include "core/model/model.h"

/* Fill *model. The caller fills what depends on the data (classes, a vocabulary of 0).
 * The shape of model.init's folder wins over defaults; a key that the user set must
 * agree with it. [main] Errors: CADRE_E_INVALID, and those of reading the folder. */
cadre_status cadre_model_setup(const struct cadre_config *config,
                               const struct cadre_options *options,
                               struct cadre_model_config *model,
                               struct cadre_error *err);

#endif
