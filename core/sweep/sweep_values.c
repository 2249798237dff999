/* SPDX-License-Identifier: Apache-2.0 */
#include "core/sweep/sweep_values.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/config/key_values.h"

static cadre_status no_memory(struct cadre_error *err)
{
    return cadre_no_memory(err, "a sweep");
}

/* Options that keep figures comparable and folders separate are common to all
 * instances; the rest may differ. */
static bool may_differ(const char *key, const char *const *more)
{
    static const char *const sections[] = {"model", "train", "optim"};
    const size_t length = strcspn(key, ".");
    if (strcmp(key, "run.seed") == 0)
        return true;
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++)
        if (strlen(sections[i]) == length && strncmp(key, sections[i], length) == 0)
            return true;
    for (; more && *more; more++)
        if (strlen(*more) == length && strncmp(key, *more, length) == 0)
            return true;
    return false;
}

static cadre_status check_key(const struct cadre_sweep_values *sweep, const char *key,
                              const char *const *more, struct cadre_error *err)
{
    for (size_t i = 0; i < sweep->n; i++)
        if (strcasecmp(sweep->key[i], key) == 0)
            return cadre_fail(err, CADRE_E_INVALID, "%s: %s is given twice; remove one",
                              sweep->name, key);
    if (!may_differ(key, more))
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s: %.60s cannot differ between instances: expected keys of "
                          "[model], [train] or [optim], of another plugin of the "
                          "stack, or run.seed",
                          sweep->name, key);
    return CADRE_OK;
}

/* A row of values for a new key. */
static cadre_status make_room(struct cadre_sweep_values *sweep, struct cadre_error *err)
{
    const size_t n = sweep->n + 1, cells = n * sweep->instances;
    void *keys = cadre_realloc(sweep->key, n, sizeof *sweep->key);
    if (keys)
        sweep->key = keys;
    void *values = cadre_realloc(sweep->value, cells, sizeof *sweep->value);
    if (values)
        sweep->value = values;
    return keys && values ? CADRE_OK : no_memory(err);
}

/* "optim.lr: 1e-3 3e-4" */
static cadre_status take_part(struct cadre_sweep_values *sweep, const char *part,
                              const char *const *more, struct cadre_error *err)
{
    struct cadre_key_values one;
    cadre_status rc = cadre_key_values_parse(sweep->name, part, &one, err);
    if (rc == CADRE_OK)
        rc = check_key(sweep, one.key, more, err);
    if (rc == CADRE_OK && one.n != sweep->instances)
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "%s: %s has %zu value%s, expected %zu, one for each instance",
                        sweep->name, one.key, one.n, one.n == 1 ? "" : "s",
                        sweep->instances);
    if (rc == CADRE_OK)
        rc = make_room(sweep, err);
    if (rc == CADRE_OK) {
        memcpy(sweep->value + sweep->n * sweep->instances, one.value,
               one.n * sizeof *one.value);
        sweep->key[sweep->n++] = one.key;
        one.key = NULL; /* they are the sweep's now */
        one.n = 0;
    }
    cadre_key_values_fini(&one);
    return rc;
}

cadre_status cadre_sweep_values_parse(const char *name, const char *text,
                                      size_t instances, const char *const *more,
                                      struct cadre_sweep_values *out,
                                      struct cadre_error *err)
{
    *out = (struct cadre_sweep_values){.instances = instances};
    out->name = cadre_strdup(name);
    char *copy = cadre_strdup(text);
    cadre_status rc = out->name && copy ? CADRE_OK : no_memory(err);
    char *at = rc == CADRE_OK && *cadre_strip(copy) ? copy : NULL;
    while (rc == CADRE_OK && at) {
        char *end = strchr(at, ',');
        if (end)
            *end = '\0';
        rc = take_part(out, at, more, err);
        at = end ? end + 1 : NULL;
    }
    free(copy);
    return rc;
}

void cadre_sweep_values_fini(struct cadre_sweep_values *sweep)
{
    for (size_t i = 0; i < sweep->n; i++)
        free(sweep->key[i]);
    for (size_t i = 0; i < sweep->n * sweep->instances; i++)
        free(sweep->value[i]);
    free(sweep->key);
    free(sweep->value);
    free(sweep->name);
    *sweep = (struct cadre_sweep_values){0};
}

cadre_status cadre_sweep_values_apply(const struct cadre_sweep_values *sweep, size_t k,
                                      struct cadre_options *options,
                                      struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    for (size_t i = 0; rc == CADRE_OK && i < sweep->n; i++) {
        char *text = cadre_format("%s=%s", sweep->key[i],
                                  sweep->value[i * sweep->instances + k]);
        rc = text ? cadre_options_set(options, text, sweep->name, err) : no_memory(err);
        free(text);
    }
    return rc;
}
