/* SPDX-License-Identifier: Apache-2.0 */
/* `cadre top RUN --events`: the flight recorders of a run's ranks
 * (core/base/rank_events.h), as a table or as JSON. */
#ifndef CADRE_TOP_EVENTS_H
#define CADRE_TOP_EVENTS_H

#include <stdbool.h>

#include "core/base/error.h"
#include "core/base/memory.h"

struct cadre_top_events_request {
    const char *dir; /* of a run */
    int rank; /* -1: all */
    bool json;
};

/* Append the events. Errors: CADRE_E_INVALID: no run, several runs, no such rank, or no
 * page that can be read; CADRE_E_RESOURCE. */
cadre_status cadre_top_events(const struct cadre_top_events_request *request,
                              struct cadre_text *out, struct cadre_error *err);

#endif
