/* SPDX-License-Identifier: Apache-2.0 */
#include "core/checkpoint/format/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/checkpoint/format/file.h"

static const char removing[] = ".removing";
static const char partial[] = ".partial";

char *cadre_folder_root(const char *run)
{
    return cadre_path_join(run, "checkpoints");
}

char *cadre_folder_path(const char *root, uint64_t step, const char *ending)
{
    return cadre_format("%s/step-%08" PRIu64 "%s", root, step, ending);
}

/* Parse step-<digits><ending>, as cadre_folder_path writes it. */
static bool parse_name(const char *name, uint64_t *step, const char **ending)
{
    char again[64];
    char *end;
    if (strncmp(name, "step-", 5) != 0 || name[5] < '0' || name[5] > '9')
        return false;
    errno = 0;
    *step = strtoull(name + 5, &end, 10);
    if (errno != 0)
        return false;
    *ending = end;
    snprintf(again, sizeof again, "step-%08" PRIu64, *step);
    return strncmp(name, again, (size_t)(end - name)) == 0 &&
           strlen(again) == (size_t)(end - name);
}

static cadre_status open_root(const char *root, DIR **out, struct cadre_error *err)
{
    *out = opendir(root);
    if (!*out && errno != ENOENT)
        return cadre_fail_errno(err, CADRE_E_IO, errno, "%s: cannot be listed", root);
    return CADRE_OK;
}

static int compare_steps(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

cadre_status cadre_folder_list(const char *root, uint64_t **steps, size_t *n,
                               struct cadre_error *err)
{
    DIR *dir;
    const struct dirent *entry;
    const char *ending;
    uint64_t *list = NULL;
    uint64_t step;
    size_t count = 0;
    cadre_status rc = open_root(root, &dir, err);
    while (rc == CADRE_OK && dir && (entry = readdir(dir))) {
        if (!parse_name(entry->d_name, &step, &ending) || *ending != '\0')
            continue;
        uint64_t *longer = cadre_realloc(list, count + 1, sizeof *list);
        if (!longer) {
            rc = cadre_fail(err, CADRE_E_RESOURCE, "%s: no memory to list it", root);
            break;
        }
        list = longer;
        list[count++] = step;
    }
    if (dir)
        closedir(dir);
    if (rc != CADRE_OK) {
        free(list);
        return rc;
    }
    if (count > 0)
        qsort(list, count, sizeof *list, compare_steps);
    *steps = list;
    *n = count;
    return CADRE_OK;
}

cadre_status cadre_folder_clean(const char *root, struct cadre_error *err)
{
    DIR *dir;
    const struct dirent *entry;
    const char *ending;
    uint64_t step;
    cadre_status rc = open_root(root, &dir, err);
    while (rc == CADRE_OK && dir && (entry = readdir(dir))) {
        if (!parse_name(entry->d_name, &step, &ending) ||
            (strcmp(ending, partial) != 0 && strcmp(ending, removing) != 0))
            continue;
        char *path = cadre_format("%s/%s", root, entry->d_name);
        rc = path ? cadre_file_remove_tree(path, err)
                  : cadre_fail(err, CADRE_E_RESOURCE, "%s: no memory", root);
        free(path);
    }
    if (dir)
        closedir(dir);
    return rc;
}

/* Rename first: a partly removed folder must not look like a checkpoint. */
static cadre_status remove_step(const char *root, uint64_t step,
                                struct cadre_error *err)
{
    char *path = cadre_folder_path(root, step, "");
    char *away = cadre_folder_path(root, step, removing);
    cadre_status rc = CADRE_OK;
    if (!path || !away)
        rc = cadre_fail(err, CADRE_E_RESOURCE, "%s: no memory", root);
    else if (rename(path, away) != 0)
        rc = cadre_fail_errno(err, CADRE_E_IO, errno, "%s: cannot be removed", path);
    else
        rc = cadre_file_remove_tree(away, err);
    free(path);
    free(away);
    return rc;
}

static cadre_status publish(const char *from, const char *to, const char *away,
                            struct cadre_error *err)
{
    if (access(to, F_OK) != 0) {
        if (rename(from, to) != 0)
            return cadre_fail_errno(err, CADRE_E_IO, errno, "%s: cannot be renamed",
                                    from);
        return CADRE_OK;
    }
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) == 0)
        return CADRE_OK;
    if (rename(to, away) != 0 || rename(from, to) != 0)
        return cadre_fail_errno(err, CADRE_E_IO, errno, "%s: cannot replace %s", from,
                                to);
    return CADRE_OK;
}

cadre_status cadre_folder_publish(const char *root, uint64_t step,
                                  struct cadre_error *err)
{
    char *from = cadre_folder_path(root, step, partial);
    char *to = cadre_folder_path(root, step, "");
    char *away = cadre_folder_path(root, step, removing);
    cadre_status rc;
    if (!from || !to || !away) {
        rc = cadre_fail(err, CADRE_E_RESOURCE, "%s: no memory", root);
        goto fail;
    }
    CADRE_TRY_OR(publish(from, to, away, err), fail);
    CADRE_TRY_OR(cadre_file_sync_folder(root, err), fail);
    CADRE_TRY_OR(cadre_file_remove_tree(from, err), fail);
    CADRE_TRY_OR(cadre_file_remove_tree(away, err), fail);
fail:
    free(from);
    free(to);
    free(away);
    return rc;
}

cadre_status cadre_folder_prune(const char *root, uint64_t step, size_t keep,
                                struct cadre_error *err)
{
    uint64_t *steps = NULL;
    size_t n = 0;
    size_t before = 0;
    cadre_status rc;
    if (keep == 0)
        return CADRE_OK;
    CADRE_TRY_OR(cadre_folder_list(root, &steps, &n, err), fail);
    while (before < n && steps[before] < step)
        before++;
    for (size_t i = 0; i + keep - 1 < before; i++)
        CADRE_TRY_OR(remove_step(root, steps[i], err), fail);
fail:
    free(steps);
    return rc;
}
