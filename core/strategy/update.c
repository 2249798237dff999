/* SPDX-License-Identifier: Apache-2.0 */
/* One optimizer step over a rank: the strategies' step, then what the core owns: tied
 * gradients, losses, the global norm, clipping, the update. */
#include "core/strategy/rank.h"

#include <math.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/tree.h"
#include "core/strategy/tied.h"

static cadre_status run_sequential(void *h, const struct cadre_step *step)
{
    struct cadre_rank *rank = h;
    return cadre_executor_sequential(rank->exec, step, &rank->failure);
}

bool cadre_rank_speaks_for_loss(const struct cadre_rank *rank)
{
    for (int a = 0; a < rank->mesh.n; a++) {
        const struct cadre_axis *axis = &rank->mesh.axis[a];
        if (!axis->split_batch && axis != rank->stages.axis && axis->index != 0)
            return false;
    }
    return true;
}

const struct cadre_axis *cadre_rank_apart(const struct cadre_rank *rank)
{
    for (int c = 0; c < rank->plan.n_claims; c++) {
        const struct cadre_claim *claim = &rank->plan.claim[c];
        for (int a = 0; a < rank->mesh.n; a++)
            if (strcmp(claim->effect, "param.apart") == 0 &&
                rank->mesh.axis[a].size > 1 &&
                strcmp(claim->axis, rank->mesh.axis[a].name) == 0)
                return &rank->mesh.axis[a];
    }
    return NULL;
}

bool cadre_rank_speaks_within(const struct cadre_rank *rank, uint32_t param,
                              const struct cadre_axis *apart)
{
    bool sharded = rank->plan.param[param].share[CADRE_KIND_OPT].placed;
    for (int a = 0; a < rank->mesh.n; a++) {
        const struct cadre_axis *axis = &rank->mesh.axis[a];
        bool distinct =
            axis == apart || (rank->model->tp_size > 1 &&
                              rank->model->params[param].split != CADRE_SPLIT_NONE &&
                              rank->model->tp_size == axis->size && !axis->split_batch);
        for (int c = 0; c < rank->plan.n_claims; c++) {
            const struct cadre_claim *claim = &rank->plan.claim[c];
            if (strcmp(claim->axis, axis->name) == 0 &&
                ((strcmp(claim->effect, "opt.shard") == 0 && sharded) ||
                 strcmp(claim->effect, "schedule.order") == 0))
                distinct = true;
        }
        if (!distinct && axis->index != 0)
            return false;
    }
    return true;
}

bool cadre_rank_speaks_for(const struct cadre_rank *rank, uint32_t param)
{
    return cadre_rank_speaks_within(rank, param, NULL);
}

/* Does every rank hold the whole of every gradient? Then no one need ask the others. */
static bool replicated(const struct cadre_rank *rank)
{
    if (rank->model->tp_size > 1 || cadre_rank_plan_claimed(&rank->plan, "opt.shard") ||
        cadre_rank_plan_claimed(&rank->plan, "schedule.order"))
        return false;
    return true;
}

/* The chunks of this rank's replica: of one that trains apart, its own block. */
static double *own_chunks(const struct cadre_rank *rank)
{
    const struct cadre_axis *apart = cadre_rank_apart(rank);
    return rank->norm_chunks + (apart ? (size_t)apart->index : 0) * rank->n_norm_chunks;
}

static cadre_status global_norm(struct cadre_rank *rank, double *norm)
{
    struct cadre_device *device = rank->device;
    const struct cadre_axis *apart = cadre_rank_apart(rank);
    uint64_t n = rank->n_norm_chunks * (apart ? (uint64_t)apart->size : 1);
    double *chunks = own_chunks(rank);
    bool everywhere = replicated(rank);
    uint64_t first = 0;
    size_t s = 0;
    memset(rank->norm_chunks, 0, n * sizeof(double));
    for (uint32_t i = 0; i < rank->model->n_params; i++) {
        const struct cadre_param *p = &rank->model->params[i];
        bool mine = s < rank->n_slices && rank->slices[s].param == i;
        if (mine && (everywhere || cadre_rank_speaks_within(rank, i, apart))) {
            const struct cadre_squares squares = {
                .x = rank->updates[s].grad,
                .count = rank->updates[s].count,
                .sums = chunks + first + rank->slices[s].begin / CADRE_NORM_CHUNK,
            };
            cadre_status rc =
                device->ops->sum_squares(device, rank->store.wide, &squares, 1);
            if (rc != CADRE_OK)
                return rc;
        }
        s += mine;
        if (p->tied_to < 0)
            first += cadre_norm_chunks(cadre_shape_count(&p->local));
    }
    if (!everywhere) {
        cadre_status rc = cadre_rank_sum(rank, "gradient norm", rank->norm_chunks, n);
        if (rc != CADRE_OK)
            return rc;
    }
    *norm = sqrt(cadre_tree_sum(chunks, rank->n_norm_chunks));
    return CADRE_OK;
}

/* Name of the parameter that holds the first chunk that is not finite. */
static const char *culprit(const struct cadre_rank *rank)
{
    const double *chunks = own_chunks(rank);
    uint64_t at = 0;
    for (uint32_t i = 0; i < rank->model->n_params; i++) {
        const struct cadre_param *p = &rank->model->params[i];
        if (p->tied_to >= 0)
            continue;
        uint64_t end = at + cadre_norm_chunks(cadre_shape_count(&p->local));
        for (; at < end; at++)
            if (!isfinite(chunks[at]))
                return p->name;
    }
    return "?";
}

/* This rank's times among those of all ranks, where a schedule may leave bubbles.
 * Returns how many numbers there are. */
static uint64_t put_times(const struct cadre_rank *rank, double *table)
{
    size_t n = 3 * (size_t)rank->mesh.ranks;
    if (!rank->timeline.axis)
        return 0;
    struct cadre_timeline_row row = cadre_timeline_row(&rank->timeline);
    memset(table, 0, n * sizeof *table);
    memcpy(table + 3 * (size_t)rank->index, &row, sizeof row);
    return n;
}

static void find_bubbles(struct cadre_rank *rank, const double *table,
                         struct cadre_step_times *times)
{
    struct cadre_timeline_groups groups = {rank->mesh.ranks, 1, 1};
    if (!rank->timeline.axis)
        return;
    groups.size = rank->stages.axis->size;
    for (int a = rank->mesh.n - 1; &rank->mesh.axis[a] != rank->stages.axis; a--)
        groups.stride *= rank->mesh.axis[a].size;
    struct cadre_timeline_idle idle = cadre_timeline_idle(
        (const struct cadre_timeline_row *)(const void *)table, &groups, rank->index);
    times->span_s = idle.span_s;
    times->bubble_s = idle.bubble_s;
    rank->hidden_s += cadre_timeline_hidden(&rank->timeline, &idle);
    cadre_timeline_keep(&rank->timeline, rank->step, &idle);
}

/* The step's loss from every rank's micro-batches, the ranks' votes, and when they were
 * at work: one exchange for all; of a micro-batch's element all but one rank's are
 * zero. */
static cadre_status mean_loss(struct cadre_rank *rank, struct cadre_step_report *report)
{
    const struct cadre_run_spec *spec = rank->spec;
    int64_t leaves = spec->global_batch / spec->micro_batch;
    int64_t targets = spec->model.classes > 0 ? 1 : spec->time;
    if (!cadre_rank_speaks_for_loss(rank))
        memset(rank->losses, 0, (size_t)leaves * sizeof(double));
    const bool votes[CADRE_RANK_VOTES] = {rank->wants_stop, rank->saving,
                                          rank->save_failed};
    for (int v = 0; v < CADRE_RANK_VOTES; v++)
        rank->losses[leaves + v] = votes[v];
    double *table = rank->losses + leaves + CADRE_RANK_VOTES;
    uint64_t times = put_times(rank, table);
    cadre_status rc = cadre_rank_sum(rank, "losses", rank->losses,
                                     (uint64_t)leaves + CADRE_RANK_VOTES + times);
    if (rc != CADRE_OK)
        return rc;
    find_bubbles(rank, table, &report->times);
    report->stop = rank->losses[leaves] > 0;
    report->saving = rank->losses[leaves + 1] > 0;
    report->save_failed = rank->losses[leaves + 2] > 0;
    for (int64_t i = 0; i < leaves; i++)
        if (!isfinite(rank->losses[i]))
            return cadre_fail(
                &rank->failure, CADRE_E_NUMERIC,
                "the loss is not finite at step %llu: micro-batch %lld, on "
                "data rank %lld; lower optim.lr or set optim.clip",
                (unsigned long long)rank->step, (long long)i,
                (long long)(rank->plan.leaf_stride == 1 ? i / rank->plan.leaves
                                                        : i % rank->plan.leaf_stride));
    report->loss = cadre_tree_sum(rank->losses, (size_t)leaves) /
                   (double)(spec->global_batch * targets);
    return CADRE_OK;
}

static cadre_status update(struct cadre_rank *rank, struct cadre_step_report *report)
{
    const struct cadre_optimizer_config *optim = &rank->spec->optim;
    cadre_status rc;
    for (size_t s = 0; s < rank->n_slices; s++) {
        uint32_t param = rank->slices[s].param;
        rank->updates[s].param = cadre_store_opt_data(&rank->store, param);
        rank->updates[s].rounded = cadre_store_opt_rounded(&rank->store, param);
        rank->updates[s].grad = cadre_store_opt_grad(&rank->store, param);
    }
    CADRE_TRY(global_norm(rank, &report->grad_norm));
    if (!isfinite(report->grad_norm)) {
        rc = cadre_fail(
            &rank->failure, CADRE_E_NUMERIC,
            "the gradient of '%s' is not finite at step %llu (seen on rank %d); "
            "lower optim.lr or set optim.clip",
            culprit(rank), (unsigned long long)rank->step, rank->index);
        goto fail;
    }
    report->lr = cadre_lr_at(optim, (int64_t)rank->step);
    const double grad_scale = cadre_clip_scale(optim->clip, report->grad_norm);
    CADRE_TRY(cadre_optimizer_step(optim, rank->device, rank->model->config.dtype,
                                   rank->updates, rank->n_slices, (int64_t)rank->step,
                                   &grad_scale));
fail:
    return rc;
}

cadre_status cadre_rank_step(struct cadre_rank *rank, uint64_t step,
                             struct cadre_step_report *report)
{
    const struct cadre_run_spec *spec = rank->spec;
    struct cadre_comm_stats before, after;
    double start = cadre_now_s(), waited = cadre_executor_wait_s(rank->exec), optim;
    cadre_status rc;
    rank->step = step;
    if (rank->world)
        cadre_comm_set_step(rank->world, step);
    cadre_rank_comm(rank, &before);
    memset(rank->losses, 0,
           (size_t)(spec->global_batch / spec->micro_batch) * sizeof(double));
    cadre_timeline_begin_step(&rank->timeline);
    cadre_executor_begin(rank->exec, step);
    struct cadre_step work = {
        .struct_size = sizeof work,
        .n_microbatches = (uint32_t)rank->plan.leaves,
        .step = step,
        .tokens_global = (uint64_t)(spec->global_batch * spec->time),
    };
    struct cadre_next run = {
        .struct_size = sizeof run, .h = rank, .run = run_sequential};
    CADRE_TRY(cadre_chain_step(&rank->chain, &work, &run));
    CADRE_TRY(cadre_chain_sync(&rank->chain, CADRE_SYNC_GRADS));
    CADRE_TRY(cadre_executor_end(rank->exec, &rank->failure));
    CADRE_TRY(mean_loss(rank, report));
    optim = cadre_now_s();
    CADRE_TRY(cadre_tied_add(rank));
    CADRE_TRY(update(rank, report));
    CADRE_TRY(cadre_tied_copy(rank));
    report->times.optim_s = cadre_now_s() - optim;
    cadre_timeline_add(&rank->timeline, CADRE_SPAN_WORK, "optimizer", optim);
    CADRE_TRY(cadre_chain_sync(&rank->chain, CADRE_SYNC_PARAMS));
    CADRE_TRY(cadre_chain_sync(&rank->chain, CADRE_SYNC_METRICS));
    cadre_rank_comm(rank, &after);
    report->times.step_s = cadre_now_s() - start;
    report->times.wait_data_s = cadre_executor_wait_s(rank->exec) - waited;
    report->times.comm_s = after.busy_s - before.busy_s;
    report->times.comm_exposed_s = fmax(after.waited_s - before.waited_s, 0);
    return CADRE_OK;
fail:
    if (rank->failure.code == CADRE_OK &&
        (!rank->world || cadre_comm_failure(rank->world, &rank->failure) == CADRE_OK))
        cadre_fail(&rank->failure, rc, "step %llu failed: %s", (unsigned long long)step,
                   cadre_strerror(rc));
    return rc;
}
