/* SPDX-License-Identifier: Apache-2.0 */
/* Saving a checkpoint: every rank writes what it owns, rank 0 makes the files before
 * and publishes them afterwards. cadre_save does all of it; the writer calls the parts
 * during training. */
#ifndef CADRE_CHECKPOINT_SAVE_H
#define CADRE_CHECKPOINT_SAVE_H

#include "core/checkpoint/plugin_state.h"
#include "core/checkpoint/range.h"

/* [collective: world, drained] Save after `step` optimizer steps into
 * OUT/checkpoints/step-N, OUT the run's folder. On failure on any rank nothing is left
 * of it and every rank returns an error. Errors: CADRE_E_RESOURCE (disk full),
 * CADRE_E_IO. */
cadre_status cadre_save(struct cadre_rank *rank, const char *out, int64_t step,
                        struct cadre_error *err);

/* Make the draft. [one rank, any thread] */
cadre_status cadre_save_begin(const struct cadre_rank *rank,
                              const struct cadre_plugin_state *kept, const char *root,
                              int64_t step, struct cadre_error *err);

/* [collective: world, drained] Pass everything that this rank has to write to the sink,
 * also after the sink has failed. Optimizer states of diverging replicas
 * (param.diverges) are passed as their mean, so that any number of replicas can resume
 * from it. The ranges' names last as long as the model and `kept`. Errors: the sink's.
 */
cadre_status cadre_save_each(struct cadre_rank *rank, struct cadre_plugin_state *kept,
                             struct cadre_range_sink *sink);

/* Write what is not a tensor: blobs, and on rank 0 the model's configuration. Then sync
 * all of the rank's data to disk. [any thread] */
cadre_status cadre_save_seal(const struct cadre_rank *rank,
                             const struct cadre_plugin_state *kept,
                             struct cadre_draft *draft, const char *root, int64_t step,
                             struct cadre_error *err);

/* [collective: world] Do all ranks report OK? A barrier too. Errors: `mine`, or
 * CADRE_E_ABORTED for another rank's. */
cadre_status cadre_save_agree(struct cadre_rank *rank, cadre_status mine,
                              struct cadre_error *err);

#endif
