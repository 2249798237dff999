/* SPDX-License-Identifier: Apache-2.0 */
/* The set of options: what is known, what was assigned, and how the two meet in
 * resolve. */
#include "core/config/options.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/config/foreign.h"
#include "core/config/ini.h"
#include "core/config/nearest.h"
#include "core/config/option_set.h"

static const char STACK[] = "strategy.stack";

cadre_status cadre_options_no_memory(struct cadre_error *err)
{
    return cadre_fail(err, CADRE_E_RESOURCE, "out of memory for the options");
}

/* ---- finding ---- */

struct option *cadre_option_find(const struct cadre_options *options, const char *name)
{
    for (size_t i = 0; i < options->known_n; i++)
        if (strcmp(options->known[i].name, name) == 0)
            return &options->known[i];
    return NULL;
}

const struct assignment *cadre_assignment_find(const struct assignments *set,
                                               const char *name)
{
    for (size_t i = 0; i < set->n; i++)
        if (strcmp(set->items[i].name, name) == 0)
            return &set->items[i];
    return NULL;
}

bool cadre_section_declared(const struct cadre_options *options, const char *section)
{
    for (size_t i = 0; i < options->known_n; i++)
        if (strcmp(options->known[i].section, section) == 0)
            return true;
    return false;
}

const struct assignment *cadre_assignment_of(const struct cadre_options *options,
                                             const char *name)
{
    const struct assignment *own = cadre_assignment_find(&options->set, name);
    const char *at = strchr(name, '@'), *dot = at ? strchr(at, '.') : NULL;
    char plain[256];
    int n =
        dot ? snprintf(plain, sizeof plain, "%.*s%s", (int)(at - name), name, dot) : 0;
    if (own || n <= 0 || (size_t)n >= sizeof plain)
        return own;
    return cadre_assignment_find(&options->set, plain);
}

/* Is `instance` in the text of a stack, "a:2, b@c:2"? */
static bool names_instance(const char *stack, const char *instance)
{
    const size_t n = strlen(instance);
    for (const char *at = stack; at && *at; at += strcspn(at, ",")) {
        at += strspn(at, ", \t");
        if (strncasecmp(at, instance, n) == 0 && strcspn(at + n, ":, \t") == 0)
            return true;
    }
    return false;
}

bool cadre_instance_elsewhere(const struct cadre_options *options, const char *section,
                              bool former)
{
    for (size_t i = 0; i < options->runs_n; i++) {
        const struct assignment *stack =
            cadre_assignment_find(&options->runs[i].set, STACK);
        if (stack && names_instance(stack->value, section))
            return true;
    }
    for (size_t i = 0; former && i < options->stacks.n; i++)
        if (names_instance(options->stacks.items[i].name, section))
            return true;
    return false;
}

/* By its name, or as one of "name@". */
static bool section_allowed(const struct cadre_options *options, const char *section)
{
    const char *at = strchr(section, '@');
    char any[128];
    if (at && !at[1])
        return false;
    snprintf(any, sizeof any, "%.*s", at ? (int)(at - section) + 1 : 0, section);
    return cadre_assignment_find(&options->allowed, section) ||
           (at && cadre_assignment_find(&options->allowed, any) &&
            cadre_instance_elsewhere(options, section, true));
}

static bool section_known(const struct cadre_options *options, const char *section)
{
    return cadre_section_declared(options, section) ||
           section_allowed(options, section);
}

/* ---- building ---- */

static void assignment_fini(struct assignment *a)
{
    free(a->name);
    free(a->value);
    free(a->source);
}

bool cadre_assignments_set(struct assignments *set, const char *name, const char *value,
                           const char *source)
{
    struct assignment new = {cadre_strdup(name), cadre_strdup(value),
                             cadre_strdup(source), false};
    if (!new.name || !new.value || !new.source)
        goto fail;
    struct assignment *old = (struct assignment *)cadre_assignment_find(set, name);
    if (!old) {
        void *grown = cadre_realloc(set->items, set->n + 1, sizeof *set->items);
        if (!grown)
            goto fail;
        set->items = grown;
        set->items[set->n++] = new;
        return true;
    }
    assignment_fini(old);
    *old = new;
    return true;
fail:
    assignment_fini(&new);
    return false;
}

void cadre_assignments_mark_default(struct assignments *set, const char *name)
{
    struct assignment *a = (struct assignment *)cadre_assignment_find(set, name);
    if (a)
        a->by_default = true;
}

bool cadre_option_put(struct cadre_options *options, const char *name,
                      const char *value, const char *source)
{
    const struct assignment *old = cadre_assignment_find(&options->set, name);
    if (old && strcmp(name, STACK) == 0 &&
        !cadre_assignments_set(&options->stacks, old->value, "", ""))
        return false;
    return cadre_assignments_set(&options->set, name, value, source);
}

void cadre_assignments_fini(struct assignments *set)
{
    for (size_t i = 0; i < set->n; i++)
        assignment_fini(&set->items[i]);
    free(set->items);
    memset(set, 0, sizeof *set);
}

/* A key that is there already: the same again is fine, another meaning is not. */
static cadre_status check_same(const struct option *old,
                               const struct cadre_option *decl, struct cadre_error *err)
{
    if (old->decl.type == decl->type && strcmp(old->decl.def, decl->def) == 0)
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID,
                      "option %s is declared twice with different types or defaults: "
                      "rename one of them",
                      old->name);
}

static cadre_status add_option(struct cadre_options *options, const char *section,
                               const struct cadre_option *decl, struct cadre_error *err)
{
    struct cadre_option_value ignored;
    cadre_status rc = cadre_option_parse(section, decl, decl->def, &ignored, err);
    if (rc != CADRE_OK) {
        cadre_error_prefix(err, "the default of an option");
        return rc;
    }
    char *name = cadre_format("%s.%s", section, decl->key);
    if (!name)
        return cadre_options_no_memory(err);
    const struct option *old = cadre_option_find(options, name);
    char *owned = old ? NULL : cadre_strdup(section);
    void *grown = !owned ? NULL
                         : cadre_realloc(options->known, options->known_n + 1,
                                         sizeof *options->known);
    if (!grown) {
        free(owned);
        free(name);
        return old ? check_same(old, decl, err) : cadre_options_no_memory(err);
    }
    options->known = grown;
    options->known[options->known_n++] =
        (struct option){.section = owned, .decl = *decl, .name = name};
    return CADRE_OK;
}

cadre_status cadre_options_add(struct cadre_options *options, const char *section,
                               const struct cadre_option *table, size_t n,
                               size_t stride, struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    options->resolved = false;
    for (size_t i = 0; i < n && rc == CADRE_OK; i++) {
        const struct cadre_option decl = cadre_option_at(table, i, stride);
        rc = add_option(options, section, &decl, err);
    }
    return rc;
}

cadre_status cadre_options_allow_section(struct cadre_options *options,
                                         const char *section, struct cadre_error *err)
{
    return cadre_assignments_set(&options->allowed, section, "", "")
               ? CADRE_OK
               : cadre_options_no_memory(err);
}

cadre_status cadre_options_create(struct cadre_options **out, struct cadre_error *err)
{
    size_t n;
    const struct cadre_config_key *table = cadre_option_table(&n);
    struct cadre_options *options = cadre_calloc(1, sizeof *options);
    if (!options)
        return cadre_options_no_memory(err);
    cadre_status rc = CADRE_OK;
    for (size_t i = 0; i < n && rc == CADRE_OK; i++)
        rc = add_option(options, table[i].section, &table[i].option, err);
    if (rc != CADRE_OK) {
        cadre_options_destroy(options);
        return rc;
    }
    *out = options;
    return CADRE_OK;
}

static bool copy_assignments(struct assignments *to, const struct assignments *from)
{
    for (size_t i = 0; i < from->n; i++) {
        const struct assignment *a = &from->items[i];
        if (!cadre_assignments_set(to, a->name, a->value, a->source))
            return false;
        if (a->by_default)
            cadre_assignments_mark_default(to, a->name);
    }
    return true;
}

static bool copy_all(struct cadre_options *to, const struct cadre_options *from)
{
    for (size_t i = 0; i < from->known_n; i++) {
        const struct option *o = &from->known[i];
        if (add_option(to, o->section, &o->decl, NULL) != CADRE_OK)
            return false;
    }
    for (size_t i = 0; i < from->runs_n; i++) {
        const char *name = from->runs[i].name;
        if (!cadre_run_set(to, name, NULL, NULL, NULL) ||
            !copy_assignments(&cadre_run_find(to, name)->set, &from->runs[i].set))
            return false;
    }
    to->applied = from->applied;
    return copy_assignments(&to->set, &from->set) &&
           copy_assignments(&to->sections, &from->sections) &&
           copy_assignments(&to->allowed, &from->allowed) &&
           copy_assignments(&to->stacks, &from->stacks) &&
           (!from->resolved || cadre_options_resolve(to, NULL) == CADRE_OK);
}

struct cadre_options *cadre_options_clone(const struct cadre_options *options)
{
    struct cadre_options *copy = cadre_calloc(1, sizeof *copy);
    if (copy && !copy_all(copy, options)) {
        cadre_options_destroy(copy);
        return NULL;
    }
    return copy;
}

void cadre_options_destroy(struct cadre_options *options)
{
    if (!options)
        return;
    for (size_t i = 0; i < options->known_n; i++) {
        free(options->known[i].section);
        free(options->known[i].name);
    }
    for (size_t i = 0; i < options->runs_n; i++)
        cadre_run_fini(&options->runs[i]);
    cadre_assignments_fini(&options->set);
    cadre_assignments_fini(&options->sections);
    cadre_assignments_fini(&options->allowed);
    cadre_assignments_fini(&options->stacks);
    free(options->known);
    free(options->runs);
    free(options);
}

/* ---- resolving ---- */

static cadre_status unknown_section(const struct cadre_options *options,
                                    const char *section, const char *source,
                                    struct cadre_error *err)
{
    struct cadre_nearest nearest = {0};
    const char *foreign = cadre_foreign_strategy(section);
    if (foreign)
        return cadre_fail(err, CADRE_E_INVALID, "%s: unknown section [%s]: %s", source,
                          section, foreign);
    for (size_t i = 0; i < options->known_n; i++)
        cadre_nearest_offer(&nearest, section, options->known[i].section);
    for (size_t i = 0; i < options->allowed.n; i++)
        if (!strchr(options->allowed.items[i].name, '@'))
            cadre_nearest_offer(&nearest, section, options->allowed.items[i].name);
    return cadre_fail(err, CADRE_E_INVALID,
                      "%s: unknown section [%s]%s%s%s: correct it, or name the plugin "
                      "that it belongs to in strategy.stack",
                      source, section, nearest.name ? ", the nearest is [" : "",
                      nearest.name ? nearest.name : "", nearest.name ? "]" : "");
}

/* "train.lr" exists as "optim.lr": a key that moved is as near as two typing errors. */
static void offer_all(const struct cadre_options *options, const char *name,
                      struct cadre_nearest *nearest)
{
    const char *key = strchr(name, '.') + 1;
    for (size_t i = 0; i < options->known_n; i++) {
        const struct option *o = &options->known[i];
        cadre_nearest_offer(nearest, name, o->name);
        bool moved = strcmp(o->decl.key, key) == 0;
        if (moved && (!nearest->name || nearest->distance > 2)) {
            nearest->name = o->name;
            nearest->distance = 2;
        }
    }
}

/* Another program's name for an option of ours. One that is as good as spelled right
 * here ("train.lr" for "optim.lr") is not taken for that. */
static const struct cadre_foreign *find_foreign(const char *name,
                                                const struct cadre_nearest *nearest)
{
    const struct cadre_foreign *whole = cadre_foreign_find(name);
    if (whole || (nearest->name && nearest->distance <= 2))
        return whole;
    return cadre_foreign_key(name);
}

static cadre_status unknown_option(const struct cadre_options *options,
                                   const char *section, const char *name,
                                   const char *source, struct cadre_error *err)
{
    struct cadre_nearest nearest = {0};
    char hint[256];
    if (strcmp(name, "compare.repeats") == 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s: there is no option compare.repeats any more: runs are "
                          "timed in rounds, whose number is compare.rounds; remove it",
                          source);
    offer_all(options, name, &nearest);
    const struct cadre_foreign *foreign = find_foreign(name, &nearest);
    if (foreign)
        return cadre_fail(err, CADRE_E_INVALID, "%s: unknown option %s: %s", source,
                          name, cadre_foreign_say(foreign, hint, sizeof hint));
    if (!section_known(options, section) && (!nearest.name || strchr(section, '@')))
        return unknown_section(options, section, source, err);
    if (nearest.name)
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s: unknown option %s, the nearest is %s: correct it "
                          "('cadre options' lists all)",
                          source, name, nearest.name);
    return cadre_fail(err, CADRE_E_INVALID,
                      "%s: unknown option %s, and none is like it: remove it "
                      "('cadre options' lists all)",
                      source, name);
}

cadre_status cadre_option_check(const struct cadre_options *options,
                                const struct assignment *a, struct cadre_error *err)
{
    struct cadre_option_value ignored;
    char section[128];
    const struct option *option = cadre_option_find(options, a->name);
    snprintf(section, sizeof section, "%.*s", (int)strcspn(a->name, "."), a->name);
    if (!option && !cadre_section_declared(options, section) &&
        section_allowed(options, section))
        return CADRE_OK;
    if (!option)
        return unknown_option(options, section, a->name, a->source, err);
    cadre_status rc =
        cadre_option_parse(option->section, &option->decl, a->value, &ignored, err);
    if (rc != CADRE_OK)
        cadre_error_prefix(err, "%s", a->source);
    return rc;
}

cadre_status cadre_options_resolve(struct cadre_options *options,
                                   struct cadre_error *err)
{
    for (size_t i = 0; i < options->set.n; i++)
        CADRE_TRY(cadre_option_check(options, &options->set.items[i], err));
    for (size_t i = 0; i < options->sections.n; i++) {
        const struct assignment *s = &options->sections.items[i];
        if (!section_known(options, s->name))
            return unknown_section(options, s->name, s->source, err);
    }
    CADRE_TRY(cadre_runs_check(options, err));
    for (size_t i = 0; i < options->known_n; i++) {
        struct option *o = &options->known[i];
        CADRE_TRY(cadre_option_parse(
            o->section, &o->decl, cadre_options_raw(options, o->name), &o->value, err));
    }
    options->resolved = true;
    return CADRE_OK;
}

/* ---- setting and reading ---- */

/* Split "section.key=value" in place, blanks around both parts removed, the name in
 * lower case as in a file; false where it has no such form. */
static bool split_assignment(char *text, char **name, char **value)
{
    char *equals = strchr(text, '=');
    if (!equals)
        return false;
    *equals = 0;
    *name = cadre_strip(text);
    *value = cadre_strip(equals + 1);
    for (char *p = *name; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    const char *dot = strchr(*name, '.');
    return dot && dot > *name && dot[1] && cadre_ini_is_key(*name);
}

cadre_status cadre_options_set(struct cadre_options *options, const char *assignment,
                               const char *source, struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    char *name, *value;
    char *text = cadre_strdup(assignment);
    options->resolved = false;
    if (!text)
        return cadre_options_no_memory(err);
    if (!split_assignment(text, &name, &value))
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "%s: expected section.key=value, found '%.100s'", source,
                        assignment);
    else if (cadre_ini_quote(value) < 0)
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "%s: the value of %.60s cannot be kept in config.ini: expected "
                        "one short line of UTF-8 without both kinds of quotes",
                        source, name);
    else if (!cadre_option_put(options, name, value, source))
        rc = cadre_options_no_memory(err);
    free(text);
    return rc;
}

const char *cadre_options_raw(const struct cadre_options *options, const char *name)
{
    const struct assignment *a = cadre_assignment_of(options, name);
    if (a)
        return a->value;
    const struct option *option = cadre_option_find(options, name);
    return option ? option->decl.def : NULL;
}

const char *cadre_options_source(const struct cadre_options *options, const char *name)
{
    const struct assignment *a = cadre_assignment_of(options, name);
    if (a)
        return a->source;
    return cadre_option_find(options, name) ? CADRE_INI_DEFAULT : NULL;
}

const struct cadre_option_value *
cadre_options_value(const struct cadre_options *options, const char *name)
{
    const struct option *option = cadre_option_find(options, name);
    assert(options->resolved && "options are read before resolve");
    return option ? &option->value : NULL;
}
