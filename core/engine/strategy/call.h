/* SPDX-License-Identifier: Apache-2.0 */
/* One call of a plugin's callback: who is inside of what, and what is said of a call
 * that fails. Callbacks nest: step -> forward -> on_block. */
#ifndef CADRE_ENGINE_STRATEGY_CALL_H
#define CADRE_ENGINE_STRATEGY_CALL_H

#include <stdint.h>

#include "core/base/error.h"

enum cadre_callback {
    CADRE_IN_NONE,
    CADRE_IN_CREATE,
    CADRE_IN_PLAN,
    CADRE_IN_PLACE,
    CADRE_IN_BIND,
    CADRE_IN_STEP,
    CADRE_IN_SYNC,
    CADRE_IN_ON_BLOCK,
    CADRE_IN_ON_GRAD,
    CADRE_IN_ON_REDISTRIBUTE,
    CADRE_IN_UPDATE,
    CADRE_IN_WIRE,
    CADRE_IN_STATE,
    CADRE_IN_ABORT,
    CADRE_IN_DESTROY,
    CADRE_CALLBACKS
};

/* "on_grad"; "no callback" for none. Static text. */
const char *cadre_callback_name(enum cadre_callback callback);

struct cadre_ctx;

/* What was before the call. */
struct cadre_call {
    struct cadre_ctx *ctx, *caller; /* caller: the instance whose callback is outside */
    enum cadre_callback before; /* of ctx itself */
    uint64_t seen; /* what the watching process saw */
};

/* [exec, main] The instance's callback begins. */
struct cadre_call cadre_call_begin(struct cadre_ctx *ctx, enum cadre_callback callback);

/* The callback returned rc. Returns the status of the call: an error too where the host
 * refused something that the plugin ignored. Every error has a text afterwards: the
 * plugin's, the host's, or one that names plugin, callback and step; but not those of
 * communicators (CADRE_E_COMM, CADRE_E_ABORTED), which the world knows. */
cadre_status cadre_call_end(const struct cadre_call *call, cadre_status rc);

#endif
