/* SPDX-License-Identifier: Apache-2.0 */
#include "core/train/outside.h"

#include "core/base/log.h"
#include "core/train/costs.h"
#include "core/train/prepare.h"

cadre_status cadre_train_outside(const struct cadre_train_run *run,
                                 struct cadre_spec *spec, struct cadre_error *err)
{
    const struct cadre_launch_outside *outside = run->outside;
    struct cadre_places places = {0};
    struct cadre_world world = {0};
    struct cadre_error own = {0};
    const struct cadre_world_terms terms = {.fingerprint = spec->run.fingerprint,
                                            .first_step = run->first_step};
    cadre_status rc = cadre_world_check(spec, outside, err);
    if (rc != CADRE_OK)
        return rc;
    cadre_log_set_rank(outside->rank, outside->size);
    if (outside->rank == 0)
        own.code = cadre_train_prepare(run, spec, &places, &own);
    else
        own.code = cadre_train_check_place(run, &own);
    if (outside->size > 1)
        rc = cadre_world_meet(&world, spec, outside, &terms,
                              own.code == CADRE_OK ? NULL : own.text, err);
    if (rc == CADRE_OK && outside->rank > 0)
        own.code = cadre_costs_read(spec, outside->rank, &own);
    if (rc == CADRE_OK && outside->size > 1)
        rc = cadre_world_enter(&world, spec, outside,
                               own.code == CADRE_OK ? NULL : own.text, err);
    if (own.code != CADRE_OK) {
        *err = own;
        rc = own.code;
    }
    if (rc == CADRE_OK)
        rc = cadre_train_rank(run, outside->rank, &world, err);
    if (rc == CADRE_E_STOPPED && outside->rank > 0)
        err->text[0] = '\0'; /* rank 0 says it */
    cadre_world_close(&world);
    cadre_places_fini(&places);
    return rc;
}
