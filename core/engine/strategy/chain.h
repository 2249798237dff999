/* SPDX-License-Identifier: Apache-2.0 */
/* The strategies of one rank as a chain: instances made from plugins, called in the
 * order of roles (placement, schedule, intra, data, observer), data strategies from the
 * highest level of reduction to the lowest. `step` nests, the schedule innermost. What
 * is undone inside out (sync of GRADS and DRAIN) goes from the lowest level outwards,
 * then up the roles, observers last. An optimizer is called for updates alone. */
#ifndef CADRE_ENGINE_STRATEGY_CHAIN_H
#define CADRE_ENGINE_STRATEGY_CHAIN_H

#include "core/engine/layout/plan_session.h"
#include "core/engine/strategy/host.h"
#include "core/engine/strategy/param_marks.h"
#include "core/engine/strategy/reduction.h"
#include "core/plugin/place_session.h"

/* A plugin's step and what it may run next. It outlives the step: a plugin that keeps
 * `next` is refused, and reaches no memory that is gone. */
struct cadre_turn {
    struct cadre_chain *chain;
    struct cadre_ctx *ctx;
    int from; /* position in `down` of the next one */
    bool open; /* its step runs, and has not run the next */
    struct cadre_next next;
};

struct cadre_chain {
    struct cadre_services *services;
    int n;
    struct cadre_ctx link[CADRE_MAX_INSTANCES]; /* in the order of plans */
    struct cadre_plan_session plan[CADRE_MAX_INSTANCES]; /* by link */
    /* after the plan: */
    int down[CADRE_MAX_INSTANCES], up[CADRE_MAX_INSTANCES]; /* orders of calls */
    /* who claims act.complete, time.shard, expert.shard; NULL: nobody */
    struct cadre_ctx *completes, *shards_time, *shards_experts;
    struct cadre_ctx *optimizer; /* of the role OPTIMIZER; NULL: the core's */
    struct cadre_turn turn[CADRE_MAX_INSTANCES]; /* by link */
    struct cadre_next run; /* the sequential schedule, during a step */
    struct cadre_param_marks marks;
    struct cadre_reduction reduction;
};

/* Create the instances of the spec's plugins. Their refusals are kept in
 * services->failure. On failure nothing is left. [main] */
cadre_status cadre_chain_create(struct cadre_chain *chain,
                                struct cadre_services *services,
                                const struct cadre_run_spec *spec,
                                struct cadre_error *err);
/* `status`: how the run ended. */
void cadre_chain_destroy(struct cadre_chain *chain, cadre_status status);

/* Run every plan function and the checks across plugins. May be called again. */
cadre_status cadre_chain_plan(struct cadre_chain *chain, struct cadre_rank_plan *plan,
                              const struct cadre_plan_request *request,
                              struct cadre_error *err);

/* After the last plan: the orders of calls and of reductions. Errors:
 * CADRE_E_UNSUPPORTED a reducer without on_grad; CADRE_E_RESOURCE. */
cadre_status cadre_chain_settle(struct cadre_chain *chain,
                                const struct cadre_rank_plan *plan,
                                struct cadre_error *err);

/* Ask every plugin that has requests where this rank should start. [main] */
cadre_status cadre_chain_place(struct cadre_chain *chain,
                               struct cadre_place_session *session,
                               struct cadre_error *err);

/* Storage exists. */
cadre_status cadre_chain_bind(struct cadre_chain *chain, uint64_t first_step,
                              struct cadre_error *err);

/* Run one step; `run` is the sequential schedule, used when no plugin has the SCHEDULE
 * role (such a plugin is terminal, its `next` is `run`). [exec] The errors of this and
 * of what follows are recorded in services->failure. */
cadre_status cadre_chain_step(struct cadre_chain *chain, const struct cadre_step *step,
                              const struct cadre_next *run);

/* [exec] what: CADRE_SYNC_*. After GRADS every reduction is checked, after UPDATE owned
 * values that were changed are rounded, after DRAIN nothing is pending. */
cadre_status cadre_chain_sync(struct cadre_chain *chain, uint32_t what);

/* [exec] Events. on_grad threads `ready` through the plugins. */
cadre_status cadre_chain_block(struct cadre_chain *chain,
                               const struct cadre_block_ev *ev);
cadre_status cadre_chain_grad(struct cadre_chain *chain, struct cadre_grad_ev *ev);
cadre_status cadre_chain_redistribute(struct cadre_chain *chain,
                                      const struct cadre_redistribute_ev *ev);
/* Is there a plugin that on_grad is raised on? */
bool cadre_chain_hears_gradients(const struct cadre_chain *chain);

/* [exec] The compute stream waits for the values of the unit's parameters. */
cadre_status cadre_chain_await_unit(struct cadre_chain *chain, uint32_t unit);

/* [exec] Call the optimizer plugin, which exists. */
cadre_status cadre_chain_update(struct cadre_chain *chain,
                                const struct cadre_update_ev *ev);

/* [exec] Let the plugin at position `index` of the chain describe its private state to
 * `sink`; does nothing where it keeps none. A refusal of the host that the plugin
 * ignores is an error too. Errors: its refusal, with a text. */
cadre_status cadre_chain_state(struct cadre_chain *chain, int index,
                               const struct cadre_state_sink *sink,
                               struct cadre_error *err);

/* [exec] This rank failed, or another one. */
void cadre_chain_abort(struct cadre_chain *chain, cadre_status status);

#endif
