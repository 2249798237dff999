/* SPDX-License-Identifier: Apache-2.0 */
/* What the plugins request for one rank's process before it starts: environment
 * variables and CPUs. Conflicting requests are refused. */
#ifndef CADRE_PLUGIN_PLACE_SESSION_H
#define CADRE_PLUGIN_PLACE_SESSION_H

#include <sched.h>
#include <stdbool.h>

#include <cadre/strategy.h>

#include "core/base/error.h"

#define CADRE_PLACE_VARIABLES 64

/* What plugins are given, and what they may request. */
struct cadre_place_facts {
    int rank, ranks;
    int local_ranks; /* on this machine */
    int threads; /* threads of a rank's device */
    bool processes; /* what the ranks will be */
    bool external; /* a launcher has started this rank already: requests are compared */
    bool gpu, nccl; /* device is a GPU; ranks communicate by NCCL */
    const cpu_set_t *own; /* CPUs of this process */
    const cpu_set_t *may; /* CPUs that may be requested */
};

/* The requests for one rank while they are collected: `abi` is passed to the place
 * function of `plugin`. */
struct cadre_place_session {
    struct cadre_place abi;
    const char *plugin; /* plugin being asked; outlives the session */
    bool processes, external;
    cpu_set_t own, may;
    uint32_t cpu[CPU_SETSIZE]; /* those of `may`, for the plugin */
    /* "NAME=value", ended by NULL; the reader frees them */
    char *variable[CADRE_PLACE_VARIABLES + 1];
    const char *variable_by[CADRE_PLACE_VARIABLES]; /* the plugins that set them */
    bool pinned; /* `cpus` were requested */
    cpu_set_t cpus;
    const char *cpus_by; /* the plugin that chose them; NULL: none */
    struct cadre_error said; /* the first refusal */
};

/* The session must not move. */
void cadre_place_session_init(struct cadre_place_session *session,
                              const struct cadre_place_facts *facts);

#endif
