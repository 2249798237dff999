/* SPDX-License-Identifier: Apache-2.0 */
/* What the functions of struct cadre_plan share: plan_session.c has those on axes,
 * micro-batches and schedules, plan_claims.c those on claims, plan_params.c those on
 * parameters and memory. */
#ifndef CADRE_ENGINE_LAYOUT_PLAN_SESSION_PRIVATE_H
#define CADRE_ENGINE_LAYOUT_PLAN_SESSION_PRIVATE_H

#include "core/engine/layout/plan_session.h"

/* The session of a call of `function`; NULL, recorded, after the plan function has
 * returned. */
struct cadre_plan_session *cadre_plan_enter(void *h, const char *function);

/* Record "plugin 'x' in plan: TEXT"; returns CADRE_E_UNSUPPORTED. */
__attribute__((format(printf, 2, 3))) cadre_status
cadre_plan_refuse(struct cadre_plan_session *s, const char *fmt, ...);

/* The same for what plugins of one stack do to each other: "strategy.stack: TEXT". */
__attribute__((format(printf, 2, 3))) cadre_status
cadre_plan_conflict(struct cadre_plan_session *s, const char *fmt, ...);

/* Is it this instance's name? */
bool cadre_plan_is_me(const struct cadre_plan_session *s, const char *plugin);

/* The axis of that name; `function` names the call in the refusal. */
cadre_status cadre_plan_find_axis(struct cadre_plan_session *s, const char *function,
                                  const char *name, struct cadre_axis **out);

/* Is it an axis of strategy.stack, not one made of these? */
bool cadre_plan_in_stack(const struct cadre_plan_session *s,
                         const struct cadre_axis *axis);

/* Slots of struct cadre_plan; see there. */
cadre_status cadre_plan_claim(void *h, const char *effect, const char *axis,
                              uint32_t flags);
cadre_status cadre_plan_reduces(void *h, const char *axis, uint32_t level);
cadre_status cadre_plan_by_design(void *h, const char *equal);
cadre_status cadre_plan_place_range(void *h, cadre_param_id param, uint32_t kind,
                                    uint64_t begin, uint64_t count, uint32_t space);
cadre_status cadre_plan_memory(void *h, uint32_t space, uint64_t bytes,
                               const char *tag);
cadre_status cadre_plan_train(void *h, cadre_param_id param, uint32_t on);
cadre_status cadre_plan_store(void *h, cadre_param_id param, uint32_t form);
cadre_status cadre_plan_opt_state(void *h, const struct cadre_opt_state *state);
cadre_status cadre_plan_opt_matrix(void *h, cadre_param_id param);

#endif
