/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient accumulation: where each micro-batch's gradient goes, and how the rank's sum
 * is formed: in place, or in exact mode as leaves of a reduction tree (see executor.h).
 */
#ifndef CADRE_ENGINE_EXECUTE_ACCUMULATION_H
#define CADRE_ENGINE_EXECUTE_ACCUMULATION_H

#include "core/engine/layout/store.h"

#define CADRE_MAX_ACCUMULATION_LEVELS 32

struct cadre_accumulation {
    struct cadre_store *store;
    struct cadre_device *device;
    int64_t n; /* micro-batches of this rank */
    bool exact;
    bool alone; /* CYCLIC: the plugin reduces each micro-batch's gradient over ranks and
                   returns it through cadre_accumulation_add */
    int levels;
    char *level
        [CADRE_MAX_ACCUMULATION_LEVELS]; /* partial sums of 2^l leaves, all entries */
    size_t *offset; /* per entry, in a level */
    uint32_t *seen; /* contributions so far this step */
    uint32_t *added; /* under CYCLIC: contributions returned by the plugin */
};

/* Buffers of partial sums that exact mode needs besides the gradient itself, for
 * `accumulation` micro-batches. */
int cadre_accumulation_levels(int64_t accumulation);

cadre_status cadre_accumulation_init(struct cadre_accumulation *accumulation,
                                     struct cadre_store *store,
                                     struct cadre_ledger *ledger, bool exact,
                                     struct cadre_error *err);
void cadre_accumulation_fini(struct cadre_accumulation *accumulation);

/* Planned bytes of the buffers. */
uint64_t cadre_accumulation_bytes(const struct cadre_model *model,
                                  const struct cadre_rank_plan *plan, bool exact);

/* Reset for a new step. */
void cadre_accumulation_begin_step(struct cadre_accumulation *accumulation);

/* Where the next contribution to `param` is written. Errors: CADRE_E_INTERNAL the
 * gradient is detached. */
cadre_status cadre_accumulation_open(struct cadre_accumulation *accumulation,
                                     uint32_t param, void **dst, int *beta);

/* The contribution is written. *sum is the rank's sum once *final is set. In exact mode
 * it is NULL before; where micro-batches stay separate it is the contribution. */
cadre_status cadre_accumulation_close(struct cadre_accumulation *accumulation,
                                      uint32_t param, bool *final, void **sum);

/* Under CYCLIC: add a micro-batch's gradient, reduced over the data ranks, to this
 * rank's GRAD range; part (count of the range), in ascending order of micro-batches.
 * Errors: CADRE_E_INTERNAL more micro-batches than the rank has, or none expected. */
cadre_status cadre_accumulation_add(struct cadre_accumulation *accumulation,
                                    uint32_t param, const void *part);

#endif
