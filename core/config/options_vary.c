/* SPDX-License-Identifier: Apache-2.0 */
/* compare.vary: the product of some keys' values as [run:NAME] sections. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core/config/key_values.h"
#include "core/config/option_set.h"

enum { MOST_RUNS = 256, MOST_NAME = 48 };

struct vary {
    const char *source; /* where the option was set */
    struct cadre_key_values *key; /* (n), the last one changes fastest */
    size_t n, runs;
    char **name; /* (runs) those made so far; owned */
    size_t named;
};

static void lower(char *text)
{
    for (; *text; text++)
        *text = (char)tolower((unsigned char)*text);
}

/* ---- the text ---- */

static cadre_status check_key(const struct vary *vary, const char *key,
                              struct cadre_error *err)
{
    for (size_t i = 0; i + 1 < vary->n; i++)
        if (strcmp(vary->key[i].key, key) == 0)
            return cadre_fail(err, CADRE_E_INVALID,
                              "%s: compare.vary names %s twice: give all its values in "
                              "one place",
                              vary->source, key);
    if (strncmp(key, "compare.", strlen("compare.")) == 0 ||
        strcmp(key, "run.extends") == 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s: %s cannot differ between runs: take it out of "
                          "compare.vary",
                          vary->source, key);
    return CADRE_OK;
}

static cadre_status check_values(const struct vary *vary,
                                 const struct cadre_key_values *key,
                                 struct cadre_error *err)
{
    if (key->n == 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s: compare.vary gives %s no value, expected one or more",
                          vary->source, key->key);
    for (size_t i = 0; i < key->n; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(key->value[i], key->value[k]) == 0)
                return cadre_fail(err, CADRE_E_INVALID,
                                  "%s: compare.vary gives %s the value %s twice: take "
                                  "one out",
                                  vary->source, key->key, key->value[i]);
    return CADRE_OK;
}

/* "strategy.stack: single | ddp:2" */
static cadre_status take_part(struct vary *vary, const char *part,
                              struct cadre_error *err)
{
    char name[256];
    void *grown = cadre_realloc(vary->key, vary->n + 1, sizeof *vary->key);
    if (!grown)
        return cadre_options_no_memory(err);
    vary->key = grown;
    struct cadre_key_values *key = &vary->key[vary->n++];
    snprintf(name, sizeof name, "%s: compare.vary", vary->source);
    CADRE_TRY(cadre_key_values_parse(name, part, key, err));
    lower(key->key);
    CADRE_TRY(check_key(vary, key->key, err));
    CADRE_TRY(check_values(vary, key, err));
    vary->runs *= key->n;
    if (vary->runs > MOST_RUNS)
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s: compare.vary makes %zu runs or more, expected at most "
                          "%d: give fewer values",
                          vary->source, vary->runs, MOST_RUNS);
    return CADRE_OK;
}

static cadre_status take_text(struct vary *vary, char *text, struct cadre_error *err)
{
    for (char *at = text; at;) {
        char *end = strchr(at, ';');
        if (end)
            *end = '\0';
        CADRE_TRY(take_part(vary, at, err));
        at = end ? end + 1 : NULL;
    }
    return CADRE_OK;
}

/* ---- names ---- */

/* A value as part of a folder's name: "pipeline:2, zero:2" is pipeline-2-zero-2. */
static void put_slug(struct cadre_text *out, const char *text)
{
    bool gap = false, begun = false;
    for (; *text; text++) {
        bool kept = isalnum((unsigned char)*text) || strchr("+-_", *text) ||
                    (*text == '.' && begun && !gap);
        if (kept && *text != '-') {
            char c = (char)tolower((unsigned char)*text);
            cadre_text_append(out, "-", gap && begun);
            cadre_text_append(out, &c, 1);
            begun = true;
        }
        gap = !kept || *text == '-';
    }
    if (!begun)
        cadre_text_append(out, "x", 1);
}

static const char *last_part(const char *key)
{
    return strchr(key, '.') + 1;
}

/* The key in front of its value: without its section where that is unambiguous. A
 * stack says by itself what it is. */
static void put_key(struct cadre_text *out, const struct vary *vary, size_t k)
{
    const char *key = vary->key[k].key;
    bool shared = false;
    if (strcmp(key, "strategy.stack") == 0)
        return;
    for (size_t i = 0; i < vary->n; i++)
        shared = shared ||
                 (i != k && strcmp(last_part(vary->key[i].key), last_part(key)) == 0);
    put_slug(out, shared ? key : last_part(key));
    cadre_text_append(out, "-", 1);
}

static bool is_taken(const struct vary *vary, const char *name)
{
    for (size_t i = 0; i < vary->named; i++)
        if (strcmp(vary->name[i], name) == 0)
            return true;
    return false;
}

/* The index of key k's value in a run: the last key is the lowest digit. */
static size_t index_of(const struct vary *vary, size_t run, size_t k)
{
    for (size_t i = vary->n - 1; i > k; i--)
        run /= vary->key[i].n;
    return run % vary->key[k].n;
}

/* Long names are cut, and equal ones numbered. */
static cadre_status make_name(struct vary *vary, size_t run, struct cadre_error *err)
{
    struct cadre_text text = {0};
    char *name = NULL;
    for (size_t k = 0; k < vary->n; k++) {
        cadre_text_append(&text, "_", k > 0);
        put_key(&text, vary, k);
        put_slug(&text, vary->key[k].value[index_of(vary, run, k)]);
    }
    for (int number = 1;
         !text.failed && (number == 1 || (name && is_taken(vary, name))); number++) {
        free(name);
        name = number == 1
                   ? cadre_strndup(cadre_text_str(&text), MOST_NAME)
                   : cadre_format("%.*s-%d", MOST_NAME, cadre_text_str(&text), number);
    }
    cadre_text_fini(&text);
    if (!name)
        return cadre_options_no_memory(err);
    vary->name[vary->named++] = name;
    return CADRE_OK;
}

/* ---- sections ---- */

/* A section that the file has may add to a run, and must not contradict it. */
static cadre_status set_value(struct cadre_options *options, const struct vary *vary,
                              const char *name, const char *key, const char *value,
                              struct cadre_error *err)
{
    const struct run *run = cadre_run_find(options, name);
    const struct assignment *a = run ? cadre_assignment_find(&run->set, key) : NULL;
    if (a && strcmp(a->value, value) != 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s: compare.vary makes a run %s with %s = %s, and [run:%s] "
                          "(%s) sets it to %s: rename that section, or take the key "
                          "out of it",
                          vary->source, name, key, value, name, a->source, a->value);
    if (!a && !cadre_run_set(options, name, key, value, vary->source))
        return cadre_options_no_memory(err);
    return CADRE_OK;
}

static cadre_status make_run(struct cadre_options *options, struct vary *vary,
                             size_t run, struct cadre_error *err)
{
    CADRE_TRY(make_name(vary, run, err));
    for (size_t k = 0; k < vary->n; k++) {
        const struct cadre_key_values *key = &vary->key[k];
        CADRE_TRY(set_value(options, vary, vary->name[run], key->key,
                            key->value[index_of(vary, run, k)], err));
    }
    return CADRE_OK;
}

static cadre_status make_runs(struct cadre_options *options, struct vary *vary,
                              struct cadre_error *err)
{
    vary->name = cadre_calloc(vary->runs, sizeof *vary->name);
    if (!vary->name)
        return cadre_options_no_memory(err);
    for (size_t run = 0; run < vary->runs; run++)
        CADRE_TRY(make_run(options, vary, run, err));
    return CADRE_OK;
}

cadre_status cadre_options_vary(struct cadre_options *options, struct cadre_error *err)
{
    struct vary vary = {.runs = 1};
    char *source = cadre_strdup(cadre_options_source(options, "compare.vary"));
    char *text = cadre_strdup(cadre_options_raw(options, "compare.vary"));
    cadre_status rc = source && text ? CADRE_OK : cadre_options_no_memory(err);
    vary.source = source;
    if (rc == CADRE_OK && *cadre_strip(text)) {
        options->resolved = false;
        rc = take_text(&vary, text, err);
        if (rc == CADRE_OK)
            rc = make_runs(options, &vary, err);
    }
    for (size_t i = 0; i < vary.n; i++)
        cadre_key_values_fini(&vary.key[i]);
    for (size_t i = 0; i < vary.named; i++)
        free(vary.name[i]);
    free(vary.key);
    free(vary.name);
    free(source);
    free(text);
    return rc;
}
