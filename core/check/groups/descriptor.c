/* SPDX-License-Identifier: Apache-2.0 */
/* The descriptor as the file has it, before the loader has looked at it; and what the
 * plugin does with structs of other sizes. */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/check/groups/groups.h"
#include "core/config/options.h"

typedef const struct cadre_plugin *entry_fn(void);

static entry_fn *find_entry(struct cadre_case *c)
{
    char path[PATH_MAX];
    entry_fn *entry = NULL;
    if (!cadre_case_file(c, path, sizeof path))
        return NULL;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, CADRE_ENTRY_NAME) : NULL;
    memcpy(&entry, &symbol, sizeof entry);
    if (!entry)
        cadre_case_fail(c, "does not load");
    return entry;
}

static const struct cadre_plugin *find_plugin(struct cadre_case *c)
{
    entry_fn *entry = find_entry(c);
    const struct cadre_plugin *plugin = entry ? entry() : NULL;
    if (entry && !plugin)
        cadre_case_fail(c, CADRE_ENTRY_NAME " returns NULL: expected a static object");
    return plugin;
}

/* ---- D1 ---- */

static void pure(struct cadre_case *c)
{
    const struct cadre_plugin *found[3];
    struct cadre_plugin first;
    entry_fn *entry = find_entry(c);
    for (int i = 0; entry && i < 3; i++) {
        found[i] = entry();
        if (!found[i]) {
            cadre_case_fail(c, CADRE_ENTRY_NAME " returns NULL");
            return;
        }
        if (i == 0)
            memcpy(&first, found[0], sizeof first);
        else if (found[i] != found[0])
            cadre_case_fail(c,
                            "call %d of " CADRE_ENTRY_NAME
                            " returns another object than the first: return one static "
                            "const object",
                            i + 1);
        else if (memcmp(&first, found[i], sizeof first) != 0)
            cadre_case_fail(c, "call %d of " CADRE_ENTRY_NAME " changed the descriptor",
                            i + 1);
    }
}

/* ---- D2 ---- */

static void sizes(struct cadre_case *c)
{
    const struct cadre_plugin *plugin = find_plugin(c);
    if (!plugin)
        return;
    if (plugin->magic != CADRE_MAGIC)
        cadre_case_fail(c, "the magic number is not CADRE_MAGIC");
    else if (plugin->abi_major != CADRE_ABI_MAJOR ||
             plugin->abi_minor != CADRE_ABI_MINOR)
        cadre_case_fail(c, "was built for plugin ABI %u.%u, this program has %u.%u",
                        plugin->abi_major, plugin->abi_minor, CADRE_ABI_MAJOR,
                        CADRE_ABI_MINOR);
    else if (plugin->struct_size != sizeof *plugin)
        cadre_case_fail(c, "struct_size of the descriptor is %u, its headers have %zu",
                        plugin->struct_size, sizeof *plugin);
    else if (!plugin->ops)
        cadre_case_fail(c, "has no table of ops");
    else if (plugin->ops->struct_size != sizeof *plugin->ops)
        cadre_case_fail(
            c,
            "struct_size of the ops is %u, its headers have %zu: set it with "
            "sizeof, or the host does not see the last functions",
            plugin->ops->struct_size, sizeof *plugin->ops);
    else if (plugin->min_host_minor > plugin->abi_minor)
        cadre_case_fail(c, "needs a host of ABI %u.%u, newer than its own headers",
                        plugin->abi_major, plugin->min_host_minor);
    else if (!plugin->ops->create || !plugin->ops->plan || !plugin->ops->bind ||
             !plugin->ops->sync || !plugin->ops->destroy)
        cadre_case_fail(c, "create, plan, bind, sync and destroy are required");
    else if (plugin->n_options && plugin->option_stride != sizeof *plugin->options)
        cadre_case_fail(c, "option_stride is %u, sizeof(struct cadre_option) is %zu",
                        plugin->option_stride, sizeof *plugin->options);
}

/* ---- D3 ---- */

static bool is_line(const char *text)
{
    return text && *text && !strpbrk(text, "\r\n");
}

static bool is_id(const char *id)
{
    const char *last = id ? strrchr(id, '.') : NULL;
    return last && last != id && *id != '.' && !strstr(id, "..") && strlen(id) < 128 &&
           strlen(last + 1) < 32 &&
           id[strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789_-.")] == 0 &&
           cadre_plugin_is_name(last + 1);
}

static void names(struct cadre_case *c)
{
    const struct cadre_plugin *plugin = find_plugin(c);
    if (!plugin)
        return;
    bool lone =
        plugin->role == CADRE_ROLE_OBSERVER || plugin->role == CADRE_ROLE_OPTIMIZER;
    if (!is_id(plugin->id))
        cadre_case_fail(c, "the id '%.130s' is no org.example.name of at most 127",
                        plugin->id ? plugin->id : "(none)");
    if (!is_line(plugin->version) || !is_line(plugin->summary))
        cadre_case_fail(c, "version and summary are one line each");
    if (plugin->role < CADRE_ROLE_PLACEMENT || plugin->role > CADRE_ROLE_OPTIMIZER)
        cadre_case_fail(c, "has the role %u", plugin->role);
    if (plugin->role == CADRE_ROLE_OPTIMIZER && plugin->axis)
        cadre_case_fail(c, "an OPTIMIZER has no axis, and this one has '%.40s'",
                        plugin->axis);
    else if (plugin->axis ? !cadre_plugin_is_name(plugin->axis) ||
                                strlen(plugin->axis) >= CADRE_AXIS_CHARS
                          : !lone)
        cadre_case_fail(c, "the axis '%.40s' is no name of fewer than %u letters",
                        plugin->axis ? plugin->axis : "(none)", CADRE_AXIS_CHARS);
}

/* ---- D4 ---- */

static void check_option(struct cadre_case *c, const struct cadre_option *option)
{
    struct cadre_error err = {0};
    struct cadre_options *set = NULL;
    const char *key = option->key && *option->key ? option->key : "(none)";
    if (!is_line(option->help))
        cadre_case_fail(c, "the option '%s' has no line of help", key);
    if (!option->def) {
        cadre_case_fail(c, "the option '%s' has no default", key);
        return;
    }
    bool good =
        option->key && cadre_options_create(&set, &err) == CADRE_OK &&
        cadre_options_add(set, "plugin", option, 1, sizeof *option, &err) == CADRE_OK &&
        cadre_options_resolve(set, &err) == CADRE_OK;
    cadre_options_destroy(set);
    if (!good)
        cadre_case_fail(c, "the option '%s': %s", key,
                        err.text[0] ? err.text : "it has no key");
}

static void options(struct cadre_case *c)
{
    const struct cadre_plugin *plugin = find_plugin(c);
    const char *at = plugin ? (const char *)plugin->options : NULL;
    if (plugin && plugin->n_options && !at)
        cadre_case_fail(c, "has %u options and no table of them", plugin->n_options);
    for (uint32_t i = 0; at && i < plugin->n_options; i++) {
        struct cadre_option copy = {0};
        cadre_struct_copy(&copy, sizeof copy, at + (size_t)i * plugin->option_stride,
                          plugin->option_stride);
        check_option(c, &copy);
    }
}

/* ---- D5 ---- */

#define SIZES 32u

static bool try_size(struct cadre_case *c, const struct cadre_plugin_handle *plugin,
                     uint32_t extra, uint32_t missing)
{
    struct cadre_rehearsal_setup setup = {
        .plugin = plugin,
        .ranks = plugin->desc.axis ? 2 : 1,
        .seed = c->seed,
        .steps = 1,
        .walled = true,
        .extra = extra,
        .missing = missing,
    };
    struct cadre_rehearsal_report report;
    if (!cadre_case_rehearse(c, &setup, &report))
        return false;
    bool refused =
        report.end == CADRE_REHEARSAL_REFUSED || report.end == CADRE_REHEARSAL_BEYOND;
    if (extra && report.end == CADRE_REHEARSAL_FAILED)
        cadre_case_fail(c, "structs of the host that are %u bytes longer: %s", extra,
                        report.text);
    if (missing && !refused && report.end != CADRE_REHEARSAL_DONE)
        cadre_case_fail(c,
                        "services that lack the last %u bytes: %s; read struct_size "
                        "before calling a function, as cadre_services_take does",
                        missing, report.text);
    return !c->failing;
}

/* A struct ends at a page that cannot be read: who reads or copies beyond it crashes,
 * and the kit says so. */
static void other_sizes(struct cadre_case *c)
{
    const struct cadre_plugin_handle *plugin = cadre_case_plugin(c);
    struct cadre_rehearsal_setup today = {.plugin = plugin,
                                          .ranks = plugin && plugin->desc.axis ? 2 : 1,
                                          .seed = c->seed,
                                          .steps = 1};
    struct cadre_rehearsal_report report;
    if (!plugin || !cadre_case_rehearse(c, &today, &report))
        return;
    if (report.end == CADRE_REHEARSAL_FAILED) {
        cadre_case_unsupported(c, "not to be seen behind another failure: %s",
                               report.text);
        return;
    }
    if (!try_size(c, plugin, 0, 0))
        return;
    for (uint32_t i = 1; i <= SIZES; i++)
        if (!try_size(c, plugin, 8 * i, 0) || !try_size(c, plugin, 0, 8 * i))
            return;
    cadre_case_note(c, "%u sizes", 2 * SIZES + 1);
}

/* ---- D6 ---- */

static void accepted(struct cadre_case *c)
{
    cadre_case_plugin(c);
}

#define CHECK(ID, NEEDS, TITLE, WHY, RUN)                                              \
    {                                                                                  \
        .id = ID, .group = "descriptor", .title = TITLE, .why = WHY,                   \
        .see = "docs/check.md", .level = CADRE_LEVEL_LOADABLE, .needs = NEEDS,         \
        .run = RUN                                                                     \
    }

static const struct cadre_check checks[] = {
    CHECK("D1", "L6", "the entry returns one constant object",
          "Each rank that is a thread asks again, and keeps what it got.", pure),
    CHECK("D2", "L6", "sizes and versions are those of its headers",
          "A size that is too small hides functions, one that is too large is read "
          "beyond the end.",
          sizes),
    CHECK("D3", "L6", "id, role, axis and texts follow their grammar",
          "Longer names are refused in a stack, not when you tried it alone.", names),
    CHECK("D4", "L6", "options have valid defaults and a line of help",
          "A default that is refused makes every ini without the key wrong.", options),
    CHECK("D5", "D6", "structs of other sizes are read within their size",
          "A later host has longer structs, and that must do nothing.", other_sizes),
    CHECK("D6", "L6", "this program accepts the descriptor",
          "A plugin that is refused cannot be checked further.", accepted),
};

const struct cadre_check_group cadre_check_descriptor = {
    "descriptor", checks, sizeof checks / sizeof checks[0]};
