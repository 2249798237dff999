/* SPDX-License-Identifier: Apache-2.0 */
/* What saving and loading of snapshots share. Private to core/train. */
#ifndef CADRE_TRAIN_SNAPSHOT_PARTS_H
#define CADRE_TRAIN_SNAPSHOT_PARTS_H

#include "core/base/arena.h"
#include "core/checkpoint/safetensors.h"
#include "core/train/spec.h"

/* The owned parameters in canonical layout; names are the model's. The caller frees it,
 * NULL: no memory. */
struct cadre_safetensors_spec *cadre_snapshot_table(const struct cadre_model *model,
                                                    size_t *n);

/* Optimizer states per parameter: 0, 1 exp_avg, 2 both. */
int cadre_snapshot_moments(const struct cadre_run_spec *run);

/* The folder of the run's checkpoints; the caller frees it, NULL: no memory. */
char *cadre_snapshot_root(const struct cadre_spec *spec);

/* A parameter cut by tensor parallelism is not a flat range of its logical self: from
 * local element `begin`, how many of at most `limit` elements are neighbours in the
 * logical tensor too? *logical is where they begin there. */
uint64_t cadre_snapshot_run(const struct cadre_model *model, uint32_t param,
                            uint64_t begin, uint64_t limit, uint64_t *logical);

/* Host memory for one range of a parameter at a time, touched once however many ranges
 * pass through. The caller ends it with cadre_arena_fini. */
cadre_status cadre_snapshot_staging(struct cadre_arena *staging,
                                    const struct cadre_rank *rank,
                                    struct cadre_error *err);

#endif
