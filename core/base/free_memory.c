/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/free_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* The number behind `key` in a file of lines "key number", of the first line where key
 * is NULL; false for none, also for "max". */
static bool read_number(const char *path, const char *key, uint64_t *out)
{
    char line[512];
    bool found = false;
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        const size_t n = key ? strlen(key) : 0;
        char *end;
        if (key && (strncmp(line, key, n) != 0 || !strchr(": \t", line[n])))
            continue;
        const char *at = line + n + strspn(line + n, ": \t");
        *out = strtoull(at, &end, 10);
        found = end != at;
        if (!key)
            break;
    }
    if (file)
        fclose(file);
    return found;
}

static bool read_at(const char *folder, const char *name, const char *key,
                    uint64_t *out)
{
    char path[4608];
    const int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    return n > 0 && (size_t)n < sizeof path && read_number(path, key, out);
}

/* Names of the files of one version of cgroups. */
struct files {
    const char *limit, *used, *cache;
};

/* Lower *left to what this group's limit leaves. */
static void limit_by(const char *folder, const struct files *files, uint64_t *left)
{
    uint64_t limit, used, cache = 0;
    if (!read_at(folder, files->limit, NULL, &limit) ||
        !read_at(folder, files->used, NULL, &used))
        return;
    read_at(folder, "memory.stat", files->cache, &cache);
    used -= cache < used ? cache : used;
    const uint64_t here = limit > used ? limit - used : 0;
    *left = here < *left ? here : *left;
}

/* The group and all above it, up to `mount`. In a container the path may be that of the
 * host, which is not there: then the mount alone counts. */
static void limit_by_all(const char *mount, char *group, const struct files *files,
                         uint64_t *left)
{
    char folder[4352];
    for (;;) {
        snprintf(folder, sizeof folder, "%s%s", mount, group);
        limit_by(folder, files, left);
        char *slash = strrchr(group, '/');
        if (!slash)
            return;
        *slash = 0;
    }
}

static uint64_t left_by_cgroup(const char *root)
{
    static const struct files v2 = {"memory.max", "memory.current", "inactive_file"};
    static const struct files v1 = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                                    "total_inactive_file"};
    char line[4096], path[4200];
    uint64_t left = UINT64_MAX;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        /* "0::/path" is version 2, "N:memory:/path" version 1 */
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = 0;
        group[strcspn(group, "\n")] = 0;
        const bool memory = strstr(controllers, "memory") != NULL;
        if (!memory && strcmp(controllers, ":") != 0)
            continue;
        snprintf(path, sizeof path, "%s/sys/fs/cgroup%s", root,
                 memory ? "/memory" : "");
        limit_by_all(path, group, memory ? &v1 : &v2, &left);
    }
    if (file)
        fclose(file);
    return left;
}

/* What the limit of addresses leaves besides those that are mapped; at least 1. */
static uint64_t left_by_rlimit(const char *root)
{
    char path[4200];
    struct rlimit limit;
    uint64_t pages = 0;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX;
    snprintf(path, sizeof path, "%s/proc/self/statm", root);
    read_number(path, NULL, &pages);
    const uint64_t mapped = pages * (uint64_t)sysconf(_SC_PAGESIZE);
    return limit.rlim_cur > mapped ? limit.rlim_cur - mapped : 1;
}

bool cadre_free_memory_read(const char *root, struct cadre_free_memory *out)
{
    char path[4200];
    uint64_t kib;
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    const uint64_t available =
        read_number(path, "MemAvailable", &kib) ? kib * 1024 : UINT64_MAX;
    const uint64_t left = left_by_cgroup(root);
    const bool by_group = left < available;
    *out = (struct cadre_free_memory){
        .bytes = by_group ? left : available,
        .limit = by_group ? "left of the cgroup's limit" : "free",
        .process = left_by_rlimit(root),
    };
    return out->bytes != UINT64_MAX;
}
