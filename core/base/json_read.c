/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/json_read.h"

#include <pthread.h>

#include "core/base/memory.h"

/* jansson calls some failed allocations faults of the text, and after others leaves out
 * what it had no memory for and says that all is well; errno it sets anew for each
 * number. So its allocations are watched: one flag for each thread, as it has no
 * argument to give one. */
static _Thread_local bool starved;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static json_malloc_t inner; /* written once */

static void *take(size_t bytes)
{
    void *block = inner(bytes);
    if (!block)
        starved = true;
    return block;
}

static void watch(void)
{
    json_free_t give;
    json_get_alloc_funcs(&inner, &give);
    json_set_alloc_funcs(take, give);
}

json_t *cadre_json_load(const char *text, size_t bytes, size_t flags, json_error_t *why,
                        bool *no_memory)
{
    pthread_once(&once, watch);
    starved = false;
    json_t *root = json_loadb(text, bytes, flags, why);
    *no_memory = starved;
    if (!starved)
        return root;
    json_decref(root);
    return NULL;
}

cadre_status cadre_json_read(const char *text, size_t bytes, const char *path,
                             json_t **root, struct cadre_error *err)
{
    json_error_t why;
    bool no_memory;
    *root = cadre_json_load(text, bytes, JSON_REJECT_DUPLICATES, &why, &no_memory);
    if (no_memory)
        return cadre_no_memory(err, "'%s'", path);
    if (*root)
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID, "'%s' line %d: expected JSON: %s", path,
                      why.line, why.text);
}

cadre_status cadre_json_try(const char *text, size_t bytes, size_t flags,
                            const char *what, json_t **root, struct cadre_error *err)
{
    bool no_memory;
    *root = cadre_json_load(text, bytes, flags, NULL, &no_memory);
    return no_memory ? cadre_no_memory(err, "'%s'", what) : CADRE_OK;
}
