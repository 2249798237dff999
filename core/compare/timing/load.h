/* SPDX-License-Identifier: Apache-2.0 */
/* What the machine did while a piece ran, by its own counters. Nothing here looks at
 * the time that the piece took. [one thread] */
#ifndef CADRE_COMPARE_TIMING_LOAD_H
#define CADRE_COMPARE_TIMING_LOAD_H

#include <stdbool.h>

/* NaN: not known on this machine. */
struct cadre_load {
    double wall_s;
    double own_s; /* CPU time of this process and of the children it waited for */
    double foreign_s; /* CPU time of other processes and stolen by a hypervisor, on the
                         cores that this process may use, together; without interrupts,
                         which our own transfers cause too */
    double steal_s; /* the stolen part of it */
    double throttled_s; /* that a cgroup limit of CPU time held back */
    double mhz; /* mean frequency of the cores at the end */
    double thermal; /* events of thermal throttling */
    double gpu_mhz, gpu_watts, gpu_celsius;
    double gpu_others; /* compute processes on the GPU that are not ours */
};

/* Counters at one time; only differences of two mean something. */
struct cadre_load_counters {
    double wall_s, own_s, busy_s, steal_s, throttled_s, thermal;
    double counted_s; /* time that the kernel counted, of one core */
};

void cadre_load_begin(struct cadre_load_counters *begin);

/* What happened since `begin`. Children must have been waited for: their CPU time is
 * known only then. gpu: ask nvidia-smi too, which takes some 50 ms. */
void cadre_load_end(const struct cadre_load_counters *begin, bool gpu,
                    struct cadre_load *out);

#endif
