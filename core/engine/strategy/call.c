/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/strategy/call.h"

#include "core/base/status_slot.h"
#include "core/engine/strategy/host.h"

const char *cadre_callback_name(enum cadre_callback callback)
{
    static const char *const names[CADRE_CALLBACKS] = {
        "no callback", "create", "plan",     "place",   "bind",
        "step",        "sync",   "on_block", "on_grad", "on_redistribute",
        "update",      "wire",   "state",    "abort",   "destroy",
    };
    return names[callback];
}

/* With what is synchronised. */
static const char *text_of(const struct cadre_services *s, enum cadre_callback callback)
{
    static const char *const syncs[] = {"sync",          "sync(GRADS)", "sync(PARAMS)",
                                        "sync(METRICS)", "sync(DRAIN)", "sync(UPDATE)"};
    return callback == CADRE_IN_SYNC && s->sync < sizeof syncs / sizeof *syncs
               ? syncs[s->sync]
               : cadre_callback_name(callback);
}

struct cadre_call cadre_call_begin(struct cadre_ctx *ctx, enum cadre_callback callback)
{
    struct cadre_services *s = ctx->services;
    struct cadre_call call = {.ctx = ctx, .caller = s->inside, .before = ctx->in};
    ctx->in = callback;
    s->inside = ctx;
    call.seen = cadre_status_enter(s->slot, ctx->name, text_of(s, callback), s->step);
    return call;
}

/* Communicators report their failures to the whole world, with a text of their own. */
static bool is_of_the_world(cadre_status rc)
{
    return rc == CADRE_E_COMM || rc == CADRE_E_ABORTED;
}

cadre_status cadre_call_end(const struct cadre_call *call, cadre_status rc)
{
    struct cadre_ctx *ctx = call->ctx;
    struct cadre_services *s = ctx->services;
    struct cadre_error *failure = s->failure;
    if (rc == CADRE_OK)
        rc = failure->code;
    else if (failure->code == CADRE_OK && !is_of_the_world(rc))
        cadre_fail(failure, rc,
                   "plugin '%s' failed in %s%s without saying why (status %d: %s); it "
                   "should call host->fail first",
                   ctx->name, text_of(s, ctx->in), cadre_services_step_text(s), rc,
                   cadre_strerror(rc));
    ctx->in = call->before;
    s->inside = call->caller;
    cadre_status_leave(s->slot, call->seen);
    return rc;
}
