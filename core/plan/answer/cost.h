/* SPDX-License-Identifier: Apache-2.0 */
/* Hours and price of training on a number of tokens: `--cost`. */
#ifndef CADRE_PLAN_ANSWER_COST_H
#define CADRE_PLAN_ANSWER_COST_H

#include "core/plan/interval.h"
#include "core/plan/search.h"

struct cadre_cost {
    double tokens; /* to train on */
    double price_per_hour; /* of one device; 0: not given */
};

struct cadre_cost_of {
    double steps, hours, device_hours;
    double price; /* 0 without a price */
};

/* Of a step of `seconds`. Steps are whole. [any thread] */
struct cadre_cost_of cadre_cost_of(const struct cadre_cost *cost,
                                   const struct cadre_plan_question *question,
                                   double seconds);

/* Of the `top` best candidates, with the ends of their interval. False: there was no
 * memory for the table; so in the headers beside this one. */
bool cadre_cost_print(const struct cadre_cost *cost,
                      const struct cadre_plan_search *search,
                      const struct cadre_plan_question *question,
                      const struct cadre_intervals *intervals, size_t top, FILE *out);
cadre_status cadre_cost_print_json(const struct cadre_cost *cost,
                                   const struct cadre_plan_search *search,
                                   const struct cadre_plan_question *question,
                                   const struct cadre_intervals *intervals, FILE *out);

#endif
