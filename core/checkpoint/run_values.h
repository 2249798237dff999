/* SPDX-License-Identifier: Apache-2.0 */
/* What a checkpoint's manifest says of the run that wrote it, and what of it another
 * run must share, or takes over, to go on. */
#ifndef CADRE_CHECKPOINT_RUN_VALUES_H
#define CADRE_CHECKPOINT_RUN_VALUES_H

#include "core/checkpoint/format/checkpoint.h"
#include "core/engine/rank.h"

/* The draft published with the values of this moment, `scale` among them, once all
 * ranks have sealed theirs. [one rank, any thread] Errors: as cadre_draft_commit. */
cadre_status cadre_run_values_commit(const struct cadre_rank *rank,
                                     const struct cadre_loss_scale *scale,
                                     const char *root, int64_t step,
                                     struct cadre_error *err);

/* Refuse a checkpoint of another seed, optimizer, global batch or other data: the data
 * cursor and the optimizer states rest on them. `path` is for the text. Errors:
 * CADRE_E_INVALID. */
cadre_status cadre_run_values_check(const struct cadre_rank *rank,
                                    const struct cadre_checkpoint *checkpoint,
                                    const char *path, struct cadre_error *err);

/* Take over the loss scale, and warn where run.exact cannot go on with the same bits.
 * [every rank, bound] Errors: CADRE_E_INVALID. */
cadre_status cadre_run_values_resume(struct cadre_rank *rank,
                                     const struct cadre_checkpoint *checkpoint,
                                     const char *path, struct cadre_error *err);

#endif
