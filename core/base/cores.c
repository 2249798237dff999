/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/cores.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/cgroup.h"

enum { PATH_BYTES = 16384 };

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

/* Lowers the least limit to this group's. */
static void limit_by(const char *folder, int version, void *context)
{
    double *least = context, quota, period, none;
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", folder,
             version == 2 ? "cpu.max" : "cpu.cfs_quota_us");
    bool limited = read_numbers(path, &quota, &period);
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    if (version == 1)
        limited = limited && read_numbers(path, &period, &none);
    if (limited && quota > 0 && period > 0 && quota / period < *least)
        *least = quota / period;
}

double cadre_cores_quota(const char *root)
{
    double least = INFINITY;
    cadre_cgroup_walk(root, "cpu", limit_by, &least);
    return least;
}

/* No more than the whole cores of a limit: half a core more would hold all of them up.
 */
static int within_quota(long cores)
{
    const double quota = cadre_cores_quota("");
    if (quota < (double)cores)
        cores = (long)quota;
    return cores > 1 ? (int)cores : 1;
}

int cadre_cores(void)
{
    cpu_set_t set;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        cores = CPU_COUNT(&set);
    return within_quota(cores);
}

int cadre_cores_physical(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return cadre_cores();
    return within_quota(cadre_cores_of(&set, ""));
}

/* The lowest hardware thread of a core, itself where the kernel does not say. */
static size_t first_of_core(const char *root, int cpu)
{
    char path[512];
    double first, none;
    snprintf(path, sizeof path,
             "%s/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", root,
             cpu);
    const bool known = read_numbers(path, &first, &none);
    return known && first >= 0 && first < CPU_SETSIZE ? (size_t)first : (size_t)cpu;
}

int cadre_cores_of(const cpu_set_t *set, const char *root)
{
    cpu_set_t cores;
    CPU_ZERO(&cores);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET((size_t)cpu, set))
            CPU_SET(first_of_core(root, cpu), &cores);
    return CPU_COUNT(&cores);
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

/* The cores of the first group that has a list of them. */
struct group_cores {
    cpu_set_t *set;
    bool found;
};

static void read_group(const char *folder, int version, void *context)
{
    struct group_cores *cores = context;
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", folder,
             version == 2 ? "cpuset.cpus.effective" : "cpuset.effective_cpus");
    cores->found = cores->found || read_list(path, cores->set);
}

void cadre_cores_job(cpu_set_t *out)
{
    cpu_set_t own;
    struct group_cores group = {.set = out};
    CPU_ZERO(out);
    cadre_cgroup_walk("", "cpuset", read_group, &group);
    if (!group.found && !read_list("/sys/devices/system/cpu/online", out))
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
