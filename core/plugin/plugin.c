/* SPDX-License-Identifier: Apache-2.0 */
/* Loading: find the file, check it as a file and who may write it, dlopen it, check
 * that the entry symbol is the file's own, check the descriptor, remember it. Plugins
 * are never unloaded: pointers into their code may remain anywhere. */
#include "core/plugin/plugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/base/status_slot.h"
#include "core/plugin/plugin_private.h"
#include "core/plugin/trust.h"

/* One loaded file. */
struct loaded {
    struct loaded *next;
    void *library;
    struct cadre_plugin_handle handle;
};

/* The process's plugins. File-scope, like dlopen's own table: one file is one handle,
 * however many ranks are threads of this process. */
static struct {
    pthread_mutex_t lock;
    struct loaded *first;
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER};

typedef const struct cadre_plugin *entry_fn(void);

static cadre_status open_library(const char *path, void **library,
                                 struct cadre_error *err)
{
    errno = 0;
    *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (*library)
        return CADRE_OK;
    const int failed = errno;
    const char *why = dlerror();
    if (failed == ENOMEM || failed == EMFILE || failed == EIO)
        return cadre_fail_errno(err, CADRE_E_INVALID, failed,
                                "the plugin '%s' cannot be opened", path);
    return cadre_fail(err, CADRE_E_INVALID,
                      "the plugin '%s' cannot be opened (a plugin links nothing of the "
                      "host: link it with -Wl,-z,defs to see why): %s",
                      path, why ? why : "no reason given");
}

/* dlsym also searches the libraries that the file depends on: an entry found there
 * belongs to another plugin. */
static cadre_status find_entry(void *library, const char *path, entry_fn **entry,
                               struct cadre_error *err)
{
    struct link_map *own = NULL, *owner = NULL;
    Dl_info info;
    void *symbol = dlsym(library, CADRE_ENTRY_NAME);
    if (!symbol)
        return cadre_fail(err, CADRE_E_INVALID,
                          "the plugin '%s' has no symbol " CADRE_ENTRY_NAME
                          ": it is not a strategy plugin, or its entry is not exported "
                          "with CADRE_EXPORT",
                          path);
    if (dlinfo(library, RTLD_DI_LINKMAP, &own) ||
        !dladdr1(symbol, &info, (void **)&owner, RTLD_DL_LINKMAP) || own != owner)
        return cadre_fail(err, CADRE_E_INVALID,
                          "the plugin '%s' has no " CADRE_ENTRY_NAME
                          " of its own, the one found belongs to '%s': do not link a "
                          "plugin against another",
                          path, owner ? owner->l_name : "another object");
    memcpy(entry, &symbol, sizeof *entry);
    return CADRE_OK;
}

static cadre_status check_duplicate(const struct loaded *node, struct cadre_error *err)
{
    for (const struct loaded *old = registry.first; old; old = old->next)
        if (!strcmp(old->handle.name, node->handle.name))
            return cadre_fail(err, CADRE_E_INVALID,
                              "the plugin '%s' has the id '%s', but '%s' (id '%s') is "
                              "loaded already and has the short name '%s' too: remove "
                              "one of the files or rename its id",
                              node->handle.path, node->handle.desc.id, old->handle.path,
                              old->handle.desc.id, old->handle.name);
    return CADRE_OK;
}

/* The first code of the plugin that runs: its library's constructors and its entry. */
static cadre_status open_node(struct loaded *node, struct cadre_error *err)
{
    entry_fn *entry = NULL;
    const char *path = node->handle.path;
    CADRE_TRY(open_library(path, &node->library, err));
    CADRE_TRY(find_entry(node->library, path, &entry, err));
    return cadre_plugin_check(entry(), &node->handle, err);
}

/* node->handle.path is set. Called with the lock held. */
static cadre_status load_node(struct loaded *node, struct cadre_error *err)
{
    struct cadre_status_slot *slot = cadre_status_current();
    const char *path = node->handle.path;
    CADRE_TRY(cadre_plugin_file_check(path, &node->handle.digest, NULL, err));
    CADRE_TRY(cadre_trust_check(path, err));
    uint64_t former = cadre_status_enter(slot, cadre_path_basename(path), "open", 0);
    cadre_status rc = open_node(node, err);
    cadre_status_leave(slot, former);
    return rc == CADRE_OK ? check_duplicate(node, err) : rc;
}

/* *fresh: it was not loaded before. */
static cadre_status load_path(const char *path, const struct cadre_plugin_handle **out,
                              bool *fresh, struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    struct loaded *node = NULL;
    char *real = realpath(path, NULL);
    if (!real)
        return cadre_fail_errno(err, CADRE_E_INVALID, errno,
                                "cannot open the plugin '%s'", path);
    pthread_mutex_lock(&registry.lock);
    for (struct loaded *old = registry.first; old && !node; old = old->next)
        if (!strcmp(old->handle.path, real))
            node = old;
    if (node) {
        *out = &node->handle;
        goto fail;
    }
    node = cadre_calloc(1, sizeof *node);
    if (!node || strlen(real) >= sizeof node->handle.path) {
        rc = cadre_no_memory(err, "the plugin '%s'", real);
        free(node);
        goto fail;
    }
    memcpy(node->handle.path, real, strlen(real) + 1);
    rc = load_node(node, err);
    if (rc) {
        free(node);
        goto fail;
    }
    node->next = registry.first;
    registry.first = node;
    *out = &node->handle;
    *fresh = true;
fail:
    pthread_mutex_unlock(&registry.lock);
    free(real);
    return rc;
}

/* `own`: the file of Cadre's own that the one found is in place of; empty: none. */
static cadre_status find_path(const char *name, const char *plugin_path,
                              char path[PATH_MAX], char own[PATH_MAX],
                              struct cadre_error *err)
{
    char program_dir[1024];
    struct cadre_plugin_places *places = cadre_calloc(1, sizeof *places);
    if (!places)
        return cadre_fail(err, CADRE_E_RESOURCE, "no memory to search for '%s'", name);
    cadre_path_program_dir(program_dir, sizeof program_dir);
    char *user_path = cadre_plugin_user_path(getenv("CADRE_PLUGIN_PATH"),
                                             getenv("XDG_DATA_HOME"), getenv("HOME"));
    cadre_plugin_places_init(places, plugin_path, user_path, program_dir);
    free(user_path);
    cadre_status rc = cadre_plugin_find(places, name, path, PATH_MAX, err);
    if (rc != CADRE_OK || !cadre_plugin_shadows(places, name, own, PATH_MAX))
        own[0] = 0;
    free(places);
    return rc;
}

/* Another build of Cadre's own plugin may stand in its place, no other plugin may. */
static cadre_status check_shadow(const struct cadre_plugin_handle *handle,
                                 const char *own, struct cadre_error *err)
{
    char id[64];
    snprintf(id, sizeof id, "org.cadre.%s", handle->name);
    if (!*own || strcmp(handle->desc.id, id) == 0)
        return CADRE_OK;
    return cadre_fail(
        err, CADRE_E_INVALID,
        "the plugin '%s' has the id '%s', but '%s' is the name of Cadre's "
        "own plugin '%s': rename the id and the file, or name the file by "
        "its path",
        handle->path, handle->desc.id, handle->name, own);
}

cadre_status cadre_plugin_load(const char *name, const char *plugin_path,
                               const struct cadre_plugin_handle **out,
                               struct cadre_error *err)
{
    const struct cadre_plugin_handle *handle = NULL;
    char path[PATH_MAX], own[PATH_MAX];
    bool fresh = false;
    if (strchr(name, '/'))
        return load_path(name, out, &fresh, err);
    CADRE_TRY(find_path(name, plugin_path, path, own, err));
    CADRE_TRY(load_path(path, &handle, &fresh, err));
    CADRE_TRY(check_shadow(handle, own, err));
    if (fresh && *own)
        cadre_log(CADRE_LOG_WARN, "plugin", "the plugin '%s' is %s and hides %s", name,
                  path, own);
    if (strcmp(handle->name, name) != 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "the plugin '%s' calls itself '%s' (id '%s'), but '%s' was "
                          "asked for: rename the file to %s.so",
                          handle->path, handle->name, handle->desc.id, name,
                          handle->name);
    *out = handle;
    return CADRE_OK;
}
