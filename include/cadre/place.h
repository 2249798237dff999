/* SPDX-License-Identifier: Apache-2.0 */
/* What a plugin may request for a rank before it starts. */
#ifndef CADRE_PLACE_H
#define CADRE_PLACE_H

#include <cadre/types.h>

/* All functions return a status; a refusal has already been recorded with its text.
 * Requests of two plugins that differ are refused. */
struct cadre_place {
    uint32_t struct_size;
    uint32_t rank;
    void *h;
    /* A variable of the rank's environment, in place of the launcher's. Refused where
     * ranks are threads, which share one, and for names that begin with CADRE_. */
    cadre_status (*env)(void *h, const char *name, const char *value);
    /* The CPUs the rank and its threads run on, n > 0 of those this process may use. */
    cadre_status (*cpus)(void *h, const uint32_t *cpu, uint32_t n);
    uint32_t gpu; /* the device is one */
    /* Ranks were started by an external launcher, who has given this process its
     * environment and CPUs: a request is then compared with them, and refused where
     * they differ (the variable has another value, or the CPUs are not among those
     * requested). */
    uint32_t external;
    uint32_t ranks; /* world */
    uint32_t local_ranks; /* of it on this machine, 0: not known */
    /* CPUs that may be requested, ascending: those of this process, by its mask and its
     * cgroup; from an external launcher those of the job on this machine. Live as long
     * as the call.
     */
    const uint32_t *cpu;
    uint32_t n_cpus;
    uint32_t threads; /* of a rank (device.threads) */
    uint32_t nccl; /* ranks reach each other by NCCL, so each needs a whole GPU */
    uint32_t pad_;
};

#endif
