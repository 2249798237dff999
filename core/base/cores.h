/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CADRE_BASE_CORES_H
#define CADRE_BASE_CORES_H

#include <sched.h>
#include <stdbool.h>

/* CPUs that this process may run on, at least 1: of its affinity, and no more than the
 * whole ones of a limit of CPU time. Hardware threads of a core count each. [any
 * thread] */
int cadre_cores(void);

/* The same, where hardware threads of a core count once: they share its vector units,
 * so that products gain nothing by more. [any thread] */
int cadre_cores_physical(void);

/* How many cores the CPUs of a set belong to. Files are looked for below `root`, "" but
 * in tests; a CPU of which they say nothing is a core. [any thread] */
int cadre_cores_of(const cpu_set_t *set, const char *root);

/* The limit of CPU time, in cores, that the cgroups of this process have: cpu.max (v2)
 * or cpu.cfs_quota_us (v1); infinite without one. Files are looked for below `root`, ""
 * but in tests. [any thread] */
double cadre_cores_quota(const char *root);

/* Cores of all processes that were started together with this one on the machine: its
 * cgroup's, or where that is unlimited, all that are online. At least this process's
 * own. [any thread] */
void cadre_cores_job(cpu_set_t *out);

/* "0-3,8" into a set; false for anything else, and for a core beyond CPU_SETSIZE.
 * [any thread] */
bool cadre_cores_parse(const char *text, cpu_set_t *out);

/* The CPU's name from the kernel, "unknown" where there is none; truncated to fit. [any
 * thread] */
void cadre_cores_name(char *out, size_t size);

#endif
