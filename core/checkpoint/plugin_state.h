/* SPDX-License-Identifier: Apache-2.0 */
/* Plugin state: what a rank's plugins keep in a checkpoint.
 *
 * Tensors go to strategy.safetensors as `<param>.<plugin>.<key>` in the layout of one
 * rank. Saving calls every plugin twice: first for the list of states, on which all
 * ranks agree before the file is made; then for the values.
 *
 * Blobs go to `<plugin>.<key>.blob`, or one a rank `<plugin>.<key>.NNNNNN.blob`. */
#ifndef CADRE_CHECKPOINT_PLUGIN_STATE_H
#define CADRE_CHECKPOINT_PLUGIN_STATE_H

#include "core/checkpoint/range.h"

struct cadre_plugin_state; /* state of all plugins of a rank */

/* [collective: world, drained] Collect what the rank's plugins keep; blobs are copied.
 * The caller frees it with cadre_plugin_state_destroy. Errors: a plugin's refusal, or a
 * wrong description, naming plugin, key and parameter. */
cadre_status cadre_plugin_state_collect(struct cadre_rank *rank,
                                        struct cadre_plugin_state **out,
                                        struct cadre_error *err);

/* NULL is allowed. */
void cadre_plugin_state_destroy(struct cadre_plugin_state *kept);

/* All ranks' tensors, for the file's header; *n may be 0. Borrowed. */
const struct cadre_safetensors_spec *
cadre_plugin_state_table(const struct cadre_plugin_state *kept, size_t *n);

/* [collective: world, drained] Pass this rank's ranges of the tensors to the sink, also
 * after the sink has failed. The names last as long as `kept`. */
void cadre_plugin_state_give(struct cadre_plugin_state *kept,
                             struct cadre_range_sink *sink);

/* Write this rank's blobs into `dir` and fsync them. [any thread] */
cadre_status cadre_plugin_state_write_blobs(const struct cadre_plugin_state *kept,
                                            const char *dir, struct cadre_error *err);

/* Can a run of this stack resume from the checkpoint? Refused if a plugin of the stack
 * has a state per rank in it and the checkpoint's stack is another. [one rank, planned]
 * Errors: CADRE_E_INVALID naming plugin, key and the stack to resume with. */
cadre_status cadre_plugin_state_check(const struct cadre_rank *rank,
                                      const struct cadre_checkpoint *checkpoint,
                                      const char *dir, struct cadre_error *err);

/* Restore the states of a bound rank's plugins. A state that the checkpoint does not
 * hold is unchanged, and states of plugins outside the stack are ignored; both are
 * logged. Every rank on its own. Errors: CADRE_E_INVALID damaged, of another version or
 * size; a plugin's refusal. */
cadre_status cadre_plugin_state_load(struct cadre_rank *rank,
                                     struct cadre_checkpoint *checkpoint,
                                     const char *dir, struct cadre_error *err);

#endif
