/* SPDX-License-Identifier: Apache-2.0 */
/* One optimizer step of a rank: the strategies' step, then the core's part: tied
 * gradients, losses, the global norm, clipping, the update. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/memory.h"
#include "core/base/rank_page.h"
#include "core/base/tree.h"
#include "core/engine/rank.h"
#include "core/engine/step_clock.h"
#include "core/engine/targets.h"
#include "core/engine/tied.h"
#include "core/optim/lr.h"

static cadre_status run_sequential(void *h, const struct cadre_step *step)
{
    struct cadre_rank *rank = h;
    return cadre_executor_sequential(rank->exec, step, &rank->failure);
}

/* The strategies' part of a step: passes and, unless it is forward only, reductions. */
static cadre_status run_chain(struct cadre_rank *rank, uint64_t step, uint32_t flags)
{
    const struct cadre_run_spec *spec = rank->spec;
    struct cadre_step work = {
        .struct_size = sizeof work,
        .n_microbatches = (uint32_t)rank->plan.n_microbatches,
        .step = step,
        .tokens_global = (uint64_t)(spec->global_batch * spec->time),
        .flags = flags,
    };
    struct cadre_next run = {
        .struct_size = sizeof run, .h = rank, .run = run_sequential};
    CADRE_TRY(
        rank->device->ops->zero(rank->device, rank->results.losses,
                                rank->results.n_losses * sizeof *rank->results.losses));
    cadre_timeline_begin_step(&rank->timeline);
    rank->services.step = step;
    rank->services.held_moments = 0;
    cadre_executor_count(rank->exec, cadre_targets_of_seed(rank, step));
    cadre_executor_begin(rank->exec, step, flags);
    CADRE_TRY(cadre_chain_step(&rank->chain, &work, &run));
    if (!(flags & CADRE_STEP_FORWARD))
        CADRE_TRY(cadre_chain_sync(&rank->chain, CADRE_SYNC_GRADS));
    return cadre_executor_end(rank->exec, &rank->failure);
}

/* ---- the report ---- */

/* Is a step's report returned by the next step? Not under fp16, whose next step needs
 * to know whether this one overflowed. */
static bool reports_late(const struct cadre_rank *rank)
{
    return rank->device->ops->async && rank->model->config.dtype != CADRE_F16;
}

/* Values of a micro-batch. */
static size_t losses_each(const struct cadre_rank *rank)
{
    return cadre_rank_has_pairs(rank) ? cadre_preference_width(rank->spec->micro_batch)
                                      : 1;
}

static cadre_status check_losses(struct cadre_rank *rank, uint64_t step)
{
    const size_t each = losses_each(rank);
    for (size_t i = 0; i < rank->exchange.n_losses; i++)
        if (!isfinite(rank->exchange.values[i]))
            return cadre_fail(
                &rank->failure, CADRE_E_NUMERIC,
                "the loss is not finite at step %llu: micro-batch %lld, on "
                "data rank %lld; lower optim.lr or set optim.clip",
                (unsigned long long)step, (long long)(i / each),
                (long long)cadre_rank_plan_data_rank(&rank->plan, (int64_t)(i / each)));
    return CADRE_OK;
}

/* The means over the step, each in the tree over micro-batches. */
static cadre_status find_means(struct cadre_rank *rank, uint64_t step,
                               struct cadre_step_report *report)
{
    const double *values = rank->exchange.values, n = cadre_targets_of_step(rank, step);
    const size_t each = losses_each(rank), batches = rank->exchange.n_losses / each;
    if (!cadre_rank_has_pairs(rank)) {
        report->loss = cadre_tree_sum(values, batches) / n;
        return CADRE_OK;
    }
    double *column = cadre_calloc(batches, sizeof *column);
    double sums[CADRE_PREFERENCE_SUMS] = {0};
    for (size_t f = 0; column && f < CADRE_PREFERENCE_SUMS; f++) {
        for (size_t i = 0; i < batches; i++)
            column[i] = values[i * each + f];
        sums[f] = cadre_tree_sum(column, batches);
    }
    cadre_preference_means(sums, n, report->preference);
    report->loss = report->preference[CADRE_PREFERENCE_LOSS];
    free(column);
    return column ? CADRE_OK : cadre_no_memory(&rank->failure, "a step's figures");
}

/* [collective: world] The mean loss of a result's step over all ranks' micro-batches;
 * none of an empty result. With `votes`, the same exchange carries the votes and pass
 * times of this step. */
static cadre_status report_losses(struct cadre_rank *rank,
                                  const struct cadre_result *result, bool votes,
                                  struct cadre_step_report *report)
{
    bool mine = result->step && cadre_rank_is_primary_owner_for_loss(rank);
    struct cadre_exchange_outcome outcome;
    cadre_status rc = CADRE_OK;
    if (result->step)
        rc = rank->device->ops->event_sync(rank->device, result->done);
    if (votes)
        cadre_redeal_measure(rank);
    if (rc == CADRE_OK)
        rc = cadre_exchange_losses(&rank->exchange, mine ? result->host : NULL,
                                   rank->step, votes ? &outcome : NULL);
    if (rc != CADRE_OK)
        return rc;
    if (votes) {
        struct cadre_step_times *times =
            &cadre_results_of(&rank->results, rank->step)->times;
        times->span_s = outcome.span_s;
        times->bubble_s = outcome.bubble_s;
        report->stop = outcome.votes.stop;
        report->saving = outcome.votes.saving;
        report->save_failed = outcome.votes.save_failed;
        cadre_redeal_judge(rank);
    }
    if (!result->step)
        return CADRE_OK;
    CADRE_TRY(check_losses(rank, result->step));
    return find_means(rank, result->step, report);
}

static cadre_status overflowed(struct cadre_rank *rank,
                               const struct cadre_result *result)
{
    double scale = rank->loss_scale.scale;
    if (cadre_loss_scale_bad(&rank->loss_scale))
        return CADRE_OK;
    return cadre_fail(&rank->failure, CADRE_E_NUMERIC,
                      "the gradient of '%s' is not finite at step %llu, with a loss "
                      "scale of %g: no overflow of fp16; lower optim.lr, set "
                      "optim.clip or use train.precision = bf16",
                      cadre_update_culprit(&rank->update, result->chunks),
                      (unsigned long long)result->step, scale);
}

/* Check that the norm of a result's step is finite, and complete its report. Under fp16
 * a norm that is not finite is an overflow, and the loss scale changes. */
static cadre_status report_norm(struct cadre_rank *rank, struct cadre_result *result,
                                struct cadre_step_report *report)
{
    bool scaled = rank->model->config.dtype == CADRE_F16;
    double norm = result->host[rank->results.n_losses];
    cadre_status rc = CADRE_OK;
    report->step = result->step;
    report->lr = result->lr;
    report->grad_norm = norm;
    report->skipped = scaled && !isfinite(norm);
    report->loss_scale = scaled ? rank->loss_scale.scale : 0;
    if (report->skipped)
        rc = overflowed(rank, result);
    else if (!isfinite(norm))
        rc = cadre_fail(&rank->failure, CADRE_E_NUMERIC,
                        "the gradient of '%s' is not finite at step %llu (seen on rank "
                        "%d); lower optim.lr or set optim.clip",
                        cadre_update_culprit(&rank->update, result->chunks),
                        (unsigned long long)result->step, rank->index);
    else if (scaled)
        cadre_loss_scale_good(&rank->loss_scale);
    result->step = 0;
    return rc;
}

/* The report of the step before, with this step's votes. */
static cadre_status report_before(struct cadre_rank *rank,
                                  struct cadre_step_report *report)
{
    struct cadre_result *before = cadre_results_of(&rank->results, rank->step - 1);
    cadre_status rc = report_losses(rank, before, true, report);
    if (rc != CADRE_OK || !before->step)
        return rc;
    report->times = before->times;
    return report_norm(rank, before, report);
}

/* Every failure has a text. */
static cadre_status name_failure(struct cadre_rank *rank, cadre_status rc)
{
    if (rc != CADRE_OK && rank->failure.code == CADRE_OK &&
        (!rank->world || cadre_comm_failure(rank->world, &rank->failure) == CADRE_OK))
        cadre_fail(&rank->failure, rc, "step %llu failed: %s",
                   (unsigned long long)rank->step, cadre_strerror(rc));
    return rc;
}

/* ---- the step ---- */

static cadre_status update(struct cadre_rank *rank, struct cadre_result *result)
{
    int64_t step = (int64_t)(rank->step - rank->loss_scale.skipped);
    result->lr = cadre_lr_at(&rank->spec->optim, step);
    rank->update.held = (int64_t)rank->services.held_moments;
    return cadre_update_apply(&rank->update, step, rank->loss_scale.scale,
                              result->chunks, cadre_results_norm(&rank->results));
}

/* The core's part. A report that is not late is complete on return; its losses are
 * checked before anything changes. */
static cadre_status apply(struct cadre_rank *rank, struct cadre_result *result,
                          struct cadre_step_report *report)
{
    bool late = reports_late(rank);
    double begin, waited_s;
    CADRE_TRY(cadre_verify_check(&rank->verify, &rank->failure));
    if (!late) {
        CADRE_TRY(cadre_results_read_losses(&rank->results, result));
        CADRE_TRY(report_losses(rank, result, true, report));
    }
    begin = cadre_now_s();
    waited_s = rank->timeline.waited_s;
    const uint64_t phase =
        cadre_rank_page_enter(rank->page, CADRE_PHASE_OPTIMIZER, 0, 0);
    CADRE_TRY(cadre_tied_add(&rank->store, &rank->stages, &rank->failure));
    CADRE_TRY(update(rank, result));
    cadre_pace_slow(&rank->pace, &rank->timeline, begin, waited_s);
    if (late) {
        CADRE_TRY(cadre_results_download(&rank->results, result));
    } else {
        CADRE_TRY(cadre_results_read_norm(&rank->results, result));
        CADRE_TRY(report_norm(rank, result, report));
    }
    CADRE_TRY(cadre_chain_sync(&rank->chain, CADRE_SYNC_UPDATE));
    CADRE_TRY(cadre_tied_copy(&rank->store, &rank->stages));
    cadre_rank_page_leave(rank->page, phase);
    result->times.optim_s = cadre_now_s() - begin;
    result->times.optim_wait_s = rank->timeline.waited_s - waited_s;
    cadre_timeline_add(&rank->timeline, CADRE_SPAN_WORK, "optimizer", begin);
    return CADRE_OK;
}

static cadre_status make_step(struct cadre_rank *rank, uint64_t step,
                              struct cadre_step_report *report)
{
    struct cadre_step_clock clock;
    struct cadre_result *result = cadre_results_of(&rank->results, step);
    bool late = reports_late(rank);
    cadre_status rc;
    *report = (struct cadre_step_report){0};
    cadre_rank_page_begin_step(rank->page, step);
    rank->step = step;
    result->step = step;
    result->times = (struct cadre_step_times){0};
    if (rank->world)
        cadre_comm_set_step(rank->world, step);
    cadre_step_clock_begin(rank, &clock);
    CADRE_TRY_OR(cadre_redeal_begin(rank, step), fail);
    CADRE_TRY_OR(run_chain(rank, step, 0), fail);
    CADRE_TRY_OR(apply(rank, result, report), fail);
    CADRE_TRY_OR(cadre_chain_sync(&rank->chain, CADRE_SYNC_PARAMS), fail);
    CADRE_TRY_OR(cadre_verify_note(&rank->verify, step), fail);
    CADRE_TRY_OR(cadre_chain_sync(&rank->chain, CADRE_SYNC_METRICS), fail);
    if (late)
        CADRE_TRY_OR(report_before(rank, report), fail);
    cadre_step_clock_end(rank, &clock, &result->times);
    cadre_rank_page_end_step(rank->page, result->times.comm_exposed_s,
                             result->times.wait_ranks_s);
    if (!late)
        report->times = result->times;
    cadre_redeal_report(rank, report);
fail:
    return name_failure(rank, rc);
}

/* The range is for a profiler; a device that computes inline has none. */
cadre_status cadre_rank_step(struct cadre_rank *rank, uint64_t step,
                             struct cadre_step_report *report)
{
    struct cadre_device *device = rank->device;
    char name[32];
    snprintf(name, sizeof name, "step %llu", (unsigned long long)step);
    if (device->ops->async)
        device->ops->range_begin(device, name);
    cadre_status rc = make_step(rank, step, report);
    if (device->ops->async)
        device->ops->range_end(device);
    return rc;
}

cadre_status cadre_rank_forward(struct cadre_rank *rank, uint64_t step, double *loss)
{
    struct cadre_result result = {.step = step};
    struct cadre_step_report report = {0};
    cadre_status rc;
    rank->step = step;
    result.host = cadre_calloc(rank->exchange.n_losses, sizeof *result.host);
    if (!result.host)
        return cadre_no_memory(&rank->failure, "the losses of a step");
    CADRE_TRY_OR(run_chain(rank, step, CADRE_STEP_FORWARD), fail);
    CADRE_TRY_OR(cadre_results_read_losses(&rank->results, &result), fail);
    CADRE_TRY_OR(report_losses(rank, &result, false, &report), fail);
    *loss = report.loss;
fail:
    free(result.host);
    return name_failure(rank, rc);
}

cadre_status cadre_rank_measure_reference(struct cadre_rank *rank, uint64_t step)
{
    struct cadre_preference *preference = &rank->preference;
    const struct cadre_run_spec *spec = rank->spec;
    const size_t each = losses_each(rank);
    double unused;
    preference->measuring = true;
    cadre_status rc = cadre_rank_forward(rank, step, &unused);
    preference->measuring = false;
    for (int64_t i = 0; rc == CADRE_OK && i < spec->global_batch; i++) {
        const uint64_t position =
            (step - 1) * (uint64_t)spec->global_batch + (uint64_t)i;
        double *known =
            preference->train + cadre_preference_sample(preference, position);
        if (isnan(*known))
            *known = rank->exchange.values[(size_t)(i / spec->micro_batch) * each +
                                           (size_t)(i % spec->micro_batch)];
    }
    return rc;
}

cadre_status cadre_rank_flush(struct cadre_rank *rank, struct cadre_step_report *report)
{
    struct cadre_result *last = cadre_results_of(&rank->results, rank->step);
    cadre_status rc;
    if (!last->step)
        return CADRE_OK;
    CADRE_TRY_OR(report_losses(rank, last, false, report), fail);
    report->times = last->times;
    rc = report_norm(rank, last, report);
fail:
    return name_failure(rank, rc);
}
