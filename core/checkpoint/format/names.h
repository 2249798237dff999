/* SPDX-License-Identifier: Apache-2.0 */
/* Names inside a checkpoint, shared by its writer and its reader. */
#ifndef CADRE_CHECKPOINT_FORMAT_NAMES_H
#define CADRE_CHECKPOINT_FORMAT_NAMES_H

#include "core/base/error.h"

enum cadre_checkpoint_part {
    CADRE_CHECKPOINT_PARAM,
    CADRE_CHECKPOINT_EXP_AVG,
    CADRE_CHECKPOINT_EXP_AVG_SQ,
    CADRE_CHECKPOINT_PLUGIN_STATE, /* of a strategy; its tensors have whole names */
};

enum { CADRE_CHECKPOINT_FILES = 3, CADRE_CHECKPOINT_NAME = 256 };

/* Parameters, optimizer state, states of strategies. */
extern const char *const cadre_checkpoint_files[CADRE_CHECKPOINT_FILES];

/* Which of the files holds a part. */
int cadre_checkpoint_file_of(enum cadre_checkpoint_part part);

/* The name of a part of a tensor in its file: `x`, `x.exp_avg`, `x.exp_avg_sq`; a
 * strategy's state has its whole name already. Errors: CADRE_E_INVALID where it is too
 * long. */
cadre_status cadre_checkpoint_name(enum cadre_checkpoint_part part, const char *tensor,
                                   char out[CADRE_CHECKPOINT_NAME],
                                   struct cadre_error *err);

#endif
