/* SPDX-License-Identifier: Apache-2.0 */
/* Reduction of gradients by several plugins, one inside the other: the lowest level
 * gets each gradient from backward, the next one what that has reduced, until the
 * highest has reported it. The order is that of the levels that plans state; what was
 * reported is counted, so that a sum that is missing or made twice ends the step. */
#ifndef CADRE_ENGINE_STRATEGY_REDUCTION_H
#define CADRE_ENGINE_STRATEGY_REDUCTION_H

#include "core/engine/strategy/host.h"

struct cadre_reduction {
    int n; /* levels, inner first; axes of one rank are left out */
    struct cadre_ctx *level[CADRE_MAX_STACK];
    uint32_t n_params;
    uint32_t
        *raised; /* (n, n_params): sums of this step that on_grad has passed to it */
    uint32_t *reported; /* (n, n_params): of them, those it has reduced */
};

/* Levels are set; allocate for n_params entries. Errors: CADRE_E_RESOURCE. */
cadre_status cadre_reduction_init(struct cadre_reduction *reduction, uint32_t n_params,
                                  struct cadre_error *err);
/* Accepts a zeroed one. */
void cadre_reduction_fini(struct cadre_reduction *reduction);

void cadre_reduction_begin_step(struct cadre_reduction *reduction);

/* Does the instance reduce? */
bool cadre_reduction_has(const struct cadre_reduction *reduction,
                         const struct cadre_ctx *ctx);

/* [exec] A gradient of backward: to the lowest level, or without one to the core, which
 * under CYCLIC adds it. */
cadre_status cadre_reduction_grad(struct cadre_services *services,
                                  struct cadre_grad_ev *ev);

/* [exec] reduced of cadre.param. A refusal is recorded. */
cadre_status cadre_reduction_report(struct cadre_ctx *ctx, uint32_t param,
                                    const struct cadre_buf *sum, cadre_event ready);

/* After sync(GRADS): every level has reduced every sum. Errors: CADRE_E_INTERNAL,
 * recorded, naming plugin and entry. */
cadre_status cadre_reduction_check(struct cadre_services *services);

#endif
