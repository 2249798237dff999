/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the loader that work without dlopen. Private to core/plugin and its tests.
 */
#ifndef CADRE_PLUGIN_PLUGIN_PRIVATE_H
#define CADRE_PLUGIN_PLUGIN_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/plugin/plugin.h"

/* Is the file a complete shared object for this machine? None of its code runs. *digest
 * (may be NULL) is the hash of its bytes; *has_entry (may be NULL) says whether the
 * entry symbol's name occurs in it. Errors: CADRE_E_INVALID naming the file and the
 * reason, CADRE_E_RESOURCE. [any thread] */
cadre_status cadre_plugin_file_check(const char *path, uint64_t *digest,
                                     bool *has_entry, struct cadre_error *err);

/* Every service of <cadre/services.h>, and the size of its table. */
#define CADRE_KNOWN_SERVICES 9
struct cadre_known_service {
    const char *id;
    uint32_t bytes;
};
extern const struct cadre_known_service cadre_known_services[CADRE_KNOWN_SERVICES];

/* Check a descriptor and fill handle's name, desc and ops, with struct_size set to the
 * host's sizes; handle->path names the file in refusals. The plugin keeps ownership of
 * the strings and the option table. Errors: CADRE_E_INVALID. [any thread] */
cadre_status cadre_plugin_check(const struct cadre_plugin *found,
                                struct cadre_plugin_handle *handle,
                                struct cadre_error *err);

/* Check the option table of handle->desc. Errors: CADRE_E_INVALID naming the key,
 * CADRE_E_RESOURCE. [any thread] */
cadre_status cadre_plugin_check_options(const struct cadre_plugin_handle *handle,
                                        struct cadre_error *err);

/* The folders of a search, in order. */
#define CADRE_PLUGIN_PLACES 64
struct cadre_plugin_place {
    char dir[1024];
    bool tree; /* build tree: dir/NAME/.libs/NAME.so instead of dir/NAME.so */
};
struct cadre_plugin_places {
    size_t n;
    size_t own; /* the first of Cadre's own folders; before it are the user's */
    struct cadre_plugin_place place[CADRE_PLUGIN_PLACES];
};

/* Fill places from plugin_path and env_path (colon-separated, may be NULL), then from
 * the folder the program lies in: its build tree, the install prefix around it, the
 * configured folder. Folders beyond CADRE_PLUGIN_PLACES are ignored. */
void cadre_plugin_places_init(struct cadre_plugin_places *places,
                              const char *plugin_path, const char *env_path,
                              const char *program_dir);

/* CADRE_PLUGIN_PATH (env_path), then the folder of this user's own plugins:
 * cadre/plugins below XDG_DATA_HOME if that is absolute, else below HOME/.local/share.
 * All may be NULL. The caller frees; NULL: no memory. */
char *cadre_plugin_user_path(const char *env_path, const char *data_home,
                             const char *home);

/* Is there a file of that short name in Cadre's own folders, and also in an earlier
 * one, where it is found first? out: the file in Cadre's own. */
bool cadre_plugin_shadows(const struct cadre_plugin_places *places, const char *name,
                          char *out, size_t bytes);

/* The first file of that short name. Errors: CADRE_E_INVALID with the nearest name and
 * the folders searched. */
cadre_status cadre_plugin_find(const struct cadre_plugin_places *places,
                               const char *name, char *out, size_t bytes,
                               struct cadre_error *err);

/* cadre_plugin_list over given places. */
char **cadre_plugin_list_places(const struct cadre_plugin_places *places);

#endif
