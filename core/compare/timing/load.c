/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/timing/load.h"

#include <math.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/base/cgroup.h"
#include "core/base/clock.h"
#include "core/compare/timing/load_private.h"

enum { PATH_BYTES = 16384, MISSING_CORES = 64 };
#define LEAST_WALL_S 0.05 /* less is too few ticks to see whether they stand still */

/* Opens root/format; NULL where it is not there. */
static FILE *open_below(const char *root, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static FILE *open_below(const char *root, const char *format, ...)
{
    char path[PATH_BYTES];
    int used = snprintf(path, sizeof path, "%s", root);
    va_list ap;
    va_start(ap, format);
    if (used >= 0 && (size_t)used < sizeof path)
        vsnprintf(path + used, sizeof path - (size_t)used, format, ap);
    va_end(ap);
    return fopen(path, "re");
}

/* The number that text begins with, and where it ends; NaN without one. */
static double take_number(char **text)
{
    char *begin = *text;
    double value = strtod(begin, text);
    return *text == begin ? NAN : value;
}

/* ---- CPU time ---- */

enum { USER, NICE, SYSTEM, IDLE, IOWAIT, IRQ, SOFTIRQ, STEAL, FIELDS };

/* Of some cores, in ticks. */
struct ticks {
    double of[FIELDS];
    int cores;
};

static void add_core(struct ticks *sum, const double *of)
{
    for (int i = 0; i < FIELDS; i++)
        sum->of[i] += of[i];
    sum->cores++;
}

/* /proc/stat of the cores where this process and its children may run; the rest of a
 * shared machine is other people's. Where that is all of them, or where a container
 * numbers them anew, the kernel's own sum is taken, which is rounded once. */
static struct ticks read_ticks(const char *root)
{
    char line[512];
    cpu_set_t allowed;
    struct ticks all = {0}, ours = {0};
    bool known = sched_getaffinity(0, sizeof allowed, &allowed) == 0;
    FILE *file = open_below(root, "/proc/stat");
    while (file && fgets(line, sizeof line, file) && strncmp(line, "cpu", 3) == 0) {
        char *at = line + 3;
        double of[FIELDS];
        bool sum = *at == ' ';
        long core = sum ? -1 : strtol(at, &at, 10);
        for (int i = 0; i < FIELDS; i++)
            of[i] = take_number(&at);
        if (sum)
            memcpy(all.of, of, sizeof of);
        else
            all.cores++;
        if (known && core >= 0 && core < CPU_SETSIZE && CPU_ISSET(core, &allowed))
            add_core(&ours, of);
    }
    if (file)
        fclose(file);
    return ours.cores == 0 || ours.cores == all.cores ? all : ours;
}

/* What is neither idle nor waiting for a disk is busy: kernels measure idle time, but
 * most count busy time by sampling, whose error would be taken for other processes.
 * Interrupts are left out: they are as likely the transfers of our own ranks. wall_s
 * has been read. */
static void read_busy(const char *root, struct cadre_load_counters *out)
{
    struct ticks ticks = read_ticks(root);
    double tick = ticks.cores ? 1 / (double)sysconf(_SC_CLK_TCK) : NAN, sum = 0;
    for (int i = 0; i < FIELDS; i++)
        sum += ticks.of[i];
    out->busy_s =
        ticks.cores * out->wall_s -
        tick * (ticks.of[IDLE] + ticks.of[IOWAIT] + ticks.of[IRQ] + ticks.of[SOFTIRQ]);
    out->steal_s = tick * ticks.of[STEAL];
    out->counted_s = tick * sum / ticks.cores;
}

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + 1e-6 * (double)t.tv_usec;
}

static double own_seconds(void)
{
    struct rusage self, children;
    getrusage(RUSAGE_SELF, &self);
    getrusage(RUSAGE_CHILDREN, &children);
    return seconds(self.ru_utime) + seconds(self.ru_stime) +
           seconds(children.ru_utime) + seconds(children.ru_stime);
}

/* ---- limits of a cgroup ---- */

/* The value of "key N" in a file of such lines, NaN without one. Closes the file. */
static double keyed_value(FILE *file, const char *key)
{
    char line[128];
    double found = NAN;
    while (file && fgets(line, sizeof line, file)) {
        char *value = strchr(line, ' ');
        if (!value)
            continue;
        *value++ = 0;
        if (strcmp(line, key) == 0)
            found = take_number(&value);
    }
    if (file)
        fclose(file);
    return found;
}

/* By version of cgroups, NaN without a counter: of the group and those above it, as the
 * limit may be one of theirs. */
struct throttled {
    double v1_s, v2_s;
};

static void add_throttled(const char *folder, int version, void *context)
{
    struct throttled *sum = context;
    const double value =
        keyed_value(open_below(folder, "/cpu.stat"),
                    version == 2 ? "throttled_usec" : "throttled_time");
    double *into = version == 2 ? &sum->v2_s : &sum->v1_s;
    if (!isnan(value))
        *into = (isnan(*into) ? 0 : *into) + value * (version == 2 ? 1e-6 : 1e-9);
}

static double read_throttled(const char *root)
{
    struct throttled sum = {NAN, NAN};
    cadre_cgroup_walk(root, "cpu", add_throttled, &sum);
    return isnan(sum.v2_s) ? sum.v1_s : sum.v2_s;
}

/* ---- clocks and heat ---- */

/* The sum of one number a core, and how many cores have it. Cores may be missing, but
 * not many in a row. */
static double sum_over_cores(const char *root, const char *name, int *cores)
{
    char line[64];
    double sum = 0;
    *cores = 0;
    for (int core = 0, missing = 0; missing < MISSING_CORES; core++) {
        FILE *file = open_below(root, "/sys/devices/system/cpu/cpu%d/%s", core, name);
        char *text = file ? fgets(line, sizeof line, file) : NULL;
        double value = text ? take_number(&text) : NAN;
        missing = file ? 0 : missing + 1;
        if (file)
            fclose(file);
        if (isnan(value))
            continue;
        sum += value;
        ++*cores;
    }
    return sum;
}

static double read_mhz(const char *root)
{
    int cores;
    double khz = sum_over_cores(root, "cpufreq/scaling_cur_freq", &cores);
    return cores ? khz / 1000 / cores : NAN;
}

/* A package's event is counted by each of its cores: how often is known, how many
 * events that were is not. */
static double read_thermal(const char *root)
{
    int cores, packages;
    double events =
        sum_over_cores(root, "thermal_throttle/core_throttle_count", &cores);
    events +=
        sum_over_cores(root, "thermal_throttle/package_throttle_count", &packages);
    return cores + packages ? events : NAN;
}

/* ---- GPUs ---- */

/* Lines of numbers; a driver that hangs must not hang the comparison. Of the GPUs that
 * ranks may use, where CUDA_VISIBLE_DEVICES lists them by number or UUID: what runs on
 * the others of the machine is no matter. */
static FILE *ask_nvidia_smi(const char *query)
{
    static const char plain[] = "0123456789,-abcdefABCDEFGPU";
    char command[512];
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    const bool some = visible && *visible && strlen(visible) < 300 &&
                      strspn(visible, plain) == strlen(visible) && *visible != '-';
    snprintf(command, sizeof command,
             "timeout 10 nvidia-smi --format=csv,noheader,nounits%s%s %s 2>/dev/null",
             some ? " -i " : "", some ? visible : "", query);
    /* NOLINTNEXTLINE(cert-env33-c): texts of this file, and the characters above */
    return popen(command, "re");
}

/* The next number of a line of them; NaN for "[N/A]", and at the end. */
static double next_number(char **rest)
{
    char *field = strsep(rest, ",");
    return field ? take_number(&field) : NAN;
}

/* The mean clock, all power, the highest temperature. */
static void read_gpus(struct cadre_load *out)
{
    int gpus = 0;
    char line[256];
    FILE *pipe = ask_nvidia_smi("--query-gpu=clocks.sm,power.draw,temperature.gpu");
    while (pipe && fgets(line, sizeof line, pipe)) {
        char *rest = line;
        double mhz = next_number(&rest), watts = next_number(&rest);
        double celsius = next_number(&rest);
        if (isnan(mhz) && isnan(watts) && isnan(celsius))
            continue; /* a line of text */
        out->gpu_mhz = gpus ? out->gpu_mhz + mhz : mhz;
        out->gpu_watts = gpus ? out->gpu_watts + watts : watts;
        out->gpu_celsius = gpus ? fmax(out->gpu_celsius, celsius) : celsius;
        gpus++;
    }
    if (pipe)
        pclose(pipe);
    if (gpus)
        out->gpu_mhz /= gpus;
}

static void read_gpu_others(struct cadre_load *out)
{
    int others = 0;
    char line[256];
    FILE *pipe = ask_nvidia_smi("--query-compute-apps=pid");
    while (pipe && fgets(line, sizeof line, pipe)) {
        char *text = line;
        double pid = take_number(&text);
        others += !isnan(pid) && pid != (double)getpid();
    }
    if (pipe && pclose(pipe) == 0)
        out->gpu_others = others;
}

/* ---- a piece ---- */

void cadre_load_begin_below(const char *root, struct cadre_load_counters *begin)
{
    begin->throttled_s = read_throttled(root);
    begin->thermal = read_thermal(root);
    begin->own_s = own_seconds();
    begin->wall_s = cadre_now_s();
    read_busy(root, begin);
}

/* Counters that stand still, as in some sandboxes, tell nothing. Ticks are coarser than
 * a process's own time: below zero there was no other. */
static double foreign_seconds(const struct cadre_load_counters *begin,
                              const struct cadre_load_counters *end)
{
    double wall = end->wall_s - begin->wall_s, own = end->own_s - begin->own_s;
    double steal = end->steal_s - begin->steal_s;
    double foreign = end->busy_s - begin->busy_s - own;
    if (isnan(foreign) || end->counted_s - begin->counted_s < 0.5 * wall - LEAST_WALL_S)
        return NAN;
    return fmax(foreign, fmax(steal, 0));
}

void cadre_load_end_below(const char *root, const struct cadre_load_counters *begin,
                          bool gpu, struct cadre_load *out)
{
    struct cadre_load_counters end = {.wall_s = cadre_now_s()};
    read_busy(root, &end);
    end.own_s = own_seconds();
    *out = (struct cadre_load){
        .wall_s = end.wall_s - begin->wall_s,
        .own_s = end.own_s - begin->own_s,
        .foreign_s = foreign_seconds(begin, &end),
        .steal_s = end.steal_s - begin->steal_s,
        .throttled_s = read_throttled(root) - begin->throttled_s,
        .mhz = read_mhz(root),
        .thermal = read_thermal(root) - begin->thermal,
        .gpu_mhz = NAN,
        .gpu_watts = NAN,
        .gpu_celsius = NAN,
        .gpu_others = NAN,
    };
    if (gpu) {
        read_gpus(out);
        read_gpu_others(out);
    }
}

void cadre_load_begin(struct cadre_load_counters *begin)
{
    cadre_load_begin_below("", begin);
}

void cadre_load_end(const struct cadre_load_counters *begin, bool gpu,
                    struct cadre_load *out)
{
    cadre_load_end_below("", begin, gpu, out);
}
