/* SPDX-License-Identifier: Apache-2.0 */
/* Inline helpers for plugins; nothing here crosses the boundary. */
#ifndef CADRE_HELPERS_H
#define CADRE_HELPERS_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- services ---- */

/* A row of the plugin's table of services: `member` of struct cadre_self points to
 * CADRE_SERVICE_<name>, of which `last` is the last function that is called. */
#define CADRE_SERVICE(member, name, last)                                              \
    {                                                                                  \
        CADRE_SERVICE_##name, offsetof(struct cadre_self, member),                     \
            offsetof(__typeof__(*((struct cadre_self *)0)->member), last) +            \
                sizeof(((struct cadre_self *)0)->member->last)                         \
    }

/* [main] Set every member that the table (or NULL) names. CADRE_E_UNSUPPORTED,
 * recorded, if the host lacks a service or has an older one without the functions
 * called. */
static inline cadre_status cadre_services_take(const struct cadre_host *host,
                                               const struct cadre_service *service,
                                               struct cadre_self *self)
{
    for (; service && service->id; service++) {
        const void *table = host->service(host->ctx, service->id);
        uint32_t bytes = table ? *(const uint32_t *)table : 0;
        if (table && bytes >= service->bytes) {
            memcpy((char *)self + service->offset, &table, sizeof table);
            continue;
        }
        if (table)
            cadre_refuse(host, CADRE_E_UNSUPPORTED,
                         "the host's %s service lacks a function that this plugin "
                         "needs (%u bytes, expected %u): install a newer Cadre",
                         service->id, bytes, service->bytes);
        else
            cadre_refuse(host, CADRE_E_UNSUPPORTED, "the host has no service %s",
                         service->id);
        return CADRE_E_UNSUPPORTED;
    }
    return CADRE_OK;
}

/* For the start of `create`: allocates an instance of `bytes` zeros and sets its
 * services. On failure nothing stays allocated; on success `destroy` calls free(). */
static inline cadre_status cadre_self_create(const struct cadre_host *host,
                                             const struct cadre_service *services,
                                             uint64_t bytes, struct cadre_self **out)
{
    struct cadre_self *self = (struct cadre_self *)calloc(1, bytes);
    if (!self) {
        cadre_refuse(host, CADRE_E_RESOURCE, "no memory for the instance");
        return CADRE_E_RESOURCE;
    }
    cadre_status rc = cadre_services_take(host, services, self);
    if (rc == CADRE_OK)
        *out = self;
    else
        free(self);
    return rc;
}

/* ---- the descriptor ---- */

/* An entry of the option table; the arguments are designated initializers. */
#define CADRE_OPTION(...)                                                              \
    {                                                                                  \
        .struct_size = sizeof(struct cadre_option), __VA_ARGS__                        \
    }

/* The option table, as fields of the descriptor. */
#define CADRE_OPTIONS(table)                                                           \
    .options = (table), .n_options = sizeof(table) / sizeof *(table),                  \
    .option_stride = sizeof *(table)

/* Defines the plugin's entry function; use once, at file scope, without a semicolon.
 * The arguments are the fields of struct cadre_plugin from `role` on, in their
 * order. */
#define CADRE_PLUGIN(...)                                                              \
    CADRE_EXPORT const struct cadre_plugin *CADRE_ENTRY(void)                          \
    {                                                                                  \
        static const struct cadre_plugin plugin = {                                    \
            .magic = CADRE_MAGIC,                                                      \
            .struct_size = sizeof plugin,                                              \
            .abi_major = CADRE_ABI_MAJOR,                                              \
            .abi_minor = CADRE_ABI_MINOR,                                              \
            .min_host_minor = CADRE_ABI_MINOR,                                         \
            __VA_ARGS__,                                                               \
        };                                                                             \
        return &plugin;                                                                \
    }

/* ---- operations ---- */

/* The description of an operation; `label` is static text. */
static inline struct cadre_post cadre_post(const char *label, uint32_t kind,
                                           cadre_event after)
{
    struct cadre_post post;
    memset(&post, 0, sizeof post);
    post.struct_size = sizeof post;
    post.kind = kind;
    post.label = label;
    post.after = after;
    return post;
}

/* ---- entries ---- */

static inline cadre_status cadre_param_get(const struct cadre_host *host,
                                           const struct cadre_model_svc *model,
                                           cadre_param_id id,
                                           struct cadre_param_info *info)
{
    memset(info, 0, sizeof *info);
    info->struct_size = sizeof *info;
    return model->param(host->ctx, id, info);
}

/* The next entry from *id on whose values this rank holds and that owns them (tied
 * entries are left out); 0 after the last, or after an error. Start with *id = 0 and
 * add 1 for the next:
 *     for (cadre_param_id id = 0; cadre_param_next(host, model, &id, &info); id++) */
static inline int cadre_param_next(const struct cadre_host *host,
                                   const struct cadre_model_svc *model,
                                   cadre_param_id *id, struct cadre_param_info *info)
{
    uint32_t n = model->n_params(host->ctx);
    for (; *id < n; (*id)++) {
        if (cadre_param_get(host, model, *id, info) != CADRE_OK)
            return 0;
        if (info->tied_to < 0 && (info->present || info->copied))
            return 1;
    }
    return 0;
}

/* buf = its mean over the ranks of the axis, in place; waits. */
static inline cadre_status cadre_mean(const struct cadre_host *host,
                                      const struct cadre_comm_svc *comm,
                                      const struct cadre_ops_svc *ops,
                                      struct cadre_axis *axis, int32_t size,
                                      const struct cadre_buf *buf, const char *label)
{
    struct cadre_post post = cadre_post(label, CADRE_TRAFFIC_PARAM, 0);
    CADRE_TRY(comm->all_reduce(axis, buf, buf, CADRE_SUM, &post));
    CADRE_TRY(comm->stream_wait(axis, post.done));
    return ops->scale(host->ctx, buf, 1.0 / size);
}

/* ---- buffers ---- */

static inline uint64_t cadre_dtype_size(uint32_t dtype)
{
    return dtype == CADRE_F64                          ? 8
           : dtype == CADRE_F32 || dtype == CADRE_I32  ? 4
           : dtype == CADRE_BF16 || dtype == CADRE_F16 ? 2
                                                       : 1;
}

static inline struct cadre_buf cadre_buf_of(void *data, uint64_t count, uint32_t dtype,
                                            uint32_t space)
{
    struct cadre_buf buf;
    buf.data = data;
    buf.count = count;
    buf.dtype = dtype;
    buf.space = space;
    return buf;
}

static inline uint64_t cadre_buf_bytes(const struct cadre_buf *buf)
{
    return buf->count * cadre_dtype_size(buf->dtype);
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
