/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints: a folder step-00000100 with model.safetensors, optimizer.safetensors
 * (`<name>.exp_avg`, `<name>.exp_avg_sq`), strategy.safetensors where strategies keep
 * something (`<name>.<plugin>.<key>`) and state.json, in the layout of one rank whoever
 * wrote it, so that any strategy at any size reads it.
 *
 * Saving, ranks sharing a file system; the caller brings the barriers and the agreement
 * that all went well:
 *
 *     one rank     cadre_checkpoint_begin     makes step-N.partial, files at full size
 *                  cadre_checkpoint_begin_states, where strategies keep something
 *     (barrier)
 *     every rank   cadre_checkpoint_writer_open, _write for each range it owns, _sync,
 *                  _close
 *     one rank     other files into cadre_checkpoint_partial(), as config.json
 *     (barrier, all agree that every call returned CADRE_OK)
 *     one rank     cadre_checkpoint_commit    seals it, renames it to step-N
 *             or   cadre_checkpoint_abandon   removes step-N.partial
 *
 * Every range of every tensor is written by exactly one rank, once. A crash at any
 * instant leaves the checkpoints before whole: until the rename the new one has another
 * name, and it is renamed only when all of it is on the disk. */
#ifndef CADRE_CHECKPOINT_FORMAT_CHECKPOINT_H
#define CADRE_CHECKPOINT_FORMAT_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/checkpoint/format/safetensors.h"
#include "core/checkpoint/format/state.h"

enum cadre_checkpoint_part {
    CADRE_CHECKPOINT_PARAM,
    CADRE_CHECKPOINT_EXP_AVG,
    CADRE_CHECKPOINT_EXP_AVG_SQ,
    CADRE_CHECKPOINT_STATE, /* of a strategy; its tensors have whole names */
};

/* Make root (one level) and root/step-N.partial with its files for `n` tensors
 * (CADRE_F32 or CADRE_F64, Hugging Face names), and remove what a crash left under
 * root. moments: 0 no optimizer state, 1 exp_avg (SGD with momentum), 2 both. Reserves
 * the disk: a full one shows here. [one rank] Errors: CADRE_E_RESOURCE disk full,
 * CADRE_E_IO, CADRE_E_INVALID; nothing is left then. */
cadre_status cadre_checkpoint_begin(const char *root, uint64_t step,
                                    const struct cadre_safetensors_spec *tensors,
                                    size_t n, int moments, struct cadre_error *err);

/* Add strategy.safetensors with these tensors to what begin made. [one rank, after
 * begin and before the writers] Errors: as begin; the caller then abandons. */
cadre_status cadre_checkpoint_begin_states(const char *root, uint64_t step,
                                           const struct cadre_safetensors_spec *tensors,
                                           size_t n, struct cadre_error *err);

/* root/step-N.partial; the caller frees it, NULL: no memory. Small files put there by
 * the caller before the commit are sealed with it. */
char *cadre_checkpoint_partial(const char *root, uint64_t step);

struct cadre_checkpoint_writer;

/* A rank's way into the files that begin made. rank: 0 .. n_ranks - 1 of the commit.
 * [every rank, after begin; the handle is of one thread] Errors: CADRE_E_INVALID,
 * CADRE_E_IO, CADRE_E_RESOURCE. */
cadre_status cadre_checkpoint_writer_open(const char *root, uint64_t step, int rank,
                                          struct cadre_checkpoint_writer **out,
                                          struct cadre_error *err);

/* Write elements [begin, begin + count) of a tensor's flat logical form from host
 * memory, in the dtype that begin was given for it. Errors: CADRE_E_INVALID no such
 * tensor or range, CADRE_E_RESOURCE, CADRE_E_IO. */
cadre_status cadre_checkpoint_write(struct cadre_checkpoint_writer *writer,
                                    enum cadre_checkpoint_part part, const char *tensor,
                                    uint64_t begin, uint64_t count, const void *data,
                                    struct cadre_error *err);

/* Bring what was written to the disk, and leave its checksums for the commit. Once,
 * after the last write; also by a rank that wrote nothing. */
cadre_status cadre_checkpoint_sync(struct cadre_checkpoint_writer *writer,
                                   struct cadre_error *err);

/* NULL is allowed. */
void cadre_checkpoint_writer_close(struct cadre_checkpoint_writer *writer);

/* Check that ranks 0 .. n_ranks - 1 have synced and together wrote every byte once,
 * write state.json, and rename the folder to its final name, replacing one of that
 * name. Then remove the oldest beyond `keep` (0: keep all), never this one; a failure
 * of that is only logged. [one rank] Errors: CADRE_E_INTERNAL a range was written twice
 * or never (tensor and bytes named), CADRE_E_RESOURCE, CADRE_E_IO; the caller then
 * abandons. */
cadre_status cadre_checkpoint_commit(const char *root, int n_ranks,
                                     const struct cadre_checkpoint_state *state,
                                     size_t keep, struct cadre_error *err);

/* Remove root/step-N.partial. [one rank] */
cadre_status cadre_checkpoint_abandon(const char *root, uint64_t step,
                                      struct cadre_error *err);

struct cadre_checkpoint;

/* Open a complete checkpoint: state.json and all small files by their checksums, sizes
 * and headers of the others. Their data is checked piece by piece as it is read. The
 * handle is of one thread; every rank opens its own. Errors: CADRE_E_INVALID not a
 * checkpoint or damaged, CADRE_E_IO, CADRE_E_RESOURCE. */
cadre_status cadre_checkpoint_open(const char *dir, struct cadre_checkpoint **out,
                                   struct cadre_error *err);
void cadre_checkpoint_close(struct cadre_checkpoint *checkpoint);

/* Borrowed until close. */
const struct cadre_checkpoint_state *
cadre_checkpoint_state(const struct cadre_checkpoint *checkpoint);

/* A value of the state, NULL where there is none. Borrowed until close. */
const char *cadre_checkpoint_value(const struct cadre_checkpoint *checkpoint,
                                   const char *key);

/* Name of the index-th small file that is sealed with it, in no set order; NULL after
 * the last. Borrowed until close. */
const char *cadre_checkpoint_small(const struct cadre_checkpoint *checkpoint,
                                   size_t index);

/* The parameters' file, for listing. Borrowed until close. */
const struct cadre_safetensors *
cadre_checkpoint_model(const struct cadre_checkpoint *checkpoint);

/* The strategies' file, NULL where there is none. Borrowed until close. */
const struct cadre_safetensors *
cadre_checkpoint_states(const struct cadre_checkpoint *checkpoint);

/* Check that the checkpoint holds exactly these tensors in these shapes (dtypes may
 * differ). Errors: CADRE_E_INVALID names the tensor. */
cadre_status cadre_checkpoint_check(const struct cadre_checkpoint *checkpoint,
                                    const struct cadre_safetensors_spec *tensors,
                                    size_t n, struct cadre_error *err);

/* Read elements [begin, begin + count) of a tensor into host memory as CADRE_F32 or
 * CADRE_F64, after checking the pieces that they touch (each once per handle). Errors:
 * CADRE_E_INVALID damaged (file, tensor and bytes are named), no such tensor or range;
 * CADRE_E_IO; out is then undefined. */
cadre_status cadre_checkpoint_read(struct cadre_checkpoint *checkpoint,
                                   enum cadre_checkpoint_part part, const char *tensor,
                                   uint64_t begin, uint64_t count, uint32_t dtype,
                                   void *out, struct cadre_error *err);

/* Check every piece of every file. Errors: as cadre_checkpoint_read. */
cadre_status cadre_checkpoint_verify(struct cadre_checkpoint *checkpoint,
                                     struct cadre_error *err);

/* The newest checkpoint under root that is whole, every piece checked; damaged ones are
 * passed over with a warning. *path is freed by the caller, NULL where there is none.
 * [one rank] Errors: CADRE_E_RESOURCE, CADRE_E_IO where root cannot be listed. */
cadre_status cadre_checkpoint_find_latest(const char *root, char **path,
                                          struct cadre_error *err);

#endif
