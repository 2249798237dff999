/* SPDX-License-Identifier: Apache-2.0 */
/* Where plugins are searched: the folders that the user names first, then the user's
 * own, then folders relative to the program's own file, so that a build tree and a
 * moved install prefix both work. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/config/foreign.h"
#include "core/config/nearest.h"
#include "core/plugin/plugin_private.h"

static void add_place(struct cadre_plugin_places *places, bool tree, const char *dir,
                      size_t len)
{
    if (places->n == CADRE_PLUGIN_PLACES || len == 0 ||
        len >= sizeof places->place[0].dir)
        return;
    struct cadre_plugin_place *place = &places->place[places->n];
    memcpy(place->dir, dir, len);
    place->dir[len] = 0;
    place->tree = tree;
    for (size_t i = 0; i < places->n; i++)
        if (places->place[i].tree == tree && !strcmp(places->place[i].dir, place->dir))
            return;
    places->n++;
}

static void add_list(struct cadre_plugin_places *places, const char *list)
{
    while (list && *list) {
        size_t len = strcspn(list, ":");
        add_place(places, false, list, len);
        list += len + (list[len] == ':');
    }
}

static void add_under(struct cadre_plugin_places *places, bool tree, const char *dir,
                      const char *rest)
{
    char path[2048];
    int n = snprintf(path, sizeof path, "%s/%s", dir, rest);
    if (n > 0 && (size_t)n < sizeof path)
        add_place(places, tree, path, (size_t)n);
}

void cadre_plugin_places_init(struct cadre_plugin_places *places,
                              const char *plugin_path, const char *env_path,
                              const char *program_dir)
{
    char relative[1024];
    places->n = 0;
    add_list(places, plugin_path);
    add_list(places, env_path);
    places->own = places->n;
    if (program_dir && *program_dir) {
        add_under(places, true, program_dir, "plugins");
        add_under(places, false, program_dir, ".libs");
        cadre_path_relative(CADRE_BINDIR, CADRE_PLUGINDIR, relative, sizeof relative);
        add_under(places, false, program_dir, relative);
    }
    add_place(places, false, CADRE_PLUGINDIR, strlen(CADRE_PLUGINDIR));
}

char *cadre_plugin_user_path(const char *env_path, const char *data_home,
                             const char *home)
{
    const char *env = env_path ? env_path : "";
    if (data_home && *data_home == '/')
        return cadre_format("%s:%s/cadre/plugins", env, data_home);
    if (home && *home == '/')
        return cadre_format("%s:%s/.local/share/cadre/plugins", env, home);
    return cadre_strdup(env);
}

/* false: too long for `bytes` */
static bool place_file(const struct cadre_plugin_place *place, const char *name,
                       char *out, size_t bytes)
{
    int n = place->tree
                ? snprintf(out, bytes, "%s/%s/.libs/%s.so", place->dir, name, name)
                : snprintf(out, bytes, "%s/%s.so", place->dir, name);
    return n > 0 && (size_t)n < bytes;
}

/* The first place from `from` on that has the file; places->n where none has. */
static size_t find_file(const struct cadre_plugin_places *places, size_t from,
                        const char *name, char *out, size_t bytes)
{
    size_t i = from;
    while (i < places->n &&
           !(place_file(&places->place[i], name, out, bytes) && !access(out, F_OK)))
        i++;
    return i;
}

bool cadre_plugin_shadows(const struct cadre_plugin_places *places, const char *name,
                          char *out, size_t bytes)
{
    return find_file(places, 0, name, out, bytes) < places->own &&
           find_file(places, places->own, name, out, bytes) < places->n;
}

static cadre_status not_found(const struct cadre_plugin_places *places,
                              const char *name, struct cadre_error *err)
{
    struct cadre_nearest nearest = {0};
    struct cadre_text searched = {0};
    const char *ours = cadre_foreign_strategy(name);
    if (ours)
        return cadre_fail(err, CADRE_E_INVALID,
                          "there is no plugin '%s': %s; `cadre plugins` lists those "
                          "that there are",
                          name, ours);
    char **names = cadre_plugin_list_places(places);
    for (size_t i = 0; names && names[i]; i++)
        cadre_nearest_offer(&nearest, name, names[i]);
    for (size_t i = 0; i < places->n; i++)
        cadre_text_printf(&searched, "%s%s", i ? ", " : "", places->place[i].dir);
    cadre_status rc = cadre_fail(
        err, CADRE_E_INVALID,
        "there is no plugin '%s'%s%s%s; strategy.plugin_path and CADRE_PLUGIN_PATH "
        "name more folders; searched %s for %s.so",
        name, nearest.name ? ", the nearest is '" : "",
        nearest.name ? nearest.name : "", nearest.name ? "'" : "",
        cadre_text_str(&searched), name);
    for (size_t i = 0; names && names[i]; i++)
        free(names[i]);
    free(names);
    cadre_text_fini(&searched);
    return rc;
}

cadre_status cadre_plugin_find(const struct cadre_plugin_places *places,
                               const char *name, char *out, size_t bytes,
                               struct cadre_error *err)
{
    if (!cadre_plugin_is_name(name))
        return cadre_fail(
            err, CADRE_E_INVALID,
            "'%s' is not a plugin name: expected lower-case letters, digits "
            "and '_', or a path with '/', such as ./my.so",
            name);
    return find_file(places, 0, name, out, bytes) < places->n
               ? CADRE_OK
               : not_found(places, name, err);
}

struct names {
    char **list;
    size_t n;
    bool failed; /* not the files' fault: some may be missing */
};

static void offer_name(struct names *names, const char *name, const char *path)
{
    bool has_entry = false;
    if (!cadre_plugin_is_name(name))
        return;
    const cadre_status rc = cadre_plugin_file_check(path, NULL, &has_entry, NULL);
    names->failed |= rc == CADRE_E_RESOURCE || rc == CADRE_E_IO;
    if (rc != CADRE_OK || !has_entry)
        return;
    for (size_t i = 0; i < names->n; i++)
        if (!strcmp(names->list[i], name))
            return;
    char **grown = cadre_realloc(names->list, names->n + 2, sizeof *grown);
    if (grown)
        names->list = grown;
    char *copy = grown ? cadre_strdup(name) : NULL;
    names->failed |= !copy;
    if (!copy)
        return;
    names->list[names->n] = copy;
    names->list[++names->n] = NULL;
}

static void list_place(const struct cadre_plugin_place *place, struct names *names)
{
    DIR *dir = opendir(place->dir);
    names->failed |=
        !dir && (errno == ENOMEM || errno == EMFILE || errno == ENFILE || errno == EIO);
    if (!dir)
        return;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        char name[256], path[2048];
        snprintf(name, sizeof name, "%s", entry->d_name);
        char *dot = strrchr(name, '.');
        if (!place->tree && (!dot || strcmp(dot, ".so") != 0))
            continue;
        if (!place->tree)
            *dot = 0;
        if (place_file(place, name, path, sizeof path))
            offer_name(names, name, path);
    }
    closedir(dir);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

char **cadre_plugin_list_places(const struct cadre_plugin_places *places)
{
    struct names names = {.list = cadre_calloc(1, sizeof(char *))};
    if (!names.list)
        return NULL;
    for (size_t i = 0; i < places->n; i++)
        list_place(&places->place[i], &names);
    if (names.failed) {
        for (size_t i = 0; i < names.n; i++)
            free(names.list[i]);
        free(names.list);
        return NULL;
    }
    qsort(names.list, names.n, sizeof *names.list, compare_names);
    return names.list;
}

char **cadre_plugin_list(const char *plugin_path)
{
    struct cadre_plugin_places *places = cadre_calloc(1, sizeof *places);
    char program_dir[1024];
    if (!places)
        return NULL;
    cadre_path_program_dir(program_dir, sizeof program_dir);
    char *user_path = cadre_plugin_user_path(getenv("CADRE_PLUGIN_PATH"),
                                             getenv("XDG_DATA_HOME"), getenv("HOME"));
    cadre_plugin_places_init(places, plugin_path, user_path, program_dir);
    free(user_path);
    char **names = cadre_plugin_list_places(places);
    free(places);
    return names;
}
