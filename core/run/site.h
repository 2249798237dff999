/* SPDX-License-Identifier: Apache-2.0 */
/* The machines of a run's ranks: hosts, processors, and the number of cores they have
 * together. Times are comparable only where these are equal. */
#ifndef CADRE_RUN_SITE_H
#define CADRE_RUN_SITE_H

#include "core/base/json.h"
#include "core/engine/rank.h"

#define CADRE_SITE_NAME 64

/* What one rank sees of its machine. */
struct cadre_site_rank {
    char host[CADRE_SITE_NAME]; /* truncated to fit */
    char cpu[CADRE_SITE_NAME]; /* the processor's name, truncated to fit */
    uint64_t cores_key; /* hash of the kernel and the allowed cores: equal if shared */
    int64_t cores; /* that the rank may use */
    int64_t process; /* its id; several ranks may be threads of one */
};

struct cadre_site {
    char (*host)[CADRE_SITE_NAME]; /* (n_hosts) in order of ranks, none twice; owned */
    int n_hosts;
    char cpu[CADRE_SITE_NAME]; /* of rank 0 */
    int kinds; /* different processors among the ranks */
    int64_t cores; /* that the ranks may use together, none counted twice */
    int processes; /* of all ranks */
};

/* The host, processor and cores of this thread. [any thread] */
void cadre_site_here(struct cadre_site_rank *out);

/* Fill *site, which the caller ends with fini, from `seen` (ranks).
 * Errors: CADRE_E_RESOURCE. [any thread] */
cadre_status cadre_site_of(const struct cadre_site_rank *seen, int ranks,
                           struct cadre_site *site);

/* [collective: world] Ask every rank; *site is the same on all. Errors:
 * CADRE_E_RESOURCE and the communicator's. */
cadre_status cadre_site_gather(struct cadre_rank *rank, struct cadre_site *site,
                               struct cadre_error *err);

/* Write {"hosts": [...], "cpu": "...", "kinds": N, "cores": N, "processes": N}. */
void cadre_site_write(const struct cadre_site *site, struct cadre_json *json);

/* Accepts a zeroed one. */
void cadre_site_fini(struct cadre_site *site);

#endif
