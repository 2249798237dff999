/* SPDX-License-Identifier: Apache-2.0 */
/* Where the units of the model run. A schedule may distribute them over the ranks of
 * its axis; a rank knows only its own chunks, so the ranks exchange them once. */
#ifndef CADRE_ENGINE_LAYOUT_STAGES_H
#define CADRE_ENGINE_LAYOUT_STAGES_H

#include "core/engine/layout/rank_plan.h"

struct cadre_stages {
    struct cadre_axis *axis; /* of schedule.order; NULL: every unit is on this rank */
    int *home; /* per unit: the rank along the axis that runs it */
};

/* [collective: the schedule's axis] Find every unit's home. Errors: CADRE_E_UNSUPPORTED
 * a unit that no stage runs or that several run, CADRE_E_RESOURCE, those of the
 * communicator. */
cadre_status cadre_stages_init(struct cadre_stages *stages,
                               const struct cadre_rank_plan *plan,
                               const struct cadre_model *model, struct cadre_mesh *mesh,
                               struct cadre_error *err);
void cadre_stages_fini(struct cadre_stages *stages);

/* Rank along the axis that runs the unit; 0 where there is no axis. */
int cadre_stages_home(const struct cadre_stages *stages, uint32_t unit);

#endif
