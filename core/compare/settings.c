/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/config/ini.h"
#include "core/config/option_compare.h"
#include "core/run/bench.h"
#include "core/run/resolved.h"
#include "core/run/restarts.h"

/* Does NAME, "section.key", decide what is trained? Sections that are not the core's
 * are plugins'. */
static bool decides(const char *name, bool perturbed)
{
    static const char *const parts[] = {
        "run.seed",  "run.exact", "run.exact_parts", "strategy.stack",
        "comm.link", "comm.node", "device.pace"};
    static const char *const places[] = {
        "data.path",     "data.labels",      "data.layout",       "data.cache",
        "data.prefetch", "data.pinned",      "model.init",        "data.tokenizer",
        "train.steps",   "train.eval_every", "train.eval_batches"};
    static const char *const others[] = {
        "run.",     "device.",     "comm.",  "strategy.", "log.",
        "compare.", "checkpoint.", "bench.", "report.",   "energy."};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strcmp(name, parts[i]) == 0)
            return true;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (strcmp(name, places[i]) == 0)
            return false;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strncmp(name, others[i], strlen(others[i])) == 0)
            return false;
    return !perturbed || strcmp(name, "train.micro_batch") != 0;
}

struct checking {
    const char *dir;
    const struct cadre_ini *ini;
    const char *stack; /* stack before run.elastic chose another; or NULL */
    bool perturbed;
    cadre_status rc;
    struct cadre_error *err;
};

static const char *value_of(const struct cadre_ini *ini, const char *section,
                            const char *key)
{
    for (size_t i = 0; i < ini->n; i++) {
        const struct cadre_ini_entry *entry = &ini->entries[i];
        if (entry->key && strcasecmp(entry->section, section) == 0 &&
            strcasecmp(entry->key, key) == 0)
            return entry->value;
    }
    return NULL;
}

static void check(void *arg, const char *section, const struct cadre_option *option,
                  const char *value)
{
    struct checking *c = arg;
    char name[128];
    snprintf(name, sizeof name, "%s.%s", section, option->key);
    const char *made = value_of(c->ini, section, option->key);
    if (c->stack && strcmp(name, "strategy.stack") == 0)
        made = c->stack;
    if (c->rc != CADRE_OK || !decides(name, c->perturbed) || !made ||
        cadre_option_same(made, value))
        return;
    c->rc = cadre_fail(c->err, CADRE_E_INVALID,
                       "'%s' was trained with %s = %s, and the comparison has %s: give "
                       "the settings that it was trained with, or remove it and train "
                       "it again",
                       c->dir, name, made, *value ? value : "\"\"");
}

cadre_status cadre_settings_check(const char *dir, const struct cadre_options *options,
                                  bool perturbed, struct cadre_error *err)
{
    struct cadre_ini ini = {0};
    if (cadre_bench_made(dir))
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s' is the folder of a benchmark (bench.steps, "
                          "bench.target), not of a training: remove it and train it "
                          "again",
                          dir);
    char *path = cadre_path_join(dir, "config.ini");
    if (!path)
        return cadre_no_memory(err, "a path");
    cadre_status rc = CADRE_OK;
    if (cadre_path_exists(path))
        rc = cadre_ini_load(&ini, path, err);
    char *stack = cadre_restarts_first(dir);
    struct checking c = {dir, &ini, stack, perturbed, rc, err};
    if (rc == CADRE_OK)
        cadre_options_each(options, check, &c);
    cadre_ini_fini(&ini);
    free(stack);
    free(path);
    return c.rc;
}

cadre_status cadre_settings_write(const struct cadre_options *options, const char *out,
                                  struct cadre_error *err)
{
    char *text = NULL;
    size_t size = 0;
    char *path = cadre_path_join(out, CADRE_COMPARISON_INI);
    struct cadre_options *copy = cadre_options_clone(options);
    FILE *memory = open_memstream(&text, &size);
    cadre_status rc =
        path && copy && memory ? CADRE_OK : cadre_no_memory(err, "the options");
    if (rc == CADRE_OK)
        rc = cadre_resolved_paths(copy, err);
    if (rc == CADRE_OK)
        rc = cadre_options_write_set(copy, memory, err);
    if (memory && fclose(memory) != 0 && rc == CADRE_OK)
        rc = cadre_no_memory(err, "the options");
    if (rc == CADRE_OK)
        rc = cadre_path_write_file(path, text, size, err);
    cadre_options_destroy(copy);
    free(text);
    free(path);
    return rc;
}
