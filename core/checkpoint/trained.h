/* SPDX-License-Identifier: Apache-2.0 */
/* The records that a checkpoint was trained on, which a later evaluation may meet. */
#ifndef CADRE_CHECKPOINT_TRAINED_H
#define CADRE_CHECKPOINT_TRAINED_H

#include "core/base/memory.h"
#include "core/data/dataset.h"

/* Append "100, 101": the training records of the set; nothing for text and tokens, and
 * for NULL. */
void cadre_trained_list(const struct cadre_dataset *set, struct cadre_text *out);

/* Append the validation records of `set` that DIR was trained on, "100, 101". Nothing
 * where DIR is a Hugging Face folder, or a checkpoint of an earlier build that kept no
 * such list. Errors: as cadre_checkpoint_open. */
cadre_status cadre_trained_find(const char *dir, const struct cadre_dataset *set,
                                struct cadre_text *out, struct cadre_error *err);

#endif
