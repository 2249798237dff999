/* SPDX-License-Identifier: Apache-2.0 */
/* state.json of a checkpoint: the position of training, and the checksums of every file
 * of the folder, including its own. */
#ifndef CADRE_CHECKPOINT_FORMAT_MANIFEST_H
#define CADRE_CHECKPOINT_FORMAT_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/checkpoint/format/tensor_file.h"

enum { CADRE_MANIFEST_VERSION = 1 };

struct cadre_manifest_value {
    const char *key; /* unique */
    const char *value;
};

struct cadre_manifest {
    uint64_t step; /* optimizer steps done; below 2^63 */
    uint64_t samples; /* data cursor: global samples consumed; below 2^63 */
    uint64_t seed;
    const char *options; /* the run's options as ini text */
    size_t n_values;
    const struct cadre_manifest_value *values; /* fingerprints and the like */
};

/* Write DIR/state.json and fsync it, with the sums of those `files` that exist and the
 * hash of every other file in the folder. Errors: CADRE_E_RESOURCE, CADRE_E_IO. */
cadre_status cadre_manifest_write(const char *dir,
                                  const struct cadre_manifest *manifest,
                                  const struct cadre_tensor_file *files, size_t n,
                                  struct cadre_error *err);

struct cadre_manifest_reader;

/* Read DIR/state.json, checked by its own hash, and check the size and hash of all
 * small files that it lists. The caller closes *out. Errors: CADRE_E_INVALID damaged or
 * made by a newer Cadre; CADRE_E_IO. */
cadre_status cadre_manifest_open(const char *dir, struct cadre_manifest_reader **out,
                                 struct cadre_error *err);
void cadre_manifest_close(struct cadre_manifest_reader *reader);

/* Borrowed until close. */
const struct cadre_manifest *
cadre_manifest_get(const struct cadre_manifest_reader *reader);

/* Whether the folder holds safetensors file `name`. */
bool cadre_manifest_lists(const struct cadre_manifest_reader *reader, const char *name);

/* Name of the index-th file that is no safetensors file, NULL after the last. Borrowed
 * until close. */
const char *cadre_manifest_small(const struct cadre_manifest_reader *reader,
                                 size_t index);

/* Compare an open file with the manifest (size, header, pieces) and fill its sums.
 * Errors: CADRE_E_INVALID. */
cadre_status cadre_manifest_sums(const struct cadre_manifest_reader *reader,
                                 struct cadre_tensor_file *file,
                                 struct cadre_error *err);

#endif
