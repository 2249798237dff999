/* SPDX-License-Identifier: Apache-2.0 */
/* Perturbs initial parameters by one unit in the last place: the same training with
 * other rounding from the first step on. A comparison measures its limits on such runs.
 */
#ifndef CADRE_TRAIN_PERTURB_H
#define CADRE_TRAIN_PERTURB_H

#include "core/engine/rank.h"

/* Move every parameter of this rank to the next value of its type. `seed` and the
 * logical element decide up or down, so it is the same under every strategy; zeros
 * stay. [every rank, bound and filled, before its first step] Errors: CADRE_E_RESOURCE.
 */
cadre_status cadre_perturb(struct cadre_rank *rank, uint64_t seed,
                           struct cadre_error *err);

#endif
