/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of a run, from its plan to the summary: resume, steps, evaluations,
 * checkpoints. */
#ifndef CADRE_TRAIN_LOOP_H
#define CADRE_TRAIN_LOOP_H

#include "core/launch/launch.h"
#include "core/launch/world.h"
#include "core/run/spec.h"

/* A run as seen by its ranks; read only. */
struct cadre_train_run {
    const struct cadre_spec *spec;
    const char *checkpoint; /* to resume from, or NULL */
    int64_t first_step; /* steps done before */
    int64_t last_step; /* the step that the run ends with */
    double begin_s; /* when the process began, by cadre_now_s; NaN: not known */
    const struct cadre_launch_external *external; /* NULL: cadre starts its ranks */
    const struct cadre_launch_place *place; /* (ranks) of threads; NULL: none has one */
};

/* [collective: all ranks of the run] Train as rank `index` of an open world, which
 * receives a failure; rank 0 writes metrics and summary. [the rank's thread] Errors: as
 * cadre_train; err has the first failure of all ranks. */
cadre_status cadre_train_rank(const struct cadre_train_run *run, int index,
                              struct cadre_world *world, struct cadre_error *err);

#endif
