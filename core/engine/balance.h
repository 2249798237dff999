/* SPDX-License-Identifier: Apache-2.0 */
/* When micro-batches are dealt again (balance.micro_batches = measured): a rule over
 * measured seconds. Every rank judges the same numbers, so all come to the same
 * division in the same step.
 *
 * A rank's speed is the inverse of the median of its seconds a micro-batch over the
 * last CADRE_BALANCE_WINDOW steps, which one late step does not move. A deal by these
 * speeds is taken up only where the slowest rank's passes are predicted to be shorter
 * by more than CADRE_BALANCE_GAIN in each of CADRE_BALANCE_STREAK steps in a row; the
 * first step of a session, and CADRE_BALANCE_REST steps after a deal, are not judged.
 */
#ifndef CADRE_ENGINE_BALANCE_H
#define CADRE_ENGINE_BALANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"

#define CADRE_BALANCE_WINDOW 5
#define CADRE_BALANCE_STREAK 3
#define CADRE_BALANCE_REST 8
#define CADRE_BALANCE_GAIN 0.03

struct cadre_balance {
    int n; /* data ranks */
    int64_t microbatches, most; /* of a step; of a rank at most */
    double *seen; /* (n, WINDOW): seconds a micro-batch of the last steps */
    double *second, *speed; /* (n) */
    uint64_t steps; /* in `seen` since the last deal */
    int rest; /* steps that are not judged yet */
    int streak;
};

/* For n ranks that run `microbatches` a step together, none of them more than `most`.
 * Errors: CADRE_E_RESOURCE. */
cadre_status cadre_balance_init(struct cadre_balance *balance, int n,
                                int64_t microbatches, int64_t most,
                                struct cadre_error *err);
/* Accepts a zeroed one. */
void cadre_balance_fini(struct cadre_balance *balance);

/* A step took seconds (n) a micro-batch, under the division now (n + 1). True where
 * next (n + 1), another one, is to be taken up; else next is undefined. A step of which
 * a number is not known (not above 0) is left out. */
bool cadre_balance_judge(struct cadre_balance *balance, const double *seconds,
                         const uint64_t *now, uint64_t *next);

#endif
