/* SPDX-License-Identifier: Apache-2.0 */
/* int4.safetensors: the weights of blocks of a model of quantization-aware training as
 * codes and scales. Of each module M, named as in model.safetensors:
 *   M.weight  I8, the weight's own shape: codes from -8 to 7
 *   M.scales  F32, one for each group: the shape with the inputs' dimension divided by
 *             tune.group and rounded up
 *   M.zeros   F32, as M.scales: 0
 * the names, and for a Linear the shapes, of torchao's Int8DynActInt4WeightLinear. The
 * value of a weight is its code times the scale of its group, in fp32. */
#ifndef CADRE_TUNE_INT4_FILE_H
#define CADRE_TUNE_INT4_FILE_H

#include "core/checkpoint/format/safetensors.h"
#include "core/model/model.h"

#define CADRE_INT4_FILE "int4.safetensors"

/* Make the file in the folder `dir`, values zero. The caller closes *out. Errors:
 * CADRE_E_IO, CADRE_E_RESOURCE. */
cadre_status cadre_int4_file_create(const char *dir, const struct cadre_model *model,
                                    struct cadre_safetensors **out,
                                    struct cadre_error *err);

/* Replace data (of the whole weight, in the model's dtype: f32 or f64) by its values in
 * int4, and write its codes. `computes`: the dtype of training, to which a weight was
 * rounded before it was quantised. Errors: CADRE_E_INVALID a value that is not finite,
 * CADRE_E_IO, CADRE_E_RESOURCE. */
cadre_status cadre_int4_file_put(const struct cadre_safetensors *file,
                                 const struct cadre_model *model, uint32_t param,
                                 uint32_t computes, void *data,
                                 struct cadre_error *err);

#endif
