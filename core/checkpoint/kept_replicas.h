/* SPDX-License-Identifier: Apache-2.0 */
/* replicas.safetensors: the parameters and optimizer states of each replica along an
 * axis of param.diverges, where its claim has CADRE_CLAIM_KEEP_REPLICAS. Their tensors
 * are `<param>.<r>`, `<param>.exp_avg.<r>`, ... in the layout of one rank, r the place
 * along the axis. The other files have the mean. Private to core/checkpoint. */
#ifndef CADRE_CHECKPOINT_KEPT_REPLICAS_H
#define CADRE_CHECKPOINT_KEPT_REPLICAS_H

#include "core/checkpoint/range.h"

/* Add the file to a draft; does nothing where no replicas are kept. [one rank] Errors:
 * as cadre_draft_begin_states; CADRE_E_INVALID a name that is too long. */
cadre_status cadre_kept_replicas_begin(const struct cadre_rank *rank, const char *root,
                                       int64_t step, struct cadre_error *err);

/* Pass this rank's part of its replica to the sink. */
void cadre_kept_replicas_give(struct cadre_rank *rank, struct cadre_range_sink *sink);

/* After a checkpoint's mean is loaded: this replica's own values, where the checkpoint
 * keeps as many replicas as the run has; another number is logged. Errors: as
 * cadre_checkpoint_read. */
cadre_status cadre_kept_replicas_load(struct cadre_rank *rank,
                                      struct cadre_checkpoint *checkpoint,
                                      const char *path, struct cadre_error *err);

#endif
