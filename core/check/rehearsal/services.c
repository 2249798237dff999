/* SPDX-License-Identifier: Apache-2.0 */
/* The services that a plugin finds: host, options, mesh, model, stream, tree and random
 * numbers. Those of storage are in params.c, of communication in operations.c. */
#include <stdio.h>
#include <string.h>

#include "core/base/rng.h"
#include "core/check/rehearsal/private.h"

/* Slots of cadre_player.stage; those of events follow in step.c. */
#define SLOT_HOST 0u
#define SLOT_VALUES 1u
#define SLOT_SERVICES 2u

/* The opaque types of the ABI are the players themselves. */
struct cadre_player *play_player_of(struct cadre_ctx *ctx)
{
    return (struct cadre_player *)(void *)ctx;
}

struct cadre_player *play_player_of_axis(const struct cadre_axis *axis)
{
    return (struct cadre_player *)(uintptr_t)(const void *)axis;
}

struct cadre_ctx *play_ctx_of(struct cadre_player *p)
{
    return (struct cadre_ctx *)(void *)p;
}

struct cadre_axis *play_axis_of(struct cadre_player *p)
{
    return (struct cadre_axis *)(void *)p;
}

/* ---- host ---- */

static const struct {
    const char *id;
    const void *table;
} services[] = {
    {CADRE_SERVICE_MESH, &play_mesh},   {CADRE_SERVICE_MODEL, &play_model},
    {CADRE_SERVICE_PARAM, &play_param}, {CADRE_SERVICE_TREE, &play_tree},
    {CADRE_SERVICE_MEM, &play_mem},     {CADRE_SERVICE_STREAM, &play_stream},
    {CADRE_SERVICE_RNG, &play_rng},     {CADRE_SERVICE_COMM, &play_comm},
    {CADRE_SERVICE_OPS, &play_ops},
};
#define N_SERVICES (sizeof services / sizeof services[0])

static const void *host_service(struct cadre_ctx *ctx, const char *id)
{
    struct cadre_player *p = play_player_of(ctx);
    if (!id) {
        play_refuse(p, CADRE_RULE_ARGUMENT, "host->service without an id");
        return NULL;
    }
    if (play_fails_on_purpose(p, "host.service"))
        return NULL; /* no refusal: the plugin says what it cannot do without */
    for (uint32_t i = 0; i < N_SERVICES; i++) {
        uint32_t bytes;
        if (strcmp(services[i].id, id) != 0)
            continue;
        memcpy(&bytes, services[i].table, sizeof bytes);
        uint32_t missing = p->all->setup->missing;
        bytes = missing < bytes - 8 ? bytes - missing : 8;
        return play_present(p, SLOT_SERVICES + i, services[i].table, bytes);
    }
    return NULL;
}

static cadre_status host_fail(struct cadre_ctx *ctx, cadre_status status,
                              const char *msg)
{
    struct cadre_player *p = play_player_of(ctx);
    if (!msg || !*msg)
        play_break_rule(p, CADRE_RULE_TEXT, "calls host->fail without a text");
    else if (strpbrk(msg, "\r\n"))
        play_break_rule(p, CADRE_RULE_TEXT,
                        "calls host->fail with a text of several lines");
    if (p->failure.code == CADRE_OK)
        cadre_fail(&p->failure, status ? status : CADRE_E_INTERNAL, "%s",
                   msg ? msg : "");
    return status;
}

static void host_log(struct cadre_ctx *ctx, int32_t level, const char *msg)
{
    struct cadre_player *p = play_player_of(ctx);
    if (!msg || level < 0 || level > 4)
        play_break_rule(p, CADRE_RULE_ARGUMENT, "host->log of level %d, %s", (int)level,
                        msg ? "which is none" : "without a text");
}

/* ---- options ---- */

/* Every entry of the plugin's own table may be longer than ours. */
static const struct cadre_option *find_option(const struct cadre_player *p,
                                              const char *key)
{
    const struct cadre_plugin *desc = &p->all->plugin->desc;
    const char *at = (const char *)desc->options;
    for (uint32_t i = 0; i < desc->n_options; i++, at += desc->option_stride) {
        const struct cadre_option *option = (const void *)at;
        if (strcmp(option->key, key) == 0)
            return option;
    }
    return NULL;
}

static bool may_ask(struct cadre_player *p, const char *key, uint32_t types)
{
    if (!key) {
        play_refuse(p, CADRE_RULE_ARGUMENT, "asks for the value of the option NULL");
        return false;
    }
    const struct cadre_option *option = find_option(p, key);
    if (!option || !(types >> option->type & 1)) {
        play_refuse(p, CADRE_RULE_ARGUMENT,
                    option ? "asks for the option '%s' as another type"
                           : "asks for the option '%s', which its table does not have",
                    key);
        return false;
    }
    if (p->phase & (IN_CREATE | IN_PLAN))
        return true;
    play_refuse(p, CADRE_RULE_PHASE, "reads the option '%s' after plan", key);
    return false;
}

static int64_t value_i64(const void *h, const char *key)
{
    struct cadre_player *p = (struct cadre_player *)(uintptr_t)h;
    uint32_t types =
        1u << CADRE_OPTION_BOOL | 1u << CADRE_OPTION_I64 | 1u << CADRE_OPTION_BYTES;
    return may_ask(p, key, types) ? p->known.i64(p->known.h, key) : 0;
}

static double value_f64(const void *h, const char *key)
{
    struct cadre_player *p = (struct cadre_player *)(uintptr_t)h;
    return may_ask(p, key, 1u << CADRE_OPTION_F64) ? p->known.f64(p->known.h, key) : 0;
}

static const char *value_str(const void *h, const char *key)
{
    struct cadre_player *p = (struct cadre_player *)(uintptr_t)h;
    uint32_t types = 1u << CADRE_OPTION_STR | 1u << CADRE_OPTION_ENUM;
    return may_ask(p, key, types) ? p->known.str(p->known.h, key) : "";
}

cadre_status play_host_init(struct cadre_player *p)
{
    const struct cadre_host host = {
        .struct_size = sizeof host,
        .abi_major = CADRE_ABI_MAJOR,
        .abi_minor = CADRE_ABI_MINOR,
        .ctx = play_ctx_of(p),
        .service = host_service,
        .fail = host_fail,
        .log = host_log,
    };
    const struct cadre_values values = {
        .struct_size = sizeof values,
        .h = p,
        .i64 = value_i64,
        .f64 = value_f64,
        .str = value_str,
    };
    CADRE_TRY(cadre_plugin_values_init(p->all->plugin, p->all->plugin->name,
                                       p->all->options, &p->failure, &p->known,
                                       &p->failure));
    p->plain_host = host;
    p->plain_values = values;
    p->host = play_present(p, SLOT_HOST, &p->plain_host, sizeof host);
    p->values = play_present(p, SLOT_VALUES, &p->plain_values, sizeof values);
    return CADRE_OK;
}

/* ---- mesh ---- */

static bool is_axis(const struct cadre_player *p, const char *name)
{
    const char *own = p->all->plugin->desc.axis;
    return own && (!name || strcmp(name, own) == 0);
}

static struct cadre_axis *mesh_find(struct cadre_ctx *ctx, const char *name)
{
    struct cadre_player *p = play_player_of(ctx);
    if (play_enter_sure(p, IN_PLAN | IN_BIND | IN_RUN, "mesh.find") != CADRE_OK)
        return NULL;
    return is_axis(p, name) ? play_axis_of(p) : NULL;
}

static struct cadre_axis *mesh_axis(struct cadre_ctx *ctx, const char *name)
{
    struct cadre_player *p = play_player_of(ctx);
    if (play_enter_sure(p, IN_PLAN | IN_BIND | IN_RUN, "mesh.axis") != CADRE_OK)
        return NULL;
    if (is_axis(p, name))
        return play_axis_of(p);
    if (name && p->phase != IN_PLAN)
        play_beyond(p, "axis of another plugin");
    else
        play_refuse(p, CADRE_RULE_ARGUMENT, "mesh.axis: there is no axis '%s'",
                    name ? name : "(none)");
    return NULL;
}

static int32_t mesh_rank(const struct cadre_axis *axis)
{
    return axis ? play_player_of_axis(axis)->rank : 0;
}

static int32_t mesh_size(const struct cadre_axis *axis)
{
    return axis ? play_player_of_axis(axis)->all->ranks : 0;
}

const struct cadre_mesh_svc play_mesh = {sizeof play_mesh, 0,         mesh_axis,
                                         mesh_find,        mesh_rank, mesh_size};

/* ---- model ---- */

static uint32_t model_n_params(struct cadre_ctx *ctx)
{
    play_enter_sure(play_player_of(ctx), IN_PLAN | IN_BIND | IN_RUN, "model.n_params");
    return ENTRIES;
}

static void describe(struct cadre_player *p, uint32_t e, struct cadre_param_info *out)
{
    const struct entry *entry = &p->entry[e];
    uint64_t shape[2];
    *out = (struct cadre_param_info){
        .struct_size = sizeof *out,
        .ndim = play_entry_shape(e, shape),
        .name = play_entry_name(e),
        .shape = {shape[0], shape[1]},
        .local = {entry->local[0], entry->local[1]},
        .count = entry->count,
        .dtype = p->all->dtype,
        .grad_dtype = p->all->dtype,
        .unit = play_entry_unit(e),
        .tied_to = play_entry_tied_to(e),
        .split = entry->split,
        .split_dim = entry->split == CADRE_SHARD_ROW ? 1 : 0,
        .present = entry->present,
        .partial = entry->partial,
        .copied = entry->copied,
        .frozen = entry->frozen,
        .form = CADRE_FORM_PLAIN,
        .form_elements = 1,
        .form_bytes = p->all->element,
        .expert = -1,
        .adapts = -1,
    };
    if (out->ndim == 1)
        out->shape[1] = out->local[1] = 0;
}

static cadre_status model_param(struct cadre_ctx *ctx, cadre_param_id id,
                                struct cadre_param_info *out)
{
    struct cadre_player *p = play_player_of(ctx);
    struct cadre_param_info info;
    CADRE_TRY(play_enter_sure(p, IN_PLAN | IN_BIND | IN_RUN, "model.param"));
    if (id >= ENTRIES || !out)
        return play_refuse(p, CADRE_RULE_ARGUMENT, "model.param of entry %u of %u%s",
                           id, ENTRIES, out ? "" : ", into NULL");
    if (out->struct_size < 8 || out->struct_size > 4096)
        return play_refuse(
            p, CADRE_RULE_ARGUMENT,
            "model.param: struct_size of the info is %u; set it with sizeof",
            out->struct_size);
    uint32_t bytes = out->struct_size;
    describe(p, id, &info);
    memcpy(out, &info, bytes < sizeof info ? bytes : sizeof info);
    out->struct_size = bytes;
    return CADRE_OK;
}

static double model_unit_cost(struct cadre_ctx *ctx, uint32_t unit)
{
    struct cadre_player *p = play_player_of(ctx);
    if (play_enter_sure(p, IN_PLAN, "model.unit_cost") != CADRE_OK || unit >= UNITS)
        return 0;
    return unit == 0 ? 1e3 : unit == UNITS - 1 ? 4e4 : 1e5;
}

static double model_unit_seconds(struct cadre_ctx *ctx, uint32_t unit)
{
    (void)unit;
    play_enter_sure(play_player_of(ctx), IN_PLAN, "model.unit_seconds");
    return 0;
}

static uint64_t model_boundary_count(struct cadre_ctx *ctx)
{
    struct cadre_player *p = play_player_of(ctx);
    play_enter_sure(p, IN_PLAN | IN_BIND | IN_RUN, "model.boundary_count");
    return BATCH * TIME * CHANNELS;
}

static cadre_status model_pass(struct cadre_ctx *ctx,
                               const struct cadre_pass_args *args, bool backward)
{
    struct cadre_player *p = play_player_of(ctx);
    CADRE_TRY(play_enter(p, IN_STEP, backward ? "model.backward" : "model.forward"));
    if (p->all->plugin->desc.role != CADRE_ROLE_SCHEDULE || !p->stepping)
        return play_refuse(p, CADRE_RULE_EFFECT,
                           "runs a pass of the model; only the SCHEDULE does, in step");
    if (!args ||
        args->struct_size < offsetof(struct cadre_pass_args, out) + sizeof args->out)
        return play_refuse(p, CADRE_RULE_ARGUMENT,
                           "a pass without arguments, or with struct_size not set");
    return backward ? play_run_backward(p, args) : play_run_forward(p, args);
}

static cadre_status model_forward(struct cadre_ctx *ctx,
                                  const struct cadre_pass_args *args)
{
    return model_pass(ctx, args, false);
}

static cadre_status model_backward(struct cadre_ctx *ctx,
                                   const struct cadre_pass_args *args)
{
    return model_pass(ctx, args, true);
}

const struct cadre_model_svc play_model = {
    .struct_size = sizeof play_model,
    .n_params = model_n_params,
    .param = model_param,
    .unit_cost = model_unit_cost,
    .unit_seconds = model_unit_seconds,
    .forward = model_forward,
    .backward = model_backward,
    .boundary_count = model_boundary_count,
};

/* ---- tree, stream, random numbers ---- */

/* Gradients are whole: rehearsals under RANGES are not exact. */
static uint32_t tree_n_nodes(const struct cadre_axis *axis, int32_t rank)
{
    (void)rank;
    if (axis)
        play_enter_sure(play_player_of_axis(axis), IN_PLAN | IN_BIND | IN_RUN,
                        "tree.n_nodes");
    return 0;
}

static cadre_status tree_sum(const struct cadre_axis *axis,
                             const struct cadre_buf *part, const struct cadre_buf *out)
{
    (void)part;
    (void)out;
    return axis ? play_beyond(play_player_of_axis(axis),
                              "tree of micro-batches under the RANGES map")
                : CADRE_E_INVALID;
}

const struct cadre_tree_svc play_tree = {sizeof play_tree, 0, tree_n_nodes, tree_sum};

/* Compute work is done when the call returns: what is recorded has happened. */
static cadre_status stream_record(struct cadre_ctx *ctx, cadre_event *out)
{
    struct cadre_player *p = play_player_of(ctx);
    CADRE_TRY(play_enter(p, IN_BIND | IN_RUN, "stream.record"));
    if (!out)
        return play_refuse(p, CADRE_RULE_ARGUMENT, "stream.record into NULL");
    *out = COMPUTED_EVENT;
    return CADRE_OK;
}

static cadre_status stream_wait(struct cadre_ctx *ctx, cadre_event event)
{
    struct cadre_player *p = play_player_of(ctx);
    CADRE_TRY(play_enter(p, IN_BIND | IN_RUN, "stream.wait"));
    return play_wait_event(p, event, "stream.wait");
}

const struct cadre_stream_svc play_stream = {sizeof play_stream, 0, stream_record,
                                             stream_wait};

static double rng_uniform(struct cadre_ctx *ctx, const char *name, uint64_t element)
{
    return cadre_rng_uniform(
        cadre_rng_key(play_player_of(ctx)->all->setup->seed, name ? name : ""),
        element);
}

static double rng_normal(struct cadre_ctx *ctx, const char *name, uint64_t element)
{
    return cadre_rng_normal(
        cadre_rng_key(play_player_of(ctx)->all->setup->seed, name ? name : ""),
        element);
}

const struct cadre_rng_svc play_rng = {sizeof play_rng, 0, rng_uniform, rng_normal};
