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

/* Where field `wanted`, 3 or more, begins in /proc/PID/stat; NULL where there is none.
 */
static const char *field_of(pid_t pid, int wanted, char *line, int size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return NULL;
    const char *text = fgets(line, size, file);
    /* the name is field 2, in parentheses, and may have any character */
    const char *at = text ? strrchr(text, ')') : NULL;
    for (int field = 2; at && field < wanted; field++)
        at = strchr(at + 1, ' ');
    fclose(file);
    return at;
}

double cadre_clock_process_boot_s(pid_t pid)
{
    char line[1024], *end = NULL;
    const char *at = field_of(pid, 22, line, sizeof line);
    const double ticks = at ? strtod(at, &end) : (double)NAN;
    return end == at ? NAN : ticks / (double)sysconf(_SC_CLK_TCK);
}

bool cadre_clock_process_ended(pid_t pid)
{
    char line[1024];
    const char *at = field_of(pid, 3, line, sizeof line);
    return at && at[1] == 'Z';
}

double cadre_clock_process_begin_s(pid_t pid)
{
    return cadre_now_s() - (boot_s() - cadre_clock_process_boot_s(pid));
}
