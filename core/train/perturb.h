/* SPDX-License-Identifier: Apache-2.0 */
/* Initial parameters moved by the least that they can be: the same training, rounded
 * otherwise from the first step on. A comparison takes its limits from such runs. */
#ifndef CADRE_TRAIN_PERTURB_H
#define CADRE_TRAIN_PERTURB_H

#include "core/engine/rank.h"

/* Move every parameter that this rank holds to the next value of its type, up or down
 * as `seed` and the logical element say, whatever the strategy; zeros stay. [every
 * rank, bound and filled, before its first step] Errors: CADRE_E_RESOURCE. */
cadre_status cadre_perturb(struct cadre_rank *rank, uint64_t seed,
                           struct cadre_error *err);

#endif
