/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/update.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/memory.h"
#include "core/optim/exact_sum.h"
#include "core/optim/lr.h"
#include "core/optim/norm_chunks.h"

static uint64_t replica_chunks(const struct cadre_model *model)
{
    uint64_t n = 0;
    if (model->parts > 0)
        return CADRE_EXACT_DIGITS + model->n_params;
    for (uint32_t i = 0; i < model->n_params; i++)
        if (model->params[i].tied_to < 0)
            n += cadre_norm_chunks(cadre_shape_count(&model->params[i].local));
    return n;
}

uint64_t cadre_update_chunks(const struct cadre_rank_plan *plan)
{
    const struct cadre_axis *replicas = cadre_rank_plan_diverging_axis(plan);
    return replica_chunks(plan->model) * (replicas ? (uint64_t)replicas->size : 1);
}

/* The chunks of this rank's replica. */
static double *own_chunks(const struct cadre_update *update, const double *chunks)
{
    const struct cadre_axis *replicas =
        cadre_rank_plan_diverging_axis(update->store->plan);
    size_t replica = replicas ? (size_t)replicas->index : 0;
    return (double *)(uintptr_t)chunks + replica * update->n_chunks;
}

/* The states of adamw8bit, in the order of cadre_opt_storage_plan. */
static void take_codes(struct cadre_update *update, size_t s, uint32_t param)
{
    const struct cadre_store *store = update->store;
    uint32_t i = 0;
    while (i < store->plan->n_states && store->plan->state[i].param != param)
        i++;
    if (i == store->plan->n_states)
        return;
    const struct cadre_buf *state = &store->opt.state[i];
    update->operands[s].exp_avg = state[0].data;
    update->operands[s].exp_avg_sq = state[1].data;
    update->absmax[s] =
        (struct cadre_absmax){.first = state[2].data, .second = state[3].data};
}

static void find_slices(struct cadre_update *update)
{
    const struct cadre_store *store = update->store;
    for (uint32_t i = 0; i < store->model->n_params; i++) {
        struct cadre_share own = cadre_store_share(store, i, CADRE_KIND_OPT);
        if (own.count == 0)
            continue;
        update->operands[update->n_slices] = (struct cadre_slice){
            .count = (int64_t)own.count,
            .exp_avg = store->param[i].exp_avg,
            .exp_avg_sq = store->param[i].exp_avg_sq,
            .weight_decay =
                store->model->params[i].decay ? update->config->weight_decay : 0.0,
        };
        if (update->config->kind == CADRE_OPTIMIZER_ADAMW8BIT)
            take_codes(update, update->n_slices, i);
        update->slices[update->n_slices++] = (struct cadre_rank_slice){
            .param = i, .begin = own.begin, .count = own.count};
    }
}

cadre_status cadre_update_init(struct cadre_update *update,
                               const struct cadre_optimizer_config *config,
                               struct cadre_store *store,
                               const struct cadre_exchange *exchange,
                               struct cadre_chain *chain, struct cadre_error *err)
{
    uint32_t n_params = store->model->n_params;
    *update = (struct cadre_update){
        .config = config,
        .store = store,
        .exchange = exchange,
        .slices = cadre_calloc(n_params, sizeof *update->slices),
        .operands = cadre_calloc(n_params, sizeof *update->operands),
        .absmax = cadre_calloc(n_params, sizeof *update->absmax),
        .squares = cadre_calloc(n_params, sizeof *update->squares),
        .n_chunks = replica_chunks(store->model),
        .host = cadre_calloc(cadre_update_chunks(store->plan), sizeof *update->host),
    };
    if (!update->slices || !update->operands || !update->absmax || !update->squares ||
        !update->host)
        return cadre_no_memory(err, "the optimizer's tables");
    find_slices(update);
    if (config->kind != CADRE_OPTIMIZER_PLUGIN)
        return CADRE_OK;
    return cadre_plugin_update_init(&update->plugin, chain, store, exchange,
                                    config->weight_decay, err);
}

void cadre_update_fini(struct cadre_update *update)
{
    cadre_plugin_update_fini(&update->plugin);
    free(update->slices);
    free(update->operands);
    free(update->absmax);
    free(update->squares);
    free(update->host);
    *update = (struct cadre_update){0};
}

/* The sums of squares of all slices of this rank, in one call. */
static cadre_status square_slices(struct cadre_update *update, double *chunks)
{
    const struct cadre_store *store = update->store;
    const struct cadre_axis *replicas = cadre_rank_plan_diverging_axis(store->plan);
    struct cadre_device *device = store->ledger->device;
    bool everywhere = cadre_rank_plan_replicated(store->plan);
    uint64_t first = 0;
    size_t s = 0;
    int64_t n = 0;
    for (uint32_t i = 0; i < store->model->n_params; i++) {
        const struct cadre_param *p = &store->model->params[i];
        bool mine = s < update->n_slices && update->slices[s].param == i;
        if (mine &&
            (everywhere || cadre_rank_plan_is_primary_owner(store->plan, i, replicas)))
            update->squares[n++] = (struct cadre_squares){
                .x = update->operands[s].grad,
                .count = update->operands[s].count,
                .sums = chunks + first + update->slices[s].begin / CADRE_NORM_CHUNK,
            };
        s += mine;
        if (p->tied_to < 0)
            first += cadre_norm_chunks(cadre_shape_count(&p->local));
    }
    return device->ops->sum_squares(device, store->wide, update->squares, n);
}

/* The same without rounding, on the host: model.exact_parts runs on the CPU alone. */
static void add_slices(struct cadre_update *update, double *chunks)
{
    const struct cadre_store *store = update->store;
    const struct cadre_axis *replicas = cadre_rank_plan_diverging_axis(store->plan);
    const bool everywhere = cadre_rank_plan_replicated(store->plan);
    struct cadre_exact_sum sum = {{0}};
    for (size_t s = 0; s < update->n_slices; s++) {
        const uint32_t param = update->slices[s].param;
        if (!everywhere &&
            !cadre_rank_plan_is_primary_owner(store->plan, param, replicas))
            continue;
        if (!cadre_exact_sum_squares(&sum, store->wide, update->operands[s].grad,
                                     update->operands[s].count))
            chunks[CADRE_EXACT_DIGITS + param] = 1;
    }
    cadre_exact_sum_digits(&sum, chunks);
}

/* *chunks, n of them: what norm_total adds; the exact sum becomes one chunk. */
static void close_sum(const struct cadre_update *update, double **chunks, uint64_t *n)
{
    bool finite = true;
    *n = update->n_chunks;
    if (update->store->model->parts == 0)
        return;
    for (uint64_t i = CADRE_EXACT_DIGITS; i < *n; i++)
        finite = finite && (*chunks)[i] == 0;
    update->host[0] = finite ? cadre_exact_sum_total(*chunks) : (double)NAN;
    *chunks = update->host;
    *n = 1;
}

/* Chunks (n), summed over all ranks on the host: where gradients are sharded, a step
 * waits for the device once, here. */
static cadre_status exchange_chunks(struct cadre_update *update, double *chunks,
                                    uint64_t n)
{
    struct cadre_device *device = update->store->ledger->device;
    size_t bytes = n * sizeof(double);
    cadre_status rc = device->ops->to_host(device, update->host, chunks, bytes);
    if (rc == CADRE_OK)
        rc = cadre_exchange_sum(update->exchange, "gradient norm", update->host, n);
    return rc == CADRE_OK ? device->ops->to_device(device, chunks, update->host, bytes)
                          : rc;
}

static cadre_status global_norm(struct cadre_update *update, double loss_scale,
                                double *chunks, double *norm)
{
    const struct cadre_rank_plan *plan = update->store->plan;
    struct cadre_device *device = update->store->ledger->device;
    const struct cadre_axis *replicas = cadre_rank_plan_diverging_axis(plan);
    uint64_t n = update->n_chunks * (replicas ? (uint64_t)replicas->size : 1);
    double *own = own_chunks(update, chunks);
    CADRE_TRY(device->ops->zero(device, chunks, n * sizeof(double)));
    if (update->store->model->parts > 0)
        add_slices(update, own);
    else
        CADRE_TRY(square_slices(update, own));
    if (!cadre_rank_plan_replicated(plan))
        CADRE_TRY(exchange_chunks(update, chunks, n));
    close_sum(update, &own, &n);
    return device->ops->norm_total(device, own, n, update->config->clip,
                                   1.0 / loss_scale, norm);
}

/* The plugin's step. The host waits for the norm: where it is not finite, the plugin is
 * not called. */
static cadre_status call_plugin(struct cadre_update *update, int64_t step,
                                const double *norm)
{
    struct cadre_device *device = update->store->ledger->device;
    double found[2];
    CADRE_TRY(device->ops->to_host(device, found, norm, sizeof found));
    const struct cadre_plugin_step plugin_step = {
        .step = step, .lr = cadre_lr_at(update->config, step), .factor = found[1]};
    if (!isfinite(found[1]))
        return CADRE_OK;
    return cadre_plugin_update_run(&update->plugin, &plugin_step);
}

cadre_status cadre_update_apply(struct cadre_update *update, int64_t step,
                                double loss_scale, double *chunks, double *norm)
{
    const struct cadre_store *store = update->store;
    for (size_t s = 0; s < update->n_slices; s++) {
        uint32_t param = update->slices[s].param;
        update->operands[s].param = cadre_store_opt_data(store, param);
        update->operands[s].rounded = cadre_store_opt_rounded(store, param);
        update->operands[s].grad = cadre_store_opt_grad(store, param);
    }
    CADRE_TRY(global_norm(update, loss_scale, chunks, norm));
    if (update->config->kind == CADRE_OPTIMIZER_PLUGIN)
        return call_plugin(update, step, norm);
    if (update->config->kind == CADRE_OPTIMIZER_ADAMW8BIT)
        return cadre_optimizer_step8(update->config, store->ledger->device,
                                     store->model->config.dtype, update->operands,
                                     update->absmax, update->n_slices, step, norm + 1);
    struct cadre_optimizer_config config = *update->config;
    config.held = update->held;
    return cadre_optimizer_step(&config, store->ledger->device,
                                store->model->config.dtype, update->operands,
                                update->n_slices, step, norm + 1);
}

const char *cadre_update_culprit(const struct cadre_update *update,
                                 const double *chunks)
{
    const struct cadre_model *model = update->store->model;
    struct cadre_device *device = update->store->ledger->device;
    uint64_t at = 0;
    if (device->ops->to_host(device, update->host, own_chunks(update, chunks),
                             update->n_chunks * sizeof(double)) != CADRE_OK)
        return "?";
    for (uint32_t i = 0; model->parts > 0 && i < model->n_params; i++)
        if (update->host[CADRE_EXACT_DIGITS + i] != 0)
            return model->params[i].name;
    for (uint32_t i = 0; model->parts == 0 && i < model->n_params; i++) {
        const struct cadre_param *p = &model->params[i];
        if (p->tied_to >= 0)
            continue;
        uint64_t end = at + cadre_norm_chunks(cadre_shape_count(&p->local));
        for (; at < end; at++)
            if (!isfinite(update->host[at]))
                return p->name;
    }
    return "?";
}
