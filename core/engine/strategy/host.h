/* SPDX-License-Identifier: Apache-2.0 */
/* The host side of the plugin ABI: the service tables, and what they work on. */
#ifndef CADRE_ENGINE_STRATEGY_HOST_H
#define CADRE_ENGINE_STRATEGY_HOST_H

#include <cadre/strategy.h>

#include "core/engine/layout/run_spec.h"
#include "core/engine/layout/store.h"
#include "core/engine/strategy/call.h"

struct cadre_param_marks;
struct cadre_reduction;
struct cadre_wire;

/* Runs passes and accumulates returned gradients; see executor.h. */
struct cadre_pass_runner {
    void *h;
    cadre_status (*forward)(void *h, const struct cadre_pass_args *args,
                            struct cadre_error *why);
    cadre_status (*backward)(void *h, const struct cadre_pass_args *args,
                             struct cadre_error *why);
    cadre_status (*accumulate)(void *h, uint32_t param, const void *part);
};

/* Makes the copies of tied values on other stages follow their owners; see tied.h. */
struct cadre_copy_runner {
    void *h;
    cadre_status (*copy_tied)(void *h);
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
    struct cadre_copy_runner copies;
    struct cadre_param_marks *marks;
    struct cadre_reduction *reduction;
    struct cadre_wire *wire; /* encoded gathers; NULL: no plugin claims wire.codec */
    struct cadre_status_slot *slot; /* of this thread, for who watches; NULL: nobody */
    struct cadre_ctx *inside; /* the innermost instance whose callback runs; NULL */
    uint64_t step; /* 0: before the first */
    uint64_t held_moments; /* in this step, as moments of cadre.param says; 0: none */
    uint64_t value_reads; /* how often plugins asked for values of the device */
    uint32_t sync; /* CADRE_SYNC_* while it runs, else 0 */
    bool bound; /* storage exists */
    bool asked_seconds; /* a plugin asked for unit_seconds */
    char step_text[32];
};

/* The host's view of one plugin instance; opaque in the ABI. */
struct cadre_ctx {
    struct cadre_services *services; /* of its rank */
    const struct cadre_plugin_handle *plugin;
    const char *name; /* of the instance: "ddp", "ddp@site" */
    const char *axis; /* its own; NULL: none */
    struct cadre_host host;
    struct cadre_values values;
    struct cadre_self *self;
    enum cadre_callback in; /* its innermost callback that runs */
};

/* Fill the host table that `ctx`'s plugin gets. It lives as long as ctx. */
void cadre_host_init(struct cadre_host *host, struct cadre_ctx *ctx);

/* " at step 12", "" before the first step. The text is valid until the next call. */
const char *cadre_services_step_text(struct cadre_services *services);

/* [exec] Work that is queued on the compute stream from now on runs after the event;
 * the time waited is recorded under `name`, as borrowed text. */
cadre_status cadre_services_await(struct cadre_services *services, cadre_event event,
                                  const char *name);

#endif
