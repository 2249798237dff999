/* SPDX-License-Identifier: Apache-2.0 */
#include "core/device/peak.h"

#include <ctype.h>
#include <math.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cores.h"
#include "core/tensor/dtype.h"

/* ---- GPUs ---- */

/* TFLOP/s without sparsity; 0: the data sheet has none. Sources: NVIDIA's data sheets
 * of A10, A30, A40, A100, L4, L40, L40S, H100, H200, GH200 and HGX B200 (where these
 * give figures with sparsity, half of them), and the architecture papers "GA102" and
 * "Ada" for GeForce. */
static const struct {
    const char *name; /* as a word of the driver's name; the longer first */
    double half, single, wide; /* bf16 and fp16, fp32, fp64 */
} gpus[] = {
    {"B200", 2250, 75, 37},       {"GH200", 989.5, 67, 67},
    {"H200 NVL", 835.5, 60, 60},  {"H200", 989.5, 67, 67},
    {"H100 NVL", 835.5, 60, 60},  {"H100 PCIe", 756.5, 51, 51},
    {"H100", 989.5, 67, 67},      {"A100", 312, 19.5, 19.5},
    {"A40", 149.7, 37.4, 0},      {"A30", 165, 10.3, 10.3},
    {"A10", 125, 31.2, 0},        {"L40S", 362, 91.6, 0},
    {"L40", 181, 90.5, 0},        {"L4", 121, 30.3, 0},
    {"RTX 4090", 165.2, 82.6, 0}, {"RTX 3090", 71, 35.6, 0},
};

static bool has_word(const char *text, const char *word)
{
    const size_t len = strlen(word);
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word))
        if ((at == text || !isalnum((unsigned char)at[-1])) &&
            !isalnum((unsigned char)at[len]))
            return true;
    return false;
}

void cadre_peak_gpu(const char *name, uint32_t dtype, struct cadre_peak *out)
{
    *out = (struct cadre_peak){.flops = NAN};
    if (has_word(name, "MIG")) {
        snprintf(out->source, sizeof out->source,
                 "'%.64s' is a part of a GPU; set report.peak_flops", name);
        return;
    }
    for (size_t i = 0; i < sizeof gpus / sizeof gpus[0]; i++) {
        if (!has_word(name, gpus[i].name))
            continue;
        double tera = dtype == CADRE_F64   ? gpus[i].wide
                      : dtype == CADRE_F32 ? gpus[i].single
                                           : gpus[i].half;
        if (tera <= 0)
            break;
        out->flops = 1e12 * tera;
        snprintf(out->source, sizeof out->source,
                 "data sheet of NVIDIA %s, %s without sparsity", gpus[i].name,
                 cadre_dtype_name(dtype));
        return;
    }
    snprintf(out->source, sizeof out->source,
             "no %s figure of '%.64s' is known; set report.peak_flops",
             cadre_dtype_name(dtype), name);
}

/* ---- processors ---- */

/* What /proc/cpuinfo says of the first processor; clocks of all. */
struct cpu {
    char flags[4096]; /* " flag flag " */
    bool amd;
    int family;
    double mhz; /* the highest at this moment */
};

/* The text behind "key   : ", NULL where the line has another key. */
static char *value_of(char *line, const char *key)
{
    char *colon = strchr(line, ':');
    size_t len = strlen(key);
    if (!colon || strncmp(line, key, len) != 0 ||
        line + len + strspn(line + len, " \t") != colon)
        return NULL;
    line[strcspn(line, "\n")] = '\0';
    return colon + 1 + strspn(colon + 1, " ");
}

static void read_cpu(const char *root, struct cpu *cpu)
{
    char path[512], line[4096], *value;
    snprintf(path, sizeof path, "%s/proc/cpuinfo", root);
    memset(cpu, 0, sizeof *cpu);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        if ((value = value_of(line, "vendor_id")))
            cpu->amd = strcmp(value, "AuthenticAMD") == 0;
        else if ((value = value_of(line, "cpu family")))
            cpu->family = (int)strtol(value, NULL, 10);
        else if ((value = value_of(line, "cpu MHz")))
            cpu->mhz = fmax(cpu->mhz, strtod(value, NULL));
        else if (!*cpu->flags && ((value = value_of(line, "flags")) ||
                                  (value = value_of(line, "Features"))))
            snprintf(cpu->flags, sizeof cpu->flags, " %.4090s ", value);
    }
    if (file)
        fclose(file);
}

static bool has_flag(const struct cpu *cpu, const char *flag)
{
    char word[32];
    snprintf(word, sizeof word, " %s ", flag);
    return strstr(cpu->flags, word) != NULL;
}

/* FLOPs of a core in a cycle in fp32, and by what; 0: not known. */
static double per_cycle(const struct cpu *cpu, const char **units)
{
    if (has_flag(cpu, "avx512f")) {
        bool half = cpu->amd && cpu->family == 25; /* two passes of 256 bits */
        *units = half ? "AVX-512 in two passes" : "AVX-512, two FMA units";
        return half ? 32 : 64;
    }
    *units = "AVX2, two FMA units";
    if (has_flag(cpu, "avx2") && has_flag(cpu, "fma"))
        return 32;
    *units = "NEON, two FMA units";
    return has_flag(cpu, "asimd") ? 16 : 0;
}

/* The number that a file below `root` begins with; false without one. */
static bool read_number(const char *root, int thread, const char *name, double *out)
{
    char path[512], line[64], *end = line;
    snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu%d/%s", root, thread,
             name);
    FILE *file = fopen(path, "re");
    if (file && fgets(line, sizeof line, file))
        *out = strtod(line, &end);
    if (file)
        fclose(file);
    return end != line;
}

/* GHz; turbo where the kernel tells it. */
static double clock_of(const char *root, const struct cpu *cpu, const char **kind)
{
    double khz = 0;
    if (read_number(root, 0, "cpufreq/cpuinfo_max_freq", &khz) && khz > 0) {
        *kind = "highest";
        return 1e-6 * khz;
    }
    *kind = "present";
    return 1e-3 * cpu->mhz;
}

void cadre_peak_core(uint32_t dtype, const char *root, struct cadre_peak *out)
{
    struct cpu cpu;
    const char *units, *kind;
    *out = (struct cadre_peak){.flops = NAN};
    read_cpu(root, &cpu);
    double cycle = per_cycle(&cpu, &units), ghz = clock_of(root, &cpu, &kind);
    if (dtype == CADRE_BF16 && (has_flag(&cpu, "avx512_bf16") ||
                                has_flag(&cpu, "amx_bf16") || has_flag(&cpu, "bf16")))
        snprintf(out->source, sizeof out->source,
                 "how fast this processor multiplies bf16 is not known; set "
                 "report.peak_flops");
    else if (cycle <= 0 || ghz <= 0)
        snprintf(out->source, sizeof out->source,
                 "the kernel does not name the processor's %s; set report.peak_flops",
                 ghz <= 0 ? "clock" : "vector units");
    else {
        cycle = dtype == CADRE_F64 ? cycle / 2 : cycle;
        out->flops = 1e9 * ghz * cycle;
        snprintf(out->source, sizeof out->source,
                 "%.2f GHz (%s clock) x %g FLOP a cycle (%s)", ghz, kind, cycle, units);
    }
}

double cadre_peak_core_share(const char *root)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return 1;
    return (double)cadre_cores_of(&allowed, root) / CPU_COUNT(&allowed);
}
