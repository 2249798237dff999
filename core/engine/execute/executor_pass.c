/* SPDX-License-Identifier: Apache-2.0 */
/* Passes of the executor: forward and backward of a chunk, with every event. */
#include "core/engine/execute/executor_private.h"

#include <stdio.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/rank_page.h"
#include "core/engine/execute/preference.h"
#include "core/tensor/dtype.h"

static bool is_block(const struct cadre_executor *exec, uint32_t unit)
{
    return unit > 0 && unit + 1 < exec->config.model->n_units;
}

static bool recomputed(const struct cadre_executor *exec, uint32_t unit)
{
    return exec->config.recompute && is_block(exec, unit);
}

/* ---- hooks of the model ---- */

static bool is_frozen(void *arg, uint32_t param)
{
    const struct cadre_executor *exec = arg;
    return exec->config.plan->param[param].frozen;
}

static cadre_status grad_begin(void *arg, uint32_t param, void **dst, int *beta)
{
    struct cadre_executor *exec = arg;
    cadre_status rc = CADRE_OK;
    *beta = 0;
    if (is_frozen(arg, param))
        *dst = cadre_executor_frozen_grad(exec, param);
    else
        rc = cadre_accumulation_open(&exec->accumulation, param, dst, beta);
    cadre_recheck_open(exec, param, *dst);
    return rc;
}

static cadre_status grad_end(void *arg, uint32_t param)
{
    struct cadre_executor *exec = arg;
    bool final;
    void *sum;
    if (is_frozen(arg, param))
        return CADRE_OK;
    CADRE_TRY(cadre_recheck_close(exec, param));
    cadre_status rc =
        cadre_accumulation_close(&exec->accumulation, param, &final, &sum);
    if (rc != CADRE_OK)
        return rc;
    const struct cadre_rank_plan *plan = exec->config.plan;
    const struct cadre_grad_node *node =
        final ? cadre_accumulation_nodes(&exec->accumulation, param) : NULL;
    struct cadre_buf grad = {
        .dtype = exec->config.store->wide,
        .data = sum,
        .count = exec->config.store->param[param].count,
    };
    struct cadre_grad_ev ev = {
        .struct_size = sizeof ev,
        .flags = final ? CADRE_GRAD_FINAL : 0,
        .param = param,
        .microbatch = exec->microbatch,
        .global_microbatch =
            (uint64_t)(plan->first_microbatch +
                       (int64_t)exec->microbatch * plan->microbatch_stride),
        .grad = sum && !node ? &grad : NULL,
        .node = node,
        .n_nodes = node ? (uint32_t)exec->accumulation.n_nodes : 0,
        .map = plan->map,
    };
    struct cadre_device *device = exec->config.device;
    if (device->ops->async && cadre_chain_hears_gradients(exec->config.chain))
        rc = device->ops->event_record(device, &ev.ready);
    return rc == CADRE_OK ? cadre_chain_grad(exec->config.chain, &ev) : rc;
}

static cadre_status redistribute(void *arg, uint32_t at, bool backward, uint32_t form,
                                 const void *in, void *out, int64_t rows,
                                 int64_t channels)
{
    struct cadre_executor *exec = arg;
    const struct cadre_model *model = exec->config.model;
    uint64_t all = (uint64_t)(rows * channels);
    uint64_t own = (uint64_t)(cadre_model_rows(model, rows) * channels);
    uint64_t n_in = form == CADRE_REDISTRIBUTE_ALL_GATHER ? own : all;
    uint64_t n_out = form == CADRE_REDISTRIBUTE_REDUCE_SCATTER ? own : all;
    bool statistics = at == CADRE_POINT_LOSS_MAX || at == CADRE_POINT_LOSS_SUM;
    uint32_t dtype =
        statistics ? cadre_dtype_wide(model->config.dtype) : model->config.dtype;
    /* the ABI's buffers carry no const; a redistribution reads `in` only */
    struct cadre_buf from = {
        .data = (void *)(uintptr_t)in, .count = n_in, .dtype = dtype};
    struct cadre_buf to = {.data = out, .count = n_out, .dtype = dtype};
    for (int r = 0; r <= model->tp_size && form != CADRE_REDISTRIBUTE_ALL_REDUCE; r++)
        exec->shard_offsets[r] = (uint64_t)(cadre_model_row(model, rows, r) * channels);
    struct cadre_redistribute_ev ev = {
        .struct_size = sizeof ev,
        .point = (uint32_t)at,
        .unit = exec->unit,
        .microbatch = exec->microbatch,
        .backward = backward,
        .form = (uint32_t)form,
        .in = &from,
        .out = &to,
        .offsets = form == CADRE_REDISTRIBUTE_ALL_REDUCE ? NULL : exec->shard_offsets,
    };
    return cadre_chain_redistribute(exec->config.chain, &ev);
}

static cadre_status exchange_keys(void *arg, bool backward, const void *in, void *out,
                                  int64_t part)
{
    struct cadre_executor *exec = arg;
    const struct cadre_model *model = exec->config.model;
    const uint32_t dtype = model->config.dtype;
    uint64_t own = (uint64_t)part, all = own * (uint64_t)model->time_ranks;
    /* the ABI's buffers carry no const; `in` is read only */
    struct cadre_buf from = {
        .data = (void *)(uintptr_t)in, .count = backward ? all : own, .dtype = dtype};
    struct cadre_buf to = {.data = out, .count = backward ? own : all, .dtype = dtype};
    for (int r = 0; r <= model->time_ranks; r++)
        exec->shard_offsets[r] = own * (uint64_t)r;
    struct cadre_redistribute_ev ev = {
        .struct_size = sizeof ev,
        .point = CADRE_POINT_ATTN_KV,
        .unit = exec->unit,
        .microbatch = exec->microbatch,
        .backward = backward,
        .form = backward ? CADRE_REDISTRIBUTE_REDUCE_SCATTER
                         : CADRE_REDISTRIBUTE_ALL_GATHER,
        .in = &from,
        .out = &to,
        .offsets = exec->shard_offsets,
    };
    return cadre_chain_redistribute(exec->config.chain, &ev);
}

cadre_status cadre_executor_raise(struct cadre_executor *exec, uint32_t kind,
                                  uint32_t chunk, int32_t next_unit, uint32_t flags)
{
    struct cadre_block_ev ev = {
        .struct_size = sizeof ev,
        .kind = kind,
        .unit = exec->unit,
        .chunk = chunk,
        .microbatch = exec->microbatch,
        .next_unit = next_unit,
        .flags = flags,
    };
    return cadre_chain_block(exec->config.chain, &ev);
}

/* ---- passes ---- */

/* For a profiler; a device that computes inline has none. */
static void range_begin(const struct cadre_executor *exec, const char *what,
                        uint32_t number)
{
    struct cadre_device *device = exec->config.device;
    char name[48];
    if (!device->ops->async)
        return;
    snprintf(name, sizeof name, "%s %u", what, number);
    device->ops->range_begin(device, name);
}

static void range_end(const struct cadre_executor *exec)
{
    if (exec->config.device->ops->async)
        exec->config.device->ops->range_end(exec->config.device);
}

/* The kind of a backward pass. */
static enum cadre_span_kind kind_of(const struct cadre_pass_args *args)
{
    return args->what == CADRE_PASS_BOTH    ? CADRE_SPAN_BACKWARD
           : args->what == CADRE_PASS_INPUT ? CADRE_SPAN_INPUT
                                            : CADRE_SPAN_WEIGHT;
}

/* Around a unit, for a profiler, for a trace, and for the pace of a slow rank. */
struct unit_time {
    double begin, paced, waited_s;
};

static struct unit_time unit_begin(const struct cadre_executor *exec, const char *what,
                                   uint32_t unit)
{
    const struct cadre_timeline *timeline = exec->config.timeline;
    struct unit_time at = {.waited_s = timeline ? timeline->waited_s : 0};
    range_begin(exec, what, unit);
    at.begin = cadre_timeline_begin_unit(timeline);
    at.paced = cadre_pace_begin(exec->config.pace);
    return at;
}

static void unit_end(const struct cadre_executor *exec, enum cadre_span_kind pass,
                     const struct cadre_pass_args *args, uint32_t unit,
                     const struct unit_time *at)
{
    cadre_pace_slow(exec->config.pace, exec->config.timeline, at->paced, at->waited_s);
    cadre_timeline_end_unit(exec->config.timeline, pass, unit, args->microbatch,
                            at->begin);
    range_end(exec);
}

void cadre_executor_assign(const struct cadre_executor *exec, struct cadre_slot *slot,
                           uint32_t microbatch)
{
    const struct cadre_rank_plan *plan = exec->config.plan;
    slot->microbatch = microbatch;
    slot->global_microbatch =
        plan->first_microbatch + (int64_t)microbatch * plan->microbatch_stride;
}

static struct cadre_slot *find_slot(struct cadre_executor *exec, uint32_t chunk,
                                    bool busy, uint32_t microbatch)
{
    struct cadre_chunk_state *state = &exec->chunk[chunk];
    for (uint32_t s = 0; s < state->plan.live; s++) {
        struct cadre_slot *slot = &state->slot[s];
        if (slot->busy == busy && (!busy || slot->microbatch == microbatch))
            return slot;
    }
    return NULL;
}

size_t cadre_executor_boundary_bytes(const struct cadre_executor *exec)
{
    const struct cadre_executor_config *config = &exec->config;
    return cadre_model_activation_count(config->model, config->batch * config->time) *
           cadre_dtype_bytes(config->model->config.dtype);
}

/* A chunk that does not begin or end the model needs a boundary buffer. */
static cadre_status check_boundary(const struct cadre_executor *exec, bool needed,
                                   const struct cadre_buf *buf, const char *what,
                                   struct cadre_error *why)
{
    uint32_t dtype = exec->config.model->config.dtype;
    if (!needed)
        return CADRE_OK;
    if (buf && buf->data && buf->dtype == dtype &&
        buf->count * cadre_dtype_bytes(dtype) == cadre_executor_boundary_bytes(exec))
        return CADRE_OK;
    return cadre_fail(why, CADRE_E_INTERNAL,
                      "%s of a chunk inside the model needs a buffer of %zu bytes of "
                      "%s (batch, time, channels; less where seq.shard shards rows)",
                      what, cadre_executor_boundary_bytes(exec),
                      cadre_dtype_name(dtype));
}

/* Gradients are accumulated in the order of micro-batches, so backward runs in that
 * order. */
static cadre_status check_order(const struct cadre_chunk_state *chunk,
                                const struct cadre_pass_args *args,
                                struct cadre_error *why)
{
    bool input = (args->what & CADRE_PASS_INPUT) != 0;
    bool weight = (args->what & CADRE_PASS_WEIGHT) != 0;
    uint32_t due = input ? chunk->inputs : chunk->weights;
    bool too_soon = weight && !input && args->microbatch >= chunk->inputs;
    if ((input || weight) && args->microbatch == due && !too_soon &&
        !(input && weight && chunk->inputs != chunk->weights))
        return CADRE_OK;
    return cadre_fail(
        why, CADRE_E_INTERNAL,
        "backward %s of micro-batch %u of chunk %u, expected "
        "micro-batches in ascending order, INPUT before WEIGHT: %u inputs "
        "and %u weights are done",
        input && weight ? "BOTH"
        : input         ? "INPUT"
                        : "WEIGHT",
        args->microbatch, args->chunk, chunk->inputs, chunk->weights);
}

static cadre_status check_args(const struct cadre_executor *exec,
                               const struct cadre_pass_args *args, const char *what,
                               struct cadre_error *why)
{
    if (args->chunk >= (uint32_t)exec->n_chunks)
        return cadre_fail(why, CADRE_E_INTERNAL, "%s of chunk %u, but this rank has %d",
                          what, args->chunk, exec->n_chunks);
    if (args->microbatch >= (uint64_t)exec->config.plan->n_microbatches)
        return cadre_fail(
            why, CADRE_E_INTERNAL, "%s of micro-batch %u, but this rank has %lld", what,
            args->microbatch, (long long)exec->config.plan->n_microbatches);
    return CADRE_OK;
}

double cadre_executor_seed(const struct cadre_executor *exec)
{
    const double *scale = exec->config.loss_scale;
    return (scale ? *scale : 1.0) / exec->config.step_targets;
}

void cadre_executor_set_pass(struct cadre_executor *exec,
                             struct cadre_chunk_state *chunk, struct cadre_slot *slot,
                             uint32_t unit)
{
    const struct cadre_executor_config *config = &exec->config;
    uint32_t i = unit - chunk->plan.begin;
    exec->unit = unit;
    exec->microbatch = slot->microbatch;
    exec->recheck.on = cadre_recheck_due(exec, slot->microbatch);
    exec->pass = (struct cadre_pass){
        .device = config->device,
        .batch = config->batch,
        .time = config->time,
        .tokens = slot->tokens,
        .positions = slot->positions,
        .targets = slot->targets,
        .loss_seed = cadre_executor_seed(exec),
        .loss_seeds = slot->loss_seeds,
        .without_adapters = config->preference && config->preference->measuring,
        .loss_rows = exec->loss_rows,
        .logit_rows = exec->forward_only ? NULL : exec->logit_rows,
        .training = !exec->forward_only,
        .sample = cadre_executor_sample(exec, slot),
        .saved = recomputed(exec, unit) ? exec->resaved : slot->saved[i],
        .saved_for_input = recomputed(exec, unit) ? NULL : slot->saved_for_input[i],
        .grad_outputs = chunk->plan.split ? slot->grad_outputs[i] : exec->grad_outputs,
        .scratch = exec->scratch,
        .hook_arg = exec,
        .grad_begin = grad_begin,
        .grad_end = grad_end,
        .is_frozen = is_frozen,
        .redistribute = config->model->tp_size > 1 ? redistribute : NULL,
        .exchange_keys = exchange_keys,
        .most_rows = config->batch * config->time,
        .exchange_counts = cadre_executor_exchange_counts,
        .redistribute_rows = cadre_executor_redistribute_rows,
    };
}

cadre_status cadre_executor_collect(struct cadre_executor *exec,
                                    const struct cadre_slot *slot)
{
    const struct cadre_executor_config *config = &exec->config;
    bool classify = config->model->config.classes > 0;
    int64_t rows = classify ? config->batch : config->batch * config->time;
    return config->device->ops->sum_rows(config->device, exec->loss_rows, rows,
                                         &config->losses[slot->global_microbatch]);
}

static cadre_status forward_unit(struct cadre_executor *exec,
                                 const struct cadre_pass_args *a,
                                 struct cadre_slot *slot, uint32_t unit)
{
    struct cadre_chunk_state *chunk = &exec->chunk[a->chunk];
    uint32_t i = unit - chunk->plan.begin;
    bool end = unit + 1 == chunk->plan.end;
    int32_t next = end ? a->next_unit : (int32_t)unit + 1;
    void *y = !end ? slot->x[i + 1] : a->out ? a->out->data : NULL;
    cadre_executor_set_pass(exec, chunk, slot, unit);
    CADRE_TRY(cadre_executor_raise(exec, CADRE_BEFORE_FORWARD, a->chunk, next, 0));
    CADRE_TRY(cadre_chain_await_unit(exec->config.chain, unit));
    CADRE_TRY(cadre_forms_decode(exec->config.store, unit));
    CADRE_TRY(cadre_unit_forward(exec->config.model, unit, &exec->pass, slot->x[i], y));
    if (exec->recheck.on)
        CADRE_TRY(cadre_recheck_after_forward(exec, slot->x[i], y));
    return cadre_executor_raise(exec, CADRE_AFTER_FORWARD, a->chunk, next, 0);
}

static cadre_status forward(struct cadre_executor *exec,
                            const struct cadre_pass_args *args, struct cadre_error *why)
{
    cadre_status rc = check_args(exec, args, "forward", why);
    if (rc != CADRE_OK)
        return rc;
    struct cadre_chunk_state *chunk = &exec->chunk[args->chunk];
    struct cadre_slot *slot = find_slot(exec, args->chunk, false, 0);
    if (!slot)
        return cadre_fail(why, CADRE_E_INTERNAL,
                          "forward of micro-batch %u: chunk %u already keeps the %u "
                          "micro-batches that its plan allows",
                          args->microbatch, args->chunk, chunk->plan.live);
    const struct cadre_rank_plan *plan = exec->config.plan;
    CADRE_TRY(
        check_boundary(exec, chunk->plan.begin > 0, args->in, "forward's in", why));
    CADRE_TRY(check_boundary(exec, chunk->plan.end < exec->config.model->n_units,
                             args->out, "forward's out", why));
    if (!cadre_executor_lend(exec, chunk, slot))
        return cadre_fail(
            why, CADRE_E_INTERNAL,
            "forward of micro-batch %u of chunk %u: its blocks and those "
            "kept are more than the %u that the plan allows (live_blocks)",
            args->microbatch, args->chunk, plan->live_blocks);
    slot->busy = true;
    cadre_executor_assign(exec, slot, args->microbatch);
    if (!exec->batch_by_caller)
        CADRE_TRY(cadre_executor_load(exec, slot, why));
    if (chunk->plan.begin > 0)
        CADRE_TRY(exec->config.device->ops->copy(exec->config.device, slot->x[0],
                                                 args->in->data,
                                                 cadre_executor_boundary_bytes(exec)));
    for (uint32_t u = chunk->plan.begin; rc == CADRE_OK && u < chunk->plan.end; u++) {
        struct unit_time at = unit_begin(exec, "forward of unit", u);
        rc = forward_unit(exec, args, slot, u);
        unit_end(exec, CADRE_SPAN_FORWARD, args, u, &at);
    }
    if (rc == CADRE_OK && chunk->plan.end == exec->config.model->n_units &&
        !exec->batch_by_caller)
        rc = exec->config.preference ? cadre_executor_collect_pairs(exec, slot, why)
                                     : cadre_executor_collect(exec, slot);
    chunk->forwards++;
    if (exec->forward_only) {
        slot->busy = false;
        cadre_executor_return(exec, chunk, slot);
    }
    return rc;
}

cadre_status cadre_executor_forward(struct cadre_executor *exec,
                                    const struct cadre_pass_args *args,
                                    struct cadre_error *why)
{
    struct cadre_timeline *timeline = exec->config.timeline;
    struct cadre_rank_page *page = cadre_executor_page(exec);
    const uint64_t phase =
        cadre_rank_page_enter(page, CADRE_PHASE_FORWARD, args->chunk, args->microbatch);
    double begin = cadre_timeline_begin_pass(timeline);
    exec->recheck.why = why;
    range_begin(exec, "forward of micro-batch", args->microbatch);
    cadre_status rc = forward(exec, args, why);
    range_end(exec);
    cadre_rank_page_leave(page, phase);
    if (rc == CADRE_OK)
        cadre_timeline_end_pass(timeline, CADRE_SPAN_FORWARD, args->chunk,
                                args->microbatch, begin);
    return rc;
}

/* Activation checkpointing: run a block's forward again to fill the shared saved
 * buffer. Its output overwrites the next unit's input with the same bits, or goes to a
 * buffer that is not read. */
static cadre_status recompute_unit(struct cadre_executor *exec,
                                   const struct cadre_pass_args *a,
                                   struct cadre_slot *slot, uint32_t unit)
{
    struct cadre_chunk_state *chunk = &exec->chunk[a->chunk];
    uint32_t i = unit - chunk->plan.begin;
    if (!recomputed(exec, unit))
        return CADRE_OK;
    void *y = unit + 1 < chunk->plan.end ? slot->x[i + 1] : exec->recompute_out;
    CADRE_TRY(cadre_executor_raise(exec, CADRE_BEFORE_FORWARD, a->chunk, (int32_t)unit,
                                   CADRE_EV_RECOMPUTE));
    CADRE_TRY(cadre_forms_decode(exec->config.store, unit));
    CADRE_TRY(cadre_unit_forward(exec->config.model, unit, &exec->pass, slot->x[i], y));
    return cadre_executor_raise(exec, CADRE_AFTER_FORWARD, a->chunk, (int32_t)unit,
                                CADRE_EV_RECOMPUTE);
}

static cadre_status backward_unit(struct cadre_executor *exec,
                                  const struct cadre_pass_args *a,
                                  struct cadre_slot *slot, uint32_t unit)
{
    struct cadre_chunk_state *chunk = &exec->chunk[a->chunk];
    const struct cadre_model *model = exec->config.model;
    uint32_t i = unit - chunk->plan.begin;
    bool first = unit == chunk->plan.begin;
    int32_t next = first ? a->next_unit : (int32_t)unit - 1;
    uint32_t flags = (a->what & CADRE_PASS_INPUT ? CADRE_EV_INPUT : 0) |
                     (a->what & CADRE_PASS_WEIGHT ? CADRE_EV_WEIGHT : 0);
    void *dy = unit + 1 == model->n_units ? NULL : exec->boundary_grad;
    void *dx = unit == 0 ? NULL : exec->boundary_grad;
    if (a->what & CADRE_PASS_INPUT)
        cadre_executor_take_grad_outputs(exec, chunk, slot, unit);
    cadre_executor_set_pass(exec, chunk, slot, unit);
    exec->pass.both = a->what == CADRE_PASS_BOTH;
    CADRE_TRY(cadre_executor_raise(exec, CADRE_BEFORE_BACKWARD, a->chunk, next, flags));
    CADRE_TRY(recompute_unit(exec, a, slot, unit));
    CADRE_TRY(cadre_forms_decode(exec->config.store, unit));
    if (exec->recheck.on)
        CADRE_TRY(cadre_recheck_before_backward(exec, a->what, slot->x[i], dy, dx));
    if (a->what & CADRE_PASS_INPUT) {
        CADRE_TRY(
            cadre_unit_backward_input(model, unit, &exec->pass, slot->x[i], dy, dx));
        cadre_executor_drop_saved_for_input(exec, chunk, slot, unit);
    }
    if (a->what & CADRE_PASS_WEIGHT)
        CADRE_TRY(cadre_unit_backward_weight(model, unit, &exec->pass, slot->x[i]));
    if (exec->recheck.on)
        CADRE_TRY(cadre_recheck_after_backward(exec, a->what, dx));
    return cadre_executor_raise(exec, CADRE_AFTER_BACKWARD, a->chunk, next, flags);
}

static cadre_status backward(struct cadre_executor *exec,
                             const struct cadre_pass_args *args,
                             struct cadre_error *why)
{
    cadre_status rc = check_args(exec, args, "backward", why);
    if (rc == CADRE_OK && exec->forward_only)
        rc = cadre_fail(why, CADRE_E_INTERNAL,
                        "backward of micro-batch %u in a step that is forward only "
                        "(CADRE_STEP_FORWARD)",
                        args->microbatch);
    if (rc != CADRE_OK)
        return rc;
    struct cadre_chunk_state *chunk = &exec->chunk[args->chunk];
    struct cadre_slot *slot = find_slot(exec, args->chunk, true, args->microbatch);
    if (!slot)
        return cadre_fail(why, CADRE_E_INTERNAL,
                          "backward of micro-batch %u of chunk %u before its forward",
                          args->microbatch, args->chunk);
    if (args->what != CADRE_PASS_BOTH && !chunk->plan.split)
        return cadre_fail(
            why, CADRE_E_INTERNAL,
            "chunk %u was not planned with CADRE_LIVE_SPLIT, so backward is "
            "CADRE_PASS_BOTH",
            args->chunk);
    struct cadre_device *device = exec->config.device;
    bool input = (args->what & CADRE_PASS_INPUT) != 0;
    bool takes = input && chunk->plan.end < exec->config.model->n_units;
    bool gives = input && chunk->plan.begin > 0;
    CADRE_TRY(check_order(chunk, args, why));
    CADRE_TRY(check_boundary(exec, takes, args->in, "backward's in", why));
    CADRE_TRY(check_boundary(exec, gives, args->out, "backward's out", why));
    if (takes)
        CADRE_TRY(device->ops->copy(device, exec->boundary_grad, args->in->data,
                                    cadre_executor_boundary_bytes(exec)));
    for (uint32_t u = chunk->plan.end; rc == CADRE_OK && u-- > chunk->plan.begin;) {
        struct unit_time at = unit_begin(exec, "backward of unit", u);
        rc = backward_unit(exec, args, slot, u);
        unit_end(exec, kind_of(args), args, u, &at);
    }
    if (rc != CADRE_OK)
        return rc;
    if (gives)
        CADRE_TRY(device->ops->copy(device, args->out->data, exec->boundary_grad,
                                    cadre_executor_boundary_bytes(exec)));
    chunk->inputs += input;
    if (args->what & CADRE_PASS_WEIGHT) {
        chunk->weights++;
        slot->busy = false;
        cadre_executor_return(exec, chunk, slot);
    }
    return rc;
}

cadre_status cadre_executor_backward(struct cadre_executor *exec,
                                     const struct cadre_pass_args *args,
                                     struct cadre_error *why)
{
    struct cadre_timeline *timeline = exec->config.timeline;
    struct cadre_rank_page *page = cadre_executor_page(exec);
    const uint64_t phase = cadre_rank_page_enter(page, CADRE_PHASE_BACKWARD,
                                                 args->chunk, args->microbatch);
    double begin = cadre_timeline_begin_pass(timeline);
    exec->recheck.why = why;
    range_begin(exec, "backward of micro-batch", args->microbatch);
    cadre_status rc = backward(exec, args, why);
    range_end(exec);
    cadre_rank_page_leave(page, phase);
    if (rc == CADRE_OK)
        cadre_timeline_end_pass(timeline, kind_of(args), args->chunk, args->microbatch,
                                begin);
    return rc;
}
