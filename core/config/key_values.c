/* SPDX-License-Identifier: Apache-2.0 */
#include "core/config/key_values.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"

static cadre_status no_memory(struct cadre_error *err)
{
    return cadre_no_memory(err, "a sweep");
}

static cadre_status add(struct cadre_key_values *out, const char *value,
                        struct cadre_error *err)
{
    void *grown = cadre_realloc(out->value, out->n + 1, sizeof *out->value);
    if (!grown)
        return no_memory(err);
    out->value = grown;
    out->value[out->n] = cadre_strdup(value);
    if (!out->value[out->n])
        return no_memory(err);
    out->n++;
    return CADRE_OK;
}

/* "single | pipeline:2, zero:2" */
static cadre_status take_divided(const char *name, char *text,
                                 struct cadre_key_values *out, struct cadre_error *err)
{
    for (char *at = text; at;) {
        char *end = strchr(at, '|');
        if (end)
            *end = '\0';
        const char *value = cadre_strip(at);
        if (!*value)
            return cadre_fail(err, CADRE_E_INVALID,
                              "%s: %s has no value in front of or behind a '|': write "
                              "one there, or take the '|' out",
                              name, out->key);
        CADRE_TRY(add(out, value, err));
        at = end ? end + 1 : NULL;
    }
    return CADRE_OK;
}

/* "1e-3 3e-4" */
static cadre_status take_words(char *text, struct cadre_key_values *out,
                               struct cadre_error *err)
{
    static const char blanks[] = " \t";
    char *rest = NULL;
    for (char *word = strtok_r(text, blanks, &rest); word;
         word = strtok_r(NULL, blanks, &rest))
        CADRE_TRY(add(out, word, err));
    return CADRE_OK;
}

static cadre_status take(const char *name, char *text, struct cadre_key_values *out,
                         struct cadre_error *err)
{
    char *colon = strchr(text, ':'), *dot = strchr(text, '.');
    if (!colon || !dot || dot > colon)
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s: found '%.100s', expected section.key: and a value for "
                          "each run, as in \"optim.lr: 1e-3 3e-4\"",
                          name, cadre_strip(text));
    *colon = '\0';
    out->key = cadre_strdup(cadre_strip(text));
    if (!out->key)
        return no_memory(err);
    return strchr(colon + 1, '|') ? take_divided(name, colon + 1, out, err)
                                  : take_words(colon + 1, out, err);
}

cadre_status cadre_key_values_parse(const char *name, const char *text,
                                    struct cadre_key_values *out,
                                    struct cadre_error *err)
{
    *out = (struct cadre_key_values){0};
    char *copy = cadre_strdup(text);
    cadre_status rc = copy ? take(name, copy, out, err) : no_memory(err);
    free(copy);
    return rc;
}

void cadre_key_values_fini(struct cadre_key_values *values)
{
    for (size_t i = 0; i < values->n; i++)
        free(values->value[i]);
    free(values->value);
    free(values->key);
    *values = (struct cadre_key_values){0};
}
