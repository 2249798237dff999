/* SPDX-License-Identifier: Apache-2.0 */
/* How ranks start: the environment and the CPUs that plugins request for each of them,
 * asked in the launching process before there are any. */
#ifndef CADRE_ENGINE_PLACE_H
#define CADRE_ENGINE_PLACE_H

#include "core/engine/layout/run_spec.h"
#include "core/launch/launch.h"

/* What is asked for. Borrowed. */
struct cadre_places_request {
    const struct cadre_run_spec *spec;
    bool processes; /* what the ranks will be */
    bool gpu; /* the device is one */
    bool nccl; /* ranks reach each other by it */
    const struct cadre_launch_external
        *external; /* who started this rank; NULL: nobody,
                                                   cadre starts all ranks */
};

struct cadre_places {
    int ranks;
    struct cadre_launch_place *rank; /* (ranks), NULL where no plugin has requests */
};

/* Make the plan of every rank in turn and ask its plugins; nothing is made where none
 * of them has `place`. cadre_places_fini ends it, also after an error. [main]
 * Errors: CADRE_E_INVALID a request that cannot be had, or two that differ, with the
 * plugins' names; what planning gives. */
cadre_status cadre_places_collect(struct cadre_places *places,
                                  const struct cadre_places_request *request,
                                  struct cadre_error *err);

/* In a rank that request->outside started: has this process what its plugins request
 * for it? [main] Errors: CADRE_E_INVALID for what differs, with the plugin's name; what
 * planning gives. */
cadre_status cadre_places_check(const struct cadre_places_request *request,
                                struct cadre_error *err);

/* Accepts a zeroed one. */
void cadre_places_fini(struct cadre_places *places);

#endif
