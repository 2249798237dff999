/* SPDX-License-Identifier: Apache-2.0 */
#include "core/train/prepare.h"

#include <string.h>

#include "core/train/costs.h"
#include "core/train/rundir.h"
#include "core/train/snapshot.h"

/* What the user has to mend is found before anything is started or left behind. */
static cadre_status check(const struct cadre_train_run *run, struct cadre_error *err)
{
    const struct cadre_spec *spec = run->spec;
    const char *init = cadre_options_str(spec->options, "model.init");
    struct cadre_rank rank;
    cadre_status rc = cadre_rank_plan(&rank, &spec->run, 0, err);
    if (rc != CADRE_OK)
        return CADRE_E_INVALID;
    if (run->checkpoint)
        rc = cadre_snapshot_check(&rank, spec, run->checkpoint, err);
    else if (*init)
        rc = cadre_snapshot_check_init(&rank, init, err);
    cadre_rank_fini(&rank);
    return rc == CADRE_E_IO ? CADRE_E_INVALID : rc;
}

/* Environment and CPUs are given before a rank starts. */
static cadre_status refuse_places(const struct cadre_places *places,
                                  struct cadre_error *err)
{
    for (int r = 0; places->rank && r < places->ranks; r++)
        if (places->rank[r].pinned || places->rank[r].variable[0])
            return cadre_fail(
                err, CADRE_E_INVALID,
                "a plugin of strategy.stack wishes an environment or CPUs "
                "for rank %d, which ranks that cadre starts alone can "
                "have; unset CADRE_INIT, or leave the plugin out",
                r);
    return CADRE_OK;
}

cadre_status cadre_train_prepare(const struct cadre_train_run *run,
                                 struct cadre_spec *spec, struct cadre_places *places,
                                 struct cadre_error *err)
{
    bool resuming =
        strcmp(cadre_options_str(spec->options, "checkpoint.resume"), "no") != 0;
    cadre_status rc = cadre_world_check(spec, run->outside, err);
    if (rc != CADRE_OK)
        return rc;
    rc = cadre_costs_find(spec, err);
    if (rc != CADRE_OK)
        return CADRE_E_INVALID;
    rc = check(run, err);
    if (rc != CADRE_OK)
        return rc;
    rc = cadre_places_collect(places, &spec->run, spec->local.processes || run->outside,
                              err);
    if (rc == CADRE_OK && run->outside)
        rc = refuse_places(places, err);
    if (rc != CADRE_OK)
        return CADRE_E_INVALID;
    if (run->first_step >= spec->steps)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "'%s' has done %lld steps already, train.steps = %lld; raise it to "
            "go on",
            run->checkpoint ? run->checkpoint : spec->out, (long long)run->first_step,
            (long long)spec->steps);
    if (resuming)
        rc = cadre_snapshot_refuse_older(spec, run->first_step, err);
    if (rc == CADRE_OK)
        rc = cadre_rundir_prepare(spec, resuming, err);
    if (rc == CADRE_OK)
        rc = cadre_rundir_cut_metrics(spec->out, run->first_step, err);
    if (rc == CADRE_OK)
        rc = cadre_costs_write(spec, err);
    return rc;
}
