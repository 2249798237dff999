/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's parameters and optimizer states to and from checkpoints, in the layout of
 * one rank: each rank writes what it speaks for and reads what it holds. */
#ifndef CADRE_CHECKPOINT_SNAPSHOT_H
#define CADRE_CHECKPOINT_SNAPSHOT_H

#include "core/strategy/rank.h"

/* [collective: world, quiesced] Save after `step` optimizer steps into
 * OUT/checkpoints/step-N, OUT the run's folder. On failure on any rank nothing is left
 * of it and every rank returns an error. Errors: CADRE_E_RESOURCE (disk full),
 * CADRE_E_IO. */
cadre_status cadre_snapshot_save(struct cadre_rank *rank, const char *out, int64_t step,
                                 struct cadre_error *err);

/* The checkpoint to resume from as `resume`, the value of checkpoint.resume, asks:
 * *path is NULL for none and is the caller's; *step counts its optimizer steps. [one
 * rank of a process, before ranks start] */
cadre_status cadre_snapshot_find(const char *resume, const char *out, char **path,
                                 int64_t *step, struct cadre_error *err);

/* The same for the newest in the run's own folder. */
cadre_status cadre_snapshot_find_own(const char *out, char **path, int64_t *step,
                                     struct cadre_error *err);

/* Would cadre_snapshot_load work on a rank that is only planned? Reads every byte once.
 * [one rank, before ranks start] Errors: as cadre_snapshot_load. */
cadre_status cadre_snapshot_check(const struct cadre_rank *rank, const char *path,
                                  struct cadre_error *err);

/* The same for cadre_snapshot_init: names, shapes, and checksums where there are any.
 */
cadre_status cadre_snapshot_check_init(const struct cadre_rank *rank, const char *dir,
                                       struct cadre_error *err);

/* Refuse to resume after `step` steps where the run's folder holds a later checkpoint:
 * training on would leave two histories in one folder. [one rank, before ranks start]
 * Errors: CADRE_E_INVALID. */
cadre_status cadre_snapshot_refuse_older(const char *out, int64_t step,
                                         struct cadre_error *err);

/* Fill a bound rank from checkpoint `path`. Every rank of a resumed run calls it.
 * Errors: CADRE_E_INVALID: damaged, another model, optimizer or global batch. */
cadre_status cadre_snapshot_load(struct cadre_rank *rank, const char *path,
                                 struct cadre_error *err);

/* Fill a bound rank's parameters from a Hugging Face folder (model.init). */
cadre_status cadre_snapshot_init(struct cadre_rank *rank, const char *dir,
                                 struct cadre_error *err);

#endif
