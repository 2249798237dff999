/* SPDX-License-Identifier: Apache-2.0 */
/* The update of an optimizer plugin (CADRE_ROLE_OPTIMIZER) over this rank's OPT ranges,
 * in stages: PREPARE of every range, MATRIX of the whole matrices that this rank
 * computes, APPLY of every range. See struct cadre_update_ev. */
#ifndef CADRE_ENGINE_PLUGIN_UPDATE_H
#define CADRE_ENGINE_PLUGIN_UPDATE_H

#include "core/engine/matrix.h"
#include "core/engine/strategy/chain.h"

/* An OPT range, and the states of its parameter in the order of the plan: those that
 * the ranges have, then those of the whole matrix. */
struct cadre_plugin_slice {
    uint32_t param, n_states;
    uint64_t begin, count;
    double weight_decay;
    struct cadre_buf *state, *matrix_state; /* (n_states) each */
};

struct cadre_plugin_update {
    struct cadre_chain *chain; /* calls the plugin */
    struct cadre_store *store;
    size_t n_slices;
    struct cadre_plugin_slice *slice; /* by parameter */
    struct cadre_buf *states; /* of all slices */
    struct cadre_matrices matrices;
    uint64_t computed; /* whole matrices, by this rank so far */
};

/* What is common to a step. */
struct cadre_plugin_step {
    int64_t step; /* updates made, this one included */
    double lr;
    double factor; /* of the gradients: clipping, loss scale; finite */
};

/* [collective: world] Find slices and owners; all arguments are borrowed. Errors:
 * CADRE_E_RESOURCE; those of the communicator. */
cadre_status cadre_plugin_update_init(struct cadre_plugin_update *update,
                                      struct cadre_chain *chain,
                                      struct cadre_store *store,
                                      const struct cadre_exchange *exchange,
                                      double weight_decay, struct cadre_error *err);
/* Accepts a zeroed one. */
void cadre_plugin_update_fini(struct cadre_plugin_update *update);

/* [collective: the members of each matrix] Make the step. Gradients are overwritten;
 * new values are rounded into 16-bit parameters. Errors: the plugin's; those of the
 * device and the communicator. */
cadre_status cadre_plugin_update_run(struct cadre_plugin_update *update,
                                     const struct cadre_plugin_step *step);

#endif
