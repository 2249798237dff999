/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/cores.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int cadre_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return CPU_COUNT(&set);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}

static bool parse_core(const char **text, long *out)
{
    char *end;
    if (!isdigit((unsigned char)**text))
        return false;
    *out = strtol(*text, &end, 10);
    *text = end;
    return *out >= 0 && *out < CPU_SETSIZE;
}

bool cadre_cores_parse(const char *text, cpu_set_t *out)
{
    long first, last;
    CPU_ZERO(out);
    do {
        if (!parse_core(&text, &first))
            return false;
        last = first;
        if (*text == '-' && (text++, !parse_core(&text, &last)))
            return false;
        for (long core = first; core <= last; core++)
            CPU_SET((size_t)core, out);
    } while (*text++ == ',');
    return text[-1] == '\0' || text[-1] == '\n';
}

/* A file of one line that lists cores. */
static bool read_list(const char *path, cpu_set_t *out)
{
    char line[8192] = "";
    FILE *file = fopen(path, "re");
    bool read = file && fgets(line, sizeof line, file);
    if (file)
        fclose(file);
    return read && cadre_cores_parse(line, out);
}

/* "0::/path" is cgroup v2's line; "N:...cpuset...:/path" v1's. */
static bool read_cgroup(cpu_set_t *out)
{
    char line[4096], path[4608];
    bool found = false;
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = '\0';
        group[strcspn(group, "\n")] = '\0';
        bool v1 = strstr(controllers, "cpuset") != NULL;
        if (!v1 && strncmp(line, "0:", 2) != 0)
            continue;
        snprintf(path, sizeof path, "/sys/fs/cgroup%s%s/%s", v1 ? "/cpuset" : "", group,
                 v1 ? "cpuset.effective_cpus" : "cpuset.cpus.effective");
        found = read_list(path, out);
    }
    if (file)
        fclose(file);
    return found;
}

void cadre_cores_job(cpu_set_t *out)
{
    cpu_set_t own;
    CPU_ZERO(out);
    if (!read_cgroup(out) && !read_list("/sys/devices/system/cpu/online", out))
        CPU_ZERO(out);
    if (sched_getaffinity(0, sizeof own, &own) == 0)
        CPU_OR(out, out, &own);
}

void cadre_cores_name(char *out, size_t size)
{
    char line[512];
    FILE *file = fopen("/proc/cpuinfo", "r");
    snprintf(out, size, "unknown");
    while (file && fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", strlen("model name")) == 0 && colon) {
            line[strcspn(line, "\n")] = 0;
            snprintf(out, size, "%s", colon + 1 + strspn(colon + 1, " "));
            break;
        }
    }
    if (file)
        fclose(file);
}
