/* SPDX-License-Identifier: Apache-2.0 */
/* What strategies keep of their own in a checkpoint.
 *
 * Tensors go to strategy.safetensors as `<param>.<plugin>.<key>` in the layout of one
 * rank. Saving asks every plugin twice: once to find out what there is, on which all
 * ranks then agree, so that the file can be begun; once for the values. The data ranks'
 * values are combined in a host buffer of CADRE_STATES_CHUNK elements, whatever the
 * size of the tensor.
 *
 * Blobs go to `<plugin>.<key>.blob`, or one a rank `<plugin>.<key>.NNNNNN.blob`. */
#ifndef CADRE_CHECKPOINT_STATES_H
#define CADRE_CHECKPOINT_STATES_H

#include "core/checkpoint/format/checkpoint.h"
#include "core/checkpoint/snapshot_parts.h"

#define CADRE_STATES_CHUNK ((uint64_t)1 << 18)
#define CADRE_STATES_BLOB_BYTES ((uint64_t)64000000)

struct cadre_states;

/* [collective: world, quiesced] What the rank's plugins want to keep; blobs are copied.
 * The caller ends it with cadre_states_destroy. Errors: a plugin's refusal, or what is
 * wrong with its description: plugin, key and parameter are named. */
cadre_status cadre_states_collect(struct cadre_rank *rank, struct cadre_states **out,
                                  struct cadre_error *err);

/* NULL is allowed. */
void cadre_states_destroy(struct cadre_states *states);

/* All ranks' tensors, for the file's header; *n may be 0. Borrowed. */
const struct cadre_safetensors_spec *
cadre_states_table(const struct cadre_states *states, size_t *n);

/* Takes elements of the local part of a parameter's state, from host memory that is
 * gone afterwards. The name lasts as long as the states. */
typedef cadre_status (*cadre_states_put)(void *arg,
                                         const struct cadre_snapshot_piece *piece,
                                         struct cadre_error *err);

/* [collective: world, quiesced] Hand what this rank has to write of the tensors to
 * `put`. A failing put is told at the end, so that no other rank is left waiting. */
cadre_status cadre_states_give(struct cadre_states *states, cadre_states_put put,
                               void *arg, struct cadre_error *err);

/* Write this rank's blobs into `dir` and fsync them. [any thread] */
cadre_status cadre_states_write_blobs(const struct cadre_states *states,
                                      const char *dir, struct cadre_error *err);

/* Can a run of this stack resume from it? Refuses where a plugin of the stack has a
 * state per rank there, and the stack is another. [one rank, planned]
 * Errors: CADRE_E_INVALID naming plugin, key and the stack to resume with. */
cadre_status cadre_states_check(const struct cadre_rank *rank,
                                const struct cadre_checkpoint *checkpoint,
                                const char *dir, struct cadre_error *err);

/* Give a bound rank's plugins their states back. What the checkpoint does not hold is
 * left as it is, and states of plugins outside the stack are passed over; both with a
 * line in the log. Every rank by itself. Errors: CADRE_E_INVALID damaged, of another
 * version or size; a plugin's refusal. */
cadre_status cadre_states_load(struct cadre_rank *rank,
                               struct cadre_checkpoint *checkpoint, const char *dir,
                               struct cadre_error *err);

#endif
