/* SPDX-License-Identifier: Apache-2.0 */
/* What the units of the model cost on this machine's device. */
#ifndef CADRE_STRATEGY_UNIT_SECONDS_H
#define CADRE_STRATEGY_UNIT_SECONDS_H

#include "core/strategy/rank.h"

/* seconds (n_units): forward, input and weight backward of each unit on one micro-batch
 * of the run, with the forward that train.recompute repeats; the median of a few after
 * a warm-up. Blocks are alike, so one is measured for all. The rank is planned, not
 * bound, and stays so; its model has no storage before and after. Opens the run's
 * device and takes the memory of one unit at a time. [main] Errors: those of the
 * device, CADRE_E_RESOURCE. */
cadre_status cadre_unit_seconds_measure(struct cadre_rank *planned, double *seconds,
                                        struct cadre_error *err);

#endif
