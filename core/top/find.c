/* SPDX-License-Identifier: Apache-2.0 */
#include "core/top/find.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/path.h"

static cadre_status add(struct cadre_top_runs *runs, const char *dir,
                        struct cadre_error *err)
{
    void *grown = cadre_realloc(runs->dir, runs->n + 1, sizeof *runs->dir);
    char *copy = grown ? cadre_strdup(dir) : NULL;
    if (grown)
        runs->dir = grown;
    if (!copy)
        return cadre_no_memory(err, "the names of runs");
    runs->dir[runs->n++] = copy;
    return CADRE_OK;
}

/* The runs directly in `dir`, which may not be there. */
static cadre_status look_in(const char *dir, struct cadre_top_runs *runs,
                            struct cadre_error *err)
{
    DIR *open = opendir(dir);
    cadre_status rc = CADRE_OK;
    for (struct dirent *entry; open && rc == CADRE_OK && (entry = readdir(open));) {
        if (entry->d_name[0] == '.')
            continue;
        char *path = cadre_path_join(dir, entry->d_name);
        if (!path)
            rc = cadre_no_memory(err, "a path");
        else if (cadre_path_is_dir(path) && cadre_path_has(path, "status"))
            rc = add(runs, path, err);
        free(path);
    }
    if (open)
        closedir(open);
    return rc;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static cadre_status nothing(const char *dir, struct cadre_error *err)
{
    if (!cadre_path_exists(dir))
        return cadre_fail(err, CADRE_E_INVALID,
                          "there is no folder '%s'; `cadre top` takes the folder that "
                          "`cadre train` trains into (--out, runs/NAME by default)",
                          dir);
    if (!cadre_path_is_dir(dir))
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s' is no folder; `cadre top` takes the folder of a run",
                          dir);
    if (cadre_path_has(dir, "config.ini") || cadre_path_has(dir, "metrics.jsonl"))
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s' has no status pages: its ranks have not begun, or an "
                          "older cadre trained it",
                          dir);
    return cadre_fail(err, CADRE_E_INVALID,
                      "'%s' is no folder of a run, a sweep or a comparison: it has no "
                      "status pages, nor has a folder in it",
                      dir);
}

cadre_status cadre_top_find(const char *dir, struct cadre_top_runs *runs,
                            struct cadre_error *err)
{
    static const char *const below[] = {"", "runs", "pieces"};
    *runs = (struct cadre_top_runs){0};
    if (cadre_path_has(dir, "status"))
        return add(runs, dir, err);
    for (size_t i = 0; i < sizeof below / sizeof below[0]; i++) {
        char *path = *below[i] ? cadre_path_join(dir, below[i]) : cadre_strdup(dir);
        cadre_status rc =
            path ? look_in(path, runs, err) : cadre_no_memory(err, "a path");
        free(path);
        if (rc != CADRE_OK)
            return rc;
    }
    if (runs->n == 0)
        return nothing(dir, err);
    qsort(runs->dir, runs->n, sizeof *runs->dir, by_name);
    return CADRE_OK;
}

void cadre_top_runs_fini(struct cadre_top_runs *runs)
{
    for (size_t i = 0; i < runs->n; i++)
        free(runs->dir[i]);
    free(runs->dir);
    *runs = (struct cadre_top_runs){0};
}
