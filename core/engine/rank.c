/* SPDX-License-Identifier: Apache-2.0 */
/* Life of a rank: plan, agreement, bind, end. */
#include "core/engine/rank.h"
#include "core/model/head.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/bytes.h"
#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/base/rank_page.h"
#include "core/base/status_slot.h"
#include "core/comm/nodes.h"
#include "core/engine/drift.h"
#include "core/engine/layout/opt_storage.h"
#include "core/engine/targets.h"
#include "core/engine/tied.h"

/* A model whose products are sharded along `tp`; NULL: whole. It replaces the rank's.
 */
static cadre_status make_model(struct cadre_rank *rank, const struct cadre_axis *tp,
                               struct cadre_error *err)
{
    const struct cadre_run_spec *spec = rank->spec;
    struct cadre_model_config config = spec->model;
    struct cadre_model *model = NULL;
    struct cadre_error why = {0};
    int index = tp ? tp->index : 0, size = tp ? tp->size : 1;
    config.head_rows =
        cadre_model_head_rows(&config, spec->micro_batch * spec->time, size);
    cadre_status rc = cadre_model_create(&config, index, size, &model, &why);
    if (rc != CADRE_OK && !tp)
        return cadre_fail(err, rc, "%s", why.text);
    if (rc != CADRE_OK)
        return cadre_fail(
            err, rc, "strategy.stack: '%s' claims act.complete@%s over %d ranks: %s",
            cadre_rank_plan_claimed(&rank->plan, "act.complete"), tp->name, tp->size,
            why.text);
    cadre_model_destroy(rank->model);
    rank->model = rank->services.model = model;
    return CADRE_OK;
}

/* Each rank of the axis holds its part of the experts. *settled: it was so already. */
static void spread_experts(struct cadre_rank *rank, const struct cadre_axis *axis,
                           bool *settled)
{
    const int index = axis ? axis->index : 0, size = axis ? axis->size : 1;
    struct cadre_model *model = rank->model;
    *settled = *settled && model->ep_rank == index && model->ep_size == size;
    model->ep_rank = index;
    model->ep_size = size;
}

/* Cut the model as the plan claims. *settled: it was so already. */
static cadre_status cut_model(struct cadre_rank *rank, bool *settled,
                              struct cadre_error *err)
{
    const struct cadre_axis *tp = cadre_rank_plan_axis(&rank->plan, "act.complete");
    /* asked now: the plan reads the model, which may be another one below */
    const struct cadre_axis *experts = cadre_rank_plan_expert_axis(&rank->plan);
    int index = tp ? tp->index : 0, size = tp ? tp->size : 1;
    bool rows = size > 1 && cadre_rank_plan_claimed(&rank->plan, "seq.shard");
    if (rank->model->tp_size != size || rank->model->tp_rank != index) {
        CADRE_TRY(make_model(rank, tp, err));
        *settled = false;
    }
    *settled = *settled && rank->model->rows_sharded == rows;
    rank->model->rows_sharded = rows;
    rank->model->time_rank = cadre_mesh_time_index(&rank->mesh);
    rank->model->time_ranks = cadre_mesh_time_size(&rank->mesh);
    spread_experts(rank, experts, settled);
    return CADRE_OK;
}

/* One plan of all plugins. *settled: it was made for what it came to. */
static cadre_status plan_once(struct cadre_rank *rank,
                              struct cadre_plan_request *request, bool *settled,
                              struct cadre_error *err)
{
    request->model = rank->model;
    cadre_rank_plan_fini(&rank->plan);
    CADRE_TRY(cadre_rank_plan_init(&rank->plan, request, err));
    CADRE_TRY(cadre_chain_plan(&rank->chain, &rank->plan, request, err));
    CADRE_TRY(cadre_opt_storage_plan(&rank->plan, rank->spec->optim.kind, err));
    *settled = cadre_rank_plan_settled(&rank->plan, request);
    return cut_model(rank, settled, err);
}

/* Plugins plan until a plan settles. */
static cadre_status plan_passes(struct cadre_rank *rank,
                                struct cadre_plan_request *request,
                                struct cadre_error *err)
{
    bool settled = false;
    for (int pass = 0; !settled && pass < CADRE_PLAN_PASSES; pass++)
        CADRE_TRY(plan_once(rank, request, &settled, err));
    if (settled)
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_UNSUPPORTED,
                      "strategy.stack: the plans still change after %d passes: the "
                      "plugins split batch, time or model differently each time they "
                      "are asked; a plan must be a function of its arguments",
                      CADRE_PLAN_PASSES);
}

static cadre_status make_plan(struct cadre_rank *rank, struct cadre_error *err)
{
    const struct cadre_run_spec *spec = rank->spec;
    struct cadre_plan_request request = {
        .mesh = &rank->mesh,
        .microbatches = spec->global_batch / spec->micro_batch,
        .batch = spec->micro_batch,
        .time = spec->time,
        .storage = cadre_calloc(rank->model->n_params, sizeof *request.storage),
        .exact = spec->exact,
        .division = cadre_redeal_division(rank),
        .nf4_base = spec->nf4_base,
    };
    if (!request.storage)
        return cadre_no_memory(err, "the plan");
    cadre_status rc = plan_passes(rank, &request, err);
    free(request.storage);
    free(request.first);
    return rc;
}

bool cadre_rank_has_pairs(const struct cadre_rank *rank)
{
    return rank->spec->preference.on && rank->spec->dataset;
}

static struct cadre_executor_config executor_config(struct cadre_rank *rank)
{
    const struct cadre_run_spec *spec = rank->spec;
    struct cadre_dataset_info data = {0};
    if (spec->dataset)
        cadre_dataset_info(spec->dataset, &data);
    return (struct cadre_executor_config){
        .device = rank->device,
        .model = rank->model,
        .plan = &rank->plan,
        .store = &rank->store,
        .ledger = &rank->ledger,
        .chain = &rank->chain,
        .loader = rank->loader,
        .batch = spec->micro_batch,
        .time = rank->plan.time,
        .step_samples = spec->global_batch,
        .step_targets = cadre_targets_of_seed(rank, 1),
        .counted = data.masked,
        .packed = data.packed,
        .recompute = spec->recompute,
        .exact = spec->exact,
        .recheck = spec->recheck,
        .pinned = spec->pinned,
        .losses = rank->results.losses,
        .preference = cadre_rank_has_pairs(rank) ? &rank->preference : NULL,
        .loss_scale = &rank->loss_scale.scale,
        .stages = &rank->stages,
        .timeline = &rank->timeline,
        .pace = &rank->pace,
    };
}

static cadre_status check_codec(const struct cadre_rank *rank, struct cadre_error *err)
{
    const char *codec = cadre_rank_plan_claimed(&rank->plan, "wire.codec");
    for (int i = 0; codec && i < rank->chain.n; i++)
        if (strcmp(rank->chain.link[i].name, codec) == 0 &&
            !rank->chain.link[i].plugin->ops.wire)
            return cadre_fail(err, CADRE_E_UNSUPPORTED,
                              "plugin '%s' claims wire.codec, but has no wire and "
                              "wire_bytes",
                              codec);
    return CADRE_OK;
}

/* Attention over keys of other ranks is an op of the CPU alone, and does not know
 * records that are packed. */
static cadre_status check_time(const struct cadre_rank *rank, const char *device,
                               struct cadre_error *err)
{
    struct cadre_dataset_info data = {0};
    if (rank->plan.time == rank->spec->time)
        return CADRE_OK;
    if (rank->spec->dataset)
        cadre_dataset_info(rank->spec->dataset, &data);
    if (data.packed)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "strategy.stack: '%s' splits the time of samples "
                          "(time.shard), which cannot be done to records packed into "
                          "one window; set data.pack = no, or leave the plugin out",
                          cadre_rank_plan_claimed(&rank->plan, "time.shard"));
    if (strcmp(device, "cuda") != 0)
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_UNSUPPORTED,
                      "strategy.stack: '%s' splits the time of samples (time.shard), "
                      "which the device cuda cannot do; set device.kind = cpu",
                      cadre_rank_plan_claimed(&rank->plan, "time.shard"));
}

/* An answer's log-probability is a sum over its tokens on one rank, and the loss a mean
 * over all pairs. */
static cadre_status check_pairs(const struct cadre_rank *rank, struct cadre_error *err)
{
    const struct cadre_axis *diverging = cadre_rank_diverging_axis(rank);
    if (!rank->spec->preference.on)
        return CADRE_OK;
    if (rank->plan.time != rank->spec->time)
        return cadre_fail(
            err, CADRE_E_UNSUPPORTED,
            "strategy.stack: '%s' splits the time of samples "
            "(time.shard), and tune.method = dpo needs whole answers on a "
            "rank; leave the plugin out",
            cadre_rank_plan_claimed(&rank->plan, "time.shard"));
    if (diverging && diverging->size > 1)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "strategy.stack: replicas along '%s' diverge, and "
                          "tune.method = dpo is built for ranks that train one model; "
                          "use ddp or zero there",
                          diverging->name);
    return CADRE_OK;
}

cadre_status cadre_rank_plan(struct cadre_rank *rank, const struct cadre_run_spec *spec,
                             int index, struct cadre_error *err)
{
    memset(rank, 0, sizeof *rank);
    rank->spec = spec;
    rank->index = index;
    rank->loss_scale.scale = 1;
    if (spec->model.dtype == CADRE_F16)
        rank->loss_scale.scale =
            spec->loss_scale > 0 ? spec->loss_scale : CADRE_LOSS_SCALE_FIRST;
    cadre_status rc;
    if (spec->micro_batch < 1 || spec->global_batch % spec->micro_batch != 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "train.global_batch = %lld is not a multiple of "
                          "train.micro_batch = %lld",
                          (long long)spec->global_batch, (long long)spec->micro_batch);
    CADRE_TRY_OR(cadre_mesh_init(&rank->mesh, spec->axis, spec->n_plugins, index, err),
                 fail);
    rank->services = (struct cadre_services){
        .spec = spec,
        .failure = &rank->failure,
        .mesh = &rank->mesh,
        .plan = &rank->plan,
        .store = &rank->store,
        .ledger = &rank->ledger,
        .timeline = &rank->timeline,
        .slot = cadre_status_current(),
    };
    CADRE_TRY_OR(make_model(rank, NULL, err), fail);
    CADRE_TRY_OR(cadre_chain_create(&rank->chain, &rank->services, spec, err), fail);
    CADRE_TRY_OR(cadre_redeal_init(rank, err), fail);
    CADRE_TRY_OR(make_plan(rank, err), fail);
    CADRE_TRY_OR(cadre_chain_settle(&rank->chain, &rank->plan, err), fail);
    CADRE_TRY_OR(check_codec(rank, err), fail);
    CADRE_TRY_OR(cadre_opt_storage_check(&rank->plan, err), fail);
    CADRE_TRY_OR(check_pairs(rank, err), fail);
    CADRE_TRY_OR(check_time(rank, spec->device.kind, err), fail);
    return CADRE_OK;
fail:
    cadre_rank_fini(rank);
    return rc;
}

static cadre_status make_loader(struct cadre_rank *rank, uint64_t first_step,
                                struct cadre_error *err)
{
    const struct cadre_run_spec *spec = rank->spec;
    if (!spec->dataset)
        return CADRE_OK;
    struct cadre_loader_config config = {
        .dataset = spec->dataset,
        .global_batch = spec->global_batch,
        .micro_batch = spec->micro_batch,
        .first_microbatch = rank->plan.first_microbatch,
        .microbatch_stride = rank->plan.microbatch_stride,
        .n_microbatches = rank->plan.n_microbatches,
        .first_step = first_step,
        .prefetch = spec->prefetch,
        .first_token = rank->plan.first_position,
        .n_tokens = rank->plan.time < spec->time ? rank->plan.time : 0,
    };
    return cadre_loader_create(&config, &rank->loader, err);
}

static size_t step_microbatches(const struct cadre_rank *rank)
{
    return (size_t)(rank->spec->global_batch / rank->spec->micro_batch);
}

/* Doubles of all micro-batches' results. */
static size_t step_losses(const struct cadre_rank *rank)
{
    return step_microbatches(rank) *
           (cadre_rank_has_pairs(rank) ? cadre_preference_width(rank->spec->micro_batch)
                                       : 1);
}

/* The update, what is verified before it, the results of a step and their exchange
 * between ranks. */
static cadre_status make_results(struct cadre_rank *rank, struct cadre_error *err)
{
    size_t n_losses = step_losses(rank);
    if (cadre_rank_has_pairs(rank) &&
        cadre_preference_init(&rank->preference, &rank->spec->preference,
                              rank->spec->dataset) != CADRE_OK)
        return cadre_no_memory(err, "what the reference of dpo gives");
    rank->exchange.mesh = &rank->mesh;
    rank->exchange.schedule = rank->stages.axis;
    rank->exchange.n_losses = n_losses;
    CADRE_TRY(cadre_update_init(&rank->update, &rank->spec->optim, &rank->store,
                                &rank->exchange, &rank->chain, err));
    CADRE_TRY(cadre_verify_init(&rank->verify, &rank->store, &rank->mesh,
                                rank->spec->verify, err));
    if (cadre_exchange_init(&rank->exchange) != CADRE_OK ||
        cadre_results_init(&rank->results, &rank->ledger, n_losses,
                           cadre_update_chunks(&rank->plan)) != CADRE_OK)
        return cadre_no_memory(err, "a step's results");
    return CADRE_OK;
}

/* Where a schedule distributes the model over ranks, waits on its axis are recorded
 * separately. */
static cadre_status make_timeline(struct cadre_rank *rank, struct cadre_error *err)
{
    int n_chunks = rank->plan.n_chunks;
    size_t passes = 3 * (size_t)n_chunks * (size_t)cadre_rank_plan_most(&rank->plan);
    cadre_status rc = cadre_timeline_init(&rank->timeline, n_chunks, passes, err);
    rank->timeline.page = rank->page;
    if (rc == CADRE_OK && rank->stages.axis && rank->stages.axis->size > 1) {
        rank->timeline.axis = rank->stages.axis->name;
        cadre_rank_page_schedule(rank->page);
    }
    for (int a = 0; a < rank->mesh.n + rank->mesh.n_derived; a++) {
        struct cadre_axis *axis = cadre_mesh_axis_at(&rank->mesh, a);
        axis->timeline = &rank->timeline;
        axis->device = rank->device;
    }
    return rc;
}

/* Ranks of other independent runs are not part of a world. */
static cadre_status check_world(const struct cadre_rank *rank, struct cadre_error *err)
{
    const struct cadre_axis *axis = cadre_mesh_own_runs(&rank->mesh);
    if (!axis || axis->size == 1)
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID,
                      "strategy.stack = %s: the %d places along its axis '%s' are "
                      "independent runs, which `cadre train` starts; leave it out",
                      rank->spec->stack_text, axis->size, axis->name);
}

static cadre_status agree_tuning(struct cadre_rank *rank, struct cadre_error *err)
{
    const bool exact = rank->spec->exact;
    cadre_status rc = cadre_agree_tuning(rank->world, rank->device, rank->index, exact,
                                         &rank->tuning, err);
    if (rc == CADRE_OK && rank->index == 0 && exact && *rank->tuning.algorithms)
        cadre_log(CADRE_LOG_INFO, "train",
                  "run.exact: %s, with the algorithms of the cache (%s)",
                  rank->tuning.library, rank->tuning.algorithms);
    return rc;
}

static cadre_status copy_tied(void *h)
{
    const struct cadre_rank *rank = h;
    return cadre_tied_copy(&rank->store, &rank->stages);
}

/* Gathers along the axis of wire.codec travel encoded. */
static void make_wire(struct cadre_rank *rank)
{
    const struct cadre_axis *axis = cadre_rank_plan_axis(&rank->plan, "wire.codec");
    const char *codec = cadre_rank_plan_claimed(&rank->plan, "wire.codec");
    for (int i = 0; axis && i < rank->chain.n; i++)
        if (strcmp(rank->chain.link[i].name, codec) == 0) {
            rank->wire = (struct cadre_wire){&rank->chain.link[i], axis, NULL};
            rank->services.wire = &rank->wire;
        }
}

/* The communicators of the mesh's axes, and what all ranks must have planned alike. */
static cadre_status connect_ranks(struct cadre_rank *rank, struct cadre_error *err)
{
    if (rank->world) {
        cadre_comm_show(rank->world, rank->page);
        CADRE_TRY(cadre_comm_use_device(rank->world, rank->device, err));
        CADRE_TRY(cadre_nodes_find(rank->world, rank->spec->node, err));
        CADRE_TRY(cadre_mesh_connect(&rank->mesh, rank->world, err));
    }
    return cadre_agree_ranges(&rank->plan, err);
}

/* Behind the text of an allocation that failed: how far this rank came. */
void cadre_rank_tell_memory(const struct cadre_rank *rank, struct cadre_error *err)
{
    char taken[CADRE_BYTES_CHARS], planned[CADRE_BYTES_CHARS], left[CADRE_BYTES_CHARS];
    struct cadre_ledger plan;
    uint64_t available, total;
    if (!err || !rank->device ||
        !rank->device->ops->memory(rank->device, &available, &total))
        return;
    const struct cadre_error first = *err;
    cadre_rank_memory(rank, &plan);
    cadre_fail(err, first.code,
               "%.600s (rank %d has taken %s of the %s that it plans for, and %s are "
               "free; train.micro_batch and model.context make steps smaller, a stack "
               "with zero or tensor divides what ranks hold)",
               first.text, rank->index,
               cadre_bytes_text((double)rank->ledger.now_bytes, 1, taken),
               cadre_bytes_text((double)plan.now_bytes, 1, planned),
               cadre_bytes_text((double)available, 1, left));
}

static cadre_status open_device(struct cadre_rank *rank, struct cadre_error *err)
{
    struct cadre_device_config config = rank->spec->device;
    if (rank->threads > 0)
        config.threads = rank->threads;
    return rank->device_lent ? CADRE_OK
                             : cadre_device_open(&config, &rank->device, err);
}

static cadre_status make_executor(struct cadre_rank *rank, struct cadre_error *err)
{
    struct cadre_executor_config config = executor_config(rank);
    CADRE_TRY(cadre_executor_create(&config, &rank->exec, err));
    rank->services.passes = cadre_executor_runner(rank->exec);
    rank->services.copies = (struct cadre_copy_runner){rank, copy_tied};
    make_wire(rank);
    return CADRE_OK;
}

static cadre_status bind_rank(struct cadre_rank *rank, struct cadre_comm *world,
                              uint64_t first_step, struct cadre_error *err)
{
    const struct cadre_run_spec *spec = rank->spec;
    rank->world = rank->services.world = rank->exchange.world = world;
    rank->exchange.timeline = &rank->timeline;
    CADRE_TRY(check_world(rank, err));
    CADRE_TRY(cadre_agree_run(world, spec->fingerprint, err));
    CADRE_TRY(cadre_agree_plan(world, &rank->plan, err));
    CADRE_TRY(open_device(rank, err));
    rank->ledger.device = rank->services.device = rank->device;
    CADRE_TRY(check_time(rank, rank->device->ops->name, err));
    CADRE_TRY(cadre_redeal_start(rank, err));
    CADRE_TRY(agree_tuning(rank, err));
    CADRE_TRY(connect_ranks(rank, err));
    CADRE_TRY(
        cadre_stages_init(&rank->stages, &rank->plan, rank->model, &rank->mesh, err));
    CADRE_TRY(cadre_store_init(&rank->store, rank->model, &rank->plan, &rank->ledger,
                               spec->optim.kind, spec->seed, err));
    CADRE_TRY(make_results(rank, err));
    CADRE_TRY(make_loader(rank, first_step, err));
    CADRE_TRY(make_timeline(rank, err));
    CADRE_TRY(make_executor(rank, err));
    CADRE_TRY(cadre_chain_bind(&rank->chain, first_step, err));
    rank->plan.runs = true;
    rank->step = first_step;
    return CADRE_OK;
}

cadre_status cadre_rank_bind(struct cadre_rank *rank, struct cadre_comm *world,
                             uint64_t first_step, struct cadre_error *err)
{
    cadre_status rc = bind_rank(rank, world, first_step, err);
    if (rc == CADRE_E_RESOURCE)
        cadre_rank_tell_memory(rank, err);
    return rc;
}

cadre_status cadre_rank_drain(struct cadre_rank *rank)
{
    cadre_status rc = cadre_verify_rest(&rank->verify, &rank->failure);
    if (rc == CADRE_OK)
        rc = cadre_chain_sync(&rank->chain, CADRE_SYNC_DRAIN);
    if (rc == CADRE_OK)
        rc = rank->device->ops->synchronize(rank->device);
    if (rc == CADRE_OK)
        rc = cadre_drift_check(&rank->store, &rank->mesh, &rank->failure);
    if (rc == CADRE_OK)
        rc = cadre_verify_drained(&rank->verify, rank->step);
    if (rc != CADRE_OK && rank->failure.code == CADRE_OK)
        cadre_fail(&rank->failure, rc, "cannot finish the work of step %llu: %s",
                   (unsigned long long)rank->step, cadre_strerror(rc));
    return rc;
}

void cadre_rank_fini(struct cadre_rank *rank)
{
    cadre_chain_destroy(&rank->chain, rank->failure.code);
    cadre_wire_fini(&rank->wire);
    cadre_mesh_fini(&rank->mesh);
    if (rank->world) {
        cadre_comm_use_device(rank->world, NULL, NULL);
        cadre_comm_show(rank->world, NULL);
    }
    cadre_executor_destroy(rank->exec);
    cadre_loader_destroy(rank->loader);
    cadre_stages_fini(&rank->stages);
    cadre_timeline_fini(&rank->timeline);
    cadre_store_fini(&rank->store);
    cadre_ledger_fini(&rank->ledger);
    cadre_rank_plan_fini(&rank->plan);
    cadre_model_destroy(rank->model);
    if (!rank->device_lent)
        cadre_device_close(rank->device);
    cadre_verify_fini(&rank->verify);
    cadre_update_fini(&rank->update);
    cadre_exchange_fini(&rank->exchange);
    cadre_redeal_fini(&rank->redeal);
    cadre_preference_fini(&rank->preference);
    rank->exec = NULL;
    rank->loader = NULL;
    rank->model = NULL;
    rank->device = NULL;
    rank->results = (struct cadre_results){0};
}

void cadre_rank_memory(const struct cadre_rank *rank, struct cadre_ledger *out)
{
    *out = rank->plan.planned;
    /* the config's pointers are read for sizes only */
    struct cadre_executor_config config = executor_config((struct cadre_rank *)rank);
    cadre_store_note(rank->model, &rank->plan, rank->spec->optim.kind, out);
    cadre_executor_note(&config, out);
    cadre_results_note(out, step_losses(rank), cadre_update_chunks(&rank->plan));
}

cadre_status cadre_rank_sum(struct cadre_rank *rank, const char *label, double *values,
                            uint64_t n)
{
    return cadre_exchange_sum(&rank->exchange, label, values, n);
}

bool cadre_rank_is_primary_owner(const struct cadre_rank *rank, uint32_t param)
{
    return cadre_rank_plan_is_primary_owner(&rank->plan, param, NULL);
}

bool cadre_rank_is_primary_owner_within(const struct cadre_rank *rank, uint32_t param,
                                        const struct cadre_axis *diverging)
{
    return cadre_rank_plan_is_primary_owner(&rank->plan, param, diverging);
}

bool cadre_rank_is_primary_owner_for_loss(const struct cadre_rank *rank)
{
    return cadre_rank_plan_is_loss_owner(&rank->plan);
}

const struct cadre_axis *cadre_rank_diverging_axis(const struct cadre_rank *rank)
{
    return cadre_rank_plan_diverging_axis(&rank->plan);
}

cadre_status cadre_rank_tuning(const struct cadre_rank *rank, struct cadre_tuning *out)
{
    return cadre_agree_read_tuning(rank->device, out);
}

void cadre_rank_comm(const struct cadre_rank *rank, struct cadre_comm_stats *out)
{
    const struct cadre_mesh *mesh = &rank->mesh;
    *out = (struct cadre_comm_stats){0};
    for (int i = -1; i < mesh->n + mesh->n_derived; i++) {
        const struct cadre_comm *comm = i < 0         ? rank->world
                                        : i < mesh->n ? mesh->axis[i].comm
                                                      : mesh->derived[i - mesh->n].comm;
        struct cadre_comm_stats one;
        if (!comm)
            continue;
        cadre_comm_read_stats(comm, &one);
        out->operations += one.operations;
        out->bytes += one.bytes;
        out->between_bytes += one.between_bytes;
        out->busy_s += one.busy_s;
        out->waited_s += one.waited_s;
        out->exposed_s += one.exposed_s;
    }
    out->waited_s -= rank->exchange.hidden_s;
}
