/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/drift.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/memory.h"
#include "core/optim/norm_chunks.h"

/* Does this rank hold the whole local part of the parameter's values, for the others of
 * its axis to have the same? */
static bool is_whole(const struct cadre_store *store, uint32_t param)
{
    const struct cadre_store_param *p = &store->param[param];
    return p->data && store->model->params[param].tied_to < 0 &&
           !store->plan->param[param].share[CADRE_KIND_PARAM].placed;
}

/* Sums of squares of a unit's values (its whole local parts) to `sums` on the device,
 * in chunks, of experts or of the others; returns their number. A parameter in a form
 * of bytes is compared when it is decoded, by its products. */
static cadre_status square_unit(const struct cadre_store *store, uint32_t unit,
                                bool experts, double *sums,
                                struct cadre_squares *squares, uint64_t *n)
{
    struct cadre_device *device = store->ledger->device;
    int64_t count = 0;
    *n = 0;
    for (uint32_t i = 0; i < store->model->n_params; i++) {
        if (store->model->params[i].unit != unit || !is_whole(store, i) ||
            (store->model->params[i].expert >= 0) != experts ||
            store->plan->param[i].form != CADRE_FORM_PLAIN)
            continue;
        squares[count] = (struct cadre_squares){
            .x = store->param[i].data,
            .count = (int64_t)store->param[i].count,
            .sums = sums + *n,
        };
        count++;
        *n += cadre_norm_chunks(store->param[i].count);
    }
    return device->ops->sum_squares(device, store->model->config.dtype, squares, count);
}

bool cadre_drift_replicated(const struct cadre_store *store,
                            const struct cadre_axis *axis)
{
    const struct cadre_rank_plan *plan = store->plan;
    const struct cadre_axis *stages = cadre_rank_plan_axis(plan, "schedule.order");
    const struct cadre_axis *parts = cadre_rank_plan_axis(plan, "act.complete");
    return axis->comm && axis != stages && axis != parts &&
           axis != cadre_rank_plan_diverging_axis(plan) && !axis->own_runs;
}

/* Of one hash of each rank, `stride` apart: the rank that is not as most are, or -1
 * where no hash is that of most. */
static int odd_one(const uint64_t *hash, size_t stride, int ranks)
{
    for (int most = 0; most < ranks; most++) {
        int same = 0, odd = -1;
        for (int r = 0; r < ranks; r++) {
            const bool is = hash[(size_t)r * stride] == hash[(size_t)most * stride];
            same += is;
            odd = is || odd >= 0 ? odd : r;
        }
        if (2 * same > ranks)
            return odd;
    }
    return -1;
}

static cadre_status tell(const struct cadre_axis *axis, const uint64_t *hash,
                         size_t stride, const char *what, uint32_t unit,
                         struct cadre_error *why)
{
    const int odd = odd_one(hash, stride, axis->size);
    char which[64] = "";
    int r = 1;
    while (hash[0] == hash[(size_t)r * stride])
        r++;
    if (axis->size > 2 && odd >= 0)
        snprintf(which, sizeof which, " (rank %d is not as most are)", odd);
    return cadre_fail(why, CADRE_E_INTERNAL,
                      "replicas differ: the %s of unit %u along the axis '%s' are not "
                      "the same on its ranks 0 and %d%s; a strategy has not reduced a "
                      "gradient, or has changed parameters on one of them (where that "
                      "is meant, it claims param.diverges), or memory has failed",
                      what, unit, axis->name, r, which);
}

cadre_status cadre_drift_compare(const struct cadre_store *store,
                                 const struct cadre_axis *axis, const uint64_t *hash,
                                 const char *what, struct cadre_error *why)
{
    const uint32_t units = store->model->n_units;
    const bool homes = axis == cadre_rank_plan_expert_axis(store->plan);
    const size_t n = homes ? units : 2 * (size_t)units;
    uint64_t *all = cadre_calloc((size_t)axis->size * n, sizeof *all);
    cadre_status rc = all ? cadre_comm_gather_records(axis->comm, "replicas", hash, all,
                                                      n * sizeof *hash)
                          : CADRE_E_RESOURCE;
    for (size_t i = 0; rc == CADRE_OK && i < n * (size_t)axis->size; i++)
        if (all[i] != all[i % n])
            rc = tell(axis, all + i % n, n, what, (uint32_t)(i % n) % units, why);
    free(all);
    return rc;
}

/* hash (2 * n_units) of the sums of squares of each unit's values without experts, then
 * of its experts. */
static cadre_status hash_units(const struct cadre_store *store, uint64_t *hash,
                               double *device_sums, double *host_sums,
                               struct cadre_squares *squares)
{
    struct cadre_device *device = store->ledger->device;
    const uint32_t units = store->model->n_units;
    for (uint32_t i = 0; i < 2 * units; i++) {
        const bool experts = i >= units;
        uint64_t n = 0;
        CADRE_TRY(square_unit(store, experts ? i - units : i, experts, device_sums,
                              squares, &n));
        CADRE_TRY(
            device->ops->to_host(device, host_sums, device_sums, n * sizeof(double)));
        hash[i] = cadre_hash_of(host_sums, n * sizeof(double), i);
    }
    return CADRE_OK;
}

/* Most chunks that a unit has. */
static uint64_t most_chunks(const struct cadre_store *store)
{
    uint64_t most = 1;
    for (uint32_t u = 0; u < store->model->n_units; u++) {
        uint64_t n = 0;
        for (uint32_t i = 0; i < store->model->n_params; i++)
            if (store->model->params[i].unit == u)
                n += cadre_norm_chunks(store->param[i].count);
        most = n > most ? n : most;
    }
    return most;
}

static bool any_replicated(const struct cadre_store *store,
                           const struct cadre_mesh *mesh)
{
    for (int a = 0; a < mesh->n; a++)
        if (cadre_drift_replicated(store, &mesh->axis[a]))
            return true;
    return false;
}

cadre_status cadre_drift_check(const struct cadre_store *store, struct cadre_mesh *mesh,
                               struct cadre_error *why)
{
    struct cadre_device *device = store->ledger->device;
    uint32_t n_units = store->model->n_units;
    if (!any_replicated(store, mesh) || device->ops->simulated)
        return CADRE_OK;
    uint64_t chunks = most_chunks(store);
    uint64_t *hash = cadre_calloc(2 * (size_t)n_units, sizeof *hash);
    double *host = cadre_calloc(chunks, sizeof *host);
    struct cadre_squares *squares =
        cadre_calloc(store->model->n_params, sizeof *squares);
    double *sums = device->ops->alloc(device, chunks * sizeof *sums);
    cadre_status rc = hash && host && squares && sums
                          ? hash_units(store, hash, sums, host, squares)
                          : CADRE_E_RESOURCE;
    for (int a = 0; rc == CADRE_OK && a < mesh->n; a++)
        if (cadre_drift_replicated(store, &mesh->axis[a]))
            rc = cadre_drift_compare(store, &mesh->axis[a], hash, "parameters", why);
    if (sums)
        device->ops->free(device, sums);
    free(squares);
    free(host);
    free(hash);
    return rc;
}
