/* SPDX-License-Identifier: Apache-2.0 */
/* One optimizer step over a rank: the strategies' step, then what the core owns: tied
 * gradients, losses, the global norm, clipping, the update. */
#include "core/strategy/rank.h"

#include <math.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/strategy/results.h"
#include "core/strategy/tied.h"

static cadre_status run_sequential(void *h, const struct cadre_step *step)
{
    struct cadre_rank *rank = h;
    return cadre_executor_sequential(rank->exec, step, &rank->failure);
}

bool cadre_rank_is_primary_owner_for_loss(const struct cadre_rank *rank)
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

bool cadre_rank_is_primary_owner_within(const struct cadre_rank *rank, uint32_t param,
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

bool cadre_rank_is_primary_owner(const struct cadre_rank *rank, uint32_t param)
{
    return cadre_rank_is_primary_owner_within(rank, param, NULL);
}

/* Does every rank hold the whole of every gradient? Then no one need ask the others. */
static bool replicated(const struct cadre_rank *rank)
{
    if (rank->model->tp_size > 1 || cadre_rank_plan_claimed(&rank->plan, "opt.shard") ||
        cadre_rank_plan_claimed(&rank->plan, "schedule.order"))
        return false;
    return true;
}

/* The sums of squares of what this rank speaks for, of all slices in one call. */
static cadre_status square_slices(struct cadre_rank *rank, double *chunks)
{
    const struct cadre_axis *apart = cadre_rank_apart(rank);
    bool everywhere = replicated(rank);
    uint64_t first = 0;
    size_t s = 0;
    int64_t n = 0;
    for (uint32_t i = 0; i < rank->model->n_params; i++) {
        const struct cadre_param *p = &rank->model->params[i];
        bool mine = s < rank->n_slices && rank->slices[s].param == i;
        if (mine && (everywhere || cadre_rank_is_primary_owner_within(rank, i, apart)))
            rank->squares[n++] = (struct cadre_squares){
                .x = rank->updates[s].grad,
                .count = rank->updates[s].count,
                .sums = chunks + first + rank->slices[s].begin / CADRE_NORM_CHUNK,
            };
        s += mine;
        if (p->tied_to < 0)
            first += cadre_norm_chunks(cadre_shape_count(&p->local));
    }
    return rank->device->ops->sum_squares(rank->device, rank->store.wide, rank->squares,
                                          n);
}

/* Chunks (n) of all ranks together. They meet on the host: where gradients are cut over
 * ranks a step waits for the device once, here. */
static cadre_status exchange_chunks(struct cadre_rank *rank, double *chunks, uint64_t n)
{
    const struct cadre_device_ops *ops = rank->device->ops;
    size_t bytes = n * sizeof(double);
    cadre_status rc = ops->to_host(rank->device, rank->sums, chunks, bytes);
    if (rc == CADRE_OK)
        rc = cadre_rank_sum(rank, "gradient norm", rank->sums, n);
    if (rc == CADRE_OK)
        rc = ops->to_device(rank->device, chunks, rank->sums, bytes);
    return rc;
}

/* {norm, factor of the gradients} behind the losses. */
static double *norm_of(const struct cadre_rank *rank)
{
    return rank->losses + rank->spec->global_batch / rank->spec->micro_batch;
}

static cadre_status global_norm(struct cadre_rank *rank,
                                const struct cadre_result *result)
{
    const struct cadre_axis *apart = cadre_rank_apart(rank);
    const struct cadre_device_ops *ops = rank->device->ops;
    uint64_t n = rank->n_norm_chunks * (apart ? (uint64_t)apart->size : 1);
    double *own = cadre_result_chunks(rank, result);
    cadre_status rc;
    CADRE_TRY(ops->zero(rank->device, result->chunks, n * sizeof(double)));
    CADRE_TRY(square_slices(rank, own));
    if (!replicated(rank))
        CADRE_TRY(exchange_chunks(rank, result->chunks, n));
    rc = ops->norm_total(rank->device, own, rank->n_norm_chunks, rank->spec->optim.clip,
                         1.0 / rank->loss_scale.scale, norm_of(rank));
fail:
    return rc;
}

/* Where the norm is not finite, neither is the factor, and nothing changes. */
static cadre_status update(struct cadre_rank *rank, struct cadre_result *result)
{
    const struct cadre_optimizer_config *optim = &rank->spec->optim;
    int64_t step = (int64_t)(rank->step - rank->loss_scale.skipped);
    cadre_status rc;
    for (size_t s = 0; s < rank->n_slices; s++) {
        uint32_t param = rank->slices[s].param;
        rank->updates[s].param = cadre_store_opt_data(&rank->store, param);
        rank->updates[s].rounded = cadre_store_opt_rounded(&rank->store, param);
        rank->updates[s].grad = cadre_store_opt_grad(&rank->store, param);
    }
    CADRE_TRY(global_norm(rank, result));
    result->lr = cadre_lr_at(optim, step);
    rc = cadre_optimizer_step(optim, rank->device, rank->model->config.dtype,
                              rank->updates, rank->n_slices, step, norm_of(rank) + 1);
fail:
    return rc;
}

/* What the strategies do of a step: passes and reductions. */
static cadre_status run_chain(struct cadre_rank *rank, uint64_t step)
{
    const struct cadre_run_spec *spec = rank->spec;
    size_t leaves = (size_t)(spec->global_batch / spec->micro_batch);
    struct cadre_step work = {
        .struct_size = sizeof work,
        .n_microbatches = (uint32_t)rank->plan.leaves,
        .step = step,
        .tokens_global = (uint64_t)(spec->global_batch * spec->time),
    };
    struct cadre_next run = {
        .struct_size = sizeof run, .h = rank, .run = run_sequential};
    cadre_status rc;
    CADRE_TRY(rank->device->ops->zero(rank->device, rank->losses,
                                      leaves * sizeof *rank->losses));
    cadre_timeline_begin_step(&rank->timeline);
    cadre_executor_begin(rank->exec, step);
    CADRE_TRY(cadre_chain_step(&rank->chain, &work, &run));
    CADRE_TRY(cadre_chain_sync(&rank->chain, CADRE_SYNC_GRADS));
    rc = cadre_executor_end(rank->exec, &rank->failure);
fail:
    return rc;
}

/* The core's part. A report that is not late is complete on return, and its losses are
 * looked at before anything changes. */
static cadre_status apply(struct cadre_rank *rank, struct cadre_result *result,
                          struct cadre_step_report *report)
{
    bool late = cadre_results_late(rank);
    double begin;
    cadre_status rc;
    if (!late) {
        CADRE_TRY(cadre_result_read_losses(rank, result));
        CADRE_TRY(cadre_result_losses(rank, result, true, report));
    }
    begin = cadre_now_s();
    CADRE_TRY(cadre_tied_add(rank));
    CADRE_TRY(update(rank, result));
    if (late) {
        CADRE_TRY(cadre_result_download(rank, result));
    } else {
        CADRE_TRY(cadre_result_read_norm(rank, result));
        CADRE_TRY(cadre_result_finish(rank, result, report));
    }
    CADRE_TRY(cadre_tied_copy(rank));
    result->times.optim_s = cadre_now_s() - begin;
    cadre_timeline_add(&rank->timeline, CADRE_SPAN_WORK, "optimizer", begin);
fail:
    return rc;
}

/* The report of the step before, with this step's votes. */
static cadre_status report_before(struct cadre_rank *rank,
                                  struct cadre_step_report *report)
{
    struct cadre_result *before = cadre_result_of(rank, rank->step - 1);
    cadre_status rc = cadre_result_losses(rank, before, true, report);
    if (rc != CADRE_OK || !before->step)
        return rc;
    report->times = before->times;
    return cadre_result_finish(rank, before, report);
}

/* Every failure has a text. */
static cadre_status tell(struct cadre_rank *rank, cadre_status rc)
{
    if (rc != CADRE_OK && rank->failure.code == CADRE_OK &&
        (!rank->world || cadre_comm_failure(rank->world, &rank->failure) == CADRE_OK))
        cadre_fail(&rank->failure, rc, "step %llu failed: %s",
                   (unsigned long long)rank->step, cadre_strerror(rc));
    return rc;
}

static cadre_status make_step(struct cadre_rank *rank, uint64_t step,
                              struct cadre_step_report *report)
{
    struct cadre_comm_stats before, after;
    struct cadre_result *result = cadre_result_of(rank, step);
    double start = cadre_now_s(), waited = cadre_executor_wait_s(rank->exec);
    bool late = cadre_results_late(rank);
    cadre_status rc;
    *report = (struct cadre_step_report){0};
    rank->step = step;
    result->step = step;
    result->times = (struct cadre_step_times){0};
    if (rank->world)
        cadre_comm_set_step(rank->world, step);
    cadre_rank_comm(rank, &before);
    CADRE_TRY(run_chain(rank, step));
    CADRE_TRY(apply(rank, result, report));
    CADRE_TRY(cadre_chain_sync(&rank->chain, CADRE_SYNC_PARAMS));
    CADRE_TRY(cadre_chain_sync(&rank->chain, CADRE_SYNC_METRICS));
    if (late)
        CADRE_TRY(report_before(rank, report));
    cadre_rank_comm(rank, &after);
    result->times.step_s = cadre_now_s() - start;
    result->times.wait_data_s = cadre_executor_wait_s(rank->exec) - waited;
    result->times.comm_s = after.busy_s - before.busy_s;
    result->times.comm_exposed_s = fmax(after.waited_s - before.waited_s, 0);
    if (!late)
        report->times = result->times;
fail:
    return tell(rank, rc);
}

/* Named for a profiler; a device that computes inline has none. */
cadre_status cadre_rank_step(struct cadre_rank *rank, uint64_t step,
                             struct cadre_step_report *report)
{
    struct cadre_device *device = rank->device;
    char name[32];
    snprintf(name, sizeof name, "step %llu", (unsigned long long)step);
    if (device->ops->queued)
        device->ops->range_begin(device, name);
    cadre_status rc = make_step(rank, step, report);
    if (device->ops->queued)
        device->ops->range_end(device);
    return rc;
}

cadre_status cadre_rank_flush(struct cadre_rank *rank, struct cadre_step_report *report)
{
    struct cadre_result *last = cadre_result_of(rank, rank->step);
    cadre_status rc;
    if (!last->step)
        return CADRE_OK;
    CADRE_TRY(cadre_result_losses(rank, last, false, report));
    report->times = last->times;
    rc = cadre_result_finish(rank, last, report);
fail:
    return tell(rank, rc);
}
