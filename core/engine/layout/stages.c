/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/layout/stages.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"

/* table: on how many ranks each unit runs, then the sum of their indices. */
static cadre_status fill(const struct cadre_rank_plan *plan, uint32_t n_units,
                         const struct cadre_axis *axis, double *table)
{
    cadre_event done;
    for (int c = 0; c < plan->n_chunks; c++)
        for (uint32_t u = plan->chunk[c].begin; u < plan->chunk[c].end; u++) {
            table[u] += 1;
            table[n_units + u] += axis ? axis->index : 0;
        }
    if (!axis || !axis->comm)
        return CADRE_OK;
    cadre_status rc =
        cadre_comm_all_reduce(axis->comm, "stages", table, table, 2 * (uint64_t)n_units,
                              CADRE_F64, CADRE_SUM, 0, &done);
    return rc == CADRE_OK ? cadre_comm_wait(axis->comm, done) : rc;
}

cadre_status cadre_stages_init(struct cadre_stages *stages,
                               const struct cadre_rank_plan *plan,
                               const struct cadre_model *model, struct cadre_mesh *mesh,
                               struct cadre_error *err)
{
    const struct cadre_claim *claim = cadre_rank_plan_claim(plan, "schedule.order");
    double *table = cadre_calloc(2 * (size_t)model->n_units, sizeof *table);
    *stages = (struct cadre_stages){
        .axis = claim ? cadre_mesh_axis(mesh, claim->axis) : NULL,
        .home = cadre_calloc(model->n_units, sizeof *stages->home),
    };
    cadre_status rc = CADRE_E_RESOURCE;
    if (table && stages->home)
        rc = fill(plan, model->n_units, stages->axis, table);
    if (rc != CADRE_OK)
        cadre_fail(err, rc, "the stages could not exchange their units: %s",
                   cadre_strerror(rc));
    for (uint32_t u = 0; rc == CADRE_OK && u < model->n_units; u++) {
        stages->home[u] = (int)table[model->n_units + u];
        if (table[u] != 1)
            rc = cadre_fail(
                err, CADRE_E_UNSUPPORTED,
                "%s runs unit %u of the model %.0f times, expected on "
                "exactly one stage%s",
                claim ? claim->plugin : "the plan", u, table[u],
                claim ? "" : "; a plugin that plans chunks must claim schedule.order");
    }
    free(table);
    if (rc != CADRE_OK)
        cadre_stages_fini(stages);
    return rc;
}

void cadre_stages_fini(struct cadre_stages *stages)
{
    free(stages->home);
    *stages = (struct cadre_stages){0};
}

int cadre_stages_home(const struct cadre_stages *stages, uint32_t unit)
{
    return stages->home ? stages->home[unit] : 0;
}
