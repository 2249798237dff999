/* SPDX-License-Identifier: Apache-2.0 */
/* What plugins say of parameters between passes: values that are complete after an
 * event only, and owned values that were changed after the optimizer. */
#ifndef CADRE_ENGINE_STRATEGY_PARAM_MARKS_H
#define CADRE_ENGINE_STRATEGY_PARAM_MARKS_H

#include "core/engine/strategy/host.h"

struct cadre_param_mark {
    cadre_event event; /* 0: nothing is pending */
    const struct cadre_ctx *by; /* who posted what is pending */
    bool changed; /* owned values were lent for writing */
};

struct cadre_param_marks {
    uint32_t n, n_pending, n_changed;
    struct cadre_param_mark *mark; /* (n), by entry; tied entries have their owner's */
};

/* Errors: CADRE_E_RESOURCE. */
cadre_status cadre_param_marks_init(struct cadre_param_marks *marks, uint32_t n,
                                    struct cadre_error *err);
/* Accepts a zeroed one. */
void cadre_param_marks_fini(struct cadre_param_marks *marks);

/* The values of a parameter are complete after the event; a later one replaces it. */
void cadre_param_marks_pend(struct cadre_services *services, const struct cadre_ctx *by,
                            uint32_t param, cadre_event event);

/* Owned values of a parameter were lent for writing. */
void cadre_param_marks_change(struct cadre_param_marks *marks, uint32_t param);

/* [exec] The compute stream waits for the values of a parameter, unless `reader` is who
 * posted them; of the entries of a unit; of all. */
cadre_status cadre_param_marks_await(struct cadre_services *services, uint32_t param,
                                     const struct cadre_ctx *reader);
cadre_status cadre_param_marks_await_unit(struct cadre_services *services,
                                          uint32_t unit);
cadre_status cadre_param_marks_await_all(struct cadre_services *services);

/* [exec] Round the changed owned values into their parameters and forget the marks. */
cadre_status cadre_param_marks_round(struct cadre_services *services);

#endif
