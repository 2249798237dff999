/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of a plugin's descriptor, between its entry point and its first call.
 * Everything is read through its own struct_size, so an older or newer plugin is never
 * read beyond its end. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/plugin/plugin_private.h"

/* sizes of ABI 0.9: the least that any plugin has */
#define MIN_PLUGIN_BYTES 104u
#define MIN_OPS_BYTES 128u
#define MAX_SERVICES 64
/* The oldest minor whose plugins still run here: since it minors have only added
 * (tests/abi has its headers). Before 1.0 a later one than ours may have changed
 * anything. */
#define OLDEST_MINOR 9u

const struct cadre_known_service cadre_known_services[CADRE_KNOWN_SERVICES] = {
    {CADRE_SERVICE_MESH, sizeof(struct cadre_mesh_svc)},
    {CADRE_SERVICE_COMM, sizeof(struct cadre_comm_svc)},
    {CADRE_SERVICE_MODEL, sizeof(struct cadre_model_svc)},
    {CADRE_SERVICE_PARAM, sizeof(struct cadre_param_svc)},
    {CADRE_SERVICE_TREE, sizeof(struct cadre_tree_svc)},
    {CADRE_SERVICE_MEM, sizeof(struct cadre_mem_svc)},
    {CADRE_SERVICE_STREAM, sizeof(struct cadre_stream_svc)},
    {CADRE_SERVICE_OPS, sizeof(struct cadre_ops_svc)},
    {CADRE_SERVICE_RNG, sizeof(struct cadre_rng_svc)},
};

/* Short names that would collide with the core's ini sections or strategy.stack. */
static const char *const reserved_names[] = {
    "run",      "model", "data",       "train",   "optim",  "device", "comm",
    "strategy", "log",   "checkpoint", "compare", "single", "bench",  "balance",
};

void cadre_struct_copy(void *to, size_t to_bytes, const void *from, size_t from_bytes)
{
    size_t n = to_bytes < from_bytes ? to_bytes : from_bytes;
    memcpy(to, from, n);
    memset((char *)to + n, 0, to_bytes - n);
}

bool cadre_plugin_is_name(const char *text)
{
    if (!text || !*text || isdigit((unsigned char)*text))
        return false;
    return text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_")] == 0;
}

bool cadre_plugin_is_reserved(const char *name)
{
    for (size_t i = 0; i < sizeof reserved_names / sizeof *reserved_names; i++)
        if (strcmp(name, reserved_names[i]) == 0)
            return true;
    return false;
}

static cadre_status check_version(const struct cadre_plugin *found, const char *path,
                                  struct cadre_error *err)
{
    if (found->magic != CADRE_MAGIC)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "the plugin '%s' has the magic number %llx, expected %llx: it "
            "is not a strategy plugin of Cadre",
            path, (unsigned long long)found->magic, (unsigned long long)CADRE_MAGIC);
    if (found->abi_major != CADRE_ABI_MAJOR)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "the plugin '%s' was built for plugin ABI %u.%u, this program "
            "has %u.%u (the major must be equal): %s",
            path, found->abi_major, found->abi_minor, CADRE_ABI_MAJOR, CADRE_ABI_MINOR,
            found->abi_major > CADRE_ABI_MAJOR
                ? "install a newer Cadre or an older plugin"
                : "rebuild the plugin against this Cadre's headers");
    if (found->abi_minor < OLDEST_MINOR || found->abi_minor > CADRE_ABI_MINOR)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "the plugin '%s' was built for plugin ABI %u.%u, this program has %u.%u "
            "and takes %u.%u to %u.%u: %s",
            path, found->abi_major, found->abi_minor, CADRE_ABI_MAJOR, CADRE_ABI_MINOR,
            CADRE_ABI_MAJOR, OLDEST_MINOR, CADRE_ABI_MAJOR, CADRE_ABI_MINOR,
            found->abi_minor > CADRE_ABI_MINOR
                ? "install a newer Cadre or an older plugin"
                : "rebuild the plugin against this Cadre's headers");
    if (found->min_host_minor > CADRE_ABI_MINOR)
        return cadre_fail(err, CADRE_E_INVALID,
                          "the plugin '%s' needs a host of plugin ABI %u.%u or newer, "
                          "this program has %u.%u: install a newer Cadre",
                          path, found->abi_major, found->min_host_minor,
                          CADRE_ABI_MAJOR, CADRE_ABI_MINOR);
    if (found->struct_size < MIN_PLUGIN_BYTES)
        return cadre_fail(err, CADRE_E_INVALID,
                          "the plugin '%s' has a descriptor of %u bytes, expected at "
                          "least %u: rebuild it with struct_size = sizeof",
                          path, found->struct_size, MIN_PLUGIN_BYTES);
    return CADRE_OK;
}

/* "org.cadre.ddp": at least two parts of [a-z0-9_-], the last one a name of its own. */
static bool id_ok(const char *id)
{
    const char *last = id ? strrchr(id, '.') : NULL;
    if (!last || last == id || strlen(id) > 127 || strstr(id, "..") || *id == '.')
        return false;
    return id[strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789_-.")] == 0 &&
           cadre_plugin_is_name(last + 1) && strlen(last + 1) < 32;
}

static cadre_status check_id(struct cadre_plugin_handle *handle,
                             struct cadre_error *err)
{
    const char *id = handle->desc.id;
    if (!id_ok(id))
        return cadre_fail(err, CADRE_E_INVALID,
                          "the plugin '%s' has the malformed id '%.128s': expected "
                          "lower-case parts with dots, such as org.example.name, the "
                          "last of at most 31 of [a-z0-9_]",
                          handle->path, id ? id : "(none)");
    snprintf(handle->name, sizeof handle->name, "%s", strrchr(id, '.') + 1);
    if (cadre_plugin_is_reserved(handle->name))
        return cadre_fail(err, CADRE_E_INVALID,
                          "the plugin '%s' has the id '%s', but '%s' is a name of the "
                          "core: choose another last part",
                          handle->path, id, handle->name);
    return CADRE_OK;
}

static bool one_line(const char *text)
{
    return text && *text && !strpbrk(text, "\r\n");
}

static cadre_status check_axis(const struct cadre_plugin_handle *handle,
                               struct cadre_error *err)
{
    const char *axis = handle->desc.axis;
    uint32_t role = handle->desc.role;
    if (axis && role == CADRE_ROLE_OPTIMIZER)
        return cadre_fail(err, CADRE_E_INVALID,
                          "the plugin '%s' is an optimizer and has the mesh axis "
                          "'%.64s': expected NULL, it has none",
                          handle->path, axis);
    if (!axis && (role == CADRE_ROLE_OBSERVER || role == CADRE_ROLE_OPTIMIZER))
        return CADRE_OK;
    if (!cadre_plugin_is_name(axis) || strlen(axis) >= CADRE_AXIS_CHARS)
        return cadre_fail(err, CADRE_E_INVALID,
                          "the plugin '%s' has the mesh axis '%.64s': expected a name "
                          "of at most %u of [a-z0-9_], such as dp",
                          handle->path, axis ? axis : "(none)", CADRE_AXIS_CHARS - 1);
    return CADRE_OK;
}

static cadre_status check_texts(const struct cadre_plugin_handle *handle,
                                struct cadre_error *err)
{
    const struct cadre_plugin *desc = &handle->desc;
    if (!one_line(desc->version) || !one_line(desc->summary))
        return cadre_fail(err, CADRE_E_INVALID,
                          "the plugin '%s' has no %s: expected one line of text",
                          handle->path,
                          one_line(desc->version) ? "summary" : "version");
    if (desc->role < CADRE_ROLE_PLACEMENT || desc->role > CADRE_ROLE_OPTIMIZER)
        return cadre_fail(
            err, CADRE_E_INVALID, "the plugin '%s' has the role %u, expected %u to %u",
            handle->path, desc->role, CADRE_ROLE_PLACEMENT, CADRE_ROLE_OPTIMIZER);
    return check_axis(handle, err);
}

static cadre_status check_services(const struct cadre_plugin_handle *handle,
                                   struct cadre_error *err)
{
    const struct cadre_service *wanted = handle->desc.services;
    for (size_t i = 0; wanted && wanted[i].id; i++) {
        const struct cadre_known_service *known = cadre_known_services;
        const struct cadre_known_service *end = known + CADRE_KNOWN_SERVICES;
        if (i == MAX_SERVICES)
            return cadre_fail(err, CADRE_E_INVALID,
                              "the plugin '%s' lists more than %d services: end the "
                              "list with an id of NULL",
                              handle->path, MAX_SERVICES);
        while (known < end && strcmp(wanted[i].id, known->id) != 0)
            known++;
        if (known == end)
            return cadre_fail(err, CADRE_E_INVALID,
                              "the plugin '%s' needs the service '%.128s', which this "
                              "program does not have: install a newer Cadre",
                              handle->path, wanted[i].id);
        if (wanted[i].bytes > known->bytes)
            return cadre_fail(err, CADRE_E_INVALID,
                              "the plugin '%s' needs %u bytes of the service '%s', of "
                              "which this program has %u: install a newer Cadre",
                              handle->path, wanted[i].bytes, known->id, known->bytes);
    }
    return CADRE_OK;
}

static cadre_status check_ops(struct cadre_plugin_handle *handle,
                              struct cadre_error *err)
{
    const struct cadre_strategy_ops *found = handle->desc.ops;
    struct cadre_strategy_ops *ops = &handle->ops;
    if (!found)
        return cadre_fail(err, CADRE_E_INVALID, "the plugin '%s' has no table of ops",
                          handle->path);
    if (found->struct_size < MIN_OPS_BYTES)
        return cadre_fail(err, CADRE_E_INVALID,
                          "the plugin '%s' has a table of ops of %u bytes, expected at "
                          "least %u: rebuild it with struct_size = sizeof",
                          handle->path, found->struct_size, MIN_OPS_BYTES);
    cadre_struct_copy(ops, sizeof *ops, found, found->struct_size);
    ops->struct_size = sizeof *ops;
    const char *missing = !ops->create    ? "create"
                          : !ops->plan    ? "plan"
                          : !ops->bind    ? "bind"
                          : !ops->sync    ? "sync"
                          : !ops->destroy ? "destroy"
                                          : NULL;
    if (missing)
        return cadre_fail(err, CADRE_E_INVALID,
                          "the plugin '%s' lacks the function '%s' in its ops: create, "
                          "plan, bind, sync and destroy are required",
                          handle->path, missing);
    if (handle->desc.role == CADRE_ROLE_OPTIMIZER && !ops->update)
        return cadre_fail(err, CADRE_E_INVALID,
                          "the plugin '%s' lacks the function 'update' in its ops: the "
                          "role CADRE_ROLE_OPTIMIZER requires it",
                          handle->path);
    if (!ops->wire != !ops->wire_bytes)
        return cadre_fail(err, CADRE_E_INVALID,
                          "the plugin '%s' has the function '%s' in its ops and no "
                          "'%s': a codec (wire.codec) has both",
                          handle->path, ops->wire ? "wire" : "wire_bytes",
                          ops->wire ? "wire_bytes" : "wire");
    return CADRE_OK;
}

cadre_status cadre_plugin_check(const struct cadre_plugin *found,
                                struct cadre_plugin_handle *handle,
                                struct cadre_error *err)
{
    if (!found)
        return cadre_fail(err, CADRE_E_INVALID,
                          "the plugin '%s' returns no descriptor: " CADRE_ENTRY_NAME
                          " must return a static object",
                          handle->path);
    CADRE_TRY(check_version(found, handle->path, err));
    cadre_struct_copy(&handle->desc, sizeof handle->desc, found, found->struct_size);
    handle->desc.struct_size = sizeof handle->desc;
    CADRE_TRY(check_id(handle, err));
    CADRE_TRY(check_texts(handle, err));
    CADRE_TRY(check_services(handle, err));
    CADRE_TRY(check_ops(handle, err));
    return cadre_plugin_check_options(handle, err);
}
