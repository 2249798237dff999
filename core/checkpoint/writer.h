/* SPDX-License-Identifier: Apache-2.0 */
/* Saving of a rank's checkpoints: synchronous, or asynchronous during training
 * (checkpoint.async).
 *
 * An asynchronous save copies what the rank has to write to host memory (the ledger's
 * "checkpoint staging": its own bytes, no more, kept for the next save) and returns. A
 * thread of each rank then works in three phases: rank 0 makes the files; every rank
 * writes its part; rank 0 publishes. The ranks begin the next phase together, at the
 * first step boundary where all are ready; the votes are part of the exchange of
 * losses, so no step waits. */
#ifndef CADRE_CHECKPOINT_WRITER_H
#define CADRE_CHECKPOINT_WRITER_H

#include "core/engine/rank.h"

struct cadre_writer; /* of one rank; [exec] unless said otherwise */

/* A writer of a bound rank. The rank and `folder`, the run's, outlive it. Errors:
 * CADRE_E_RESOURCE. */
cadre_status cadre_writer_create(struct cadre_rank *rank, const char *folder,
                                 struct cadre_writer **out, struct cadre_error *err);

/* Waits for this rank's own thread; a checkpoint that is not yet published is
 * abandoned, and removed by the next save. NULL is allowed. */
void cadre_writer_destroy(struct cadre_writer *writer);

/* [collective: world, drained] Save the state after `step`, once the previous save is
 * done. `now`: it is published on return, whatever checkpoint.async is. Errors: as
 * cadre_save, also of the one before. */
cadre_status cadre_writer_save(struct cadre_writer *writer, int64_t step, bool now,
                               struct cadre_error *err);

/* Set the rank's votes for the next step (struct cadre_votes: saving, save_failed). */
void cadre_writer_vote(const struct cadre_writer *writer);

/* [every rank, after the step] Begin the next phase if the votes of all ranks allow it.
 * Errors: some rank could not write; nothing is left of that checkpoint. */
cadre_status cadre_writer_turn(struct cadre_writer *writer,
                               const struct cadre_step_report *report,
                               struct cadre_error *err);

/* [collective: world] Wait until nothing is being saved. Errors: as turn. */
cadre_status cadre_writer_finish(struct cadre_writer *writer, struct cadre_error *err);

/* Tag of an asynchronous save in the ledger. */
#define CADRE_WRITER_TAG "checkpoint staging"

/* Host memory that a planned rank's writer takes for asynchronous saves, without plugin
 * state. */
uint64_t cadre_writer_bytes(const struct cadre_rank *rank);

#endif
