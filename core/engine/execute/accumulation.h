/* SPDX-License-Identifier: Apache-2.0 */
/* Where each micro-batch's gradient goes, and how they become the rank's sum: added in
 * place, or in exact mode as leaves of a binary counter (see executor.h). */
#ifndef CADRE_ENGINE_EXECUTE_ACCUMULATION_H
#define CADRE_ENGINE_EXECUTE_ACCUMULATION_H

#include "core/engine/layout/store.h"

#define CADRE_MAX_ACCUMULATION_LEVELS 32

struct cadre_accumulation {
    struct cadre_store *store;
    struct cadre_device *device;
    int64_t n; /* micro-batches of this rank */
    bool exact;
    bool alone; /* CYCLIC: each micro-batch's gradient stays apart, the plugin reduces
                   it over ranks and gives it back through cadre_accumulation_add */
    int levels;
    char *level
        [CADRE_MAX_ACCUMULATION_LEVELS]; /* partial sums of 2^l leaves, all entries */
    size_t *offset; /* per entry, in a level */
    uint32_t *seen; /* contributions so far this step */
    uint32_t *added; /* under CYCLIC: of them, those that came back */
};

/* Depth of the exact-mode stack of partial sums besides the gradient itself: buffers
 * that hold partial sums of `leaves` leaves. */
int cadre_accumulation_levels(int64_t accumulation);

cadre_status cadre_accumulation_init(struct cadre_accumulation *accumulation,
                                     struct cadre_store *store,
                                     struct cadre_ledger *ledger, bool exact,
                                     struct cadre_error *err);
void cadre_accumulation_fini(struct cadre_accumulation *accumulation);

/* Planned bytes of the buffers. */
uint64_t cadre_accumulation_bytes(const struct cadre_model *model,
                                  const struct cadre_rank_plan *plan, bool exact);

/* Forget the last step. */
void cadre_accumulation_begin_step(struct cadre_accumulation *accumulation);

/* Where the next contribution to `param` is written. Errors: CADRE_E_INTERNAL where a
 * strategy detached the gradient. */
cadre_status cadre_accumulation_open(struct cadre_accumulation *accumulation,
                                     uint32_t param, void **dst, int *beta);

/* The contribution exists. *sum is the rank's sum once *final is set, NULL before in
 * exact mode; where leaves stay alone it is the contribution itself. */
cadre_status cadre_accumulation_close(struct cadre_accumulation *accumulation,
                                      uint32_t param, bool *final, void **sum);

/* Under CYCLIC: add a micro-batch's gradient, reduced over the data ranks, to this
 * rank's GRAD range; part (count of the range), in ascending order of micro-batches.
 * Errors: CADRE_E_INTERNAL more than there are, or none expected. */
cadre_status cadre_accumulation_add(struct cadre_accumulation *accumulation,
                                    uint32_t param, const void *part);

#endif
