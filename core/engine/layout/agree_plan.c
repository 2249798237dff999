/* SPDX-License-Identifier: Apache-2.0 */
/* Plans are functions of the run: where those of two ranks differ in more than their
 * coordinates, the ranks would wait for each other forever, or train different
 * models. */
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/memory.h"
#include "core/engine/layout/agree.h"

/* ---- what all plans share ---- */

enum part { AXES, CLAIMS, REDUCERS, MAP, DESIGNS, PERIODS, STORAGE, PARTS };

static const char *const part_names[PARTS] = {
    [AXES] = "uses of axes",
    [CLAIMS] = "claims",
    [REDUCERS] = "reductions",
    [MAP] = "maps of micro-batches",
    [DESIGNS] = "settings of by_design",
    [PERIODS] = "periods",
    [STORAGE] = "frozen or stored parameters",
};

/* A rank's plan, by what each plugin said. */
struct record {
    uint64_t units; /* which of them the rank runs */
    uint64_t members; /* the plugins */
    uint64_t said[CADRE_MAX_INSTANCES][PARTS];
};

static bool by(const char *owner, const char *member)
{
    return owner && strcmp(owner, member) == 0;
}

static void add_number(struct cadre_hash *hash, uint64_t value)
{
    cadre_hash_update(hash, &value, sizeof value);
}

static void add_axes(struct cadre_hash *hash, const struct cadre_mesh *mesh,
                     const char *member)
{
    for (int i = 0; i < mesh->n + mesh->n_derived; i++) {
        const struct cadre_axis *axis =
            i < mesh->n ? &mesh->axis[i] : &mesh->derived[i - mesh->n];
        if (!by(axis->user, member))
            continue;
        cadre_hash_update_string(hash, axis->name);
        add_number(hash, (uint64_t)axis->size);
        add_number(hash,
                   axis->split_batch | axis->split_time << 1 | axis->own_runs << 2);
    }
}

static void add_claims(struct cadre_hash *hash, const struct cadre_rank_plan *plan,
                       const char *member)
{
    for (int i = 0; i < plan->n_claims; i++) {
        const struct cadre_claim *claim = &plan->claim[i];
        if (!by(claim->plugin, member))
            continue;
        cadre_hash_update_string(hash, claim->effect);
        cadre_hash_update_string(hash, claim->axis);
        add_number(hash, claim->shared | claim->keeps_replicas << 1);
    }
}

static void add_reducers(struct cadre_hash *hash, const struct cadre_rank_plan *plan,
                         const char *member)
{
    for (int i = 0; i < plan->n_reducers; i++)
        if (by(plan->reducer[i].plugin, member)) {
            cadre_hash_update_string(hash, plan->reducer[i].axis->name);
            add_number(hash, plan->reducer[i].level);
        }
}

static void add_map(struct cadre_hash *hash, const struct cadre_rank_plan *plan,
                    const char *member)
{
    if (!by(plan->map_owner, member))
        return;
    add_number(hash, plan->map);
    cadre_hash_update(hash, plan->first, (size_t)plan->n_first * sizeof *plan->first);
}

static void add_storage(struct cadre_hash *hash, const struct cadre_rank_plan *plan,
                        const char *member)
{
    for (uint32_t i = 0; i < plan->n_params; i++) {
        const struct cadre_plan_param *at = &plan->param[i];
        if (by(at->froze, member))
            add_number(hash, 2 * (uint64_t)i);
        if (by(at->stored, member))
            add_number(hash, (uint64_t)at->form << 40 | (2 * (uint64_t)i + 1));
    }
}

static uint64_t hash_part(const struct cadre_rank_plan *plan, const char *member,
                          enum part part)
{
    struct cadre_hash hash;
    cadre_hash_init(&hash, part);
    for (int i = 0; part == DESIGNS && i < plan->n_designs; i++)
        if (by(plan->design[i].plugin, member))
            cadre_hash_update_string(&hash, plan->design[i].equal);
    for (int i = 0; part == PERIODS && i < plan->n_periods; i++)
        if (by(plan->period[i].plugin, member))
            add_number(&hash, plan->period[i].n);
    if (part == AXES)
        add_axes(&hash, plan->mesh, member);
    if (part == CLAIMS)
        add_claims(&hash, plan, member);
    if (part == REDUCERS)
        add_reducers(&hash, plan, member);
    if (part == MAP)
        add_map(&hash, plan, member);
    if (part == STORAGE)
        add_storage(&hash, plan, member);
    return cadre_hash_final(&hash);
}

static void fill(const struct cadre_rank_plan *plan, struct record *record)
{
    struct cadre_hash units, members;
    cadre_hash_init(&units, 0);
    cadre_hash_init(&members, 0);
    memset(record, 0, sizeof *record);
    for (int c = 0; c < plan->n_chunks; c++) {
        add_number(&units, plan->chunk[c].begin);
        add_number(&units, plan->chunk[c].end);
    }
    for (int m = 0; m < plan->n_members; m++) {
        cadre_hash_update_string(&members, plan->member[m]);
        for (int p = 0; p < PARTS; p++)
            record->said[m][p] = hash_part(plan, plan->member[m], (enum part)p);
    }
    record->units = cadre_hash_final(&units);
    record->members = cadre_hash_final(&members);
}

/* Does rank `rank` differ from the first one that it can be compared with? *peer: the
 * first that runs the same units, of the rank before. */
static cadre_status compare(const struct cadre_rank_plan *plan,
                            const struct record *all, int rank, int *peer,
                            struct cadre_error *err)
{
    const struct record *mine = &all[rank];
    if (all[*peer].units != mine->units)
        *peer = 0;
    while (all[*peer].units != mine->units)
        ++*peer;
    if (mine->members != all[0].members)
        return cadre_fail(
            err, CADRE_E_UNSUPPORTED,
            "rank %d plans with other plugins than rank 0; start all ranks "
            "with one strategy.stack",
            rank);
    for (int m = 0; m < plan->n_members; m++)
        for (int p = 0; p < PARTS; p++) {
            int with = p == STORAGE ? *peer : 0;
            if (mine->said[m][p] != all[with].said[m][p])
                return cadre_fail(
                    err, CADRE_E_UNSUPPORTED,
                    "plugin '%s' in plan: its %s on rank %d differ from those on rank "
                    "%d; a plan must follow from options and services alone, and be "
                    "equal on all ranks but for their coordinates",
                    plan->member[m], part_names[p], rank, with);
        }
    return CADRE_OK;
}

static cadre_status failed(struct cadre_comm *comm, cadre_status rc,
                           struct cadre_error *err)
{
    if (rc != CADRE_OK && cadre_comm_failure(comm, err) == CADRE_OK)
        cadre_fail(err, rc, "the ranks could not compare their plans: %s",
                   cadre_strerror(rc));
    return rc;
}

cadre_status cadre_agree_plan(struct cadre_comm *world,
                              const struct cadre_rank_plan *plan,
                              struct cadre_error *err)
{
    if (!world || world->size == 1)
        return CADRE_OK;
    struct record mine, *all = cadre_calloc((size_t)world->size, sizeof *all);
    fill(plan, &mine);
    cadre_status rc = all ? cadre_comm_gather_records(world, "agreement on plans",
                                                      &mine, all, sizeof mine)
                          : CADRE_E_RESOURCE;
    failed(world, rc, err);
    for (int r = 1, peer = 0; rc == CADRE_OK && r < world->size; r++)
        rc = compare(plan, all, r, &peer, err);
    free(all);
    return rc;
}

/* ---- OPT ranges ---- */

#define WHOLE UINT64_MAX /* as a count: no range was placed */

struct range {
    uint64_t begin, count;
    int rank;
};

/* Who placed the range, or claims the effect. */
static const char *placer(const struct cadre_rank_plan *plan, uint32_t param)
{
    const char *name = plan->param[param].placer[CADRE_KIND_OPT];
    return name ? name : cadre_rank_plan_claimed(plan, "opt.shard");
}

static int by_begin(const void *left, const void *right)
{
    const struct range *a = left, *b = right;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return a->rank - b->rank;
}

/* `range`: n of them, by rank. Those that are empty are left out of the order. */
static cadre_status check_cover(const struct cadre_rank_plan *plan, uint32_t param,
                                struct range *range, int n, struct cadre_error *err)
{
    const char *name = plan->model->params[param].name;
    const char *axis = cadre_rank_plan_axis(plan, "opt.shard")->name;
    const uint64_t size = cadre_shape_count(&plan->model->params[param].local);
    uint64_t at = 0;
    int before = 0, some = 0;
    for (int i = 0; i < n; i++)
        if (range[i].count > 0)
            range[some++] = range[i];
    qsort(range, (size_t)some, sizeof *range, by_begin);
    for (int i = 0; i < some; i++) {
        if (range[i].begin < at)
            return cadre_fail(
                err, CADRE_E_UNSUPPORTED,
                "plugin '%s' in plan: the OPT ranges of ranks %d and %d along '%s' "
                "overlap from element %llu of '%s' on; expected each element once",
                placer(plan, param), before, range[i].rank, axis,
                (unsigned long long)range[i].begin, name);
        if (range[i].begin > at)
            break;
        at += range[i].count;
        before = range[i].rank;
    }
    if (at == size)
        return CADRE_OK;
    return cadre_fail(
        err, CADRE_E_UNSUPPORTED,
        "plugin '%s' in plan: no rank along '%s' has element %llu of '%s' "
        "(of %llu) in its OPT range; expected each element once",
        placer(plan, param), axis, (unsigned long long)at, name,
        (unsigned long long)size);
}

/* all: (n, n_params, 2) */
static cadre_status check_param(const struct cadre_rank_plan *plan, uint32_t param,
                                const uint64_t *all, int n, struct range *range,
                                struct cadre_error *err)
{
    int placed = 0, other = 0;
    for (int r = 0; r < n; r++) {
        const uint64_t *at = all + 2 * ((size_t)r * plan->n_params + param);
        range[r] = (struct range){at[0], at[1], r};
        placed += at[1] != WHOLE;
        if ((at[1] == WHOLE) != (range[0].count == WHOLE))
            other = r;
    }
    if (placed == 0)
        return CADRE_OK;
    if (placed < n)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "plugin '%s' in plan: it places an OPT range of '%s' on rank "
                          "%d along '%s', and none on rank %d; expected a range on "
                          "every rank (it may be empty) or on none",
                          placer(plan, param), plan->model->params[param].name,
                          range[0].count == WHOLE ? other : 0,
                          cadre_rank_plan_axis(plan, "opt.shard")->name,
                          range[0].count == WHOLE ? 0 : other);
    return check_cover(plan, param, range, n, err);
}

static void put_ranges(const struct cadre_rank_plan *plan, uint64_t *mine)
{
    for (uint32_t i = 0; i < plan->n_params; i++) {
        const struct cadre_share *share = &plan->param[i].share[CADRE_KIND_OPT];
        mine[2 * i] = share->begin;
        mine[2 * i + 1] = share->placed ? share->count : WHOLE;
    }
}

static bool updates(const struct cadre_rank_plan *plan, uint32_t param)
{
    return plan->param[param].present && !plan->param[param].frozen &&
           plan->model->params[param].tied_to < 0;
}

cadre_status cadre_agree_ranges(const struct cadre_rank_plan *plan,
                                struct cadre_error *err)
{
    const struct cadre_axis *axis = cadre_rank_plan_axis(plan, "opt.shard");
    if (!axis || (axis->comm && axis->comm->represented))
        return CADRE_OK;
    const int n = axis->comm ? axis->size : 1;
    const size_t bytes = 2 * (size_t)plan->n_params * sizeof(uint64_t);
    uint64_t *all = cadre_calloc((size_t)n, bytes);
    struct range *range = cadre_calloc((size_t)n, sizeof *range);
    cadre_status rc = all && range ? CADRE_OK : cadre_no_memory(err, "the OPT ranges");
    if (rc == CADRE_OK)
        put_ranges(plan,
                   all + (axis->comm ? (size_t)axis->index : 0) * 2 * plan->n_params);
    if (rc == CADRE_OK && axis->comm)
        rc = failed(axis->comm,
                    cadre_comm_gather_records(
                        axis->comm, "agreement on OPT ranges",
                        all + (size_t)axis->index * 2 * plan->n_params, all, bytes),
                    err);
    for (uint32_t i = 0; rc == CADRE_OK && axis->size == n && i < plan->n_params; i++)
        if (updates(plan, i))
            rc = check_param(plan, i, all, n, range, err);
    free(all);
    free(range);
    return rc;
}
