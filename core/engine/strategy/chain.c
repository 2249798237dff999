/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/strategy/chain.h"

#include <string.h>

#include "core/engine/layout/plan_session.h"

/* Core-side code records a plugin's refusal through host->fail; a plugin that returns
 * an error without a text still gets a line. */
static cadre_status refused(struct cadre_ctx *ctx, cadre_status rc,
                            struct cadre_error *err)
{
    const struct cadre_error *said = ctx->services->failure;
    if (said->code != CADRE_OK)
        return cadre_fail(err, rc, "%s", said->text);
    if (err && err->code != CADRE_OK && err->text[0])
        return rc;
    return cadre_fail(err, rc, "plugin '%s' failed in %s: %s", ctx->plugin->name,
                      ctx->phase, cadre_strerror(rc));
}

static cadre_status create_link(struct cadre_ctx *ctx, struct cadre_services *services,
                                const struct cadre_plugin_handle *plugin,
                                const struct cadre_options *options,
                                struct cadre_error *err)
{
    *ctx =
        (struct cadre_ctx){.services = services, .plugin = plugin, .phase = "create"};
    cadre_host_init(&ctx->host, ctx);
    CADRE_TRY(cadre_plugin_values_init(plugin, options, &ctx->values, err));
    cadre_status rc = plugin->ops.create(&ctx->host, &ctx->values, &ctx->self);
    if (rc == CADRE_OK)
        return CADRE_OK;
    ctx->self = NULL;
    rc = refused(ctx, rc, err);
    cadre_plugin_values_fini(&ctx->values);
    return rc;
}

cadre_status cadre_chain_create(struct cadre_chain *chain,
                                struct cadre_services *services,
                                const struct cadre_plugin_handle *const *plugins, int n,
                                const struct cadre_options *options,
                                struct cadre_error *err)
{
    memset(chain, 0, sizeof *chain);
    for (uint32_t role = CADRE_ROLE_PLACEMENT; role <= CADRE_ROLE_OBSERVER; role++)
        for (int i = 0; i < n; i++) {
            if (plugins[i]->desc.role != role)
                continue;
            cadre_status rc =
                create_link(&chain->link[chain->n], services, plugins[i], options, err);
            if (rc != CADRE_OK) {
                cadre_chain_destroy(chain);
                return rc;
            }
            chain->n++;
        }
    return CADRE_OK;
}

void cadre_chain_destroy(struct cadre_chain *chain)
{
    for (int i = chain->n - 1; i >= 0; i--) {
        struct cadre_ctx *ctx = &chain->link[i];
        ctx->phase = "destroy";
        ctx->plugin->ops.destroy(ctx->self);
        cadre_plugin_values_fini(&ctx->values);
    }
    chain->n = 0;
}

/* The parts of a sharded model produce partial sums that a plugin must complete. */
static cadre_status find_redistribute_owner(struct cadre_chain *chain,
                                            const struct cadre_rank_plan *plan,
                                            int tp_size, struct cadre_error *err)
{
    const char *owner = cadre_rank_plan_claimed(plan, "act.complete");
    const char *rows = cadre_rank_plan_claimed(plan, "seq.shard");
    for (int i = 0; owner && i < chain->n; i++)
        if (strcmp(chain->link[i].plugin->name, owner) == 0)
            chain->redistribute_owner = &chain->link[i];
    if (owner && !chain->redistribute_owner->plugin->ops.on_redistribute)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "plugin '%s' claims act.complete, but has no on_redistribute",
                          owner);
    if (!owner && tp_size > 1)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "strategy.stack: the model is sharded over %d ranks, but no "
                          "plugin claims act.complete, which sums its parts",
                          tp_size);
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
    struct cadre_error said = {0};
    for (int i = 0; i < chain->n; i++) {
        struct cadre_ctx *ctx = &chain->link[i];
        struct cadre_plan_session session;
        ctx->phase = "plan";
        cadre_plan_session_init(&session, plan, request, ctx->plugin->name, &said);
        cadre_status rc = ctx->plugin->ops.plan(ctx->self, &session.abi);
        if (rc != CADRE_OK && said.code != CADRE_OK)
            return cadre_fail(err, rc, "%s", said.text);
        if (rc != CADRE_OK)
            return refused(ctx, rc, err);
    }
    cadre_status rc =
        find_redistribute_owner(chain, plan, request->model->tp_size, err);
    return rc == CADRE_OK ? cadre_rank_plan_finish(plan, request, err) : rc;
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
        ctx->phase = "place";
        session->plugin = ctx->plugin->name;
        cadre_status rc = ctx->plugin->ops.place(ctx->self, &session->abi);
        if (said->code != CADRE_OK) /* even where the plugin ignores it */
            return cadre_fail(err, said->code, "%s", said->text);
        if (rc != CADRE_OK)
            return refused(ctx, rc, err);
    }
    return CADRE_OK;
}

cadre_status cadre_chain_bind(struct cadre_chain *chain, struct cadre_error *err)
{
    for (int i = 0; i < chain->n; i++) {
        struct cadre_ctx *ctx = &chain->link[i];
        ctx->phase = "bind";
        cadre_status rc = ctx->plugin->ops.bind(ctx->self);
        if (rc != CADRE_OK)
            return refused(ctx, rc, err);
    }
    return CADRE_OK;
}

/* A position in the chain while a step nests. */
struct position {
    struct cadre_chain *chain;
    int index;
    const struct cadre_next *run;
};

static bool nests(const struct cadre_ctx *ctx)
{
    return ctx->plugin->ops.step && ctx->plugin->desc.role != CADRE_ROLE_SCHEDULE;
}

/* The schedule, or the sequential one where no plugin is a schedule. */
static cadre_status run_schedule(const struct position *at,
                                 const struct cadre_step *step)
{
    for (int i = 0; i < at->chain->n; i++) {
        struct cadre_ctx *ctx = &at->chain->link[i];
        if (ctx->plugin->desc.role != CADRE_ROLE_SCHEDULE || !ctx->plugin->ops.step)
            continue;
        ctx->phase = "step";
        return ctx->plugin->ops.step(ctx->self, step, at->run);
    }
    return at->run->run(at->run->h, step);
}

/* A schedule runs the passes itself, so it comes last whatever its position in the
 * chain: otherwise the data strategies inside it would never be called for a step. */
static cadre_status run_from(void *h, const struct cadre_step *step)
{
    const struct position *at = h;
    int i = at->index;
    while (i < at->chain->n && !nests(&at->chain->link[i]))
        i++;
    if (i == at->chain->n)
        return run_schedule(at, step);
    struct cadre_ctx *ctx = &at->chain->link[i];
    struct position after = {at->chain, i + 1, at->run};
    struct cadre_next next = {.struct_size = sizeof next, .h = &after, .run = run_from};
    ctx->phase = "step";
    return ctx->plugin->ops.step(ctx->self, step, &next);
}

cadre_status cadre_chain_step(struct cadre_chain *chain, const struct cadre_step *step,
                              const struct cadre_next *run)
{
    struct position first = {chain, 0, run};
    return run_from(&first, step);
}

cadre_status cadre_chain_sync(struct cadre_chain *chain, uint32_t what)
{
    for (int i = chain->n - 1; i >= 0; i--) {
        struct cadre_ctx *ctx = &chain->link[i];
        ctx->phase = "sync";
        CADRE_TRY(ctx->plugin->ops.sync(ctx->self, what));
    }
    return CADRE_OK;
}

cadre_status cadre_chain_block(struct cadre_chain *chain,
                               const struct cadre_block_ev *ev)
{
    for (int i = 0; i < chain->n; i++) {
        struct cadre_ctx *ctx = &chain->link[i];
        if (!ctx->plugin->ops.on_block)
            continue;
        ctx->phase = "on_block";
        CADRE_TRY(ctx->plugin->ops.on_block(ctx->self, ev));
    }
    return CADRE_OK;
}

cadre_status cadre_chain_grad(struct cadre_chain *chain, struct cadre_grad_ev *ev)
{
    for (int i = 0; i < chain->n; i++) {
        struct cadre_ctx *ctx = &chain->link[i];
        if (!ctx->plugin->ops.on_grad)
            continue;
        ctx->phase = "on_grad";
        CADRE_TRY(ctx->plugin->ops.on_grad(ctx->self, ev));
    }
    return CADRE_OK;
}

cadre_status cadre_chain_redistribute(struct cadre_chain *chain,
                                      const struct cadre_redistribute_ev *ev)
{
    struct cadre_ctx *owner = chain->redistribute_owner;
    if (!owner || !owner->plugin->ops.on_redistribute)
        return CADRE_OK;
    owner->phase = "on_redistribute";
    return owner->plugin->ops.on_redistribute(owner->self, ev);
}

cadre_status cadre_chain_state(struct cadre_chain *chain, int index,
                               const struct cadre_state_sink *sink,
                               struct cadre_error *err)
{
    struct cadre_ctx *ctx = &chain->link[index];
    if (!ctx->plugin->ops.state)
        return CADRE_OK;
    ctx->phase = "state";
    cadre_status rc = ctx->plugin->ops.state(ctx->self, sink);
    if (rc == CADRE_OK)
        rc = ctx->services->failure->code;
    return rc == CADRE_OK ? rc : refused(ctx, rc, err);
}

void cadre_chain_abort(struct cadre_chain *chain)
{
    for (int i = 0; i < chain->n; i++)
        if (chain->link[i].plugin->ops.abort)
            chain->link[i].plugin->ops.abort(chain->link[i].self);
}
