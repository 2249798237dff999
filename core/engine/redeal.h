/* SPDX-License-Identifier: Apache-2.0 */
/* balance.micro_batches and device.pace on one rank: the division of each step's
 * micro-batches, taken up between two steps. Global batch, data and reduction tree stay
 * as they are: only who computes a micro-batch changes. */
#ifndef CADRE_ENGINE_REDEAL_H
#define CADRE_ENGINE_REDEAL_H

#include "core/engine/balance.h"
#include "core/engine/layout/division.h"
#include "core/engine/step_report.h"

struct cadre_rank;

struct cadre_redeal {
    struct cadre_division division;
    struct cadre_balance balance; /* where it is measured */
    uint64_t *next; /* (data ranks + 1); NULL: the division never changes */
    double *data_s; /* (data ranks): see exchange.h */
    bool due; /* `next` is of the next step */
    bool told; /* a step of this session was reported */
    bool changed; /* this step's division is another than that of the step before */
};

/* Read the options, before the plan. Errors: CADRE_E_INVALID, CADRE_E_RESOURCE;
 * CADRE_E_UNSUPPORTED on a device that queues its work. */
cadre_status cadre_redeal_init(struct cadre_rank *rank, struct cadre_error *err);
/* Accepts a zeroed one. */
void cadre_redeal_fini(struct cadre_redeal *redeal);

/* What the plan divides by; NULL: all data ranks run equally many. */
const struct cadre_division *cadre_redeal_division(const struct cadre_rank *rank);

/* After the plan, before the exchange of results is made: allocate. Errors:
 * CADRE_E_RESOURCE, CADRE_E_UNSUPPORTED. */
cadre_status cadre_redeal_start(struct cadre_rank *rank, struct cadre_error *err);

/* [exec; every rank alike] Take up the division of `step` before its passes. The text
 * of an error goes to rank->failure. */
cadre_status cadre_redeal_begin(struct cadre_rank *rank, uint64_t step);

/* Before the step's losses are exchanged: what a micro-batch took here. */
void cadre_redeal_measure(struct cadre_rank *rank);

/* After it: does another division begin with the next step? */
void cadre_redeal_judge(struct cadre_rank *rank);

/* Put the division into the step's report, where it is to be told. */
void cadre_redeal_report(struct cadre_rank *rank, struct cadre_step_report *report);

#endif
