/* SPDX-License-Identifier: Apache-2.0 */
/* The executor's memory: slots, shared buffers, and their planned sizes. */
#include "core/engine/execute/executor_private.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/tensor/dtype.h"

#define FROZEN "frozen gradients"

/* Largest of a size over the units this rank runs; blocks only when asked. */
static size_t largest(const struct cadre_executor_config *config,
                      size_t (*bytes)(const struct cadre_model *, uint32_t, int64_t,
                                      int64_t),
                      bool blocks_only)
{
    size_t most = 0;
    for (int c = 0; c < config->plan->n_chunks; c++)
        for (uint32_t u = config->plan->chunk[c].begin; u < config->plan->chunk[c].end;
             u++) {
            if (blocks_only && (u == 0 || u + 1 == config->model->n_units))
                continue;
            size_t size = bytes(config->model, u, config->batch, config->time);
            most = size > most ? size : most;
        }
    return most;
}

static size_t activation_bytes(const struct cadre_executor_config *config)
{
    const struct cadre_model *model = config->model;
    int64_t rows = config->batch * config->time;
    if (model->rows_sharded) /* evaluation may shard fewer rows so that a rank gets more
                              */
        rows = (rows + model->tp_size - 1) / model->tp_size;
    size_t bytes = (size_t)(rows * model->config.channels) *
                   cadre_dtype_bytes(model->config.dtype);
    return (bytes + 63) / 64 * 64;
}

static size_t token_bytes(const struct cadre_executor_config *config)
{
    return ((size_t)(config->batch * config->time) * sizeof(int32_t) + 63) / 64 * 64;
}

/* Of a micro-batch: its tokens, or the bytes of its images. */
static size_t input_bytes(const struct cadre_executor_config *config)
{
    const int64_t each = cadre_model_inputs(&config->model->config, config->time);
    return ((size_t)(config->batch * each) * sizeof(int32_t) + 63) / 64 * 64;
}

static bool is_block(const struct cadre_executor_config *config, uint32_t unit)
{
    return unit > 0 && unit + 1 < config->model->n_units;
}

static uint32_t blocks_of(const struct cadre_executor_config *config,
                          const struct cadre_chunk *chunk)
{
    uint32_t n = 0;
    for (uint32_t u = chunk->begin; u < chunk->end; u++)
        n += is_block(config, u);
    return n;
}

/* Blocks whose activations are kept at once. Evaluation takes each once. */
static uint32_t live_blocks(const struct cadre_executor_config *config)
{
    const struct cadre_rank_plan *plan = config->plan;
    uint32_t once = 0, sum = 0;
    for (int c = 0; c < plan->n_chunks; c++) {
        once += blocks_of(config, &plan->chunk[c]);
        sum += blocks_of(config, &plan->chunk[c]) * plan->chunk[c].live;
    }
    uint32_t n = plan->live_blocks ? plan->live_blocks : sum;
    return n > sum ? sum : n < once ? once : n;
}

/* What is kept for one block of a micro-batch: its input, what it saves, its
 * grad_outputs. */
struct block_sizes {
    size_t saved; /* in the block buffer, after its input unless that is in a split
                     buffer */
    size_t block, split; /* of the two buffers of split backward; split 0: none */
};

static struct block_sizes block_sizes(const struct cadre_executor_config *config)
{
    bool split = false;
    for (int c = 0; c < config->plan->n_chunks; c++)
        split = split || config->plan->chunk[c].split;
    size_t grad_outputs =
        split ? largest(config, cadre_unit_grad_outputs_bytes, true) : 0;
    size_t for_input = activation_bytes(config);
    struct block_sizes size = {0};
    if (!config->recompute)
        size.saved = largest(config, cadre_unit_saved_bytes, true);
    if (split && !config->recompute) {
        size.saved -= largest(config, cadre_unit_saved_for_input_bytes, true);
        for_input += largest(config, cadre_unit_saved_for_input_bytes, true);
        size.split = for_input > grad_outputs ? for_input : grad_outputs;
        size.block = size.saved;
    } else {
        size.block = for_input + size.saved + grad_outputs;
    }
    return size;
}

/* Bytes of all of them. */
static size_t blocks_bytes(const struct cadre_executor_config *config)
{
    struct block_sizes size = block_sizes(config);
    size_t n = live_blocks(config);
    return n == 0 ? 0 : n * size.block + (n + 1) * size.split;
}

/* Bytes of one slot without its blocks; with `fill`, also assigns the parts of `at` to
 * it. */
static size_t slot_layout(const struct cadre_executor_config *config,
                          const struct cadre_chunk *chunk, char *at,
                          struct cadre_slot *fill)
{
    size_t used = 0;
    for (uint32_t u = chunk->begin; u < chunk->end; u++) {
        uint32_t i = u - chunk->begin;
        if (is_block(config, u))
            continue;
        if (u > 0) {
            if (fill)
                fill->x[i] = at + used;
            used += activation_bytes(config);
        }
        if (fill)
            fill->saved[i] = at + used;
        used += cadre_unit_saved_bytes(config->model, u, config->batch, config->time);
        if (chunk->split) {
            if (fill)
                fill->grad_outputs[i] = at + used;
            used += cadre_unit_grad_outputs_bytes(config->model, u, config->batch,
                                                  config->time);
        }
    }
    if (chunk->begin == 0) {
        if (fill)
            fill->tokens = (int32_t *)(void *)(at + used);
        used += input_bytes(config);
    }
    if (chunk->end == config->model->n_units) {
        if (fill)
            fill->targets = (int32_t *)(void *)(at + used);
        used += token_bytes(config);
    }
    return used;
}

static size_t shared_bytes(const struct cadre_executor_config *config)
{
    size_t bytes = largest(config, cadre_unit_grad_outputs_bytes, false) +
                   largest(config, cadre_unit_scratch_bytes, false) +
                   activation_bytes(config);
    if (config->recompute)
        bytes +=
            activation_bytes(config) + largest(config, cadre_unit_saved_bytes, true);
    return bytes + cadre_recheck_bytes(config, activation_bytes(config));
}

/* Elements of the largest frozen gradient of this rank: of matrices, of vectors. */
struct frozen_sizes {
    uint64_t matrix, vector;
};

static struct frozen_sizes frozen_sizes(const struct cadre_executor_config *config)
{
    struct frozen_sizes most = {0};
    for (uint32_t i = 0; i < config->model->n_params; i++) {
        const struct cadre_shape *local = &config->model->params[i].local;
        uint64_t count = cadre_shape_count(local);
        uint64_t *size = local->ndim > 1 ? &most.matrix : &most.vector;
        if (local->ndim > 1 && config->model->params[i].frozen)
            continue; /* its bias is frozen too: nobody asks */
        if (config->plan->param[i].present && config->plan->param[i].frozen &&
            count > *size)
            *size = count;
    }
    return most;
}

static size_t frozen_bytes(const struct cadre_executor_config *config)
{
    struct frozen_sizes most = frozen_sizes(config);
    return (most.matrix + 2 * most.vector) *
           cadre_dtype_bytes(cadre_dtype_wide(config->model->config.dtype));
}

/* A matrix and its bias, or weight and bias of a norm, which are neighbours. */
char *cadre_executor_frozen_grad(const struct cadre_executor *exec, uint32_t param)
{
    struct frozen_sizes most = frozen_sizes(&exec->config);
    uint64_t at = exec->config.model->params[param].local.ndim > 1
                      ? 0
                      : most.matrix + param % 2 * most.vector;
    return exec->frozen_grad + at * exec->config.store->wide_bytes;
}

uint64_t cadre_executor_sample(const struct cadre_executor *exec,
                               const struct cadre_slot *slot)
{
    const struct cadre_executor_config *config = &exec->config;
    return (exec->step - 1) * (uint64_t)config->step_samples +
           (uint64_t)slot->global_microbatch * (uint64_t)config->batch;
}

static size_t staging_bytes(const struct cadre_executor_config *config)
{
    const int64_t each = cadre_model_inputs(&config->model->config, config->time);
    return (size_t)(config->batch * (each + config->time)) * sizeof(int32_t);
}

/* A loss of each row, and of pairs a sum of its logits. */
static uint64_t loss_bytes(const struct cadre_executor_config *config)
{
    const uint64_t rows = (uint64_t)(config->batch * config->time);
    return rows * sizeof(double) * (config->model->config.logit_sums ? 2 : 1);
}

void cadre_executor_note(const struct cadre_executor_config *config,
                         struct cadre_ledger *ledger)
{
    uint64_t slots = blocks_bytes(config);
    for (int c = 0; c < config->plan->n_chunks; c++)
        slots += config->plan->chunk[c].live *
                 slot_layout(config, &config->plan->chunk[c], NULL, NULL);
    cadre_ledger_note(ledger, CADRE_SPACE_DEVICE, slots, "activations");
    cadre_ledger_note(ledger, CADRE_SPACE_DEVICE, shared_bytes(config), "scratch");
    cadre_ledger_note(ledger, CADRE_SPACE_DEVICE, loss_bytes(config), "loss");
    if (frozen_bytes(config))
        cadre_ledger_note(ledger, CADRE_SPACE_DEVICE, frozen_bytes(config), FROZEN);
    if (config->pinned)
        cadre_ledger_note(ledger, CADRE_SPACE_PINNED,
                          CADRE_STAGINGS * staging_bytes(config), "batches");
    uint64_t sums =
        cadre_accumulation_bytes(config->model, config->plan, config->exact);
    if (sums)
        cadre_ledger_note(ledger, CADRE_SPACE_DEVICE, sums, "exact-mode partial sums");
}

static cadre_status make_slots(struct cadre_executor *exec,
                               struct cadre_chunk_state *chunk)
{
    const struct cadre_executor_config *config = &exec->config;
    uint32_t units = chunk->plan.end - chunk->plan.begin;
    chunk->slot = cadre_calloc(chunk->plan.live, sizeof *chunk->slot);
    if (!chunk->slot)
        return CADRE_E_RESOURCE;
    for (uint32_t s = 0; s < chunk->plan.live; s++) {
        struct cadre_slot *slot = &chunk->slot[s];
        slot->x = cadre_calloc(4 * (size_t)units, sizeof *slot->x);
        if (!slot->x)
            return CADRE_E_RESOURCE;
        slot->saved = slot->x + units;
        slot->saved_for_input = slot->x + 2 * (size_t)units;
        slot->grad_outputs = slot->x + 3 * (size_t)units;
        size_t bytes = slot_layout(config, &chunk->plan, NULL, NULL);
        if (config->packed) {
            slot->positions = cadre_calloc((size_t)(config->batch * config->time),
                                           sizeof *slot->positions);
            if (!slot->positions)
                return CADRE_E_RESOURCE;
        }
        if (config->preference && !cadre_executor_make_seeds(config, slot))
            return CADRE_E_RESOURCE;
        if (bytes == 0)
            continue;
        char *memory = cadre_ledger_alloc(config->ledger, CADRE_SPACE_DEVICE, bytes,
                                          "activations");
        if (!memory)
            return CADRE_E_RESOURCE;
        slot_layout(config, &chunk->plan, memory, slot);
    }
    return CADRE_OK;
}

static cadre_status pool_init(struct cadre_buffer_pool *pool, char *memory, uint32_t n,
                              size_t bytes)
{
    pool->free = cadre_calloc(n, sizeof *pool->free);
    for (uint32_t i = 0; pool->free && i < n; i++)
        pool->free[pool->n_free++] = memory + i * bytes;
    return pool->free ? CADRE_OK : CADRE_E_RESOURCE;
}

static char *pool_take(struct cadre_buffer_pool *pool)
{
    return pool->free[--pool->n_free];
}

static void pool_give(struct cadre_buffer_pool *pool, char *buffer)
{
    pool->free[pool->n_free++] = buffer;
}

static cadre_status make_blocks(struct cadre_executor *exec)
{
    const struct cadre_executor_config *config = &exec->config;
    struct block_sizes size = block_sizes(config);
    uint32_t n = live_blocks(config);
    exec->splits_backward = size.split > 0;
    if (n == 0)
        return CADRE_OK;
    char *memory = cadre_ledger_alloc(config->ledger, CADRE_SPACE_DEVICE,
                                      blocks_bytes(config), "activations");
    if (!memory)
        return CADRE_E_RESOURCE;
    cadre_status rc = pool_init(&exec->block_buffers, memory, n, size.block);
    if (rc == CADRE_OK && exec->splits_backward)
        rc =
            pool_init(&exec->split_buffers, memory + n * size.block, n + 1, size.split);
    return rc;
}

bool cadre_executor_lend(struct cadre_executor *exec,
                         const struct cadre_chunk_state *chunk, struct cadre_slot *slot)
{
    const struct cadre_executor_config *config = &exec->config;
    size_t saved = block_sizes(config).saved;
    if (blocks_of(config, &chunk->plan) > exec->block_buffers.n_free)
        return false;
    for (uint32_t u = chunk->plan.begin; u < chunk->plan.end; u++) {
        uint32_t i = u - chunk->plan.begin;
        if (!is_block(config, u))
            continue;
        char *block = pool_take(&exec->block_buffers);
        slot->x[i] = exec->splits_backward ? pool_take(&exec->split_buffers) : block;
        slot->saved_for_input[i] =
            exec->splits_backward ? slot->x[i] + exec->act_bytes : NULL;
        slot->saved[i] = exec->splits_backward ? block : block + exec->act_bytes;
        slot->grad_outputs[i] = exec->splits_backward ? NULL : slot->saved[i] + saved;
    }
    return true;
}

void cadre_executor_return(struct cadre_executor *exec,
                           const struct cadre_chunk_state *chunk,
                           struct cadre_slot *slot)
{
    for (uint32_t u = chunk->plan.begin; u < chunk->plan.end; u++) {
        uint32_t i = u - chunk->plan.begin;
        if (!is_block(&exec->config, u))
            continue;
        pool_give(&exec->block_buffers,
                  exec->splits_backward ? slot->saved[i] : slot->x[i]);
        if (exec->splits_backward)
            pool_give(&exec->split_buffers,
                      slot->grad_outputs[i] ? slot->grad_outputs[i] : slot->x[i]);
    }
}

static bool alternates(const struct cadre_executor *exec,
                       const struct cadre_chunk_state *chunk, uint32_t unit)
{
    return exec->splits_backward && chunk->plan.split && is_block(&exec->config, unit);
}

void cadre_executor_take_grad_outputs(struct cadre_executor *exec,
                                      const struct cadre_chunk_state *chunk,
                                      struct cadre_slot *slot, uint32_t unit)
{
    if (alternates(exec, chunk, unit))
        slot->grad_outputs[unit - chunk->plan.begin] = pool_take(&exec->split_buffers);
}

void cadre_executor_drop_saved_for_input(struct cadre_executor *exec,
                                         const struct cadre_chunk_state *chunk,
                                         struct cadre_slot *slot, uint32_t unit)
{
    if (alternates(exec, chunk, unit))
        pool_give(&exec->split_buffers, slot->x[unit - chunk->plan.begin]);
}

static cadre_status make_staging(struct cadre_executor *exec)
{
    const struct cadre_executor_config *config = &exec->config;
    size_t bytes = staging_bytes(config);
    if (!config->pinned) {
        exec->pageable = calloc(1, bytes);
        exec->staging[0].tokens = exec->pageable;
        return exec->pageable ? CADRE_OK : CADRE_E_RESOURCE;
    }
    for (int i = 0; i < CADRE_STAGINGS; i++) {
        exec->staging[i].tokens =
            cadre_ledger_alloc(config->ledger, CADRE_SPACE_PINNED, bytes, "batches");
        if (!exec->staging[i].tokens)
            return CADRE_E_RESOURCE;
    }
    return CADRE_OK;
}

static cadre_status make_shared(struct cadre_executor *exec)
{
    const struct cadre_executor_config *config = &exec->config;
    size_t tokens = (size_t)(config->batch * config->time);
    char *memory = cadre_ledger_alloc(config->ledger, CADRE_SPACE_DEVICE,
                                      shared_bytes(config), "scratch");
    exec->loss_rows = cadre_ledger_alloc(config->ledger, CADRE_SPACE_DEVICE,
                                         tokens * sizeof(double), "loss");
    exec->loss_host = cadre_calloc(tokens, sizeof(double));
    int ranks = config->model->tp_size > config->model->time_ranks
                    ? config->model->tp_size
                    : config->model->time_ranks;
    exec->shard_offsets = cadre_calloc((size_t)ranks + 1, sizeof *exec->shard_offsets);
    if (!memory || !exec->loss_rows || !exec->loss_host || !exec->shard_offsets)
        return CADRE_E_RESOURCE;
    if (frozen_bytes(config)) {
        exec->frozen_grad = cadre_ledger_alloc(config->ledger, CADRE_SPACE_DEVICE,
                                               frozen_bytes(config), FROZEN);
        if (!exec->frozen_grad)
            return CADRE_E_RESOURCE;
    }
    exec->act_bytes = activation_bytes(config);
    exec->boundary_grad = memory;
    memory += shared_bytes(config) - cadre_recheck_bytes(config, exec->act_bytes);
    CADRE_TRY(cadre_recheck_create(exec, memory));
    exec->grad_outputs = exec->boundary_grad + exec->act_bytes;
    exec->scratch =
        exec->grad_outputs + largest(config, cadre_unit_grad_outputs_bytes, false);
    if (config->recompute) {
        exec->recompute_out =
            exec->scratch + largest(config, cadre_unit_scratch_bytes, false);
        exec->resaved = exec->recompute_out + exec->act_bytes;
    }
    return CADRE_OK;
}

cadre_status cadre_executor_create(const struct cadre_executor_config *config,
                                   struct cadre_executor **out, struct cadre_error *err)
{
    struct cadre_executor *exec = calloc(1, sizeof *exec);
    if (!exec)
        return cadre_no_memory(err, "the executor");
    exec->config = *config;
    exec->n_chunks = config->plan->n_chunks;
    exec->chunk = cadre_calloc((size_t)exec->n_chunks, sizeof *exec->chunk);
    cadre_status rc = exec->chunk ? make_shared(exec) : CADRE_E_RESOURCE;
    if (rc == CADRE_OK)
        rc = cadre_executor_make_pairs(exec);
    if (rc == CADRE_OK)
        rc = make_staging(exec);
    for (int c = 0; rc == CADRE_OK && c < exec->n_chunks; c++) {
        exec->chunk[c].plan = config->plan->chunk[c];
        rc = make_slots(exec, &exec->chunk[c]);
    }
    if (rc == CADRE_OK)
        rc = make_blocks(exec);
    if (rc != CADRE_OK)
        cadre_no_memory(err, "activations; lower train.micro_batch or set "
                             "train.recompute = block");
    else
        rc = cadre_accumulation_init(&exec->accumulation, config->store, config->ledger,
                                     config->exact, err);
    if (rc != CADRE_OK) {
        cadre_executor_destroy(exec);
        return rc;
    }
    *out = exec;
    return CADRE_OK;
}

void cadre_executor_destroy(struct cadre_executor *exec)
{
    if (!exec)
        return;
    for (int c = 0; exec->chunk && c < exec->n_chunks; c++)
        for (uint32_t s = 0; exec->chunk[c].slot && s < exec->chunk[c].plan.live; s++) {
            free(exec->chunk[c].slot[s].x);
            free(exec->chunk[c].slot[s].positions);
            free(exec->chunk[c].slot[s].loss_seeds);
        }
    for (int c = 0; exec->chunk && c < exec->n_chunks; c++)
        free(exec->chunk[c].slot);
    cadre_accumulation_fini(&exec->accumulation);
    cadre_recheck_destroy(&exec->recheck);
    free(exec->chunk);
    free(exec->block_buffers.free);
    free(exec->split_buffers.free);
    free(exec->loss_host);
    free(exec->logit_host);
    free(exec->target_host);
    free(exec->pageable);
    free(exec->shard_offsets);
    free(exec);
}

/* Steps
 * ---------------------------------------------------------------------------- */

void cadre_executor_divide(struct cadre_executor *exec)
{
    cadre_accumulation_divide(&exec->accumulation);
}

void cadre_executor_count(struct cadre_executor *exec, double step_targets)
{
    if (exec->config.counted)
        exec->config.step_targets = step_targets;
}

void cadre_executor_begin(struct cadre_executor *exec, uint64_t step, uint32_t flags)
{
    exec->step = step;
    exec->forward_only = (flags & CADRE_STEP_FORWARD) != 0;
    for (int c = 0; c < exec->n_chunks; c++) {
        exec->chunk[c].forwards = 0;
        exec->chunk[c].inputs = exec->chunk[c].weights = 0;
        for (uint32_t s = 0; s < exec->chunk[c].plan.live; s++) {
            struct cadre_slot *slot = &exec->chunk[c].slot[s];
            if (slot->busy)
                cadre_executor_return(exec, &exec->chunk[c], slot);
            slot->busy = false;
        }
    }
    cadre_accumulation_begin_step(&exec->accumulation);
}

cadre_status cadre_executor_end(const struct cadre_executor *exec,
                                struct cadre_error *why)
{
    long long n_microbatches = exec->config.plan->n_microbatches;
    for (int c = 0; c < exec->n_chunks && exec->forward_only; c++)
        if (exec->chunk[c].forwards != n_microbatches)
            return cadre_fail(why, CADRE_E_INTERNAL,
                              "the schedule ended after forward of %u of %lld "
                              "micro-batches of chunk %d",
                              exec->chunk[c].forwards, n_microbatches, c);
    if (exec->forward_only)
        return CADRE_OK;
    for (int c = 0; c < exec->n_chunks; c++)
        if (exec->chunk[c].weights != n_microbatches ||
            exec->chunk[c].inputs != n_microbatches)
            return cadre_fail(why, CADRE_E_INTERNAL,
                              "the schedule ended after backward of %u of %lld "
                              "micro-batches of chunk %d",
                              exec->chunk[c].weights, n_microbatches, c);
    for (uint32_t i = 0; exec->accumulation.alone && i < exec->config.model->n_params;
         i++)
        if (exec->accumulation.added[i] != exec->accumulation.seen[i])
            return cadre_fail(
                why, CADRE_E_INTERNAL,
                "%u of %u micro-batches of the gradient of '%s' were returned "
                "through accumulate by the end of sync(GRADS)",
                exec->accumulation.added[i], exec->accumulation.seen[i],
                exec->config.model->params[i].name);
    return CADRE_OK;
}

static cadre_status runner_forward(void *h, const struct cadre_pass_args *args,
                                   struct cadre_error *why)
{
    return cadre_executor_forward(h, args, why);
}

static cadre_status runner_backward(void *h, const struct cadre_pass_args *args,
                                    struct cadre_error *why)
{
    return cadre_executor_backward(h, args, why);
}

static cadre_status runner_accumulate(void *h, uint32_t param, const void *part)
{
    struct cadre_executor *exec = h;
    return cadre_accumulation_add(&exec->accumulation, param, part);
}

struct cadre_pass_runner cadre_executor_runner(struct cadre_executor *exec)
{
    return (struct cadre_pass_runner){
        .h = exec,
        .forward = runner_forward,
        .backward = runner_backward,
        .accumulate = runner_accumulate,
    };
}

double cadre_executor_wait_s(const struct cadre_executor *exec)
{
    return exec->config.loader ? cadre_loader_wait_s(exec->config.loader) : 0.0;
}
