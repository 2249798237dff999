/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient accumulation: where each micro-batch's gradient goes, and how the rank's sum
 * is formed: in place, or in exact mode as leaves of a reduction tree (see executor.h).
 * Under the map RANGES the sum of exact mode is the nodes of the step's tree that the
 * rank's micro-batches are. */
#ifndef CADRE_ENGINE_EXECUTE_ACCUMULATION_H
#define CADRE_ENGINE_EXECUTE_ACCUMULATION_H

#include "core/base/tree.h"
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
    /* RANGES in exact mode: the nodes of this rank, else n_nodes is 0. The last one is
     * summed in the gradient, each other one in a buffer of all entries. */
    int n_nodes;
    struct cadre_tree_node node[CADRE_TREE_NODES];
    char *node_sum[CADRE_TREE_NODES];
    struct cadre_grad_node *given; /* (n_nodes), as cadre_accumulation_nodes fills it */
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

/* Between two steps: the plan has other micro-batches for this rank now, at most its
 * `most`. */
void cadre_accumulation_divide(struct cadre_accumulation *accumulation);

/* Planned bytes of the buffers. */
uint64_t cadre_accumulation_bytes(const struct cadre_model *model,
                                  const struct cadre_rank_plan *plan, bool exact);

/* Reset for a new step. */
void cadre_accumulation_begin_step(struct cadre_accumulation *accumulation);

/* Where the next contribution to `param` is written. Errors: CADRE_E_INTERNAL the
 * gradient is detached. */
cadre_status cadre_accumulation_open(struct cadre_accumulation *accumulation,
                                     uint32_t param, void **dst, int *beta);

/* The same, while nothing is written yet: what open will return. *dst is NULL where the
 * gradient is detached. */
void cadre_accumulation_peek(const struct cadre_accumulation *accumulation,
                             uint32_t param, void **dst, int *beta);

/* The contribution is written. *sum is the rank's sum once *final is set. In exact mode
 * it is NULL before; where micro-batches stay separate it is the contribution. */
cadre_status cadre_accumulation_close(struct cadre_accumulation *accumulation,
                                      uint32_t param, bool *final, void **sum);

/* The nodes of an entry's sum, once it is final; valid until the next call. n_nodes of
 * them; NULL where the sum is one. */
const struct cadre_grad_node *
cadre_accumulation_nodes(const struct cadre_accumulation *accumulation, uint32_t param);

/* Under CYCLIC: add a micro-batch's gradient, reduced over the data ranks, to this
 * rank's GRAD range; part (count of the range), in ascending order of micro-batches.
 * Errors: CADRE_E_INTERNAL more micro-batches than the rank has, or none expected. */
cadre_status cadre_accumulation_add(struct cadre_accumulation *accumulation,
                                    uint32_t param, const void *part);

#endif
