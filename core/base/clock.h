/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CADRE_BASE_CLOCK_H
#define CADRE_BASE_CLOCK_H

#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

/* The clock of a simulated rank, for its own thread; NULL: time is real. Set by
 * cadre_clock_simulate alone. */
extern _Thread_local const double *cadre_clock_simulated;

/* From now on the calling thread's cadre_now_s is *now_s, which its owner moves; NULL:
 * the monotonic clock again. Everything that is timed by it then reports the times of
 * a simulation. */
void cadre_clock_simulate(const double *now_s);

/* Seconds of the monotonic clock, or of the thread's simulated one. [any thread] */
static inline double cadre_now_s(void)
{
    struct timespec t;
    if (cadre_clock_simulated)
        return *cadre_clock_simulated;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds since 1970, of the clock that people set. [any thread] */
static inline double cadre_wall_clock_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* When the process began, by the same clock, to a tick of the kernel (10 ms as a rule):
 * before its libraries were loaded. NaN where /proc does not say. [any thread] Source:
 * proc(5), /proc/PID/stat, field 22. */
double cadre_clock_process_begin_s(pid_t pid);

/* The same in seconds after the system's boot: with the pid it names a process, as
 * numbers are used again. NaN where there is none. [any thread] */
double cadre_clock_process_boot_s(pid_t pid);

/* Has it ended, and nobody has waited for it yet (state Z)? In a container without an
 * init process it stays so. False where /proc does not say. [any thread] */
bool cadre_clock_process_ended(pid_t pid);

#endif
