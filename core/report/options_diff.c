/* SPDX-License-Identifier: Apache-2.0 */
#include "core/report/options_diff.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/config/option_compare.h"

/* Is it a key of the run itself, or of a comparison that it belongs to? Whether a run
 * goes on in its own folder where it is started again is of no matter either. */
static bool is_left_out(const struct cadre_ini_entry *entry)
{
    static const char *const of_the_run[] = {"name", "out", "extends"};
    if (!entry->key || strcmp(entry->section, "compare") == 0 ||
        strncmp(entry->section, "run:", 4) == 0)
        return true;
    if (strcmp(entry->section, "checkpoint") == 0 && strcmp(entry->key, "resume") == 0)
        return strcmp(entry->value, "auto") == 0 || strcmp(entry->value, "no") == 0;
    for (size_t i = 0; i < sizeof of_the_run / sizeof of_the_run[0]; i++)
        if (strcmp(entry->section, "run") == 0 &&
            strcmp(entry->key, of_the_run[i]) == 0)
            return true;
    return false;
}

static bool same(const char *a, const char *b)
{
    return a && b ? cadre_option_same(a, b) : a == b;
}

static bool is_known(const struct cadre_options_diff *diff, const char *key)
{
    for (size_t i = 0; i < diff->n; i++)
        if (strcmp(diff->key[i], key) == 0)
            return true;
    return false;
}

/* Plugins that one run has and another has not bring keys of their own: only what was
 * set of them is told. */
static bool differs(const struct cadre_run_data *const *run, size_t n, const char *key)
{
    const struct cadre_ini_entry *known = NULL;
    bool somewhere_set = false, lacking = false;
    for (size_t i = 0; i < n; i++) {
        const struct cadre_ini_entry *entry = cadre_run_data_entry(run[i], key);
        if (known && entry && !cadre_option_same(known->value, entry->value))
            return true;
        known = entry ? entry : known;
        lacking = lacking || !entry;
        somewhere_set = somewhere_set || (entry && !entry->by_default);
    }
    return lacking && somewhere_set;
}

static void add(struct cadre_options_diff *diff, const char *key)
{
    void *grown = cadre_realloc(diff->key, diff->n + 1, sizeof *diff->key);
    char *copy = grown ? cadre_strdup(key) : NULL;
    if (grown)
        diff->key = grown;
    if (copy)
        diff->key[diff->n++] = copy;
    diff->failed = diff->failed || !copy;
}

void cadre_options_diff_fill(struct cadre_options_diff *diff,
                             const struct cadre_run_data *const *run, size_t n)
{
    char key[256];
    *diff = (struct cadre_options_diff){0};
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < run[i]->config.n; k++) {
            const struct cadre_ini_entry *entry = &run[i]->config.entries[k];
            if (is_left_out(entry))
                continue;
            snprintf(key, sizeof key, "%s.%s", entry->section, entry->key);
            if (differs(run, n, key) && !is_known(diff, key))
                add(diff, key);
        }
}

void cadre_options_diff_fini(struct cadre_options_diff *diff)
{
    for (size_t i = 0; i < diff->n; i++)
        free(diff->key[i]);
    free(diff->key);
    *diff = (struct cadre_options_diff){0};
}

/* Does another value of the key make another training? */
static bool decides(const char *key, bool same_data)
{
    char section[128];
    const char *dot = strchr(key, '.');
    snprintf(section, sizeof section, "%.*s", (int)(dot - key), key);
    /* a run that was stopped, or continued for longer, is the same as far as it goes */
    if (strcmp(key, "train.steps") == 0 || (same_data && strcmp(key, "data.path") == 0))
        return false;
    return !cadre_option_is_layout(section, dot + 1);
}

bool cadre_options_diff_same_training(const struct cadre_run_data *a,
                                      const struct cadre_run_data *b, char *why,
                                      size_t size)
{
    const struct cadre_run_data *const both[] = {a, b};
    const char *mine = cadre_run_data_text(a, NULL, "data_fingerprint");
    const char *other = cadre_run_data_text(b, NULL, "data_fingerprint");
    /* the seed, which orders samples, is in the fingerprint */
    const bool known = mine && other &&
                       same(cadre_run_data_option(a, "run.seed"),
                            cadre_run_data_option(b, "run.seed"));
    const bool same_data = known && strcmp(mine, other) == 0;
    struct cadre_options_diff diff;
    size_t used = 0;
    *why = 0;
    if (a->config.n == 0 || b->config.n == 0) {
        snprintf(why, size, "config.ini, which is missing");
        return false;
    }
    if (known && !same_data)
        used = (size_t)snprintf(why, size, "the contents of its data");
    cadre_options_diff_fill(&diff, both, 2);
    for (size_t i = 0; i < diff.n; i++)
        if (decides(diff.key[i], same_data) && used + 1 < size)
            used += (size_t)snprintf(why + used, size - used, "%s%s", used ? ", " : "",
                                     diff.key[i]);
    const bool equal = used == 0 && !diff.failed;
    cadre_options_diff_fini(&diff);
    return equal;
}
