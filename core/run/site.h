/* SPDX-License-Identifier: Apache-2.0 */
/* Where the ranks of a run are: which hosts, what processors, and how many cores they
 * have between them. Times compare only where this is alike. */
#ifndef CADRE_RUN_SITE_H
#define CADRE_RUN_SITE_H

#include "core/base/json.h"
#include "core/engine/rank.h"

#define CADRE_SITE_NAME 64

/* What one rank sees of its machine. */
struct cadre_site_rank {
    char host[CADRE_SITE_NAME]; /* cut to fit */
    char cpu[CADRE_SITE_NAME]; /* the processor's name, cut to fit */
    uint64_t cores_key; /* of the kernel and the cores it gives: alike where shared */
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

/* What this thread may use. [any thread] */
void cadre_site_here(struct cadre_site_rank *out);

/* Fill *site, which the caller ends with fini, from what the ranks see (ranks).
 * Errors: CADRE_E_RESOURCE. [any thread] */
cadre_status cadre_site_of(const struct cadre_site_rank *seen, int ranks,
                           struct cadre_site *site);

/* [collective: world] Ask every rank; *site is the same on all. Errors:
 * CADRE_E_RESOURCE and the communicator's. */
cadre_status cadre_site_gather(struct cadre_rank *rank, struct cadre_site *site,
                               struct cadre_error *err);

/* {"hosts": [...], "cpu": "...", "kinds": N, "cores": N,
 * "processes": N} as the value that is due. */
void cadre_site_write(const struct cadre_site *site, struct cadre_json *json);

/* Accepts a zeroed one. */
void cadre_site_fini(struct cadre_site *site);

#endif
