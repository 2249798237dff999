/* SPDX-License-Identifier: Apache-2.0 */
/* What was trained as one plain Hugging Face folder: a frozen model with its adapter,
 * W + scale * B A, or one of quantization-aware training with its weights rounded. */
#ifndef CADRE_TUNE_MERGE_H
#define CADRE_TUNE_MERGE_H

#include "core/checkpoint/format/hf.h"
#include "core/checkpoint/format/safetensors.h"
#include "core/model/model.h"

struct cadre_tokenizer_files;

struct cadre_merge {
    const struct cadre_model_config *model; /* with its adapters, or its qat */
    const char *init; /* folder of the frozen model; empty: initial values of seed */
    uint64_t seed;
    bool nf4; /* the adapter is of matrices that were stored in nf4: merge into those */
    const char *adapter; /* folder with adapter_model.safetensors; empty: none */
    const char *out; /* folder to make, or an empty one */
    const struct cadre_tokenizer_files *tokenizer; /* NULL: none */
    struct cadre_hf_marks
        marks; /* of the tokenizer, for what init's config.json has not */
};

/* Write model.safetensors in the model's wide dtype, config.json (that of init where
 * there is one) and the tokenizer's files; with model->qat also the codes
 * (int4_file.h). One tensor at a time is in memory; sums are made in double, each value
 * rounded once. Errors: CADRE_E_INVALID out is not empty, or a folder does not fit the
 * model; CADRE_E_IO, CADRE_E_RESOURCE. */
cadre_status cadre_merge(const struct cadre_merge *merge, struct cadre_error *err);

/* The tensors of the model without adapters, or (adapters) those alone, by their names
 * in files. The caller frees it, NULL: no memory. */
struct cadre_safetensors_spec *cadre_merge_tensors(const struct cadre_model *model,
                                                   bool adapters, size_t *n,
                                                   struct cadre_error *err);

#endif
