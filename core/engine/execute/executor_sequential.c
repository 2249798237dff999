/* SPDX-License-Identifier: Apache-2.0 */
/* The sequential schedule: each micro-batch forward, then backward.
 *
 * Where a device supports graphs and no plugin takes part, forward and backward of a
 * micro-batch are captured as one graph and launched with one call. There are two
 * graphs: the first micro-batch of a step writes the gradients, the others add to them.
 * What differs between micro-batches stays outside the graph: tokens are copied to one
 * fixed buffer before, the loss is read from another after. The first run of each lets
 * the device allocate workspaces and choose algorithms; the second is captured. */
#include "core/engine/execute/executor_private.h"

#define KEY UINT64_C(0x6d6963726f737400) /* of graphs; only this file makes any */

static cadre_status run_passes(struct cadre_executor *exec, struct cadre_pass_args args,
                               int32_t after, struct cadre_error *why)
{
    cadre_status rc = cadre_executor_forward(exec, &args, why);
    args.next_unit = after;
    return rc == CADRE_OK && !exec->forward_only
               ? cadre_executor_backward(exec, &args, why)
               : rc;
}

/* In exact mode the target of a gradient depends on the micro-batch's index, and under
 * dropout the masks do. */
static bool may_keep(const struct cadre_executor *exec, uint32_t microbatch)
{
    const struct cadre_executor_config *config = &exec->config;
    return config->device->ops->async && !exec->no_graphs && !exec->forward_only &&
           !config->counted && !config->packed && !config->preference &&
           config->chain->n == 0 && exec->n_chunks == 1 &&
           config->model->config.lora.dropout == 0 &&
           !cadre_recheck_due(exec, microbatch) &&
           (!config->exact || exec->accumulation.n == 1);
}

/* The bookkeeping of a micro-batch that a graph runs, or (by = -1) did not run. */
static void account(struct cadre_executor *exec, int by)
{
    struct cadre_chunk_state *chunk = &exec->chunk[0];
    for (uint32_t i = 0; i < exec->config.model->n_params; i++) {
        exec->accumulation.seen[i] += (uint32_t)by;
        exec->config.store->param[i].grad_fresh = exec->accumulation.seen[i] == 0;
    }
    chunk->inputs += (uint32_t)by;
    chunk->weights += (uint32_t)by;
}

/* Capture the micro-batch as a graph; if that fails, it has not run. */
static cadre_status keep(struct cadre_executor *exec, int variant,
                         const struct cadre_pass_args *args, struct cadre_error *why)
{
    struct cadre_device *device = exec->config.device;
    struct cadre_micro_graph *graph = &exec->graph[variant];
    cadre_status rc = device->ops->graph_begin(device, KEY + (uint64_t)variant);
    if (rc == CADRE_E_UNSUPPORTED) {
        exec->no_graphs = true;
        return CADRE_OK;
    }
    if (rc != CADRE_OK)
        return rc;
    cadre_status ran = run_passes(exec, *args, -1, why);
    rc = device->ops->graph_end(device, KEY + (uint64_t)variant);
    if (ran != CADRE_OK)
        return ran;
    account(exec, -1);
    exec->no_graphs = rc == CADRE_E_UNSUPPORTED;
    graph->kept = rc == CADRE_OK;
    graph->seed = cadre_executor_seed(exec);
    return exec->no_graphs ? CADRE_OK : rc;
}

static cadre_status run_kept(struct cadre_executor *exec, int variant,
                             const struct cadre_pass_args *args,
                             struct cadre_error *why)
{
    struct cadre_device *device = exec->config.device;
    struct cadre_micro_graph *graph = &exec->graph[variant];
    cadre_status rc = CADRE_OK;
    if (graph->kept && graph->seed != cadre_executor_seed(exec))
        graph->kept = false;
    if (graph->ran && !graph->kept)
        rc = keep(exec, variant, args, why);
    if (rc != CADRE_OK)
        return rc;
    graph->ran = true;
    if (!graph->kept)
        return run_passes(exec, *args, -1, why);
    double begin = cadre_timeline_begin_pass(exec->config.timeline);
    account(exec, 1);
    rc = device->ops->graph_launch(device, KEY + (uint64_t)variant);
    cadre_timeline_end_pass(exec->config.timeline, CADRE_SPAN_BACKWARD, 0,
                            args->microbatch, begin);
    return rc;
}

static cadre_status micro_step(struct cadre_executor *exec,
                               const struct cadre_pass_args *args,
                               struct cadre_error *why)
{
    struct cadre_slot *slot = &exec->chunk[0].slot[0];
    cadre_executor_assign(exec, slot, args->microbatch);
    cadre_status rc = cadre_executor_load(exec, slot, why);
    exec->batch_by_caller = true;
    if (rc == CADRE_OK)
        rc = run_kept(exec, args->microbatch > 0, args, why);
    exec->batch_by_caller = false;
    return rc == CADRE_OK ? cadre_executor_collect(exec, slot) : rc;
}

cadre_status cadre_executor_sequential(struct cadre_executor *exec,
                                       const struct cadre_step *step,
                                       struct cadre_error *why)
{
    int32_t head = (int32_t)exec->config.model->n_units - 1;
    cadre_status rc = CADRE_OK;
    for (uint32_t i = 0; rc == CADRE_OK && i < step->n_microbatches; i++) {
        struct cadre_pass_args args = {
            .struct_size = sizeof args,
            .microbatch = i,
            .what = CADRE_PASS_BOTH,
            .next_unit = head,
        };
        rc = may_keep(exec, i)
                 ? micro_step(exec, &args, why)
                 : run_passes(exec, args, i + 1 < step->n_microbatches ? 0 : -1, why);
    }
    return rc;
}
