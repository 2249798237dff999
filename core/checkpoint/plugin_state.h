/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank's plugins keep of their own in a checkpoint.
 *
 * Tensors go to strategy.safetensors as `<param>.<plugin>.<key>` in the layout of one
 * rank. Saving asks every plugin twice: once to find out what there is, on which all
 * ranks then agree, so that the file can be begun; once for the values.
 *
 * Blobs go to `<plugin>.<key>.blob`, or one a rank `<plugin>.<key>.NNNNNN.blob`. */
#ifndef CADRE_CHECKPOINT_PLUGIN_STATE_H
#define CADRE_CHECKPOINT_PLUGIN_STATE_H

#include "core/checkpoint/range.h"

struct cadre_plugin_state; /* of all plugins of a rank */

/* [collective: world, drained] What the rank's plugins want to keep; blobs are copied.
 * The caller ends it with cadre_plugin_state_destroy. Errors: a plugin's refusal, or
 * what is wrong with its description: plugin, key and parameter are named. */
cadre_status cadre_plugin_state_collect(struct cadre_rank *rank,
                                        struct cadre_plugin_state **out,
                                        struct cadre_error *err);

/* NULL is allowed. */
void cadre_plugin_state_destroy(struct cadre_plugin_state *kept);

/* All ranks' tensors, for the file's header; *n may be 0. Borrowed. */
const struct cadre_safetensors_spec *
cadre_plugin_state_table(const struct cadre_plugin_state *kept, size_t *n);

/* [collective: world, drained] Give what this rank has to write of the tensors, also
 * where the sink has failed already. The names last as long as `kept`. */
void cadre_plugin_state_give(struct cadre_plugin_state *kept,
                             struct cadre_range_sink *sink);

/* Write this rank's blobs into `dir` and fsync them. [any thread] */
cadre_status cadre_plugin_state_write_blobs(const struct cadre_plugin_state *kept,
                                            const char *dir, struct cadre_error *err);

/* Can a run of this stack resume from it? Refuses where a plugin of the stack has a
 * state per rank there, and the stack is another. [one rank, planned]
 * Errors: CADRE_E_INVALID naming plugin, key and the stack to resume with. */
cadre_status cadre_plugin_state_check(const struct cadre_rank *rank,
                                      const struct cadre_checkpoint *checkpoint,
                                      const char *dir, struct cadre_error *err);

/* Give a bound rank's plugins their states back. What the checkpoint does not hold is
 * left as it is, and states of plugins outside the stack are passed over; both with a
 * line in the log. Every rank by itself. Errors: CADRE_E_INVALID damaged, of another
 * version or size; a plugin's refusal. */
cadre_status cadre_plugin_state_load(struct cadre_rank *rank,
                                     struct cadre_checkpoint *checkpoint,
                                     const char *dir, struct cadre_error *err);

#endif
