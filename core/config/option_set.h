/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of struct cadre_options, for the options_*.c files alone. */
#ifndef CADRE_CONFIG_OPTION_SET_H
#define CADRE_CONFIG_OPTION_SET_H

#include "core/config/option_value.h"

/* What a key of the core is in struct cadre_config. */
enum cadre_config_field {
    CADRE_FIELD_BOOL,
    CADRE_FIELD_I64,
    CADRE_FIELD_F64,
    CADRE_FIELD_TEXT, /* STR, and an ENUM that is handed on by name */
    CADRE_FIELD_CHOICE, /* ENUM: an enum in the order of the option's choices */
};

struct cadre_config_key {
    const char *section;
    struct cadre_option option;
    size_t offset; /* in struct cadre_config */
    enum cadre_config_field field;
};

/* The core table (option_table.c), *n entries of static storage. A set begins with
 * them, in this order. */
const struct cadre_config_key *cadre_option_table(size_t *n);

/* A known key. What was declared is borrowed: the core's table and plugins stay. */
struct option {
    char *section; /* owned */
    struct cadre_option decl;
    char *name; /* "section.key" */
    struct cadre_option_value value;
};

/* A value that was set, for a known or an unknown key; owns its texts. */
struct assignment {
    char *name, *value, *source;
    bool by_default; /* its file says that nobody set it (cadre_ini_entry) */
};

/* A growing list of assignments, at most one a name. */
struct assignments {
    struct assignment *items;
    size_t n;
};

/* [run:NAME]. */
struct run {
    char *name;
    struct assignments set;
};

struct cadre_options {
    struct option *known;
    size_t known_n;
    struct assignments set;
    struct run *runs;
    size_t runs_n;
    size_t applied; /* the run whose values were taken, from 1; 0: none */
    struct assignments sections; /* that files open: their names and first sources */
    struct assignments allowed; /* sections whose keys are not checked: their names */
    struct assignments stacks; /* former texts of strategy.stack */
    bool resolved;
};

/* NULL where there is none. */
struct option *cadre_option_find(const struct cadre_options *options, const char *name);
const struct assignment *cadre_assignment_find(const struct assignments *set,
                                               const char *name);
struct run *cadre_run_find(const struct cadre_options *options, const char *name);
/* What was set for a key; for one of "plugin@axis" that was not, what was set for the
 * plugin. NULL where nothing was. */
const struct assignment *cadre_assignment_of(const struct cadre_options *options,
                                             const char *name);
/* Is there a known key in the section? */
bool cadre_section_declared(const struct cadre_options *options, const char *section);

/* Does a [run:NAME] have [section], that of an instance ("plugin@axis"), in its stack?
 * `former`: or did strategy.stack name it before another text took its place? */
bool cadre_instance_elsewhere(const struct cadre_options *options, const char *section,
                              bool former);

/* Set an option of the run itself, as cadre_assignments_set. */
bool cadre_option_put(struct cadre_options *options, const char *name,
                      const char *value, const char *source);

/* Set or replace; false where there is no memory. */
bool cadre_assignments_set(struct assignments *set, const char *name, const char *value,
                           const char *source);
/* Note of what was set for `name` that its file gives it as a default. */
void cadre_assignments_mark_default(struct assignments *set, const char *name);
void cadre_assignments_fini(struct assignments *set);

/* Set `name` ("section.key") in [run:run_name], making that where it is new (name NULL:
 * only that); false where there is no memory. */
bool cadre_run_set(struct cadre_options *options, const char *run_name,
                   const char *name, const char *value, const char *source);
void cadre_run_fini(struct run *run);

/* Check one assignment against what was declared. The error of an unknown key names the
 * nearest one. A key of an allowed section passes. */
cadre_status cadre_option_check(const struct cadre_options *options,
                                const struct assignment *a, struct cadre_error *err);

/* Check the overrides whose section is known by now: those of the run that was applied,
 * else of every [run:NAME], whose errors are not those of another run. */
cadre_status cadre_runs_check(const struct cadre_options *options,
                              struct cadre_error *err);

/* "out of memory" as an error. */
cadre_status cadre_options_no_memory(struct cadre_error *err);

#endif
