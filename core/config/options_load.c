/* SPDX-License-Identifier: Apache-2.0 */
/* Reading files into the set: the file that run.extends names first, then the file
 * itself, so that the nearer one wins. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/config/ini.h"
#include "core/config/option_set.h"

/* The chain of files being read, innermost first. */
struct reading {
    const char *path;
    const char *real; /* canonical, to see a cycle through links */
    const struct reading *by;
};

/* A path that a file names stands beside that file if it exists there; else it is
 * relative to the working directory. NULL where there is no memory. */
static char *beside_file(const char *value, size_t n, const char *file)
{
    char *own = cadre_strndup(value, n);
    if (!own || !*own || *own == '/' || !strchr(file, '/'))
        return own;
    char *dir = cadre_path_dirname(file);
    char *taken = !dir                       ? NULL
                  : cadre_path_has(dir, own) ? cadre_path_join(dir, own)
                                             : cadre_strdup(own);
    free(dir);
    free(own);
    return taken;
}

/* A list of paths: each in its turn. In a stack, separated by commas, names without a
 * '/' are no paths, and an axis and a size follow a path. */
static char *list_beside_file(const char *list, char separator, const char *file)
{
    const bool stack = separator == ',';
    struct cadre_text text = {0};
    for (const char *at = list; *at;) {
        const char parts[] = {separator, 0};
        const size_t blank = strspn(at, " \t"), n = strcspn(at + blank, parts);
        const char *part = at + blank;
        const size_t path = stack ? strcspn(part, ":@,") : n;
        if (stack && !memchr(part, '/', path)) {
            cadre_text_append(&text, at, blank + n);
        } else {
            char *one = beside_file(part, path, file);
            text.failed = text.failed || !one;
            cadre_text_printf(&text, "%.*s%s%.*s", (int)blank, at, one ? one : "",
                              (int)(n - path), part + path);
            free(one);
        }
        at += blank + n;
        if (*at)
            cadre_text_append(&text, at++, 1);
    }
    char *copy = text.failed ? NULL : cadre_strdup(cadre_text_str(&text));
    cadre_text_fini(&text);
    return copy;
}

static char *path_of(const char *name, const char *value, const char *file)
{
    static const char *const keys[] = {"data.path",  "data.labels",  "data.tokenizer",
                                       "model.init", "tune.adapter", "tune.reference"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strcmp(name, keys[i]) == 0)
            return beside_file(value, strlen(value), file);
    if (strcmp(name, "strategy.plugin_path") == 0)
        return list_beside_file(value, ':', file);
    if (strcmp(name, "strategy.stack") == 0)
        return list_beside_file(value, ',', file);
    return cadre_strdup(value);
}

/* One entry of [run:NAME]; key NULL is the section line itself. */
static cadre_status take_run_entry(struct cadre_options *options,
                                   const struct cadre_ini_entry *e, const char *path,
                                   const char *source, struct cadre_error *err)
{
    const char *name = e->section + strlen("run:");
    if (*name == 0 || strchr(name, ':'))
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s: [%s] is not a run's name: expected [run:NAME]", source,
                          e->section);
    const char *dot = e->key ? strchr(e->key, '.') : NULL;
    if (e->key && (!dot || dot == e->key || dot[1] == 0))
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s: '%s' in [%s]: expected section.key = value, such as "
                          "strategy.stack = ddp:2",
                          source, e->key, e->section);
    char *value = e->key ? path_of(e->key, e->value, path) : NULL;
    char *of_run = cadre_format("%s, [%s]", source, e->section);
    const bool done = of_run && (!e->key || value) &&
                      cadre_run_set(options, name, e->key, value, of_run);
    free(of_run);
    free(value);
    return done ? CADRE_OK : cadre_options_no_memory(err);
}

static cadre_status take_entry(struct cadre_options *options,
                               const struct cadre_ini_entry *e, const char *path,
                               struct cadre_error *err)
{
    bool done = false;
    char *name = NULL, *value = NULL;
    cadre_status rc = CADRE_OK;
    char *source = cadre_format("%s:%d", path, e->line);
    if (!source)
        return cadre_options_no_memory(err);
    if (strncmp(e->section, "run:", strlen("run:")) == 0) {
        rc = take_run_entry(options, e, path, source, err);
        goto out;
    }
    if (e->key) {
        name = cadre_format("%s.%s", e->section, e->key);
        value = name ? path_of(name, e->value, path) : NULL;
        done = value && cadre_option_put(options, name, value, source);
        if (done && e->by_default)
            cadre_assignments_mark_default(&options->set, name);
    } else {
        done = cadre_assignment_find(&options->sections, e->section) ||
               cadre_assignments_set(&options->sections, e->section, "", source);
    }
    if (!done)
        rc = cadre_options_no_memory(err);
out:
    free(source);
    free(name);
    free(value);
    return rc;
}

static cadre_status check_cycle(const struct reading *now, struct cadre_error *err)
{
    const struct reading *r = now->by;
    while (r && strcmp(r->real, now->real) != 0)
        r = r->by;
    if (!r)
        return CADRE_OK;
    struct cadre_text chain = {0};
    cadre_text_printf(&chain, "%s", now->path);
    for (const struct reading *p = now->by; p; p = p->by)
        cadre_text_printf(&chain, " from %s", p->path);
    cadre_fail(err, CADRE_E_INVALID,
               "run.extends goes round in a circle (%s): take one of them out",
               cadre_text_str(&chain));
    cadre_text_fini(&chain);
    return CADRE_E_INVALID;
}

static cadre_status load(struct cadre_options *options, const char *path,
                         const struct reading *by, struct cadre_error *err);

static cadre_status load_base(struct cadre_options *options,
                              const struct cadre_ini_entry *e,
                              const struct reading *now, struct cadre_error *err)
{
    cadre_status rc;
    char *dir = cadre_path_dirname(now->path);
    char *base = dir ? cadre_path_join(dir, e->value) : NULL;
    if (!base)
        rc = cadre_options_no_memory(err);
    else if (e->value[0] == 0)
        rc = CADRE_OK;
    else
        rc = load(options, base, now, err);
    /* An error inside the base names its line; an error of opening it names ours. */
    bool inside = base && err && strncmp(err->text, base, strlen(base)) == 0;
    if (rc != CADRE_OK && !inside)
        cadre_error_prefix(err, "%s:%d: run.extends", now->path, e->line);
    free(base);
    free(dir);
    return rc;
}

static cadre_status load_entries(struct cadre_options *options,
                                 const struct cadre_ini *ini, const struct reading *now,
                                 struct cadre_error *err)
{
    for (size_t i = 0; i < ini->n; i++) {
        const struct cadre_ini_entry *e = &ini->entries[i];
        if (e->key && strcmp(e->section, "run") == 0 && strcmp(e->key, "extends") == 0)
            CADRE_TRY(load_base(options, e, now, err));
    }
    for (size_t i = 0; i < ini->n; i++)
        CADRE_TRY(take_entry(options, &ini->entries[i], now->path, err));
    return CADRE_OK;
}

static cadre_status load(struct cadre_options *options, const char *path,
                         const struct reading *by, struct cadre_error *err)
{
    cadre_status rc;
    struct cadre_ini ini = {0};
    char real[PATH_MAX];
    /* If realpath fails, reading fails too, with a better error. */
    struct reading now = {path, realpath(path, real) ? real : path, by};
    CADRE_TRY_OR(check_cycle(&now, err), fail);
    CADRE_TRY_OR(cadre_ini_load(&ini, path, err), fail);
    rc = load_entries(options, &ini, &now, err);
fail:
    cadre_ini_fini(&ini);
    return rc;
}

cadre_status cadre_options_load(struct cadre_options *options, const char *path,
                                struct cadre_error *err)
{
    options->resolved = false;
    return load(options, path, NULL, err);
}
