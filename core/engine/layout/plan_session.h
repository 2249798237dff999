/* SPDX-License-Identifier: Apache-2.0 */
/* The services of a plugin's plan function. What it refuses is recorded with its text
 * in `err`, the first refusal only; the caller ends the plan then, even where the
 * plugin ignores the status. */
#ifndef CADRE_ENGINE_LAYOUT_PLAN_SESSION_H
#define CADRE_ENGINE_LAYOUT_PLAN_SESSION_H

#include "core/engine/layout/rank_plan.h"

/* The instance whose plan is made. Borrowed. */
struct cadre_plan_member {
    const char *name; /* "ddp", "ddp@site" */
    const char *axis; /* its own; NULL: none */
    uint32_t role; /* CADRE_ROLE_* */
};

/* One plugin's view of a plan being made: `abi` goes to its plan function. It stays
 * where it is until the plugin ends, so that one which keeps `abi` is refused. */
struct cadre_plan_session {
    struct cadre_plan abi;
    struct cadre_rank_plan *plan; /* NULL: the plan function has returned */
    const struct cadre_plan_request *request; /* likewise */
    struct cadre_plan_member member;
    struct cadre_error *err; /* the first refusal's text */
};
void cadre_plan_session_init(struct cadre_plan_session *session,
                             struct cadre_rank_plan *plan,
                             const struct cadre_plan_request *request,
                             const struct cadre_plan_member *member,
                             struct cadre_error *err);

/* The plan function has returned: what the plugin calls from now on is refused. */
void cadre_plan_session_end(struct cadre_plan_session *session);

#endif
