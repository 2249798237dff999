/* SPDX-License-Identifier: Apache-2.0 */
/* The optimizer's part of a step on one rank: the global norm of the gradients, and the
 * update of the slices that this rank owns.
 *
 * The norm is the sum over chunks of CADRE_NORM_CHUNK elements. Chunks restart at each
 * parameter, so the norm has the same bits however parameters are placed. Under
 * run.exact_parts a parameter may also be cut along any dimension: then squares are
 * summed without rounding (core/optim/exact_sum.h), and the chunks are the digits of
 * their sum, then for each parameter whether it holds a value that is not finite.
 * Diverging replicas have a norm and a block of chunks each. */
#ifndef CADRE_ENGINE_UPDATE_H
#define CADRE_ENGINE_UPDATE_H

#include "core/engine/plugin_update.h"

/* Elements [begin, begin + count) of an entry's flat local part: its OPT range. */
struct cadre_rank_slice {
    uint32_t param;
    uint64_t begin, count;
};

struct cadre_update {
    const struct cadre_optimizer_config *config;
    struct cadre_store *store;
    const struct cadre_exchange *exchange;
    size_t n_slices;
    struct cadre_rank_slice *slices; /* what this rank updates, by entry */
    struct cadre_slice *operands; /* the same for the device, (n_slices) */
    struct cadre_absmax *absmax; /* (n_slices) of adamw8bit */
    struct cadre_squares *squares; /* space for the slices that count for the norm */
    struct cadre_plugin_update plugin; /* where the optimizer is a plugin; else zero */
    uint64_t n_chunks; /* of one replica's norm */
    int64_t held; /* of struct cadre_adamw: set before each step */
    double *host; /* the chunks of all replicas on the host */
};

/* [collective: world, of an optimizer plugin] Find the slices; all arguments are
 * borrowed. `chain` has the plugin, and may be NULL for the core's own. Errors:
 * CADRE_E_RESOURCE; those of cadre_plugin_update_init. */
cadre_status cadre_update_init(struct cadre_update *update,
                               const struct cadre_optimizer_config *config,
                               struct cadre_store *store,
                               const struct cadre_exchange *exchange,
                               struct cadre_chain *chain, struct cadre_error *err);
void cadre_update_fini(struct cadre_update *update);

/* Chunks of the norm, of all replicas together. */
uint64_t cadre_update_chunks(const struct cadre_rank_plan *plan);

/* [collective: world, where gradients are sharded] Optimizer step `step`, under a loss
 * scale; an optimizer plugin waits for the norm. chunks (cadre_update_chunks) and norm
 * ({norm, factor of the gradients}) are device memory and filled. Where the norm is not
 * finite, neither is the factor, and nothing changes. */
cadre_status cadre_update_apply(struct cadre_update *update, int64_t step,
                                double loss_scale, double *chunks, double *norm);

/* Name of the parameter that holds the first chunk that is not finite, "?" where it is
 * not known. Waits for the device. */
const char *cadre_update_culprit(const struct cadre_update *update,
                                 const double *chunks);

#endif
