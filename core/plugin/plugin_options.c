/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin's option table: checked at load, added to the run's options under the
 * plugin's short name and those of its instances, and read back by the plugin through
 * cadre_values. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/config/option_value.h"
#include "core/plugin/plugin_private.h"
#include "core/plugin/stack.h"

#define MIN_OPTION_BYTES 64u /* in ABI 0.1 */
#define MAX_OPTIONS 256u
#define MAX_KEY 63

/* A copy of entry i, whatever minor version the plugin was built for. */
static struct cadre_option option_at(const struct cadre_plugin *desc, uint32_t i)
{
    return cadre_option_at(desc->options, i, desc->option_stride);
}

static cadre_status check_table(const struct cadre_plugin_handle *handle,
                                struct cadre_error *err)
{
    const struct cadre_plugin *desc = &handle->desc;
    if (desc->n_options > MAX_OPTIONS || !desc->options)
        return cadre_fail(err, CADRE_E_INVALID,
                          "the plugin '%s' declares %u options %s: expected at most "
                          "%u",
                          handle->path, desc->n_options,
                          desc->options ? "" : "but no table of them", MAX_OPTIONS);
    if (desc->option_stride < MIN_OPTION_BYTES || desc->option_stride % 8 ||
        desc->option_stride > 4096)
        return cadre_fail(err, CADRE_E_INVALID,
                          "the plugin '%s' has options of %u bytes each, expected at "
                          "least %u: set option_stride = sizeof(struct cadre_option)",
                          handle->path, desc->option_stride, MIN_OPTION_BYTES);
    return CADRE_OK;
}

static cadre_status check_key(const struct cadre_plugin_handle *handle, uint32_t i,
                              struct cadre_error *err)
{
    struct cadre_option option = option_at(&handle->desc, i);
    if (!cadre_plugin_is_name(option.key) || strlen(option.key) > MAX_KEY)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "the plugin '%s' has the option key '%.64s': expected 1 to %d "
            "of [a-z0-9_], not starting with a digit",
            handle->path, option.key ? option.key : "(none)", MAX_KEY);
    for (uint32_t k = 0; k < i; k++)
        if (!strcmp(option_at(&handle->desc, k).key, option.key))
            return cadre_fail(err, CADRE_E_INVALID,
                              "the plugin '%s' has the option '%s' twice", handle->path,
                              option.key);
    return CADRE_OK;
}

static cadre_status check_option(const struct cadre_plugin_handle *handle, uint32_t i,
                                 struct cadre_error *err)
{
    struct cadre_option option = option_at(&handle->desc, i);
    CADRE_TRY(check_key(handle, i, err));
    if (option.type < CADRE_OPTION_BOOL || option.type > CADRE_OPTION_BYTES)
        return cadre_fail(err, CADRE_E_INVALID,
                          "the plugin '%s' has the option '%s' of type %u, expected %u "
                          "to %u",
                          handle->path, option.key, option.type, CADRE_OPTION_BOOL,
                          CADRE_OPTION_BYTES);
    if (!option.def || !option.help || strpbrk(option.help, "\r\n"))
        return cadre_fail(
            err, CADRE_E_INVALID, "the plugin '%s' has the option '%s' without %s",
            handle->path, option.key, option.def ? "one line of help" : "a default");
    if ((option.type == CADRE_OPTION_ENUM) != (option.choices != NULL))
        return cadre_fail(err, CADRE_E_INVALID,
                          "the plugin '%s' has the option '%s' %s", handle->path,
                          option.key,
                          option.choices ? "with choices, which only ENUM takes"
                                         : "of type ENUM without choices");
    if (!isfinite(option.min) || !isfinite(option.max) || option.min > option.max)
        return cadre_fail(err, CADRE_E_INVALID,
                          "the plugin '%s' has the option '%s' with the range %g to %g",
                          handle->path, option.key, option.min, option.max);
    return CADRE_OK;
}

cadre_status cadre_plugin_add_options(const struct cadre_plugin_handle *plugin,
                                      struct cadre_options *options,
                                      struct cadre_error *err)
{
    const struct cadre_plugin *desc = &plugin->desc;
    return cadre_options_add(options, plugin->name, desc->options, desc->n_options,
                             desc->option_stride, err);
}

cadre_status cadre_plugin_add_instance_options(const struct cadre_plugin_handle *plugin,
                                               const char *instance,
                                               struct cadre_options *options,
                                               struct cadre_error *err)
{
    const struct cadre_plugin *desc = &plugin->desc;
    CADRE_TRY(cadre_plugin_add_options(plugin, options, err));
    if (strcmp(instance, plugin->name) == 0)
        return CADRE_OK;
    return cadre_options_add(options, instance, desc->options, desc->n_options,
                             desc->option_stride, err);
}

/* ---- sections of plugins that are not part of the run ---- */

struct allowing {
    const struct cadre_plugin_handle *const *used;
    int n;
    struct cadre_options *options;
    cadre_status rc;
    struct cadre_error *err;
};

static cadre_status allow_sections_of(const struct allowing *a, const char *name)
{
    char any[64];
    bool used = false;
    for (int i = 0; i < a->n; i++)
        used |= !strcmp(a->used[i]->name, name);
    if (!used)
        CADRE_TRY(cadre_options_allow_section(a->options, name, a->err));
    snprintf(any, sizeof any, "%.60s@", name);
    return cadre_options_allow_section(a->options, any, a->err);
}

/* Its stack is checked where it is used. */
static void allow_plugins_by_path(void *arg, const char *text)
{
    struct allowing *a = arg;
    struct cadre_stack stack;
    if (cadre_stack_parse(text, &stack, NULL) != CADRE_OK)
        return;
    for (int i = 0; i < stack.n && a->rc == CADRE_OK; i++) {
        char name[32];
        const char *file = cadre_path_basename(stack.entry[i].path);
        size_t length = strcspn(file, ".");
        if (length == 0 || length >= sizeof name)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)length, file);
        a->rc = allow_sections_of(a, name);
    }
}

cadre_status cadre_plugin_allow_sections(const struct cadre_plugin_handle *const *used,
                                         int n, struct cadre_options *options,
                                         struct cadre_error *err)
{
    struct allowing a = {used, n, options, CADRE_OK, err};
    char **names =
        cadre_plugin_list(cadre_options_raw(options, "strategy.plugin_path"));
    if (!names)
        return cadre_fail(err, CADRE_E_RESOURCE,
                          "the plugins, whose sections a file may have, cannot be "
                          "listed: no memory, or a file of theirs cannot be read");
    for (char **name = names; *name; name++) {
        if (a.rc == CADRE_OK)
            a.rc = allow_sections_of(&a, *name);
        free(*name);
    }
    free(names);
    if (a.rc == CADRE_OK)
        cadre_options_each_run(options, "strategy.stack", allow_plugins_by_path, &a);
    return a.rc;
}

/* ---- what a plugin declares ---- */

/* Defaults are checked by adding them to a temporary set of options. */
cadre_status cadre_plugin_check_options(const struct cadre_plugin_handle *handle,
                                        struct cadre_error *err)
{
    struct cadre_options *scratch = NULL;
    cadre_status rc = CADRE_OK;
    if (handle->desc.n_options == 0)
        return CADRE_OK;
    CADRE_TRY_OR(check_table(handle, err), fail);
    for (uint32_t i = 0; i < handle->desc.n_options; i++)
        CADRE_TRY_OR(check_option(handle, i, err), fail);
    CADRE_TRY_OR(cadre_options_create(&scratch, err), fail);
    rc = cadre_plugin_add_options(handle, scratch, err);
    if (rc)
        cadre_error_prefix(err, "the plugin '%s'", handle->path);
fail:
    cadre_options_destroy(scratch);
    return rc;
}

/* What values->h points at. */
struct section {
    const struct cadre_plugin_handle *plugin;
    const char *instance;
    const struct cadre_options *options;
    struct cadre_error *failure;
};

/* "width, mode" */
static void list_keys(const struct cadre_plugin *desc, struct cadre_text *out)
{
    for (uint32_t i = 0; i < desc->n_options; i++)
        cadre_text_printf(out, "%s%s", i ? ", " : "", option_at(desc, i).key);
}

/* Asking for what the table does not have is a bug of the plugin, which would train
 * with another value than the user's. */
static void refuse(const struct section *section, const char *key, bool known)
{
    struct cadre_text keys = {0};
    list_keys(&section->plugin->desc, &keys);
    if (section->failure->code == CADRE_OK)
        cadre_fail(section->failure, CADRE_E_INVALID,
                   "plugin '%s' in create or plan: it asks for its option '%.64s'%s; "
                   "expected a key of its table: %.400s",
                   section->instance, key ? key : "(NULL)",
                   known ? " as a value of another type" : ", which it does not have",
                   keys.len ? cadre_text_str(&keys) : "(it has none)");
    cadre_text_fini(&keys);
}

/* The plugin's value of one of the types (a set of bits), or NULL, recorded. */
static const struct cadre_option_value *find(const void *h, const char *key,
                                             uint32_t types)
{
    const struct section *section = h;
    const struct cadre_option_value *value = NULL;
    char name[160];
    int n = section && key
                ? snprintf(name, sizeof name, "%s.%s", section->instance, key)
                : 0;
    if (!section) {
        cadre_log(CADRE_LOG_ERROR, "plugin",
                  "a plugin asks for the option '%s' with NULL in place of values->h",
                  key ? key : "(NULL)");
        return NULL;
    }
    if (n > 0 && (size_t)n < sizeof name)
        value = cadre_options_value(section->options, name);
    if (value && (types & 1u << value->type))
        return value;
    refuse(section, key, value != NULL);
    return NULL;
}

static int64_t value_i64(const void *h, const char *key)
{
    const struct cadre_option_value *value = find(
        h, key,
        1u << CADRE_OPTION_I64 | 1u << CADRE_OPTION_BYTES | 1u << CADRE_OPTION_BOOL);
    return value ? value->i : 0;
}

static double value_f64(const void *h, const char *key)
{
    const struct cadre_option_value *value = find(h, key, 1u << CADRE_OPTION_F64);
    return value ? value->f : 0;
}

static const char *value_str(const void *h, const char *key)
{
    const struct cadre_option_value *value =
        find(h, key, 1u << CADRE_OPTION_STR | 1u << CADRE_OPTION_ENUM);
    return value ? value->text : "";
}

cadre_status cadre_plugin_values_init(const struct cadre_plugin_handle *plugin,
                                      const char *instance,
                                      const struct cadre_options *options,
                                      struct cadre_error *failure,
                                      struct cadre_values *values,
                                      struct cadre_error *err)
{
    struct section *section = cadre_calloc(1, sizeof *section);
    memset(values, 0, sizeof *values);
    if (!section)
        return cadre_no_memory(err, "the options of '%s'", instance);
    *section = (struct section){plugin, instance, options, failure};
    *values = (struct cadre_values){
        .struct_size = sizeof *values,
        .h = section,
        .i64 = value_i64,
        .f64 = value_f64,
        .str = value_str,
    };
    return CADRE_OK;
}

void cadre_plugin_values_fini(struct cadre_values *values)
{
    free((void *)(uintptr_t)values->h);
    memset(values, 0, sizeof *values);
}
