/* SPDX-License-Identifier: Apache-2.0 */
/* The strategies of one rank as a chain: instances made from plugins, driven in role
 * order (placement, schedule, intra, data, observer). Events go down the chain, `step`
 * nests: the outermost plugin is called first and the schedule is the innermost. */
#ifndef CADRE_ENGINE_STRATEGY_CHAIN_H
#define CADRE_ENGINE_STRATEGY_CHAIN_H

#include "core/engine/strategy/host.h"
#include "core/plugin/place_session.h"

struct cadre_chain {
    int n;
    struct cadre_ctx link[CADRE_MAX_STACK];
    struct cadre_ctx *redistribute_owner; /* claims act.complete; NULL: none */
};

/* Create the instances of `plugins` in role order. Their refusals are kept in
 * services->failure. On failure nothing is left. */
cadre_status cadre_chain_create(struct cadre_chain *chain,
                                struct cadre_services *services,
                                const struct cadre_plugin_handle *const *plugins, int n,
                                const struct cadre_options *options,
                                struct cadre_error *err);
void cadre_chain_destroy(struct cadre_chain *chain);

/* Run every plan function and the checks across plugins. */
cadre_status cadre_chain_plan(struct cadre_chain *chain, struct cadre_rank_plan *plan,
                              const struct cadre_plan_request *request,
                              struct cadre_error *err);

/* Ask every plugin that has requests where this rank should start. [main] */
cadre_status cadre_chain_place(struct cadre_chain *chain,
                               struct cadre_place_session *session,
                               struct cadre_error *err);

cadre_status cadre_chain_bind(struct cadre_chain *chain, struct cadre_error *err);

/* Run one step; `run` is the sequential schedule, used when no plugin has the SCHEDULE
 * role (such a plugin is terminal, its `next` is `run`). [exec] */
cadre_status cadre_chain_step(struct cadre_chain *chain, const struct cadre_step *step,
                              const struct cadre_next *run);

/* [exec] In reverse chain order, so data movers finish before the schedule is asked. */
cadre_status cadre_chain_sync(struct cadre_chain *chain, uint32_t what);

/* [exec] Events. on_grad threads `ready` through the plugins. */
cadre_status cadre_chain_block(struct cadre_chain *chain,
                               const struct cadre_block_ev *ev);
cadre_status cadre_chain_grad(struct cadre_chain *chain, struct cadre_grad_ev *ev);
cadre_status cadre_chain_redistribute(struct cadre_chain *chain,
                                      const struct cadre_redistribute_ev *ev);

/* [exec] Let the plugin at position `index` of the chain describe its private state to
 * `sink`; does nothing where it keeps none. A refusal of the host that the plugin
 * ignores is an error too. Errors: its refusal, with a text. */
cadre_status cadre_chain_state(struct cadre_chain *chain, int index,
                               const struct cadre_state_sink *sink,
                               struct cadre_error *err);

/* [any] */
void cadre_chain_abort(struct cadre_chain *chain);

#endif
