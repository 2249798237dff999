/* SPDX-License-Identifier: Apache-2.0 */
/* The runs of a comparison: [run:NAME] sections and the list in compare.runs. */
#include <stdlib.h>
#include <string.h>

#include "core/config/nearest.h"
#include "core/config/option_set.h"

struct run *cadre_run_find(const struct cadre_options *options, const char *name)
{
    for (size_t i = 0; i < options->runs_n; i++)
        if (strcasecmp(options->runs[i].name, name) == 0)
            return &options->runs[i];
    return NULL;
}

static struct run *add_run(struct cadre_options *options, const char *name)
{
    void *grown =
        cadre_realloc(options->runs, options->runs_n + 1, sizeof *options->runs);
    if (!grown)
        return NULL;
    options->runs = grown;
    struct run *run = &options->runs[options->runs_n];
    memset(run, 0, sizeof *run);
    run->name = cadre_strdup(name);
    if (!run->name)
        return NULL;
    options->runs_n++;
    return run;
}

bool cadre_run_set(struct cadre_options *options, const char *run_name,
                   const char *name, const char *value, const char *source)
{
    struct run *run = cadre_run_find(options, run_name);
    if (!run)
        run = add_run(options, run_name);
    if (!run || !name)
        return run != NULL;
    return cadre_assignments_set(&run->set, name, value, source);
}

void cadre_run_fini(struct run *run)
{
    free(run->name);
    cadre_assignments_fini(&run->set);
}

static cadre_status unknown_run(const struct cadre_options *options, const char *name,
                                const char *where, struct cadre_error *err)
{
    struct cadre_text list = {0};
    struct cadre_nearest nearest = {0};
    for (size_t i = 0; i < options->runs_n; i++) {
        cadre_text_printf(&list, "%s%s", i > 0 ? ", " : "", options->runs[i].name);
        cadre_nearest_offer(&nearest, name, options->runs[i].name);
    }
    cadre_fail(
        err, CADRE_E_INVALID, "%s: no section [run:%.60s], expected one of: %.400s%s%s",
        where, name, options->runs_n > 0 ? cadre_text_str(&list) : "(there are none)",
        nearest.name ? "; the nearest is " : "", nearest.name ? nearest.name : "");
    cadre_text_fini(&list);
    return CADRE_E_INVALID;
}

/* What a comparison itself needs cannot differ from run to run; whether a run is timed
 * can. */
static cadre_status check_override(const struct cadre_options *options,
                                   const struct assignment *a, struct cadre_error *err)
{
    char section[128];
    snprintf(section, sizeof section, "%.*s", (int)strcspn(a->name, "."), a->name);
    bool whole =
        strcmp(section, "compare") == 0 && strcmp(a->name, "compare.time") != 0;
    if (whole || strcmp(a->name, "run.extends") == 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s: %s cannot differ between runs: take it out", a->source,
                          a->name);
    /* Else a plugin's section; that plugin may not be loaded in this run. */
    return cadre_section_declared(options, section)
               ? cadre_option_check(options, a, err)
               : CADRE_OK;
}

cadre_status cadre_runs_check(const struct cadre_options *options,
                              struct cadre_error *err)
{
    for (size_t i = 0; i < options->runs_n; i++) {
        const struct run *run = &options->runs[i];
        if (options->applied > 0 && options->applied != i + 1)
            continue;
        for (size_t k = 0; k < run->set.n; k++) {
            CADRE_TRY(check_override(options, &run->set.items[k], err));
        }
    }
    return CADRE_OK;
}

cadre_status cadre_options_check_shared(const struct cadre_options *options,
                                        const char *name, struct cadre_error *err)
{
    const struct run *run = cadre_run_find(options, name);
    for (size_t i = 0; i < options->set.n; i++) {
        const struct assignment *a = &options->set.items[i];
        char section[128];
        snprintf(section, sizeof section, "%.*s", (int)strcspn(a->name, "."), a->name);
        /* else a plugin's section, which is checked where that plugin is open */
        if (cadre_section_declared(options, section) &&
            !(run && cadre_assignment_find(&run->set, a->name)))
            CADRE_TRY(cadre_option_check(options, a, err));
    }
    return CADRE_OK;
}

/* The next name of "a, b c" from *at into name; false at the end. */
static bool next_name(const char **at, char *name, size_t size)
{
    *at += strspn(*at, ", \t");
    size_t n = strcspn(*at, ", \t");
    if (n == 0)
        return false;
    snprintf(name, size, "%.*s", (int)n, *at);
    *at += n;
    return true;
}

static cadre_status pick(const struct cadre_options *options, const char **picked,
                         size_t *n, struct cadre_error *err)
{
    char name[128];
    const char *at = cadre_options_raw(options, "compare.runs");
    const char *source = cadre_options_source(options, "compare.runs");
    while (next_name(&at, name, sizeof name)) {
        const struct run *run = cadre_run_find(options, name);
        if (!run)
            return unknown_run(options, name, source, err);
        for (size_t i = 0; i < *n; i++)
            if (picked[i] == run->name)
                return cadre_fail(err, CADRE_E_INVALID,
                                  "%s: compare.runs names %s twice: take one out",
                                  source, name);
        picked[(*n)++] = run->name;
    }
    for (size_t i = 0; *n == 0 && i < options->runs_n; i++)
        picked[i] = options->runs[i].name;
    if (*n == 0)
        *n = options->runs_n;
    if (*n == 0)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "nothing to compare, expected at least one section [run:NAME] "
            "with section.key = value lines: add one for each run");
    return CADRE_OK;
}

/* One allocation: the pointers, then the texts that they point to. */
static char **pack_names(const char **picked, size_t n)
{
    size_t bytes = n * sizeof(char *);
    for (size_t i = 0; i < n; i++)
        bytes += strlen(picked[i]) + 1;
    char **names = cadre_calloc(1, bytes);
    char *text = (char *)(names + n);
    for (size_t i = 0; names && i < n; i++) {
        size_t length = strlen(picked[i]) + 1;
        names[i] = memcpy(text, picked[i], length);
        text += length;
    }
    return names;
}

cadre_status cadre_options_list_runs(const struct cadre_options *options, char ***names,
                                     size_t *n, struct cadre_error *err)
{
    size_t count = 0;
    const char **picked = cadre_calloc(options->runs_n + 1, sizeof *picked);
    if (!picked)
        return cadre_options_no_memory(err);
    cadre_status rc = pick(options, picked, &count, err);
    if (rc == CADRE_OK) {
        *names = pack_names(picked, count);
        *n = count;
        if (!*names)
            rc = cadre_options_no_memory(err);
    }
    free(picked);
    return rc;
}

void cadre_options_each_run(const struct cadre_options *options, const char *name,
                            void (*each)(void *arg, const char *value), void *arg)
{
    for (size_t i = 0; i < options->runs_n; i++) {
        const struct assignment *a = cadre_assignment_find(&options->runs[i].set, name);
        if (a)
            each(arg, a->value);
    }
}

cadre_status cadre_options_apply_run(struct cadre_options *options, const char *name,
                                     struct cadre_error *err)
{
    const struct run *run = cadre_run_find(options, name);
    if (!run)
        return unknown_run(options, name, "compare", err);
    options->resolved = false;
    options->applied = (size_t)(run - options->runs) + 1;
    for (size_t i = 0; i < run->set.n; i++) {
        const struct assignment *a = &run->set.items[i];
        if (!cadre_option_put(options, a->name, a->value, a->source))
            return cadre_options_no_memory(err);
    }
    return CADRE_OK;
}
