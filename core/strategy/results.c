/* SPDX-License-Identifier: Apache-2.0 */
#include "core/strategy/results.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/tree.h"

static size_t leaves_of(const struct cadre_rank *rank)
{
    return (size_t)(rank->spec->global_batch / rank->spec->micro_batch);
}

static size_t chunks_of(const struct cadre_rank *rank)
{
    const struct cadre_axis *apart = cadre_rank_apart(rank);
    size_t n = 0;
    for (uint32_t i = 0; i < rank->model->n_params; i++)
        if (rank->model->params[i].tied_to < 0)
            n += cadre_norm_chunks(cadre_shape_count(&rank->model->params[i].local));
    return n * (apart ? (size_t)apart->size : 1);
}

static size_t result_bytes(const struct cadre_rank *rank)
{
    return (leaves_of(rank) + 2) * sizeof(double);
}

void cadre_results_note(const struct cadre_rank *rank, struct cadre_ledger *ledger)
{
    cadre_ledger_note(ledger, CADRE_SPACE_DEVICE,
                      CADRE_RESULTS * chunks_of(rank) * sizeof(double),
                      "gradient norm");
    cadre_ledger_note(ledger, CADRE_SPACE_DEVICE, result_bytes(rank), "results");
    cadre_ledger_note(ledger, CADRE_SPACE_PINNED, CADRE_RESULTS * result_bytes(rank),
                      "results");
}

cadre_status cadre_results_init(struct cadre_rank *rank, struct cadre_error *err)
{
    struct cadre_ledger *ledger = &rank->ledger;
    size_t chunks = chunks_of(rank);
    rank->losses =
        cadre_ledger_alloc(ledger, CADRE_SPACE_DEVICE, result_bytes(rank), "results");
    rank->sums = cadre_calloc(chunks, sizeof *rank->sums);
    rank->exchange =
        cadre_calloc(leaves_of(rank) + CADRE_RANK_VOTES + 3 * (size_t)rank->mesh.ranks,
                     sizeof *rank->exchange);
    bool some = rank->losses && rank->sums && rank->exchange;
    for (int i = 0; i < CADRE_RESULTS; i++) {
        struct cadre_result *result = &rank->result[i];
        result->chunks = cadre_ledger_alloc(ledger, CADRE_SPACE_DEVICE,
                                            chunks * sizeof(double), "gradient norm");
        result->host = cadre_ledger_alloc(ledger, CADRE_SPACE_PINNED,
                                          result_bytes(rank), "results");
        some = some && result->chunks && result->host;
    }
    if (!some)
        return cadre_no_memory(err, "a step's results");
    rank->n_norm_chunks = chunks;
    if (cadre_rank_apart(rank))
        rank->n_norm_chunks /= (uint64_t)cadre_rank_apart(rank)->size;
    return CADRE_OK;
}

void cadre_results_fini(struct cadre_rank *rank)
{
    free(rank->sums);
    free(rank->exchange);
    rank->sums = NULL;
    rank->exchange = NULL;
}

bool cadre_results_late(const struct cadre_rank *rank)
{
    return rank->device->ops->queued && rank->model->config.dtype != CADRE_F16;
}

struct cadre_result *cadre_result_of(struct cadre_rank *rank, uint64_t step)
{
    return &rank->result[step % CADRE_RESULTS];
}

double *cadre_result_chunks(const struct cadre_rank *rank,
                            const struct cadre_result *result)
{
    const struct cadre_axis *apart = cadre_rank_apart(rank);
    return result->chunks + (apart ? (size_t)apart->index : 0) * rank->n_norm_chunks;
}

cadre_status cadre_result_read_losses(struct cadre_rank *rank,
                                      struct cadre_result *result)
{
    return rank->device->ops->to_host(rank->device, result->host, rank->losses,
                                      leaves_of(rank) * sizeof(double));
}

cadre_status cadre_result_read_norm(struct cadre_rank *rank,
                                    struct cadre_result *result)
{
    size_t leaves = leaves_of(rank);
    return rank->device->ops->to_host(rank->device, result->host + leaves,
                                      rank->losses + leaves, 2 * sizeof(double));
}

cadre_status cadre_result_download(struct cadre_rank *rank, struct cadre_result *result)
{
    cadre_status rc = rank->device->ops->download(rank->device, result->host,
                                                  rank->losses, result_bytes(rank));
    if (rc == CADRE_OK)
        rc = rank->device->ops->event_record(rank->device, &result->done);
    return rc;
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

/* This rank's part of the exchange: of a micro-batch's element all but one rank's are
 * zero. */
static uint64_t put_exchange(struct cadre_rank *rank, const struct cadre_result *result,
                             bool votes)
{
    size_t leaves = leaves_of(rank);
    if (result->step && cadre_rank_is_primary_owner_for_loss(rank))
        memcpy(rank->exchange, result->host, leaves * sizeof(double));
    else
        memset(rank->exchange, 0, leaves * sizeof(double));
    if (!votes)
        return leaves;
    const bool vote[CADRE_RANK_VOTES] = {rank->wants_stop, rank->saving,
                                         rank->save_failed};
    for (int v = 0; v < CADRE_RANK_VOTES; v++)
        rank->exchange[leaves + (size_t)v] = vote[v];
    leaves += CADRE_RANK_VOTES;
    return leaves + put_times(rank, rank->exchange + leaves);
}

static cadre_status check_losses(struct cadre_rank *rank, uint64_t step)
{
    size_t leaves = leaves_of(rank);
    for (size_t i = 0; i < leaves; i++)
        if (!isfinite(rank->exchange[i]))
            return cadre_fail(
                &rank->failure, CADRE_E_NUMERIC,
                "the loss is not finite at step %llu: micro-batch %lld, on "
                "data rank %lld; lower optim.lr or set optim.clip",
                (unsigned long long)step, (long long)i,
                (long long)(rank->plan.leaf_stride == 1
                                ? (int64_t)i / rank->plan.leaves
                                : (int64_t)i % rank->plan.leaf_stride));
    return CADRE_OK;
}

cadre_status cadre_result_losses(struct cadre_rank *rank,
                                 const struct cadre_result *result, bool votes,
                                 struct cadre_step_report *report)
{
    const struct cadre_run_spec *spec = rank->spec;
    size_t leaves = leaves_of(rank);
    int64_t targets = spec->model.classes > 0 ? 1 : spec->time;
    cadre_status rc = CADRE_OK;
    if (result->step)
        rc = rank->device->ops->event_sync(rank->device, result->done);
    uint64_t n = put_exchange(rank, result, votes);
    if (rc == CADRE_OK)
        rc = cadre_rank_sum(rank, "losses", rank->exchange, n);
    if (rc != CADRE_OK)
        return rc;
    if (votes) {
        find_bubbles(rank, rank->exchange + leaves + CADRE_RANK_VOTES,
                     &cadre_result_of(rank, rank->step)->times);
        report->stop = rank->exchange[leaves] > 0;
        report->saving = rank->exchange[leaves + 1] > 0;
        report->save_failed = rank->exchange[leaves + 2] > 0;
    }
    if (!result->step)
        return CADRE_OK;
    rc = check_losses(rank, result->step);
    report->loss =
        cadre_tree_sum(rank->exchange, leaves) / (double)(spec->global_batch * targets);
    return rc;
}

/* Name of the parameter that holds the first chunk that is not finite. */
static const char *culprit(struct cadre_rank *rank, const struct cadre_result *result)
{
    uint64_t at = 0;
    if (rank->device->ops->to_host(rank->device, rank->sums,
                                   cadre_result_chunks(rank, result),
                                   rank->n_norm_chunks * sizeof(double)) != CADRE_OK)
        return "?";
    for (uint32_t i = 0; i < rank->model->n_params; i++) {
        const struct cadre_param *p = &rank->model->params[i];
        if (p->tied_to >= 0)
            continue;
        uint64_t end = at + cadre_norm_chunks(cadre_shape_count(&p->local));
        for (; at < end; at++)
            if (!isfinite(rank->sums[at]))
                return p->name;
    }
    return "?";
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
                      culprit(rank, result), (unsigned long long)result->step, scale);
}

cadre_status cadre_result_finish(struct cadre_rank *rank, struct cadre_result *result,
                                 struct cadre_step_report *report)
{
    bool scaled = rank->model->config.dtype == CADRE_F16;
    double norm = result->host[leaves_of(rank)];
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
                        culprit(rank, result), (unsigned long long)result->step,
                        rank->index);
    else if (scaled)
        cadre_loss_scale_good(&rank->loss_scale);
    result->step = 0;
    return rc;
}
