/* SPDX-License-Identifier: Apache-2.0 */
/* How ranks start: the environment and CPUs that plugins request for each rank. The
 * launching process asks the plugins before it starts ranks. */
#ifndef CADRE_ENGINE_PLACE_H
#define CADRE_ENGINE_PLACE_H

#include "core/engine/layout/run_spec.h"
#include "core/launch/launch.h"

/* What is asked for. Borrowed. */
struct cadre_places_request {
    const struct cadre_run_spec *spec;
    bool processes; /* what the ranks will be */
    bool gpu; /* the device is one */
    bool nccl; /* ranks communicate by NCCL */
    const struct cadre_launch_external
        *external; /* launcher that started this rank; NULL: cadre starts all ranks */
};

struct cadre_places {
    int ranks;
    struct cadre_launch_place *rank; /* (ranks), NULL where no plugin has requests */
};

/* Make the plan of every rank in turn and ask its plugins; no plan is made where no
 * plugin has `place`. cadre_places_fini frees it, also after an error. [main] Errors:
 * CADRE_E_INVALID a request that cannot be met, or two that differ, with the plugins'
 * names; those of planning. */
cadre_status cadre_places_collect(struct cadre_places *places,
                                  const struct cadre_places_request *request,
                                  struct cadre_error *err);

/* In a rank that request->external started: does this process have what its plugins
 * request? [main] Errors: CADRE_E_INVALID for what differs, with the plugin's name;
 * those of planning. */
cadre_status cadre_places_check(const struct cadre_places_request *request,
                                struct cadre_error *err);

/* For device.threads = 0: where ranks start on sets of CPUs of unequal size, each gets
 * as many threads as its set has CPUs, divided among the ranks of the set, at least
 * one. Else all keep what was divided evenly. */
void cadre_places_count_threads(struct cadre_places *places);

/* Accepts a zeroed one. */
void cadre_places_fini(struct cadre_places *places);

#endif
