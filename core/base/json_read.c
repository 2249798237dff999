/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/json_read.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "core/base/memory.h"
#include "core/base/path.h"

/* jansson calls some failed allocations faults of the text, after others leaves out
 * what it had no memory for and says that all is well, and after one writes through a
 * null pointer; errno it sets anew for each number. So its allocations are watched, and
 * those that fail come from a reserve: it then ends as ever, and what it made is thrown
 * away. Of each thread, as jansson's functions have no argument to give one. */
enum { RESERVE_BYTES = 8192, UNIT = 16, FILE_BYTES_MAX = 1 << 28 };
struct reserve {
    _Alignas(UNIT) char bytes[RESERVE_BYTES];
    size_t used;
    bool starved;
};
static _Thread_local struct reserve *reserve; /* while a text is read */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static json_malloc_t inner; /* written once, as the next */
static json_free_t inner_free;

static void *take(size_t bytes)
{
    void *block = inner(bytes);
    struct reserve *r = reserve;
    if (block || !r)
        return block;
    r->starved = true;
    if (bytes > RESERVE_BYTES - r->used)
        return NULL;
    block = r->bytes + r->used;
    r->used += (bytes + UNIT - 1) / UNIT * UNIT;
    return block;
}

static void give(void *block)
{
    const struct reserve *r = reserve;
    const uintptr_t at = (uintptr_t)block;
    if (!r || at < (uintptr_t)r->bytes || at >= (uintptr_t)r->bytes + RESERVE_BYTES)
        inner_free(block);
}

static void watch(void)
{
    json_get_alloc_funcs(&inner, &inner_free);
    json_set_alloc_funcs(take, give);
}

json_t *cadre_json_load(const char *text, size_t bytes, size_t flags, json_error_t *why,
                        bool *no_memory)
{
    struct reserve own;
    own.used = 0;
    own.starved = false;
    pthread_once(&once, watch);
    reserve = &own;
    json_t *root = json_loadb(text, bytes, flags, why);
    *no_memory = own.starved;
    if (own.starved) { /* parts of it are in the reserve */
        json_decref(root);
        root = NULL;
    }
    reserve = NULL;
    return root;
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

cadre_status cadre_json_try_file(const char *dir, const char *name, json_t **root,
                                 struct cadre_error *err)
{
    char *path = cadre_path_join(dir, name), *text = NULL;
    size_t bytes = 0;
    *root = NULL;
    if (!path)
        return cadre_no_memory(err, "'%s'", name);
    cadre_status rc = cadre_path_read_file(path, FILE_BYTES_MAX, &text, &bytes, NULL);
    if (rc == CADRE_OK)
        rc = cadre_json_try(text, bytes, 0, path, root, err);
    else if (rc == CADRE_E_RESOURCE)
        cadre_no_memory(err, "'%s'", path);
    else
        rc = CADRE_OK;
    free(text);
    free(path);
    return rc;
}
