/* SPDX-License-Identifier: Apache-2.0 */
/* state.json of a checkpoint: where training stands, and the checksums of every file of
 * the folder, this one's own among them. */
#ifndef CADRE_CHECKPOINT_FORMAT_STATE_H
#define CADRE_CHECKPOINT_FORMAT_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/checkpoint/format/piece.h"
#include "core/checkpoint/format/safetensors.h"

enum { CADRE_STATE_VERSION = 1 };

struct cadre_checkpoint_value {
    const char *key; /* unique */
    const char *value;
};

struct cadre_checkpoint_state {
    uint64_t step; /* optimizer steps done; below 2^63 */
    uint64_t samples; /* data cursor: global samples consumed; below 2^63 */
    uint64_t seed;
    const char *options; /* the run's options as ini text */
    size_t n_values;
    const struct cadre_checkpoint_value *values; /* fingerprints and the like */
};

/* A safetensors file of the folder with the sums of its pieces. */
struct cadre_state_tensors {
    const char *name; /* within the folder */
    const struct cadre_safetensors *file;
    const struct cadre_pieces *pieces;
};

/* Write DIR/state.json and fsync it, with the sums of `tensors` and the hash of every
 * other file in the folder. Errors: CADRE_E_RESOURCE, CADRE_E_IO. */
cadre_status cadre_state_write(const char *dir,
                               const struct cadre_checkpoint_state *state,
                               const struct cadre_state_tensors *tensors,
                               size_t n_tensors, struct cadre_error *err);

struct cadre_state;

/* Read DIR/state.json, checked by its own hash, and check the size and hash of all
 * small files that it lists. The caller closes *out. Errors: CADRE_E_INVALID damaged or
 * made by a newer Cadre; CADRE_E_IO. */
cadre_status cadre_state_open(const char *dir, struct cadre_state **out,
                              struct cadre_error *err);
void cadre_state_close(struct cadre_state *state);

/* Borrowed until close. */
const struct cadre_checkpoint_state *cadre_state_get(const struct cadre_state *state);

/* Whether the folder holds safetensors file `name`. */
bool cadre_state_lists(const struct cadre_state *state, const char *name);

/* Name of the index-th file that is no safetensors file, NULL after the last. Borrowed
 * until close. */
const char *cadre_state_small(const struct cadre_state *state, size_t index);

/* Hold an open file to what the state says of it (size, header, pieces) and fill the
 * sums of `pieces`, which init has made for it. Errors: CADRE_E_INVALID. */
cadre_status cadre_state_sums(const struct cadre_state *state, const char *name,
                              const struct cadre_safetensors *file,
                              struct cadre_pieces *pieces, struct cadre_error *err);

#endif
