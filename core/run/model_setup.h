/* SPDX-License-Identifier: Apache-2.0 */
/* What a run's model is: from [model], and from the folder that model.init names. */
#ifndef CADRE_RUN_MODEL_SETUP_H
#define CADRE_RUN_MODEL_SETUP_H

#include "core/config/config.h"
#include "core/model/model.h"

/* Fill *model; what the data decides (classes, a vocabulary of 0) is the caller's. The
 * shape of model.init's folder wins over defaults, and a key that somebody set (the
 * options know) must agree with it. [main] Errors: CADRE_E_INVALID, and what reading
 * the folder gives. */
cadre_status cadre_model_setup(const struct cadre_config *config,
                               const struct cadre_options *options,
                               struct cadre_model_config *model,
                               struct cadre_error *err);

#endif
