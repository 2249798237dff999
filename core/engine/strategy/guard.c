/* SPDX-License-Identifier: Apache-2.0 */
/* What every function of a service checks before it does anything. */
#include <stdarg.h>
#include <stdio.h>

#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/engine/strategy/host_private.h"
#include "core/tensor/dtype.h"

cadre_status cadre_guard_refuse(struct cadre_ctx *ctx, cadre_status rc,
                                const char *function, const char *fmt, ...)
{
    struct cadre_error *failure = ctx->services->failure;
    char text[384];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (failure->code == CADRE_OK)
        cadre_fail(failure, rc, "plugin '%s' in %s%s: %s: %s", ctx->name,
                   cadre_callback_name(ctx->in),
                   cadre_services_step_text(ctx->services), function, text);
    return rc;
}

/* "bind, step, on_block" */
static void list_callbacks(uint32_t at, struct cadre_text *out)
{
    for (int c = CADRE_IN_NONE + 1; c < CADRE_CALLBACKS; c++)
        if (at & CADRE_AT(c))
            cadre_text_printf(out, "%s%s", out->len ? ", " : "",
                              cadre_callback_name((enum cadre_callback)c));
}

cadre_status cadre_guard(struct cadre_ctx *ctx, uint32_t at, const char *function)
{
    struct cadre_text may = {0};
    if (!ctx) {
        cadre_log(CADRE_LOG_ERROR, "strategy",
                  "a plugin calls %s with NULL in place of host->ctx", function);
        return CADRE_E_INVALID;
    }
    if (at & CADRE_AT(ctx->in))
        return CADRE_OK;
    list_callbacks(at, &may);
    cadre_guard_refuse(ctx, CADRE_E_INVALID, function,
                       "it may be called in %s only; call it there",
                       cadre_text_str(&may));
    cadre_text_fini(&may);
    return CADRE_E_INVALID;
}

cadre_status cadre_guard_bytes(struct cadre_ctx *ctx, const char *function,
                               const char *argument, const void *pointer,
                               uint64_t bytes)
{
    if (bytes == 0)
        return CADRE_OK;
    if (!pointer)
        return cadre_guard_refuse(ctx, CADRE_E_INVALID, function,
                                  "%s has no storage: its pointer is NULL, expected "
                                  "%llu bytes",
                                  argument, (unsigned long long)bytes);
    uint64_t left = cadre_ledger_left(ctx->services->ledger, pointer);
    if (bytes <= left)
        return CADRE_OK;
    return cadre_guard_refuse(ctx, CADRE_E_INVALID, function,
                              "%s has %llu bytes, but its memory ends after %llu",
                              argument, (unsigned long long)bytes,
                              (unsigned long long)left);
}

cadre_status cadre_guard_buf(struct cadre_ctx *ctx, const char *function,
                             const char *argument, const struct cadre_buf *buf)
{
    if (!buf)
        return cadre_guard_refuse(ctx, CADRE_E_INVALID, function,
                                  "%s is NULL, expected a buffer", argument);
    size_t size = cadre_dtype_bytes(buf->dtype);
    if (size == 0)
        return cadre_guard_refuse(ctx, CADRE_E_INVALID, function,
                                  "%s has the dtype %u, expected one of CADRE_F32 to "
                                  "CADRE_I8",
                                  argument, buf->dtype);
    if (buf->count > UINT64_MAX / size)
        return cadre_guard_refuse(ctx, CADRE_E_INVALID, function,
                                  "%s has a count of %llu, beyond the address space",
                                  argument, (unsigned long long)buf->count);
    return cadre_guard_bytes(ctx, function, argument, buf->data, buf->count * size);
}

cadre_status cadre_guard_result(struct cadre_ctx *ctx, const char *function,
                                cadre_status rc)
{
    if (rc == CADRE_OK || rc == CADRE_E_COMM || rc == CADRE_E_ABORTED)
        return rc;
    return cadre_guard_refuse(ctx, rc, function, "%s", cadre_strerror(rc));
}
