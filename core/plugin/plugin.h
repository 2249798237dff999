/* SPDX-License-Identifier: Apache-2.0 */
/* Strategy plugins as files: find, check, load. A plugin is checked as a file before
 * dlopen (a truncated object is a SIGBUS inside dlopen), then as a descriptor; every
 * refusal says what was expected, what was found and what to do. Never unloaded. */
#ifndef CADRE_PLUGIN_PLUGIN_H
#define CADRE_PLUGIN_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>

#include <cadre/strategy.h>

#include "core/base/error.h"
#include "core/config/options.h"

/* A loaded plugin; process-wide, never freed. `desc` and `ops` are copies made with the
 * smaller of both sides' sizes, the rest zero. */
struct cadre_plugin_handle {
    char name[32]; /* the short name: last part of the id */
    char path[1024];
    uint64_t digest; /* of the file's bytes */
    struct cadre_plugin desc;
    struct cadre_strategy_ops ops;
};

/* Is text one or more of [a-z0-9_], not starting with a digit? */
bool cadre_plugin_is_name(const char *text);

/* Longest short name. */
#define CADRE_PLUGIN_NAME_CHARS 31

/* Is it a name of the core, such as an ini section, which no plugin may have? */
bool cadre_plugin_is_reserved(const char *name);

/* Copy a struct that may be of another minor version: the smaller of both sizes is
 * copied, the rest of `to` is zero. */
void cadre_struct_copy(void *to, size_t to_bytes, const void *from, size_t from_bytes);

/* Load by path (contains '/') or by short name, searched in strategy.plugin_path,
 * CADRE_PLUGIN_PATH (both colon-separated), the user's own folder
 * (XDG_DATA_HOME/cadre/plugins or ~/.local/share/cadre/plugins), the build tree's or
 * the install prefix's plugin folder, found from the program's own file. Loading a file
 * twice returns the same handle; two files with one id are refused, and the error names
 * both. So is a file that is found in place of one of Cadre's own and has another id.
 * [any thread] Errors: CADRE_E_INVALID with the reason in words (not a regular file,
 * not ELF, wrong machine, truncated, dlopen's text, no entry symbol, the symbol of
 * another object, bad magic, wrong major, needs a newer host, struct too small, missing
 * slot, malformed id, unknown service, option table nonsense, not found: the folders
 * searched and the nearest name). */
cadre_status cadre_plugin_load(const char *name, const char *plugin_path,
                               const struct cadre_plugin_handle **out,
                               struct cadre_error *err);

/* Add the plugin's option table to `options` under its short name. */
cadre_status cadre_plugin_add_options(const struct cadre_plugin_handle *plugin,
                                      struct cadre_options *options,
                                      struct cadre_error *err);

/* The same, and under the name of an instance where that is another ("ddp@site"): what
 * is not set there is that of the short name. */
cadre_status cadre_plugin_add_instance_options(const struct cadre_plugin_handle *plugin,
                                               const char *instance,
                                               struct cadre_options *options,
                                               struct cadre_error *err);

/* Accept the sections that a file may have of plugins that are not part of the run,
 * [NAME] and [NAME@AXIS]: of every plugin that strategy.plugin_path finds, and of those
 * that the stack of a [run:NAME] names by their path. Of the n in `used` only
 * [NAME@AXIS] is, as the run checks their own sections. Errors: CADRE_E_RESOURCE. */
cadre_status cadre_plugin_allow_sections(const struct cadre_plugin_handle *const *used,
                                         int n, struct cadre_options *options,
                                         struct cadre_error *err);

/* The values of an instance's section after resolve; `options`, `instance` and
 * `failure` must outlive the values. A key that the plugin does not have, or of another
 * type, is recorded in `failure` unless there is one already; the answer is then 0 or
 * "". The h pointer is a heap object freed by cadre_plugin_values_fini. */
cadre_status cadre_plugin_values_init(const struct cadre_plugin_handle *plugin,
                                      const char *instance,
                                      const struct cadre_options *options,
                                      struct cadre_error *failure,
                                      struct cadre_values *values,
                                      struct cadre_error *err);
void cadre_plugin_values_fini(struct cadre_values *values);

/* "/a/b.check.json" of the plugin "/a/b.so": where `cadre check` records its level. A
 * heap string; NULL: no memory. */
char *cadre_plugin_record_path(const char *plugin);

/* Short names of all plugins found in the search folders, sorted; each a heap string in
 * a heap array ended by NULL. NULL: no memory, no
 * descriptors, or a broken disk. */
char **cadre_plugin_list(const char *plugin_path);

#endif
