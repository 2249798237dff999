/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/free_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/base/cgroup.h"

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
    char path[16384];
    const int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    return n > 0 && (size_t)n < sizeof path && read_number(path, key, out);
}

/* Lowers what is left to what this group's limit leaves. */
static void limit_by(const char *folder, int version, void *context)
{
    const bool v2 = version == 2;
    uint64_t limit, used, cache = 0, *left = context;
    if (!read_at(folder, v2 ? "memory.max" : "memory.limit_in_bytes", NULL, &limit) ||
        !read_at(folder, v2 ? "memory.current" : "memory.usage_in_bytes", NULL, &used))
        return;
    read_at(folder, "memory.stat", v2 ? "inactive_file" : "total_inactive_file",
            &cache);
    used -= cache < used ? cache : used;
    const uint64_t here = limit > used ? limit - used : 0;
    *left = here < *left ? here : *left;
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
    uint64_t left = UINT64_MAX;
    cadre_cgroup_walk(root, "memory", limit_by, &left);
    const bool by_group = left < available;
    *out = (struct cadre_free_memory){
        .bytes = by_group ? left : available,
        .limit = by_group ? "left of the cgroup's limit" : "free",
        .process = left_by_rlimit(root),
    };
    return out->bytes != UINT64_MAX;
}
