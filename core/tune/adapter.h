/* SPDX-License-Identifier: Apache-2.0 */
/* The adapters of a run, from [tune] and the folder tune.adapter. */
#ifndef CADRE_TUNE_ADAPTER_H
#define CADRE_TUNE_ADAPTER_H

#include "core/config/config.h"
#include "core/model/model.h"

/* Fill model->lora, or model->qat; the model's form is known. With tune.method = full
 * both stay empty. Keys of another method are refused, and with qat a folder that is
 * quantised already, unless tune.quantized says so. What the folder tune.adapter says
 * wins over defaults; a key that the user set must agree with it. [main] Errors:
 * CADRE_E_INVALID, CADRE_E_UNSUPPORTED a method that is not built, and those of reading
 * the folder. */
cadre_status cadre_adapter_setup(const struct cadre_config *config,
                                 const struct cadre_options *options,
                                 struct cadre_model_config *model,
                                 struct cadre_error *err);

/* Does DIR hold an adapter: an adapter_config.json? */
bool cadre_adapter_is(const char *dir);

#endif
