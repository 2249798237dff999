/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/data/template/evaluation.h"

static struct cadre_binding *seek(const struct cadre_evaluation *e, const char *name,
                                  size_t from, size_t to)
{
    for (size_t i = to; i > from; i--)
        if (strcmp(e->binding[i - 1].name, name) == 0)
            return &e->binding[i - 1];
    return NULL;
}

struct cadre_binding *cadre_names_find(const struct cadre_evaluation *e,
                                       const char *name)
{
    struct cadre_binding *found = seek(e, name, e->barrier, e->count);
    const size_t globals = e->globals < e->barrier ? e->globals : e->barrier;
    return found ? found : seek(e, name, 0, globals);
}

cadre_status cadre_names_bind(struct cadre_evaluation *e,
                              const struct cadre_binding *binding)
{
    struct cadre_binding *found = seek(e, binding->name, e->scope, e->count);
    if (found) {
        json_decref(found->value);
        *found = *binding;
        return CADRE_OK;
    }
    if (e->count == e->capacity) {
        const size_t capacity = 2 * e->capacity + 32;
        struct cadre_binding *grown =
            cadre_realloc(e->binding, capacity, sizeof *e->binding);
        if (!grown) {
            json_decref(binding->value);
            return cadre_no_memory(e->err, "a template's names");
        }
        e->binding = grown;
        e->capacity = capacity;
    }
    e->binding[e->count++] = *binding;
    return CADRE_OK;
}

struct cadre_scope cadre_names_open(struct cadre_evaluation *e, bool is_macro)
{
    const struct cadre_scope outer = {e->scope, e->barrier};
    if (e->scopes++ == 0)
        e->globals = e->count;
    e->scope = e->count;
    if (is_macro)
        e->barrier = e->count;
    return outer;
}

void cadre_names_close(struct cadre_evaluation *e, struct cadre_scope outer)
{
    while (e->count > e->scope)
        json_decref(e->binding[--e->count].value);
    e->scope = outer.scope;
    e->barrier = outer.barrier;
    e->scopes--;
}

void cadre_names_fini(struct cadre_evaluation *e)
{
    while (e->count > 0)
        json_decref(e->binding[--e->count].value);
    free(e->binding);
    e->binding = NULL;
}
