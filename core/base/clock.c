/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Thread_local const double *cadre_clock_simulated;

void cadre_clock_simulate(const double *now_s)
{
    cadre_clock_simulated = now_s;
}

/* The kernel counts from its boot with suspended time, as CLOCK_BOOTTIME does. */
static double boot_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double cadre_clock_process_boot_s(pid_t pid)
{
    char path[64], line[1024], *end = NULL;
    double ticks = NAN;
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return NAN;
    const char *text = fgets(line, sizeof line, file);
    /* the name is field 2, in parentheses, and may have any character */
    const char *at = text ? strrchr(text, ')') : NULL;
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    if (at)
        ticks = strtod(at, &end);
    fclose(file);
    return end == at ? NAN : ticks / (double)sysconf(_SC_CLK_TCK);
}

double cadre_clock_process_begin_s(pid_t pid)
{
    return cadre_now_s() - (boot_s() - cadre_clock_process_boot_s(pid));
}
