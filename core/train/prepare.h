/* SPDX-License-Identifier: Apache-2.0 */
/* What the user has to mend, found before anything is started or left behind; then the
 * run's folder. */
#ifndef CADRE_TRAIN_PREPARE_H
#define CADRE_TRAIN_PREPARE_H

#include "core/engine/place.h"
#include "core/train/loop.h"

/* Check the run, measure what its plan rests on, ask plugins for the places of ranks,
 * and make the folder. In the launching process, or in rank 0 of those that somebody
 * else started. `places` is zeroed before and ended by the caller in any case. [main]
 * Errors: CADRE_E_INVALID and what the parts give. */
cadre_status cadre_train_prepare(const struct cadre_train_run *run,
                                 struct cadre_spec *spec, struct cadre_places *places,
                                 struct cadre_error *err);

/* What the ranks' meeting rests on; borrows of the spec. [any thread] */
struct cadre_world_run cadre_train_world(const struct cadre_spec *spec);

/* In a rank that run->outside started: was it put where its plugins want it? [main]
 * Errors: CADRE_E_INVALID. */
cadre_status cadre_train_check_place(const struct cadre_train_run *run,
                                     struct cadre_error *err);

#endif
