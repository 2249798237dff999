/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints: a folder step-00000100 with model.safetensors, optimizer.safetensors
 * (`<name>.exp_avg`, `<name>.exp_avg_sq`), strategy.safetensors where strategies keep
 * plugin state (`<name>.<plugin>.<key>`), replicas.safetensors where replicas that
 * diverge keep their own (`<name>.<r>`, `<name>.exp_avg.<r>`), forms.safetensors where
 * parameters are stored in nf4 (`<name>.nf4`) and state.json. The
 * layout is that of one rank, whichever ranks wrote it, so that any strategy with any
 * number of ranks can read it. */
#ifndef CADRE_CHECKPOINT_FORMAT_CHECKPOINT_H
#define CADRE_CHECKPOINT_FORMAT_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/checkpoint/format/manifest.h"
#include "core/checkpoint/format/safetensors.h"
#include "core/checkpoint/format/tensor_file.h"

struct cadre_checkpoint;

/* Open a complete checkpoint and check state.json and all small files by their
 * checksums, the other files by size and header. Data is checked piece by piece as it
 * is read. The handle belongs to one thread; every rank opens its own. Errors:
 * CADRE_E_INVALID not a checkpoint or damaged, CADRE_E_IO, CADRE_E_RESOURCE. */
cadre_status cadre_checkpoint_open(const char *dir, struct cadre_checkpoint **out,
                                   struct cadre_error *err);
void cadre_checkpoint_close(struct cadre_checkpoint *checkpoint);

/* Borrowed until close. */
const struct cadre_manifest *
cadre_checkpoint_manifest(const struct cadre_checkpoint *checkpoint);

/* A value of the manifest, NULL where there is none. Borrowed until close. */
const char *cadre_checkpoint_value(const struct cadre_checkpoint *checkpoint,
                                   const char *key);

/* Name of the index-th small file of the checkpoint, in no fixed order; NULL after the
 * last. Borrowed until close. */
const char *cadre_checkpoint_small(const struct cadre_checkpoint *checkpoint,
                                   size_t index);

/* The parameters' file, for listing. Borrowed until close. */
const struct cadre_safetensors *
cadre_checkpoint_model(const struct cadre_checkpoint *checkpoint);

/* The strategies' file, NULL where there is none. Borrowed until close. */
const struct cadre_safetensors *
cadre_checkpoint_plugin_state(const struct cadre_checkpoint *checkpoint);

/* Does the file of a part hold the tensor of that name in it? */
bool cadre_checkpoint_holds(const struct cadre_checkpoint *checkpoint,
                            enum cadre_checkpoint_part part, const char *tensor);

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

/* The newest whole checkpoint under root, every piece checked; damaged ones are skipped
 * with a warning. The caller frees *path; NULL where there is none. [one rank] Errors:
 * CADRE_E_RESOURCE, CADRE_E_IO where root cannot be listed. */
cadre_status cadre_checkpoint_find_latest(const char *root, char **path,
                                          struct cadre_error *err);

#endif
