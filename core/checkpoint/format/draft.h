/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint that is being made: the folder step-N.partial. The ranks share a file
 * system; the caller supplies the barriers and the agreement that all calls succeeded:
 *
 *     one rank     cadre_draft_begin    makes step-N.partial, files at full size
 *                  cadre_draft_begin_states, where plugins keep something
 *     (barrier)
 *     every rank   cadre_draft_open, _write for each range it owns, _sync, _close
 *     one rank     other files into cadre_draft_path(), as config.json
 *     (barrier, all agree that every call returned CADRE_OK)
 *     one rank     cadre_draft_commit   seals it, renames it to step-N
 *             or   cadre_draft_abandon  removes step-N.partial
 *
 * Every range of every tensor is written by exactly one rank, once. After a crash at
 * any time the earlier checkpoints are whole: the new one is renamed to its final name
 * only when all of it is on disk. */
#ifndef CADRE_CHECKPOINT_FORMAT_DRAFT_H
#define CADRE_CHECKPOINT_FORMAT_DRAFT_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/checkpoint/format/manifest.h"
#include "core/checkpoint/format/safetensors.h"
#include "core/checkpoint/format/tensor_file.h"

/* Make root (one level) and root/step-N.partial with its files for `n` tensors
 * (CADRE_F32 or CADRE_F64, Hugging Face names), and remove what a crash left under
 * root. moments: 0 no optimizer state, 1 exp_avg (SGD with momentum), 2 both. Reserves
 * disk space: a full disk is found here. [one rank] Errors: CADRE_E_RESOURCE disk full,
 * CADRE_E_IO, CADRE_E_INVALID; nothing is left then. */
cadre_status cadre_draft_begin(const char *root, uint64_t step,
                               const struct cadre_safetensors_spec *tensors, size_t n,
                               int moments, struct cadre_error *err);

/* Add the file of `part` with these tensors to what begin made: strategy.safetensors of
 * CADRE_CHECKPOINT_PLUGIN_STATE, replicas.safetensors of CADRE_CHECKPOINT_REPLICA,
 * forms.safetensors of CADRE_CHECKPOINT_FORM, and
 * of CADRE_CHECKPOINT_OPT_STATE optimizer.safetensors, where begin had no moments. [one
 * rank, after begin and before any rank opens it] Errors: as begin; the caller then
 * abandons. */
cadre_status cadre_draft_begin_states(const char *root, uint64_t step,
                                      enum cadre_checkpoint_part part,
                                      const struct cadre_safetensors_spec *tensors,
                                      size_t n, struct cadre_error *err);

/* root/step-N.partial; the caller frees it. NULL: no memory. The commit seals small
 * files that the caller put there. */
char *cadre_draft_path(const char *root, uint64_t step);

struct cadre_draft;

/* Open the files that begin made. rank: 0 .. n_ranks - 1 of the commit. [every rank,
 * after begin; the handle belongs to one thread] Errors: CADRE_E_INVALID, CADRE_E_IO,
 * CADRE_E_RESOURCE. */
cadre_status cadre_draft_open(const char *root, uint64_t step, int rank,
                              struct cadre_draft **out, struct cadre_error *err);

/* Write elements [begin, begin + count) of a tensor's flat logical form from host
 * memory, in the dtype passed to begin. Errors: CADRE_E_INVALID no such tensor or
 * range, CADRE_E_RESOURCE, CADRE_E_IO. */
cadre_status cadre_draft_write(struct cadre_draft *draft,
                               enum cadre_checkpoint_part part, const char *tensor,
                               uint64_t begin, uint64_t count, const void *data,
                               struct cadre_error *err);

/* Sync what was written to disk, and write its checksums for the commit. Called once,
 * after the last write, also by a rank that wrote nothing. */
cadre_status cadre_draft_sync(struct cadre_draft *draft, struct cadre_error *err);

/* NULL is allowed. */
void cadre_draft_close(struct cadre_draft *draft);

/* Check that ranks 0 .. n_ranks - 1 have synced and together wrote every byte once,
 * write state.json, and rename the folder to its final name, replacing one of that
 * name. Then remove the oldest beyond `keep` (0: keep all), never this one; a failure
 * of the removal is only logged. [one rank] Errors: CADRE_E_INTERNAL a range was
 * written twice or never (tensor and bytes named), CADRE_E_RESOURCE, CADRE_E_IO; the
 * caller then abandons. */
cadre_status cadre_draft_commit(const char *root, int n_ranks,
                                const struct cadre_manifest *manifest, size_t keep,
                                struct cadre_error *err);

/* Remove root/step-N.partial. [one rank] */
cadre_status cadre_draft_abandon(const char *root, uint64_t step,
                                 struct cadre_error *err);

#endif
