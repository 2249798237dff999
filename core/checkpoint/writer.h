/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's saving of checkpoints, at once or beside training (checkpoint.async).
 *
 * Beside training, a save copies what the rank has to write to host memory (the
 * ledger's "checkpoint staging": its own bytes, no more, kept for the next save) and
 * returns. A thread of each rank then works in three phases: rank 0 makes the files;
 * every rank writes its part; rank 0 publishes. The ranks go on to the next phase
 * together, at the first step boundary where all are ready; the votes ride on the
 * exchange of losses, so no step waits. */
#ifndef CADRE_CHECKPOINT_WRITER_H
#define CADRE_CHECKPOINT_WRITER_H

#include "core/engine/rank.h"

struct cadre_writer; /* of one rank; [exec] unless said otherwise */

/* A writer of a bound rank, which outlives it, as does `folder`, the run's. Errors:
 * CADRE_E_RESOURCE. */
cadre_status cadre_writer_create(struct cadre_rank *rank, const char *folder,
                                 struct cadre_writer **out, struct cadre_error *err);

/* Waits for this rank's own thread; a checkpoint that is not yet published is given up,
 * and removed by the next that is made. NULL is allowed. */
void cadre_writer_destroy(struct cadre_writer *writer);

/* [collective: world, drained] Save the state after `step`, once what is still being
 * saved is done. `now`: it is published on return, whatever checkpoint.async says.
 * Errors: as cadre_save, also of the one before. */
cadre_status cadre_writer_save(struct cadre_writer *writer, int64_t step, bool now,
                               struct cadre_error *err);

/* Set the rank's votes for the step to come (struct cadre_votes: saving, save_failed).
 */
void cadre_writer_vote(const struct cadre_writer *writer);

/* [every rank, after the step] Go on as the votes of all say. Errors: some rank could
 * not write; nothing is left of that checkpoint. */
cadre_status cadre_writer_turn(struct cadre_writer *writer,
                               const struct cadre_step_report *report,
                               struct cadre_error *err);

/* [collective: world] Until nothing is being saved any more. Errors: as turn. */
cadre_status cadre_writer_finish(struct cadre_writer *writer, struct cadre_error *err);

/* What a save beside training is called in the ledger. */
#define CADRE_WRITER_TAG "checkpoint staging"

/* Host memory that a planned rank's writer takes beside training, without the states of
 * strategies. */
uint64_t cadre_writer_bytes(const struct cadre_rank *rank);

#endif
