/* SPDX-License-Identifier: Apache-2.0 */
/* Whole matrices of an optimizer plugin: the gradients of a matrix's members go to its
 * owner, who assembles the matrix as a checkpoint would hold it, and each member gets
 * its range back (see core/engine/layout/owners.h). All is sent point to point over the
 * world, and posted for all matrices before any is waited for:
 *
 *     cadre_matrices_post
 *     for each matrix of this rank: cadre_matrices_take, compute, cadre_matrices_give
 *     cadre_matrices_wait
 *
 * A rank sends each of its ranges once, and its owner sends each back once. */
#ifndef CADRE_ENGINE_MATRIX_H
#define CADRE_ENGINE_MATRIX_H

#include "core/engine/exchange.h"
#include "core/engine/layout/store.h"

struct cadre_matrices {
    const struct cadre_store *store;
    const struct cadre_exchange *exchange;
    uint64_t *range; /* (ranks, parameters, 2): OPT ranges; NULL: no rank sends */
    size_t *first; /* (matrices + 1) of each in `part` */
    cadre_event *part; /* of each member: received, or sent */
    cadre_event *back; /* (matrices) this rank's range has come back */
};

/* [collective: world] Learn the ranges of all ranks. Borrows the store and the
 * exchange. Errors: CADRE_E_RESOURCE; those of the communicator. */
cadre_status cadre_matrices_init(struct cadre_matrices *matrices,
                                 const struct cadre_store *store,
                                 const struct cadre_exchange *exchange,
                                 struct cadre_error *err);
/* Accepts a zeroed one. */
void cadre_matrices_fini(struct cadre_matrices *matrices);

/* [collective: the members of each matrix] Send the gradients of this rank's OPT ranges
 * to their owners. Until cadre_matrices_wait they belong to the communicator. */
cadre_status cadre_matrices_post(struct cadre_matrices *matrices);

/* Matrix `index` of the store's owners, which this rank computes: the gradient of the
 * whole, row-major. Waits for its parts. */
cadre_status cadre_matrices_take(struct cadre_matrices *matrices, size_t index,
                                 struct cadre_buf *whole);

/* Send the ranges of what `take` gave back to their ranks. */
cadre_status cadre_matrices_give(struct cadre_matrices *matrices, size_t index);

/* Wait for this rank's ranges of matrices that others computed. */
cadre_status cadre_matrices_wait(struct cadre_matrices *matrices);

#endif
