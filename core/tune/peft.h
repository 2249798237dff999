/* SPDX-License-Identifier: Apache-2.0 */
/* adapter_config.json of PEFT's adapter folders (huggingface/peft, LoraConfig). The
 * tensors beside it are adapter_model.safetensors, under the names that the model's
 * adapters have. What Cadre would compute differently is an error, never ignored. */
#ifndef CADRE_TUNE_PEFT_H
#define CADRE_TUNE_PEFT_H

#include "core/model/model.h"

#define CADRE_PEFT_TENSORS "adapter_model.safetensors"

struct cadre_peft {
    int64_t rank;
    double alpha, dropout;
    bool rslora;
    uint32_t targets; /* as in struct cadre_lora_config */
};

/* Read DIR/adapter_config.json. Errors: CADRE_E_INVALID (file, key, expected, found),
 * CADRE_E_UNSUPPORTED another kind of adapter, or a part that Cadre has not;
 * CADRE_E_IO. */
cadre_status cadre_peft_read(const char *dir, enum cadre_arch arch,
                             struct cadre_peft *peft, struct cadre_error *err);

/* Write DIR/adapter_config.json and fsync it. base: the folder of the frozen model;
 * NULL or empty: none. Errors: CADRE_E_RESOURCE, CADRE_E_IO. */
cadre_status cadre_peft_write(const char *dir, const struct cadre_model_config *model,
                              const char *base, struct cadre_error *err);

#endif
