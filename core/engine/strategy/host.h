/* SPDX-License-Identifier: Apache-2.0 */
/* The host side of the plugin ABI: the service tables, and what they work on. */
#ifndef CADRE_ENGINE_STRATEGY_HOST_H
#define CADRE_ENGINE_STRATEGY_HOST_H

#include "core/engine/layout/run_spec.h"
#include "core/engine/layout/store.h"

/* Runs passes and accumulates returned gradients; see executor.h. */
struct cadre_pass_runner {
    void *h;
    cadre_status (*forward)(void *h, const struct cadre_pass_args *args,
                            struct cadre_error *why);
    cadre_status (*backward)(void *h, const struct cadre_pass_args *args,
                             struct cadre_error *why);
    cadre_status (*accumulate)(void *h, uint32_t param, const void *part);
};

/* What the plugins of one rank reach through their services. Borrowed; what bind makes
 * is empty before. */
struct cadre_services {
    const struct cadre_run_spec *spec;
    struct cadre_error *failure; /* the first refusal, of host->fail or a service */
    struct cadre_model *model;
    struct cadre_mesh *mesh;
    const struct cadre_rank_plan *plan;
    struct cadre_store *store;
    struct cadre_ledger *ledger;
    struct cadre_timeline *timeline;
    struct cadre_device *device;
    struct cadre_comm *world; /* NULL: one rank */
    struct cadre_pass_runner passes;
    bool asked_seconds; /* a plugin asked for unit_seconds */
};

/* The host's view of one plugin instance; opaque in the ABI. */
struct cadre_ctx {
    struct cadre_services *services; /* of its rank */
    const struct cadre_plugin_handle *plugin;
    struct cadre_host host;
    struct cadre_values values;
    struct cadre_self *self;
    const char *phase; /* for messages: "plan", "step", ..., "destroy" */
};

/* Fill the host table that `ctx`'s plugin gets. It lives as long as ctx. */
void cadre_host_init(struct cadre_host *host, struct cadre_ctx *ctx);

#endif
