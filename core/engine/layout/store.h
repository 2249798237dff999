/* SPDX-License-Identifier: Apache-2.0 */
/* Storage of one rank's parameters, gradients and optimizer states, made from its plan.
 *
 * Parameters are of the model's dtype; gradients and optimizer states are of its wide
 * dtype. Where these differ, a rank keeps wide master values of its OPT ranges: the
 * optimizer updates them, checkpoints hold them, and parameters are their rounded
 * values (Micikevicius et al. 2018, section 3.1).
 *
 * Whole gradients are one contiguous block in table order (backward fills it from the
 * end). Each entry is padded to as many elements as 64 bytes of parameters hold, so
 * that a strategy can send many gradients with one operation and values have the same
 * offsets. Where the plan places a range instead, the core keeps that range (a shard)
 * and the plugin attaches full storage while it is needed. */
#ifndef CADRE_ENGINE_LAYOUT_STORE_H
#define CADRE_ENGINE_LAYOUT_STORE_H

#include "core/engine/layout/opt_storage.h"
#include "core/engine/layout/rank_plan.h"
#include "core/model/model.h"
#include "core/optim/optimizer.h"

struct cadre_store_param {
    uint64_t count; /* elements of the local part */
    void *data; /* full local values, as they are stored, NULL while detached; mirrored
                   in the model where they are plain */
    void *grad; /* full local gradient, NULL while detached */
    bool grad_fresh; /* nothing accumulated since the step began or the gradient was
                        attached */
    void *data_shard, *grad_shard; /* storage of placed ranges */
    /* Of the OPT range; NULL for tied entries and under an optimizer whose states are
     * planned, and in `opt`. */
    void *exp_avg, *exp_avg_sq;
    void *master; /* wide values of the OPT range; NULL where parameters are wide */
    float *scales; /* of the whole parameter where it is stored in nf4: scales.h */
    bool decoded; /* values were decoded under these scales before: keep their bits */
};

struct cadre_store {
    struct cadre_model *model;
    const struct cadre_rank_plan *plan;
    struct cadre_ledger *ledger;
    uint32_t wide; /* dtype of gradients, states and master values */
    size_t elem_bytes, wide_bytes; /* of a parameter's element, of a wide one */
    struct cadre_store_param *param;
    void *tied; /* gradient received from another stage; NULL: none */
    char *grad_base; /* of the whole gradients */
    size_t grad_bytes;
    size_t *grad_offset; /* per entry, SIZE_MAX when not in grad_base */
    struct cadre_opt_storage opt; /* of planned states; else zero */
    void *decoded; /* space for a unit's decoded parameters: forms.h; NULL: none */
};

/* Allocate and set initial values under `seed`. All memory is the ledger's. */
cadre_status cadre_store_init(struct cadre_store *store, struct cadre_model *model,
                              const struct cadre_rank_plan *plan,
                              struct cadre_ledger *ledger,
                              enum cadre_optimizer_kind optimizer, uint64_t seed,
                              struct cadre_error *err);
void cadre_store_fini(struct cadre_store *store);

/* Planned bytes of the same, recorded in `ledger` without allocating. */
void cadre_store_note(const struct cadre_model *model,
                      const struct cadre_rank_plan *plan,
                      enum cadre_optimizer_kind optimizer, struct cadre_ledger *ledger);

/* This rank's range of a kind: the plan's, or the whole; CADRE_KIND_PARAM in bytes
 * where the parameter is not plain. count is 0 for an entry that is not present, for
 * CADRE_KIND_OPT of a tied one, and but for CADRE_KIND_PARAM of a frozen one. */
struct cadre_share cadre_store_share_of(const struct cadre_model *model,
                                        const struct cadre_rank_plan *plan,
                                        uint32_t param, uint32_t kind);
struct cadre_share cadre_store_share(const struct cadre_store *store, uint32_t param,
                                     uint32_t kind);

/* The elements whose values this rank stores: its CADRE_KIND_PARAM range in elements.
 */
struct cadre_share cadre_store_elements(const struct cadre_store *store,
                                        uint32_t param);

/* Values / gradient of this rank's OPT range of a parameter, in the wide dtype: the
 * master values where there are any. NULL where the rank has none. */
void *cadre_store_opt_data(const struct cadre_store *store, uint32_t param);
void *cadre_store_opt_grad(const struct cadre_store *store, uint32_t param);

/* Address of the OPT range in the parameter's own 16-bit storage; NULL where parameters
 * are wide. */
void *cadre_store_opt_rounded(const struct cadre_store *store, uint32_t param);

/* Set a parameter's values: host (count), wide, of cadre_store_elements. Rounded or
 * encoded into the parameter (in nf4 under its scales: scales.h), unrounded into the
 * master values. Waits for the device.
 * Errors: those of the device; CADRE_E_RESOURCE. */
cadre_status cadre_store_put(struct cadre_store *store, uint32_t param,
                             const void *host);

/* Values of elements [begin, begin + count) of cadre_store_elements, counted from its
 * begin, which is a multiple of the form's block where the parameter is not plain: host
 * (count), wide, decoded, not from master values. Waits for the device. Errors: as
 * cadre_store_put. */
cadre_status cadre_store_get(const struct cadre_store *store, uint32_t param,
                             uint64_t begin, uint64_t count, void *host);

/* Point a parameter at storage (NULL detaches); tied entries follow their owner. */
void cadre_store_attach(struct cadre_store *store, uint32_t param, void *data);

#endif
