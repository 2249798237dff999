/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/verify.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/memory.h"
#include "core/comm/checksum.h"
#include "core/engine/drift.h"
#include "core/tensor/dtype.h"

enum { KINDS = 4 };

/* ---- the ranges ---- */

struct range {
    const char *what;
    uint32_t param;
    const void *data; /* NULL: this rank has none */
    uint64_t bytes;
    uint32_t space;
};

static struct range frozen_range(const struct cadre_store *store, uint32_t param)
{
    const struct cadre_store_param *p = &store->param[param];
    const struct cadre_share own = cadre_store_share(store, param, CADRE_KIND_PARAM);
    const bool plain = store->plan->param[param].form == CADRE_FORM_PLAIN;
    return (struct range){
        .what = "frozen values",
        .param = param,
        .data = own.placed ? p->data_shard : p->data,
        .bytes = own.count * (plain ? store->elem_bytes : 1),
        .space = CADRE_SPACE_DEVICE,
    };
}

/* Of a trained parameter: its values, the rounded ones, and the core's two moments. */
static struct range trained_range(const struct cadre_store *store, uint32_t param,
                                  size_t kind)
{
    static const char *const what[KINDS] = {"values", "rounded values", "first moments",
                                            "second moments"};
    const struct cadre_store_param *p = &store->param[param];
    const struct cadre_share own = cadre_store_share(store, param, CADRE_KIND_OPT);
    const bool kept = kind == 0 ? p->master != NULL : kind > 1; /* with the states */
    struct range range = {
        .what = what[kind],
        .param = param,
        .bytes = own.count * (kind == 1 ? store->elem_bytes : store->wide_bytes),
        .space = kept ? own.space : CADRE_SPACE_DEVICE,
    };
    if (own.count > 0)
        range.data = kind == 0   ? cadre_store_opt_data(store, param)
                     : kind == 1 ? cadre_store_opt_rounded(store, param)
                     : kind == 2 ? p->exp_avg
                                 : p->exp_avg_sq;
    return range;
}

/* KINDS of each parameter, then the planned states. */
static struct range range_at(const struct cadre_store *store, size_t index)
{
    const struct cadre_rank_plan *plan = store->plan;
    const size_t n = (size_t)KINDS * store->model->n_params;
    if (index >= n) {
        const struct cadre_plan_state *state = &plan->state[index - n];
        const struct cadre_buf *buf = &store->opt.state[index - n];
        return (struct range){state->key, state->param, buf->data,
                              buf->count * cadre_dtype_bytes(buf->dtype), buf->space};
    }
    const uint32_t param = (uint32_t)(index / KINDS);
    const struct range none = {.param = param};
    if (store->model->params[param].tied_to >= 0)
        return none;
    if (plan->param[param].frozen)
        return index % KINDS == 0 ? frozen_range(store, param) : none;
    return trained_range(store, param, index % KINDS);
}

/* ---- messages ---- */

/* Axis a of the mesh; NULL: nothing is sent along it, or its ranks need not be at the
 * same step. */
static const struct cadre_axis *checked_axis(struct cadre_mesh *mesh, int a)
{
    const struct cadre_axis *axis = cadre_mesh_axis_at(mesh, a);
    return axis->comm && !cadre_mesh_own_runs(mesh) ? axis : NULL;
}

static cadre_status keep_checksums(struct cadre_mesh *mesh, struct cadre_error *err)
{
    for (int a = 0; a < mesh->n + mesh->n_derived; a++) {
        const struct cadre_axis *axis = checked_axis(mesh, a);
        if (axis)
            CADRE_TRY(cadre_checksum_keep(axis->comm, err));
    }
    return CADRE_OK;
}

static cadre_status compare_messages(struct cadre_mesh *mesh, struct cadre_error *why)
{
    for (int a = 0; a < mesh->n + mesh->n_derived; a++) {
        const struct cadre_axis *axis = checked_axis(mesh, a);
        struct cadre_checksum_odd odd = {.from = -1};
        if (axis)
            CADRE_TRY(cadre_checksum_compare(axis->comm, &odd));
        if (odd.from < 0)
            continue;
        const int from = cadre_mesh_rank_along(mesh, axis, odd.from),
                  to = cadre_mesh_rank_along(mesh, axis, odd.to);
        return cadre_fail(why, CADRE_E_INTERNAL,
                          odd.reduced
                              ? "run.verify: ranks %d and %d got other bits from a "
                                "reduction along the axis '%s': memory, a network or a "
                                "transport has failed; resume from the newest "
                                "checkpoint, on other machines if it comes back"
                              : "run.verify: what rank %d sent rank %d along the axis "
                                "'%s' came with other bits: memory, a network or a "
                                "transport has failed; resume from the newest "
                                "checkpoint, on other machines if it comes back",
                          from, to, axis->name);
    }
    return CADRE_OK;
}

cadre_status cadre_verify_init(struct cadre_verify *verify,
                               const struct cadre_store *store, struct cadre_mesh *mesh,
                               int64_t every, struct cadre_error *err)
{
    struct cadre_device *device = store->ledger->device;
    *verify = (struct cadre_verify){.store = store, .mesh = mesh};
    if (every == 0 || device->ops->simulated)
        return CADRE_OK;
    verify->every = every;
    verify->n = (size_t)KINDS * store->model->n_params + store->plan->n_states;
    verify->sum = cadre_calloc(verify->n, sizeof *verify->sum);
    verify->unit =
        cadre_calloc(2 * (size_t)store->model->n_units, sizeof *verify->unit);
    if (!verify->sum || !verify->unit)
        return cadre_no_memory(err, "the hashes of run.verify");
    CADRE_TRY(keep_checksums(mesh, err));
    return cadre_memory_hash_init(&verify->hash, device, err);
}

void cadre_verify_fini(struct cadre_verify *verify)
{
    free(verify->sum);
    free(verify->unit);
    cadre_memory_hash_fini(&verify->hash);
    *verify = (struct cadre_verify){0};
}

/* ---- hashes ---- */

static cadre_status hash_range(const struct cadre_verify *verify,
                               const struct range *range, uint64_t *out)
{
    return cadre_memory_hash_of(&verify->hash, range->space != CADRE_SPACE_DEVICE,
                                range->data, range->data ? range->bytes : 0,
                                range->param, out);
}

cadre_status cadre_verify_note(struct cadre_verify *verify, uint64_t step)
{
    struct cadre_device *device;
    verify->noted = false;
    if (verify->every == 0 || (step + 1) % (uint64_t)verify->every != 0)
        return CADRE_OK;
    device = verify->store->ledger->device;
    CADRE_TRY(device->ops->synchronize(device));
    for (size_t i = 0; i < verify->n; i++) {
        const struct range range = range_at(verify->store, i);
        CADRE_TRY(hash_range(verify, &range, &verify->sum[i]));
    }
    verify->noted = true;
    return CADRE_OK;
}

cadre_status cadre_verify_rest(struct cadre_verify *verify, struct cadre_error *why)
{
    if (!verify->noted)
        return CADRE_OK;
    const struct cadre_store *store = verify->store;
    struct cadre_device *device = store->ledger->device;
    CADRE_TRY(device->ops->synchronize(device));
    for (size_t i = 0; i < verify->n; i++) {
        const struct range range = range_at(store, i);
        uint64_t now;
        CADRE_TRY(hash_range(verify, &range, &now));
        if (now != verify->sum[i])
            return cadre_fail(
                why, CADRE_E_INTERNAL,
                "run.verify: the %s of '%s' on rank %d changed after the last update, "
                "when nothing writes them: memory or a driver has failed, or a plugin "
                "writes outside of sync; resume from the newest checkpoint, on "
                "another machine if it comes back",
                range.what, store->model->params[range.param].name, verify->mesh->rank);
    }
    return CADRE_OK;
}

cadre_status cadre_verify_drained(struct cadre_verify *verify, uint64_t step)
{
    if (!verify->noted)
        return CADRE_OK;
    verify->noted = false;
    if (cadre_rank_plan_diverging_axis(verify->store->plan))
        return CADRE_OK;
    return cadre_verify_note(verify, step);
}

/* ---- replicas ---- */

/* Do ranks along the axis keep different OPT ranges? */
static bool is_sharded(const struct cadre_verify *verify, const struct cadre_axis *axis)
{
    const struct cadre_rank_plan *plan = verify->store->plan;
    for (int c = 0; c < plan->n_claims; c++) {
        const struct cadre_axis *by =
            strcmp(plan->claim[c].effect, "opt.shard") == 0
                ? cadre_mesh_axis(verify->mesh, plan->claim[c].axis)
                : NULL;
        for (int f = 0; by && f < by->n_factors; f++)
            for (int g = 0; g < axis->n_factors; g++) {
                const struct cadre_axis_factor *a = &by->factor[f],
                                               *b = &axis->factor[g];
                if (a->stride < b->stride * b->size && b->stride < a->stride * a->size)
                    return true;
            }
    }
    return false;
}

static void fold_units(struct cadre_verify *verify)
{
    const struct cadre_model *model = verify->store->model;
    memset(verify->unit, 0, 2 * (size_t)model->n_units * sizeof *verify->unit);
    for (size_t i = 0; i < verify->n; i++) {
        const struct cadre_param *p = &model->params[range_at(verify->store, i).param];
        uint64_t *unit = &verify->unit[p->unit + (p->expert >= 0 ? model->n_units : 0)];
        const uint64_t both[] = {*unit, verify->sum[i]};
        *unit = cadre_hash_of(both, sizeof both, 0);
    }
}

cadre_status cadre_verify_check(struct cadre_verify *verify, struct cadre_error *why)
{
    if (!verify->noted)
        return CADRE_OK;
    CADRE_TRY(cadre_verify_rest(verify, why));
    verify->noted = false;
    fold_units(verify);
    for (int a = 0; a < verify->mesh->n; a++) {
        const struct cadre_axis *axis = &verify->mesh->axis[a];
        if (cadre_drift_replicated(verify->store, axis) && !is_sharded(verify, axis))
            CADRE_TRY(cadre_drift_compare(verify->store, axis, verify->unit,
                                          "parameters and optimizer states", why));
    }
    return compare_messages(verify->mesh, why);
}
