/* SPDX-License-Identifier: Apache-2.0 */
/* Storage of an optimizer on one rank whose states are planned: those of a plugin, with
 * space for the whole matrices that this rank computes for others too, and those of
 * adamw8bit. */
#ifndef CADRE_ENGINE_LAYOUT_OPT_STORAGE_H
#define CADRE_ENGINE_LAYOUT_OPT_STORAGE_H

#include "core/engine/layout/owners.h"
#include "core/optim/optimizer.h"

struct cadre_opt_storage {
    struct cadre_owners owners; /* of whole matrices */
    /* (n_states of the plan) ELEMENTS: of this rank's OPT range; ROWS, COLUMNS: of the
     * matrix, on the ranks that compute it. No data where this rank has none. */
    struct cadre_buf *state;
    /* (owners.n) The shards of a matrix of several members, one after the other, on its
     * owner; else NULL. */
    void **whole;
    void *logical; /* space for the largest of these whose shards are not its rows */
};

/* Add the states of adamw8bit to a finished plan: of each parameter in this order the
 * codes of the first and the second moment, then the largest magnitudes of their
 * blocks. Nothing of the other optimizers. Errors: CADRE_E_RESOURCE. */
cadre_status cadre_opt_storage_plan(struct cadre_rank_plan *plan,
                                    enum cadre_optimizer_kind optimizer,
                                    struct cadre_error *err);

/* Can a checkpoint hold all states of a finished plan? Errors: CADRE_E_UNSUPPORTED. */
cadre_status cadre_opt_storage_check(const struct cadre_rank_plan *plan,
                                     struct cadre_error *err);

/* Allocate, zeroed; all memory is the ledger's. Errors: CADRE_E_RESOURCE. */
cadre_status cadre_opt_storage_init(struct cadre_opt_storage *storage,
                                    const struct cadre_rank_plan *plan,
                                    struct cadre_ledger *ledger,
                                    struct cadre_error *err);
/* Accepts a zeroed one. */
void cadre_opt_storage_fini(struct cadre_opt_storage *storage);

/* Planned bytes of the same, recorded without allocating. */
void cadre_opt_storage_note(const struct cadre_rank_plan *plan,
                            struct cadre_ledger *ledger);

/* Is a shard of the parameter, as it lies, not a block of rows of the whole? */
bool cadre_opt_storage_scattered(const struct cadre_param *param);

#endif
