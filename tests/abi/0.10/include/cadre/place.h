/* SPDX-License-Identifier: Apache-2.0 */
/* The CPUs and the environment that a plugin requests for a rank before it starts. */
#ifndef CADRE_PLACE_H
#define CADRE_PLACE_H

#include <cadre/types.h>

/* All functions return a status; a refusal has already been recorded with its text.
 * Differing requests of two plugins for one rank are refused. */
struct cadre_place {
    uint32_t struct_size;
    uint32_t rank;
    void *h;
    /* Sets a variable of the rank's environment, in place of the launcher's value.
     * Refused where ranks are threads, which share one environment, and for names that
     * begin with CADRE_. */
    cadre_status (*env)(void *h, const char *name, const char *value);
    /* The CPUs the rank and its threads run on: n > 0 of those in `cpu` below. */
    cadre_status (*cpus)(void *h, const uint32_t *cpu, uint32_t n);
    uint32_t gpu; /* 1: the device is a GPU */
    /* 1: ranks were started by an external launcher, which has set their environment
     * and CPUs. A request is then compared with them and refused where they differ: the
     * variable has another value, or a CPU is not among those requested. */
    uint32_t external;
    uint32_t ranks; /* in the world: over all axes */
    uint32_t local_ranks; /* on this machine; 0: not known */
    /* CPUs that may be requested, ascending: those of this process, by its affinity
     * mask and cgroup; under an external launcher those of the job on this machine.
     * Valid during the call. */
    const uint32_t *cpu;
    uint32_t n_cpus;
    uint32_t threads; /* per rank (device.threads) */
    uint32_t nccl; /* 1: ranks communicate by NCCL, so each needs a whole GPU */
    uint32_t pad_;
};

#endif
