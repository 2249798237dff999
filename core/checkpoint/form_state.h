/* SPDX-License-Identifier: Apache-2.0 */
/* forms.safetensors: of parameters that are stored in nf4 their scales, `<param>.nf4`,
 * with which the values of model.safetensors are encoded again without changing a bit.
 * Private to core/checkpoint. */
#ifndef CADRE_CHECKPOINT_FORM_STATE_H
#define CADRE_CHECKPOINT_FORM_STATE_H

#include "core/checkpoint/range.h"

/* Add the file to a draft; does nothing where no rank stores a parameter in nf4. [one
 * rank] Errors: as cadre_draft_begin_states; CADRE_E_INVALID a name that is too long.
 */
cadre_status cadre_form_state_begin(const struct cadre_rank *rank, const char *root,
                                    int64_t step, struct cadre_error *err);

/* Pass the scales that this rank saves to the sink. */
void cadre_form_state_give(struct cadre_rank *rank, struct cadre_range_sink *sink);

/* Before values of a parameter are put: its scales as the checkpoint has them, or found
 * from the values of the checkpoint, or of the model folder where `hf` is not NULL.
 * Nothing where it is not stored in nf4. Errors: as cadre_checkpoint_read;
 * CADRE_E_INVALID a value is not finite. */
cadre_status cadre_form_state_load(struct cadre_rank *rank, uint32_t param,
                                   struct cadre_checkpoint *checkpoint,
                                   const struct cadre_hf *hf, struct cadre_error *err);

#endif
