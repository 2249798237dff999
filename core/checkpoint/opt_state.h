/* SPDX-License-Identifier: Apache-2.0 */
/* The states of an optimizer plugin in checkpoints: `<param>.<key>` in
 * optimizer.safetensors, in the layout of one rank, so that any strategy with any
 * number of ranks resumes from them. They are saved in the wide dtype, in which those
 * of fewer bits are exact. Private to core/checkpoint. */
#ifndef CADRE_CHECKPOINT_OPT_STATE_H
#define CADRE_CHECKPOINT_OPT_STATE_H

#include "core/checkpoint/range.h"

/* Add the states' file to a draft; does nothing without states. [one rank] Errors: as
 * cadre_draft_begin_states; CADRE_E_INVALID a name that is too long. */
cadre_status cadre_opt_state_begin(const struct cadre_rank *rank, const char *root,
                                   int64_t step, struct cadre_error *err);

/* Elements that this rank, which may be planned only, has to save of its ranges. */
uint64_t cadre_opt_state_count(const struct cadre_rank *rank);

/* [collective: the ranks of `mean`] Pass this rank's states to the sink. Those of
 * diverging replicas are passed as their mean, where they are of the wide dtype; of
 * codes of fewer bits, which have no mean, the first replica's. */
void cadre_opt_state_give(struct cadre_rank *rank, const struct cadre_range_sum *mean,
                          struct cadre_range_sink *sink);

/* The parts of the above, for files of another kind: the tensor that holds planned
 * state `i` of the whole parameter; this rank's part of it, count 0 for none; pass that
 * to the sink under the names of `range`, and fill it. */
struct cadre_safetensors_spec cadre_opt_state_tensor(const struct cadre_rank *rank,
                                                     uint32_t i, const char *name);
struct cadre_range cadre_opt_state_range(const struct cadre_rank *rank, uint32_t i);
cadre_status cadre_opt_state_give_one(struct cadre_rank *rank, uint32_t i,
                                      const struct cadre_range *range,
                                      struct cadre_range_sink *sink);
cadre_status cadre_opt_state_load_one(struct cadre_rank *rank, uint32_t i,
                                      const struct cadre_range *range,
                                      struct cadre_checkpoint *checkpoint,
                                      struct cadre_error *err);

/* Fill a bound rank's states. Errors: as cadre_checkpoint_read. */
cadre_status cadre_opt_state_load(struct cadre_rank *rank,
                                  struct cadre_checkpoint *checkpoint,
                                  struct cadre_error *err);

#endif
