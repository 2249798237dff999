/* SPDX-License-Identifier: Apache-2.0 */
/* Inline conveniences for plugins; nothing here crosses the boundary. */
#ifndef CADRE_HELPERS_H
#define CADRE_HELPERS_H

#include <stdarg.h>
#include <stdio.h>

#include <cadre/strategy.h>

/* host->fail with a formatted message; returns the status. */
__attribute__((format(printf, 3, 4))) static inline cadre_status
cadre_refuse(const struct cadre_host *host, cadre_status status, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return host->fail(host->ctx, status, text);
}

/* Fetch a required service table; records the refusal where the host has none. */
static inline cadre_status cadre_need(const struct cadre_host *host, const char *id,
                                      const void **table)
{
    *table = host->service(host->ctx, id);
    if (*table)
        return CADRE_OK;
    return cadre_refuse(host, CADRE_E_UNSUPPORTED, "the host has no service %s", id);
}

/* The same for one of several: *rc is the first refusal so far, and NULL is returned
 * from it on. */
static inline const void *cadre_fetch(const struct cadre_host *host, const char *id,
                                      cadre_status *rc)
{
    const void *table = NULL;
    if (*rc == CADRE_OK)
        *rc = cadre_need(host, id, &table);
    return table;
}

static inline uint64_t cadre_dtype_size(uint32_t dtype)
{
    return dtype == CADRE_F64                          ? 8
           : dtype == CADRE_F32 || dtype == CADRE_I32  ? 4
           : dtype == CADRE_BF16 || dtype == CADRE_F16 ? 2
                                                       : 1;
}

/* A view of elements [begin, begin + count) of a buffer. */
static inline struct cadre_buf cadre_buf_slice(const struct cadre_buf *buf,
                                               uint64_t begin, uint64_t count)
{
    struct cadre_buf view = *buf;
    view.data = (char *)buf->data + begin * cadre_dtype_size(buf->dtype);
    view.count = count;
    return view;
}

#endif
