/* SPDX-License-Identifier: Apache-2.0 */
/* Names are sorted by bytes, so that every machine and locale sees one order. */
#include "core/data/wfdb/record_list.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/memory.h"

enum { DEPTH_MAX = 16 };

/* Without its ".hea"; false for other names. */
static bool strip_suffix(char *name)
{
    size_t size = strlen(name);
    if (size <= 4 || strcmp(name + size - 4, ".hea") != 0)
        return false;
    name[size - 4] = '\0';
    return true;
}

/* Takes over name, also on failure. */
static cadre_status add_take(struct cadre_record_list *list, char *name)
{
    if (list->count == list->capacity) {
        size_t capacity = 2 * list->capacity + 64;
        char **grown = cadre_realloc(list->names, capacity, sizeof *grown);
        if (!grown) {
            free(name);
            return CADRE_E_RESOURCE;
        }
        list->names = grown;
        list->capacity = capacity;
    }
    list->names[list->count++] = name;
    return CADRE_OK;
}

static cadre_status walk(struct cadre_record_list *list, const char *below, int depth,
                         struct cadre_error *err);

/* Add what one entry of a folder holds. */
static cadre_status visit(struct cadre_record_list *list, const char *below,
                          const char *entry, int depth, struct cadre_error *err)
{
    struct stat st;
    cadre_status rc = CADRE_OK;
    if (entry[0] == '.')
        return CADRE_OK;
    char *name = below[0] ? cadre_format("%s/%s", below, entry) : cadre_strdup(entry);
    char *path = name ? cadre_format("%s/%s", list->folder, name) : NULL;
    if (!path)
        rc = CADRE_E_RESOURCE;
    else if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode))
        rc = walk(list, name, depth + 1, err);
    else if (strip_suffix(name)) {
        rc = add_take(list, name);
        name = NULL;
    }
    free(name);
    free(path);
    return rc;
}

static cadre_status walk(struct cadre_record_list *list, const char *below, int depth,
                         struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    const struct dirent *entry = NULL;
    if (depth > DEPTH_MAX)
        return cadre_fail(err, CADRE_E_INVALID,
                          "\"%s/%s\": expected at most %d folders in each other",
                          list->folder, below, DEPTH_MAX);
    char *path = cadre_format("%s/%s", list->folder, below);
    DIR *dir = path ? opendir(path) : NULL;
    if (!path)
        rc = CADRE_E_RESOURCE;
    else if (!dir)
        rc = cadre_fail_errno(err, CADRE_E_IO, errno, "cannot read the folder \"%s\"",
                              path);
    while (rc == CADRE_OK && (entry = readdir(dir)))
        rc = visit(list, below, entry->d_name, depth, err);
    if (dir)
        closedir(dir);
    free(path);
    return rc;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* `path` names one record: its folder, and its name in it. */
static cadre_status add_single(struct cadre_record_list *list, const char *path,
                               struct cadre_error *err)
{
    struct stat st;
    const char *slash = strrchr(path, '/');
    char *name = cadre_strdup(slash ? slash + 1 : path);
    char *header = NULL;
    list->folder = slash ? cadre_strndup(path, (size_t)(slash - path) + (slash == path))
                         : cadre_strdup(".");
    if (name)
        strip_suffix(name);
    if (name && list->folder)
        header = cadre_format("%s/%s.hea", list->folder, name);
    if (!header) {
        free(name);
        return CADRE_E_RESOURCE;
    }
    bool found = stat(header, &st) == 0;
    free(header);
    if (!found) {
        free(name);
        return cadre_fail(
            err, CADRE_E_INVALID,
            "\"%s\": expected a folder of WFDB records or one record, found "
            "neither this folder nor its .hea",
            path);
    }
    return add_take(list, name);
}

cadre_status cadre_record_list_init(const char *path, struct cadre_record_list *list,
                                    struct cadre_error *err)
{
    struct cadre_record_list found = {0};
    struct stat st;
    cadre_status rc;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        found.folder = cadre_strdup(path);
        rc = found.folder ? walk(&found, "", 0, err) : CADRE_E_RESOURCE;
        if (rc == CADRE_OK && found.count == 0)
            rc = cadre_fail(err, CADRE_E_INVALID,
                            "\"%s\": expected WFDB records, found no .hea file", path);
    } else {
        rc = add_single(&found, path, err);
    }
    if (rc != CADRE_OK) {
        if (rc == CADRE_E_RESOURCE)
            cadre_fail(err, rc, "no memory for the records of \"%s\"", path);
        cadre_record_list_fini(&found);
        return rc;
    }
    qsort(found.names, found.count, sizeof *found.names, compare_names);
    *list = found;
    return CADRE_OK;
}

void cadre_record_list_fini(struct cadre_record_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->names[i]);
    free(list->names);
    free(list->folder);
    memset(list, 0, sizeof *list);
}
