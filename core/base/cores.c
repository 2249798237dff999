/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/cores.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

/* One or two numbers of a file's first line; false where the first is none, as "max"
 * is.
 */
static bool read_numbers(const char *path, double *first, double *second)
{
    char line[128] = "", *end;
    FILE *file = fopen(path, "re");
    const bool read = file && fgets(line, sizeof line, file);
    if (file)
        fclose(file);
    *first = strtod(line, &end);
    if (!read || end == line)
        return false;
    *second = strtod(end, NULL);
    return true;
}

/* The least limit of `group` and the groups above it. In a container the names are the
 * host's, and only the mount itself is there to be read. */
static double quota_below(const char *mount, const char *group, bool v2)
{
    char name[PATH_BYTES / 4], path[PATH_BYTES];
    double least = INFINITY, quota, period, none;
    snprintf(name, sizeof name, "%s", group);
    for (char *slash = name; slash;) {
        const size_t len = strlen(name);
        if (len > 0 && name[len - 1] == '/') /* "/" is the mount itself */
            name[len - 1] = '\0';
        snprintf(path, sizeof path, "%s%s/%s", mount, name,
                 v2 ? "cpu.max" : "cpu.cfs_quota_us");
        bool limited = read_numbers(path, &quota, &period);
        snprintf(path, sizeof path, "%s%s/cpu.cfs_period_us", mount, name);
        if (!v2)
            limited = limited && read_numbers(path, &period, &none);
        if (limited && quota > 0 && period > 0)
            least = fmin(least, quota / period);
        slash = strrchr(name, '/');
        if (slash)
            *slash = '\0';
    }
    return least;
}

/* Is "cpu" in the list a,b,c? */
static bool has_cpu(const char *controllers)
{
    for (const char *at = controllers; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, "cpu", 3) == 0 && (at[3] == ',' || !at[3]))
            return true;
    }
    return false;
}

double cadre_cores_quota(const char *root)
{
    char line[PATH_BYTES / 4], mount[PATH_BYTES / 2];
    double least = INFINITY;
    snprintf(mount, sizeof mount, "%s/proc/self/cgroup", root);
    FILE *file = fopen(mount, "re");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = '\0';
        const bool v2 = !*++controllers;
        snprintf(mount, sizeof mount, "%s/sys/fs/cgroup%s%s", root, v2 ? "" : "/",
                 controllers);
        if (v2 || has_cpu(controllers))
            least = fmin(least, quota_below(mount, group, v2));
    }
    if (file)
        fclose(file);
    return least;
}

int cadre_cores(void)
{
    cpu_set_t set;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const double quota = cadre_cores_quota("");
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        cores = CPU_COUNT(&set);
    if (quota < (double)cores)
        cores = (long)quota; /* half a core more would hold all of them up */
    return cores > 1 ? (int)cores : 1;
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
