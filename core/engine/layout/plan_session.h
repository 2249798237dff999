/* SPDX-License-Identifier: Apache-2.0 */
/* The services of a plugin's plan function. */
#ifndef CADRE_ENGINE_LAYOUT_PLAN_SESSION_H
#define CADRE_ENGINE_LAYOUT_PLAN_SESSION_H

#include "core/engine/layout/rank_plan.h"

/* One plugin's view of a plan being made: `abi` goes to its plan function. */
struct cadre_plan_session {
    struct cadre_plan abi;
    struct cadre_rank_plan *plan;
    const struct cadre_plan_request *request;
    const char *plugin;
    struct cadre_error *err; /* the first refusal's text */
};
void cadre_plan_session_init(struct cadre_plan_session *session,
                             struct cadre_rank_plan *plan,
                             const struct cadre_plan_request *request,
                             const char *plugin, struct cadre_error *err);

#endif
