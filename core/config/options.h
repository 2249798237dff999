/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a run: every key, its value, and who set it.
 *
 * Life: create (core table) -> load -> set (environment, command line) -> apply_run,
 * where a comparison has one -> raw("strategy.stack") says which plugins to open ->
 * add of each -> resolve -> struct cadre_config (config.h). Later assignments win.
 * Anything that changes the set after resolve asks for another resolve. Names are
 * "section.key", in lower case. Building a set: [one thread]. Reading a resolved one:
 * [any thread]. */
#ifndef CADRE_CONFIG_OPTIONS_H
#define CADRE_CONFIG_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cadre/strategy.h>

#include "core/base/error.h"

struct cadre_options;

/* A value that was checked. */
struct cadre_option_value {
    uint32_t type; /* CADRE_OPTION_* */
    const char *text; /* as it was written; borrowed until the set changes */
    int64_t i; /* I64, BYTES; BOOL: 0 or 1; ENUM: the index into `choices` */
    double f; /* F64 */
};

/* A set that holds the core table, everything at its default. *out is owned by the
 * caller (destroy; NULL is allowed there). Errors: CADRE_E_RESOURCE. */
cadre_status cadre_options_create(struct cadre_options **out, struct cadre_error *err);

/* A deep copy, or NULL where there is no memory. */
struct cadre_options *cadre_options_clone(const struct cadre_options *options);
void cadre_options_destroy(struct cadre_options *options);

/* Add a table of n options, `stride` bytes apart, under a section; a plugin's is its
 * name, and "name@axis" that of one instance, whose values are those of the section
 * "name" until they are set. The table and its texts are borrowed for as long as the
 * set or a copy of it lives. A key that exists already with the same type and default
 * is left alone. Errors: CADRE_E_INVALID for a key that exists otherwise or a default
 * that its own rules refuse. */
cadre_status cadre_options_add(struct cadre_options *options, const char *section,
                               const struct cadre_option *table, size_t n,
                               size_t stride, struct cadre_error *err);

/* Accept [section] without checking its keys: it belongs to a plugin that exists but is
 * not part of this run. "name@" accepts the "name@axis" that nobody added, but
 * that the stack of a [run:NAME] names, or that strategy.stack named before it was set
 * again: any other is unknown. */
cadre_status cadre_options_allow_section(struct cadre_options *options,
                                         const char *section, struct cadre_error *err);

/* Read an ini file over the set. The file's run.extends (relative to the file) is read
 * first; a cycle is refused. data.path, data.tokenizer, model.init, the folders of
 * strategy.plugin_path and paths in strategy.stack are relative to the file if there is
 * such a file or folder, else to the working directory. Values stay raw until resolve.
 * On failure the set may hold part of the file. Errors: CADRE_E_INVALID, CADRE_E_IO;
 * "file:line: ...". */
cadre_status cadre_options_load(struct cadre_options *options, const char *path,
                                struct cadre_error *err);

/* Apply "section.key=value"; source says who ("command line", "environment CADRE_X").
 */
cadre_status cadre_options_set(struct cadre_options *options, const char *assignment,
                               const char *source, struct cadre_error *err);

/* The text of a value or of its default, before or after resolve; NULL where no such
 * key is known and none was set. Borrowed until the set changes. */
const char *cadre_options_raw(const struct cadre_options *options, const char *name);

/* Check that every key set is known and every value is of its type, in its range, one
 * of its choices. Errors: CADRE_E_INVALID naming where, what was expected, and the
 * nearest key. */
cadre_status cadre_options_resolve(struct cadre_options *options,
                                   struct cadre_error *err);

/* The value of a key whose name is not known before the run, such as a plugin's; after
 * resolve. NULL for an unknown name. The core's own keys are fields of struct
 * cadre_config. Borrowed until the set changes. */
const struct cadre_option_value *
cadre_options_value(const struct cadre_options *options, const char *name);

/* Who set it: "default", "conf/x.ini:12", "command line", ...; NULL for an unknown
 * name. */
const char *cadre_options_source(const struct cadre_options *options, const char *name);

/* The first option from number *at on that the command line set and no plugin of the
 * run takes, and *at behind it; NULL where there is no more, or where the file has runs
 * of which another may take it. Zero *at first. */
const char *cadre_options_idle(const struct cadre_options *options, size_t *at);

/* Call `each` with every known option and the text of its value, in the order of their
 * declaration. */
void cadre_options_each(const struct cadre_options *options,
                        void (*each)(void *arg, const char *section,
                                     const struct cadre_option *option,
                                     const char *value),
                        void *arg);

/* How config.ini begins, on a line of its own that goes on. */
#define CADRE_OPTIONS_HEAD "# Every option of this run, and who set it."

/* Write every value with its source as a comment, and the [run:NAME] sections. Reading
 * the file back gives the same values. Errors: CADRE_E_IO. */
cadre_status cadre_options_write(const struct cadre_options *options, FILE *file,
                                 struct cadre_error *err);

/* Write what was set, of every section, and nothing that was not: the keys of plugins
 * that are not open yet too. What the command line set is taken out of [run:NAME]
 * sections, as it wins over them. Errors: CADRE_E_IO. */
cadre_status cadre_options_write_set(const struct cadre_options *options, FILE *file,
                                     struct cadre_error *err);

/* cadre_options_write without the [run:NAME] sections; the caller checks the file. */
void cadre_options_write_values(const struct cadre_options *options, FILE *file);

/* What `cadre options` shows. */
struct cadre_options_view {
    /* of the options to show: part of "section.key", of the help or of a name in
     * another program (foreign.h), in any case; with *, ? or [ a pattern of the shell
     * for the whole of one of them. NULL: all */
    const char *pattern;
    int columns; /* where lines are broken; 0: nowhere */
};

/* The reference: key, help, type, range, default; with a pattern also names of other
 * programs. *shown: how many options it shows. Errors: CADRE_E_RESOURCE, with a part of
 * the reference written. */
cadre_status cadre_options_print_reference(const struct cadre_options *options,
                                           const struct cadre_options_view *view,
                                           FILE *file, size_t *shown,
                                           struct cadre_error *err);

/* The same as an array of objects: key, type, expected, default, min, max, choices,
 * help, elsewhere. Errors: CADRE_E_IO. */
cadre_status cadre_options_print_json(const struct cadre_options *options,
                                      const struct cadre_options_view *view, FILE *file,
                                      struct cadre_error *err);

/* Make the runs of compare.vary: "KEY: VALUES; KEY: VALUES", a [run:NAME] for each
 * element of the product, behind those that are there; key_values.h says how values are
 * divided. NAME is made of the values ("ddp-2_seed-1"), has at most 52 characters and
 * is that of no other run made here. A section of that name may hold more, but no other
 * value. Nothing where compare.vary is empty. Errors: CADRE_E_INVALID. */
cadre_status cadre_options_vary(struct cadre_options *options, struct cadre_error *err);

/* The runs of a comparison: the names in compare.runs in that order, or, where it is
 * empty, every [run:NAME] in the order of the file. *names is one allocation (free it)
 * holding n pointers and their text. Errors: CADRE_E_INVALID for a name without a
 * [run:NAME], a name given twice, or no run at all. */
cadre_status cadre_options_list_runs(const struct cadre_options *options, char ***names,
                                     size_t *n, struct cadre_error *err);

/* Call `each` with the text of `name` in every [run:NAME] that sets it. */
void cadre_options_each_run(const struct cadre_options *options, const char *name,
                            void (*each)(void *arg, const char *value), void *arg);

/* Check what [run:NAME] shares with other runs, before its overrides are set: all that
 * the file and the command line set in sections of the core, but for keys that it
 * overrides. Errors: as resolve. */
cadre_status cadre_options_check_shared(const struct cadre_options *options,
                                        const char *name, struct cadre_error *err);

/* Set every override of [run:NAME]. They win over the file and the command line, and
 * ask for a resolve. Errors: CADRE_E_INVALID for an unknown name, listing those that
 * exist. */
cadre_status cadre_options_apply_run(struct cadre_options *options, const char *run,
                                     struct cadre_error *err);

#endif
