/* SPDX-License-Identifier: Apache-2.0 */
/* Checks for user errors before anything is started or written; then makes the run's
 * folder. */
#ifndef CADRE_TRAIN_PREPARE_H
#define CADRE_TRAIN_PREPARE_H

#include "core/engine/place.h"
#include "core/run/run_lock.h"
#include "core/train/loop.h"

/* Check the run, measure the costs that its plan needs, ask plugins for the placement
 * of ranks, make the folder, and tell what the run is and takes. In the launching
 * process, or in rank 0 under an external launcher. The caller zeroes `places` and
 * `lock` (the folder's, which may be taken before) and ends them in any case. [main]
 * Errors: CADRE_E_INVALID and those of the parts. */
cadre_status cadre_train_prepare(const struct cadre_train_run *run,
                                 struct cadre_spec *spec, struct cadre_places *places,
                                 struct cadre_run_lock *lock, struct cadre_error *err);

/* The values that ranks must agree on when they connect; borrowed from the spec.
 * [any thread] */
struct cadre_world_run cadre_train_world(const struct cadre_spec *spec);

/* In a rank of an external launcher: is it placed where its plugins request? [main]
 * Errors: CADRE_E_INVALID. */
cadre_status cadre_train_check_place(const struct cadre_train_run *run,
                                     struct cadre_error *err);

#endif
