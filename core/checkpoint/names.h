/* SPDX-License-Identifier: Apache-2.0 */
/* Names inside a checkpoint, shared by its writer and its reader. */
#ifndef CADRE_CHECKPOINT_NAMES_H
#define CADRE_CHECKPOINT_NAMES_H

#include "core/base/error.h"
#include "core/checkpoint/checkpoint.h"

enum { CADRE_CHECKPOINT_FILES = 2, CADRE_CHECKPOINT_NAME = 256 };

/* Parameters, then optimizer state. */
extern const char *const cadre_checkpoint_files[CADRE_CHECKPOINT_FILES];

/* The name of a part of a tensor in its file: `x`, `x.exp_avg`, `x.exp_avg_sq`. Errors:
 * CADRE_E_INVALID where it is too long. */
cadre_status cadre_checkpoint_name(enum cadre_checkpoint_part part, const char *tensor,
                                   char out[CADRE_CHECKPOINT_NAME],
                                   struct cadre_error *err);

#endif
