/* SPDX-License-Identifier: Apache-2.0 */
/* What images say about the model: its tokens, and how a pixel becomes a number. */
#ifndef CADRE_RUN_IMAGE_SETUP_H
#define CADRE_RUN_IMAGE_SETUP_H

#include "core/config/config.h"
#include "core/data/dataset.h"
#include "core/model/model.h"

/* Complete *model where model.arch = vit; info is NULL where no data was opened.
 * Errors: CADRE_E_INVALID images without vit, or vit without them; data.mean or
 * data.std with other numbers than channels; model.context or model.vocab set to others
 * than the images make. */
cadre_status cadre_image_setup(const struct cadre_config *config,
                               const struct cadre_options *options,
                               const struct cadre_dataset_info *info,
                               struct cadre_model_config *model,
                               struct cadre_error *err);

#endif
