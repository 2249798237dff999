/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/strategy/chain.h"

#include <string.h>

#include "core/base/log.h"
#include "core/base/status_slot.h"

/* ---- life ---- */

/* The text that was recorded, as the caller's. */
static cadre_status failed(const struct cadre_chain *chain, cadre_status rc,
                           struct cadre_error *err)
{
    const struct cadre_error *said = chain->services->failure;
    if (rc == CADRE_OK || said->code == CADRE_OK)
        return rc == CADRE_OK ? rc : cadre_fail(err, rc, "%s", cadre_strerror(rc));
    return cadre_fail(err, rc, "%s", said->text);
}

static cadre_status create_link(struct cadre_chain *chain, int entry,
                                struct cadre_error *err)
{
    struct cadre_ctx *ctx = &chain->link[chain->n];
    const struct cadre_run_spec *spec = chain->services->spec;
    const struct cadre_plugin_handle *plugin = spec->plugin[entry];
    *ctx = (struct cadre_ctx){
        .services = chain->services,
        .plugin = plugin,
        .name = spec->instance[entry].name,
        .axis = spec->instance[entry].axis,
    };
    cadre_host_init(&ctx->host, ctx);
    CADRE_TRY(cadre_plugin_values_init(plugin, spec->instance[entry].name,
                                       spec->options, chain->services->failure,
                                       &ctx->values, err));
    const struct cadre_create create = {
        .struct_size = sizeof create,
        .host = &ctx->host,
        .values = &ctx->values,
        .name = ctx->name,
    };
    struct cadre_call call = cadre_call_begin(ctx, CADRE_IN_CREATE);
    cadre_status rc = plugin->ops.create(&create, &ctx->self);
    bool made = rc == CADRE_OK && ctx->self;
    if (rc == CADRE_OK && !made)
        rc = cadre_fail(chain->services->failure, CADRE_E_INTERNAL,
                        "plugin '%s' in create: it returned CADRE_OK and left *out "
                        "NULL, expected an instance",
                        ctx->name);
    rc = cadre_call_end(&call, rc);
    if (rc == CADRE_OK)
        return CADRE_OK;
    rc = failed(chain, rc, err);
    if (made) { /* what the host refused was ignored */
        const struct cadre_end end = {.struct_size = sizeof end, .status = rc};
        plugin->ops.destroy(ctx->self, &end);
    }
    ctx->self = NULL;
    cadre_plugin_values_fini(&ctx->values);
    return rc;
}

cadre_status cadre_chain_create(struct cadre_chain *chain,
                                struct cadre_services *services,
                                const struct cadre_run_spec *spec,
                                struct cadre_error *err)
{
    memset(chain, 0, sizeof *chain);
    chain->services = services;
    services->marks = &chain->marks;
    services->reduction = &chain->reduction;
    for (uint32_t role = CADRE_ROLE_PLACEMENT; role <= CADRE_ROLE_OPTIMIZER; role++)
        for (int i = 0; i < spec->n_plugins; i++) {
            if (spec->plugin[i]->desc.role != role)
                continue;
            cadre_status rc = create_link(chain, i, err);
            if (rc != CADRE_OK) {
                cadre_chain_destroy(chain, rc);
                return rc;
            }
            chain->down[chain->n] = chain->up[chain->n] = chain->n;
            chain->n++;
        }
    return CADRE_OK;
}

void cadre_chain_destroy(struct cadre_chain *chain, cadre_status status)
{
    const struct cadre_end end = {.struct_size = sizeof end, .status = status};
    for (int i = chain->n - 1; i >= 0; i--) {
        struct cadre_ctx *ctx = &chain->link[i];
        const struct cadre_error *said = chain->services->failure;
        cadre_status before = said->code;
        struct cadre_call call = cadre_call_begin(ctx, CADRE_IN_DESTROY);
        ctx->plugin->ops.destroy(ctx->self, &end);
        /* The run is over, and destroy has no status: what was refused is said here. */
        if (cadre_call_end(&call, CADRE_OK) != CADRE_OK && before == CADRE_OK)
            cadre_log(CADRE_LOG_ERROR, "strategy", "%s", said->text);
        cadre_plugin_values_fini(&ctx->values);
    }
    chain->n = 0;
    cadre_param_marks_fini(&chain->marks);
    cadre_reduction_fini(&chain->reduction);
}

/* ---- plan ---- */

static struct cadre_ctx *find(struct cadre_chain *chain, const char *name)
{
    for (int i = 0; name && i < chain->n; i++)
        if (strcmp(chain->link[i].name, name) == 0)
            return &chain->link[i];
    return NULL;
}

/* Who claims an effect whose events it must take; NULL for nobody. */
static cadre_status find_owner(struct cadre_chain *chain,
                               const struct cadre_rank_plan *plan, const char *effect,
                               struct cadre_ctx **out, struct cadre_error *err)
{
    *out = find(chain, cadre_rank_plan_claimed(plan, effect));
    if (!*out || (*out)->plugin->ops.on_redistribute)
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_UNSUPPORTED,
                      "plugin '%s' claims %s, but has no on_redistribute", (*out)->name,
                      effect);
}

/* The parts of a sharded model produce partial sums that a plugin must complete. */
static cadre_status find_owners(struct cadre_chain *chain,
                                const struct cadre_rank_plan *plan,
                                struct cadre_error *err)
{
    const char *owner = cadre_rank_plan_claimed(plan, "act.complete");
    const char *rows = cadre_rank_plan_claimed(plan, "seq.shard");
    CADRE_TRY(find_owner(chain, plan, "act.complete", &chain->completes, err));
    CADRE_TRY(find_owner(chain, plan, "time.shard", &chain->shards_time, err));
    CADRE_TRY(find_owner(chain, plan, "expert.shard", &chain->shards_experts, err));
    if (rows && (!owner || strcmp(rows, owner) != 0))
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "strategy.stack: '%s' claims seq.shard, but '%s' claims "
                          "act.complete; one plugin does both",
                          rows, owner ? owner : "no plugin");
    return CADRE_OK;
}

cadre_status cadre_chain_plan(struct cadre_chain *chain, struct cadre_rank_plan *plan,
                              const struct cadre_plan_request *request,
                              struct cadre_error *err)
{
    for (int i = 0; i < chain->n; i++) {
        struct cadre_ctx *ctx = &chain->link[i];
        const struct cadre_plan_member member = {
            .name = ctx->name,
            .axis = ctx->axis,
            .role = ctx->plugin->desc.role,
        };
        struct cadre_plan_session *session = &chain->plan[i];
        cadre_plan_session_init(session, plan, request, &member,
                                chain->services->failure);
        struct cadre_call call = cadre_call_begin(ctx, CADRE_IN_PLAN);
        cadre_status rc = ctx->plugin->ops.plan(ctx->self, &session->abi);
        cadre_plan_session_end(session);
        rc = cadre_call_end(&call, rc);
        if (rc != CADRE_OK)
            return failed(chain, rc, err);
    }
    CADRE_TRY(find_owners(chain, plan, err));
    return cadre_rank_plan_finish(plan, request, err);
}

/* Position in calls, the outermost first: by role, data strategies by falling level. */
static int rank_of(const struct cadre_chain *chain, const struct cadre_rank_plan *plan,
                   int i)
{
    const struct cadre_ctx *ctx = &chain->link[i];
    int role = (int)ctx->plugin->desc.role;
    int level = (int)cadre_rank_plan_level(plan, ctx->name);
    return role * 1024 + (role == CADRE_ROLE_DATA ? 255 - level : 0);
}

static void sort_down(struct cadre_chain *chain, const struct cadre_rank_plan *plan)
{
    for (int i = 0; i < chain->n; i++) {
        int at = i;
        for (; at > 0 &&
               rank_of(chain, plan, chain->down[at - 1]) > rank_of(chain, plan, i);
             at--)
            chain->down[at] = chain->down[at - 1];
        chain->down[at] = i;
    }
}

static bool observes(const struct cadre_ctx *ctx)
{
    return ctx->plugin->desc.role == CADRE_ROLE_OBSERVER;
}

/* From the lowest level outwards, then the observers. */
static void sort_up(struct cadre_chain *chain)
{
    int n = 0;
    for (int last = 0; last < 2; last++)
        for (int i = chain->n - 1; i >= 0; i--)
            if (observes(&chain->link[chain->down[i]]) == (last == 1))
                chain->up[n++] = chain->down[i];
}

cadre_status cadre_chain_settle(struct cadre_chain *chain,
                                const struct cadre_rank_plan *plan,
                                struct cadre_error *err)
{
    struct cadre_reduction *reduction = &chain->reduction;
    sort_down(chain, plan);
    sort_up(chain);
    for (int i = 0; i < plan->n_reducers; i++) {
        const struct cadre_reducer *reducer = &plan->reducer[i];
        struct cadre_ctx *ctx = find(chain, reducer->plugin);
        if (reducer->axis->size == 1)
            continue;
        if (!ctx->plugin->ops.on_grad)
            return cadre_fail(err, CADRE_E_UNSUPPORTED,
                              "plugin '%s' reduces gradients along '%s', but has no "
                              "on_grad",
                              ctx->name, reducer->axis->name);
        reduction->level[reduction->n++] = ctx;
    }
    for (int i = 0; i < chain->n; i++)
        if (chain->link[i].plugin->desc.role == CADRE_ROLE_OPTIMIZER)
            chain->optimizer = &chain->link[i];
    CADRE_TRY(cadre_reduction_init(reduction, plan->n_params, err));
    return cadre_param_marks_init(&chain->marks, plan->n_params, err);
}

cadre_status cadre_chain_place(struct cadre_chain *chain,
                               struct cadre_place_session *session,
                               struct cadre_error *err)
{
    const struct cadre_error *said = &session->said;
    for (int i = 0; i < chain->n; i++) {
        struct cadre_ctx *ctx = &chain->link[i];
        if (!ctx->plugin->ops.place)
            continue;
        session->plugin = ctx->name;
        struct cadre_call call = cadre_call_begin(ctx, CADRE_IN_PLACE);
        cadre_status rc = ctx->plugin->ops.place(ctx->self, &session->abi);
        if (said->code != CADRE_OK) { /* even where the plugin ignores it */
            cadre_call_end(&call, CADRE_E_ABORTED);
            return cadre_fail(err, said->code, "%s", said->text);
        }
        rc = cadre_call_end(&call, rc);
        if (rc != CADRE_OK)
            return failed(chain, rc, err);
    }
    return CADRE_OK;
}

cadre_status cadre_chain_bind(struct cadre_chain *chain, uint64_t first_step,
                              struct cadre_error *err)
{
    const struct cadre_bind bind = {.struct_size = sizeof bind,
                                    .first_step = first_step};
    chain->services->bound = true;
    for (int i = 0; i < chain->n; i++) {
        struct cadre_ctx *ctx = &chain->link[i];
        struct cadre_call call = cadre_call_begin(ctx, CADRE_IN_BIND);
        cadre_status rc =
            cadre_call_end(&call, ctx->plugin->ops.bind(ctx->self, &bind));
        if (rc != CADRE_OK)
            return failed(chain, rc, err);
    }
    return CADRE_OK;
}

/* ---- a step ---- */

static bool nests(const struct cadre_ctx *ctx)
{
    return ctx->plugin->ops.step && ctx->plugin->desc.role != CADRE_ROLE_SCHEDULE;
}

static cadre_status enter(struct cadre_chain *chain, int from,
                          const struct cadre_step *step);

/* Owned values that a diverging replica has written go where the others read them. */
static cadre_status spread_changes(struct cadre_chain *chain)
{
    struct cadre_services *s = chain->services;
    if (s->marks->n_changed == 0)
        return CADRE_OK;
    CADRE_TRY(cadre_param_marks_round(s));
    CADRE_TRY(s->copies.copy_tied(s->copies.h));
    return cadre_chain_sync(chain, CADRE_SYNC_PARAMS);
}

/* What next->run of a plugin leads to: once, and during its step. */
static cadre_status run_next(void *h, const struct cadre_step *step)
{
    struct cadre_turn *turn = h;
    struct cadre_chain *chain = turn->chain;
    if (!turn->open || !step)
        return cadre_fail(chain->services->failure, CADRE_E_INVALID,
                          "plugin '%s' calls next->run %s; call it once in step, with "
                          "the step that it got",
                          turn->ctx->name,
                          step ? "outside of its step, or twice" : "with NULL");
    turn->open = false;
    uint64_t seen = cadre_status_core(chain->services->slot);
    cadre_status rc = spread_changes(chain);
    if (rc == CADRE_OK)
        rc = turn->ctx->plugin->desc.role == CADRE_ROLE_SCHEDULE
                 ? chain->run.run(chain->run.h, step)
                 : enter(chain, turn->from, step);
    cadre_status_leave(chain->services->slot, seen);
    return rc;
}

static cadre_status call_step(struct cadre_chain *chain, struct cadre_ctx *ctx,
                              int from, const struct cadre_step *step)
{
    struct cadre_turn *turn = &chain->turn[ctx - chain->link];
    *turn = (struct cadre_turn){chain, ctx, from, true, {0}};
    turn->next = (struct cadre_next){
        .struct_size = sizeof turn->next, .h = turn, .run = run_next};
    struct cadre_call call = cadre_call_begin(ctx, CADRE_IN_STEP);
    cadre_status rc = ctx->plugin->ops.step(ctx->self, step, &turn->next);
    turn->open = false;
    return cadre_call_end(&call, rc);
}

/* The schedule, or the sequential one where no plugin is a schedule. A schedule runs
 * the passes itself, so it comes last whatever its position in the chain: otherwise the
 * data strategies inside it would never be called for a step. */
static cadre_status run_schedule(struct cadre_chain *chain,
                                 const struct cadre_step *step)
{
    for (int i = 0; i < chain->n; i++) {
        struct cadre_ctx *ctx = &chain->link[i];
        if (ctx->plugin->desc.role == CADRE_ROLE_SCHEDULE && ctx->plugin->ops.step)
            return call_step(chain, ctx, 0, step);
    }
    return chain->run.run(chain->run.h, step);
}

static cadre_status enter(struct cadre_chain *chain, int from,
                          const struct cadre_step *step)
{
    while (from < chain->n && !nests(&chain->link[chain->down[from]]))
        from++;
    return from == chain->n
               ? run_schedule(chain, step)
               : call_step(chain, &chain->link[chain->down[from]], from + 1, step);
}

cadre_status cadre_chain_step(struct cadre_chain *chain, const struct cadre_step *step,
                              const struct cadre_next *run)
{
    chain->run = *run;
    cadre_reduction_begin_step(&chain->reduction);
    return enter(chain, 0, step);
}

static bool goes_up(uint32_t what)
{
    return what == CADRE_SYNC_GRADS || what == CADRE_SYNC_DRAIN;
}

/* What the core does after the plugins. */
static cadre_status finish_sync(struct cadre_chain *chain, uint32_t what)
{
    struct cadre_services *s = chain->services;
    if (what == CADRE_SYNC_GRADS)
        return cadre_reduction_check(s);
    if (what == CADRE_SYNC_UPDATE)
        return cadre_param_marks_round(s);
    if (what != CADRE_SYNC_DRAIN)
        return CADRE_OK;
    CADRE_TRY(spread_changes(chain));
    return cadre_param_marks_await_all(s);
}

cadre_status cadre_chain_sync(struct cadre_chain *chain, uint32_t what)
{
    struct cadre_services *s = chain->services;
    const struct cadre_sync sync = {
        .struct_size = sizeof sync, .what = what, .step = s->step};
    const int *order = goes_up(what) ? chain->up : chain->down;
    cadre_status rc = CADRE_OK;
    s->sync = what;
    for (int i = 0; rc == CADRE_OK && i < chain->n; i++) {
        struct cadre_ctx *ctx = &chain->link[order[i]];
        if (ctx->plugin->desc.role == CADRE_ROLE_OPTIMIZER)
            continue;
        struct cadre_call call = cadre_call_begin(ctx, CADRE_IN_SYNC);
        rc = cadre_call_end(&call, ctx->plugin->ops.sync(ctx->self, &sync));
    }
    s->sync = 0;
    return rc == CADRE_OK ? finish_sync(chain, what) : rc;
}

/* ---- events ---- */

cadre_status cadre_chain_block(struct cadre_chain *chain,
                               const struct cadre_block_ev *ev)
{
    for (int i = 0; i < chain->n; i++) {
        struct cadre_ctx *ctx = &chain->link[chain->down[i]];
        if (!ctx->plugin->ops.on_block)
            continue;
        struct cadre_call call = cadre_call_begin(ctx, CADRE_IN_ON_BLOCK);
        CADRE_TRY(cadre_call_end(&call, ctx->plugin->ops.on_block(ctx->self, ev)));
    }
    return CADRE_OK;
}

cadre_status cadre_chain_grad(struct cadre_chain *chain, struct cadre_grad_ev *ev)
{
    for (int i = 0; i < chain->n; i++) {
        struct cadre_ctx *ctx = &chain->link[chain->down[i]];
        if (!ctx->plugin->ops.on_grad || cadre_reduction_has(&chain->reduction, ctx))
            continue;
        struct cadre_call call = cadre_call_begin(ctx, CADRE_IN_ON_GRAD);
        CADRE_TRY(cadre_call_end(&call, ctx->plugin->ops.on_grad(ctx->self, ev)));
    }
    return cadre_reduction_grad(chain->services, ev);
}

bool cadre_chain_hears_gradients(const struct cadre_chain *chain)
{
    for (int i = 0; i < chain->n; i++)
        if (chain->link[i].plugin->ops.on_grad)
            return true;
    return false;
}

static struct cadre_ctx *owner_of(const struct cadre_chain *chain, uint32_t point)
{
    return point == CADRE_POINT_ATTN_KV ? chain->shards_time
           : point == CADRE_POINT_EXPERT_IN || point == CADRE_POINT_EXPERT_OUT
               ? chain->shards_experts
               : chain->completes;
}

cadre_status cadre_chain_redistribute(struct cadre_chain *chain,
                                      const struct cadre_redistribute_ev *ev)
{
    struct cadre_ctx *owner = owner_of(chain, ev->point);
    if (!owner)
        return CADRE_OK;
    struct cadre_call call = cadre_call_begin(owner, CADRE_IN_ON_REDISTRIBUTE);
    return cadre_call_end(&call, owner->plugin->ops.on_redistribute(owner->self, ev));
}

cadre_status cadre_chain_await_unit(struct cadre_chain *chain, uint32_t unit)
{
    return cadre_param_marks_await_unit(chain->services, unit);
}

cadre_status cadre_chain_update(struct cadre_chain *chain,
                                const struct cadre_update_ev *ev)
{
    struct cadre_ctx *ctx = chain->optimizer;
    struct cadre_call call = cadre_call_begin(ctx, CADRE_IN_UPDATE);
    return cadre_call_end(&call, ctx->plugin->ops.update(ctx->self, ev));
}

cadre_status cadre_chain_state(struct cadre_chain *chain, int index,
                               const struct cadre_state_sink *sink,
                               struct cadre_error *err)
{
    struct cadre_ctx *ctx = &chain->link[index];
    if (!ctx->plugin->ops.state)
        return CADRE_OK;
    struct cadre_call call = cadre_call_begin(ctx, CADRE_IN_STATE);
    cadre_status rc = cadre_call_end(&call, ctx->plugin->ops.state(ctx->self, sink));
    return failed(chain, rc, err);
}

/* What a plugin fails at here is not said: the run has failed already. */
void cadre_chain_abort(struct cadre_chain *chain, cadre_status status)
{
    const struct cadre_end end = {.struct_size = sizeof end, .status = status};
    for (int i = 0; i < chain->n; i++) {
        struct cadre_ctx *ctx = &chain->link[i];
        if (!ctx->plugin->ops.abort)
            continue;
        struct cadre_call call = cadre_call_begin(ctx, CADRE_IN_ABORT);
        ctx->plugin->ops.abort(ctx->self, &end);
        (void)cadre_call_end(&call, CADRE_OK);
    }
}
