/* SPDX-License-Identifier: Apache-2.0 */
/* The host table, and the small services: mesh, memory, random numbers. */
#include "core/engine/strategy/host_private.h"

#include <stdio.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/rng.h"
#include "core/base/status_slot.h"

/* ---- what a rank's services do for the core ---- */

const char *cadre_services_step_text(struct cadre_services *services)
{
    services->step_text[0] = 0;
    if (services->step > 0)
        snprintf(services->step_text, sizeof services->step_text, " at step %llu",
                 (unsigned long long)services->step);
    return services->step_text;
}

cadre_status cadre_services_await(struct cadre_services *services, cadre_event event,
                                  const char *name)
{
    struct cadre_device *device = services->device;
    if (event == 0)
        return CADRE_OK;
    if (!services->world)
        return device->ops->event_wait(device, event);
    double begin = cadre_now_s();
    uint64_t seen = cadre_status_core(services->slot);
    cadre_status rc = cadre_comm_stream_wait(services->world, device, event);
    cadre_status_leave(services->slot, seen);
    cadre_timeline_add(services->timeline, CADRE_SPAN_WAIT, name, begin);
    return rc;
}

/* ---- cadre.mesh/1 ---- */

#define AT_ANY (CADRE_AT_PLAN | CADRE_AT_BIND | CADRE_AT_RUN)

static struct cadre_axis *mesh_find(struct cadre_ctx *ctx, const char *name)
{
    const char *wanted = name || !ctx ? name : ctx->axis;
    if (cadre_guard(ctx, AT_ANY, "find of cadre.mesh") != CADRE_OK || !wanted)
        return NULL;
    struct cadre_axis *axis = cadre_mesh_axis(ctx->services->mesh, wanted);
    if (axis)
        axis->services = ctx->services;
    return axis;
}

/* "dp, pp" */
static void list_axes(const struct cadre_mesh *mesh, struct cadre_text *out)
{
    for (int i = 0; i < mesh->n; i++)
        cadre_text_printf(out, "%s%s", i ? ", " : "", mesh->axis[i].name);
}

static struct cadre_axis *mesh_axis(struct cadre_ctx *ctx, const char *name)
{
    struct cadre_axis *axis = mesh_find(ctx, name);
    struct cadre_text axes = {0};
    if (axis || !ctx)
        return axis;
    list_axes(ctx->services->mesh, &axes);
    cadre_guard_refuse(ctx, CADRE_E_INVALID, "axis of cadre.mesh",
                       "there is no axis '%s', this run has: %s",
                       name ? name : "of this plugin",
                       axes.len ? cadre_text_str(&axes) : "none");
    cadre_text_fini(&axes);
    return NULL;
}

/* NULL has no instance to name: it is logged, and gives what no axis has. */
static int32_t axis_rank(const struct cadre_axis *axis)
{
    if (!axis)
        cadre_log(CADRE_LOG_ERROR, "strategy",
                  "a plugin asks for its rank along an axis that is NULL");
    return axis ? axis->index : -1;
}

static int32_t axis_size(const struct cadre_axis *axis)
{
    if (!axis)
        cadre_log(CADRE_LOG_ERROR, "strategy",
                  "a plugin asks for the size of an axis that is NULL");
    return axis ? axis->size : -1;
}

const struct cadre_mesh_svc cadre_mesh_service = {
    .struct_size = sizeof cadre_mesh_service,
    .axis = mesh_axis,
    .find = mesh_find,
    .rank = axis_rank,
    .size = axis_size,
};

/* ---- cadre.mem/1 ---- */

static void *mem_alloc(struct cadre_ctx *ctx, uint32_t space, uint64_t bytes,
                       const char *tag)
{
    static const char function[] = "alloc of cadre.mem";
    char name[CADRE_LEDGER_TAG_CHARS];
    if (cadre_guard(ctx, CADRE_AT_BIND | CADRE_AT_RUN, function) != CADRE_OK)
        return NULL;
    struct cadre_services *s = ctx->services;
    if (!tag || space > CADRE_SPACE_HOST) {
        cadre_guard_refuse(ctx, CADRE_E_INVALID, function, "%s",
                           tag ? "the space is not one of CADRE_SPACE_*"
                               : "the tag is NULL");
        return NULL;
    }
    cadre_ledger_tag(name, ctx->name, tag);
    uint64_t announced = cadre_rank_plan_budget(s->plan, ctx->name, space, tag);
    uint64_t before = cadre_ledger_used(s->ledger, space, name);
    if (bytes > announced || before > announced - bytes) {
        cadre_guard_refuse(ctx, CADRE_E_INVALID, function,
                           "%llu bytes under '%s' beside the %llu held are more than "
                           "the %llu that memory of the plan announced; announce them",
                           (unsigned long long)bytes, tag, (unsigned long long)before,
                           (unsigned long long)announced);
        return NULL;
    }
    return cadre_ledger_alloc(s->ledger, space, bytes, name);
}

/* After a failed step an operation may still use a buffer that a plugin frees in
 * destroy; the ledger frees it after the communicators are destroyed. */
static void mem_free(struct cadre_ctx *ctx, void *pointer)
{
    if (!ctx || ctx->in == CADRE_IN_DESTROY)
        return;
    static const char function[] = "free of cadre.mem";
    if (cadre_guard(ctx, CADRE_AT_BIND | CADRE_AT_RUN, function) == CADRE_OK &&
        !cadre_ledger_free(ctx->services->ledger, pointer))
        cadre_guard_refuse(ctx, CADRE_E_INVALID, function,
                           "the pointer is not one that alloc has returned; free it "
                           "where it comes from");
}

static const struct cadre_mem_svc mem_service = {
    .struct_size = sizeof mem_service,
    .alloc = mem_alloc,
    .free = mem_free,
};

/* ---- cadre.rng/1 ---- */

static double rng_uniform(struct cadre_ctx *ctx, const char *name, uint64_t element)
{
    if (!ctx || !name)
        return 0;
    return cadre_rng_uniform(cadre_rng_key(ctx->services->spec->seed, name), element);
}

static double rng_normal(struct cadre_ctx *ctx, const char *name, uint64_t element)
{
    if (!ctx || !name)
        return 0;
    return cadre_rng_normal(cadre_rng_key(ctx->services->spec->seed, name), element);
}

static const struct cadre_rng_svc rng_service = {
    .struct_size = sizeof rng_service,
    .uniform = rng_uniform,
    .normal = rng_normal,
};

/* ---- the host table ---- */

static cadre_status host_fail(struct cadre_ctx *ctx, cadre_status status,
                              const char *msg)
{
    if (!ctx)
        return status;
    struct cadre_error *failure = ctx->services->failure;
    if (failure->code == CADRE_OK)
        cadre_fail(failure, status, "plugin '%s' in %s: %s", ctx->name,
                   cadre_callback_name(ctx->in), msg ? msg : "(no text)");
    return status;
}

static void host_log(struct cadre_ctx *ctx, int32_t level, const char *msg)
{
    if (!ctx || !msg)
        return;
    if (level < CADRE_LOG_ERROR || level > CADRE_LOG_TRACE)
        level = CADRE_LOG_INFO;
    cadre_log((enum cadre_log_level)level, ctx->name, "%s", msg);
}

static const struct {
    const char *id;
    const void *table;
} services[] = {
    {CADRE_SERVICE_MESH, &cadre_mesh_service},
    {CADRE_SERVICE_COMM, &cadre_comm_service},
    {CADRE_SERVICE_MODEL, &cadre_model_service},
    {CADRE_SERVICE_PARAM, &cadre_param_service},
    {CADRE_SERVICE_TREE, &cadre_tree_service},
    {CADRE_SERVICE_MEM, &mem_service},
    {CADRE_SERVICE_STREAM, &cadre_stream_service},
    {CADRE_SERVICE_OPS, &cadre_ops_service},
    {CADRE_SERVICE_RNG, &rng_service},
};

static const void *host_service(struct cadre_ctx *ctx, const char *id)
{
    (void)ctx;
    for (size_t i = 0; id && i < sizeof services / sizeof services[0]; i++)
        if (strcmp(services[i].id, id) == 0)
            return services[i].table;
    return NULL;
}

void cadre_host_init(struct cadre_host *host, struct cadre_ctx *ctx)
{
    *host = (struct cadre_host){
        .struct_size = sizeof *host,
        .abi_major = CADRE_ABI_MAJOR,
        .abi_minor = CADRE_ABI_MINOR,
        .ctx = ctx,
        .service = host_service,
        .fail = host_fail,
        .log = host_log,
    };
}
