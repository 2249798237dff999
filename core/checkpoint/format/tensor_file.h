/* SPDX-License-Identifier: Apache-2.0 */
/* The safetensors files of a checkpoint: their parts and names, and an open file with
 * the checksums of its tensors. */
#ifndef CADRE_CHECKPOINT_FORMAT_TENSOR_FILE_H
#define CADRE_CHECKPOINT_FORMAT_TENSOR_FILE_H

#include "core/base/error.h"
#include "core/checkpoint/format/checksum.h"
#include "core/checkpoint/format/safetensors.h"

enum cadre_checkpoint_part {
    CADRE_CHECKPOINT_PARAM,
    CADRE_CHECKPOINT_EXP_AVG,
    CADRE_CHECKPOINT_EXP_AVG_SQ,
    CADRE_CHECKPOINT_PLUGIN_STATE, /* of a strategy; its tensors have full names */
    CADRE_CHECKPOINT_OPT_STATE, /* of an optimizer plugin; full names too */
    CADRE_CHECKPOINT_REPLICA, /* of replicas that diverge; full names too */
    CADRE_CHECKPOINT_FORM, /* of stored forms; full names too */
};

enum { CADRE_CHECKPOINT_FILES = 5, CADRE_CHECKPOINT_NAME = 256 };

/* Parameters, optimizer state, states of strategies, of single replicas, of forms. */
extern const char *const cadre_checkpoint_files[CADRE_CHECKPOINT_FILES];

/* The parameters' file of a run with adapters, as PEFT names it; it holds nothing else
 * than adapters. */
#define CADRE_CHECKPOINT_ADAPTERS "adapter_model.safetensors"

/* The name of file `which` in the folder DIR: that of adapters where there is one. */
const char *cadre_checkpoint_file_in(const char *dir, int which);

/* Which of the files holds a part. */
int cadre_checkpoint_file_of(enum cadre_checkpoint_part part);

/* The name of a part of a tensor in its file: `x`, `x.exp_avg`, `x.exp_avg_sq`; a
 * plugin's state already has its full name. Errors: CADRE_E_INVALID too long. */
cadre_status cadre_checkpoint_name(enum cadre_checkpoint_part part, const char *tensor,
                                   char out[CADRE_CHECKPOINT_NAME],
                                   struct cadre_error *err);

struct cadre_tensor_file {
    const char *name; /* within the folder; borrowed */
    struct cadre_safetensors *file; /* NULL: the folder has none */
    struct cadre_checksums sums;
};

/* Open DIR/name; the sums are empty. On failure close is harmless. Errors: as
 * cadre_safetensors_open. */
cadre_status cadre_tensor_file_open(struct cadre_tensor_file *file, const char *dir,
                                    const char *name, bool writable,
                                    struct cadre_error *err);

/* Accepts a zeroed one. */
void cadre_tensor_file_close(struct cadre_tensor_file *file);

#endif
