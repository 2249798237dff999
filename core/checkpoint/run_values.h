/* SPDX-License-Identifier: Apache-2.0 */
/* Values of the run in a checkpoint's manifest: which a resumed run must share, and
 * which it takes over. */
#ifndef CADRE_CHECKPOINT_RUN_VALUES_H
#define CADRE_CHECKPOINT_RUN_VALUES_H

#include "core/checkpoint/format/checkpoint.h"
#include "core/engine/rank.h"

/* Publish the draft with the current values, including `scale`, once all ranks have
 * sealed theirs. [one rank, any thread] Errors: as cadre_draft_commit. */
cadre_status cadre_run_values_commit(const struct cadre_rank *rank,
                                     const struct cadre_loss_scale *scale,
                                     const char *root, int64_t step,
                                     struct cadre_error *err);

/* Refuse a checkpoint of another seed, optimizer, global batch or other data: the data
 * cursor and the optimizer states depend on them. `path` is for the text. Errors:
 * CADRE_E_INVALID. */
cadre_status cadre_run_values_check(const struct cadre_rank *rank,
                                    const struct cadre_checkpoint *checkpoint,
                                    const char *path, struct cadre_error *err);

/* Take over the loss scale, and warn where run.exact cannot continue with the same
 * bits. [every rank, bound] Errors: CADRE_E_INVALID. */
cadre_status cadre_run_values_resume(struct cadre_rank *rank,
                                     const struct cadre_checkpoint *checkpoint,
                                     const char *path, struct cadre_error *err);

#endif
