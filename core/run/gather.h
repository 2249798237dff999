/* SPDX-License-Identifier: Apache-2.0 */
/* Collects a text of every rank on rank 0, which alone writes files of the run. */
#ifndef CADRE_RUN_GATHER_H
#define CADRE_RUN_GATHER_H

#include "core/base/memory.h"
#include "core/engine/rank.h"

/* [collective: world] Rank 0 gets `mine` of all ranks in their order, ",\n" between
 * those that are not empty, at the end of `all`; others leave `all` alone. `label`
 * names the exchange in errors. Errors: the communicator's, CADRE_E_RESOURCE. */
cadre_status cadre_gather_text(struct cadre_rank *rank, const char *label,
                               const struct cadre_text *mine, struct cadre_text *all,
                               struct cadre_error *err);

/* [collective: world] The same, one text at a time: rank 0 calls `take` with each
 * rank's text in the order of ranks, borrowed for the call; empty ones too. */
cadre_status cadre_gather_each(struct cadre_rank *rank, const char *label,
                               const struct cadre_text *mine,
                               void (*take)(void *arg, int from, const char *text,
                                            size_t bytes),
                               void *arg, struct cadre_error *err);

/* [collective: world] As cadre_gather_text, and rank 0 writes them between the two
 * texts `around` into the file `name` of the folder `dir`. */
cadre_status cadre_gather_file(struct cadre_rank *rank, const struct cadre_text *mine,
                               const char *dir, const char *name,
                               const char *const around[2], struct cadre_error *err);

#endif
