/* SPDX-License-Identifier: Apache-2.0 */
/* Leaf i of the reduction tree is written directly to the level where its carry chain
 * ends (the lowest zero bit of i), so a level is never copied; the last leaf is written
 * to the gradient itself. */
#include "core/engine/execute/accumulation.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/engine/layout/division.h"
#include "core/tensor/dtype.h"

static size_t padded(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Elements of a kept leaf: the whole gradient, or after a reduction this rank's range.
 */
static uint64_t microbatch_count(const struct cadre_model *model,
                                 const struct cadre_rank_plan *plan, uint32_t param)
{
    const struct cadre_share *own = &plan->param[param].share[CADRE_KIND_GRAD];
    return plan->cyclic && own->placed ? own->count
                                       : cadre_shape_count(&model->params[param].local);
}

static size_t level_bytes(const struct cadre_model *model,
                          const struct cadre_rank_plan *plan, size_t *offset)
{
    size_t bytes = 0, size = cadre_dtype_bytes(cadre_dtype_wide(model->config.dtype));
    for (uint32_t i = 0; i < model->n_params; i++) {
        if (offset)
            offset[i] = bytes;
        if (plan->param[i].present)
            bytes += padded(microbatch_count(model, plan, i) * size);
    }
    return bytes;
}

int cadre_accumulation_levels(int64_t accumulation)
{
    int levels = 0;
    while (((int64_t)1 << levels) < accumulation)
        levels++;
    return levels;
}

static bool has_nodes(const struct cadre_rank_plan *plan, bool exact)
{
    return exact && plan->map == CADRE_MICROBATCHES_RANGES;
}

/* The nodes of this rank's micro-batches; 0 where its sum is one in any case. */
static int find_nodes(const struct cadre_rank_plan *plan, bool exact,
                      struct cadre_tree_node *node)
{
    if (!has_nodes(plan, exact))
        return 0;
    return cadre_tree_nodes(plan->first_microbatch,
                            plan->first_microbatch + plan->n_microbatches, node);
}

/* Most nodes of this rank in any step. */
static int most_nodes(const struct cadre_rank_plan *plan, bool exact)
{
    return has_nodes(plan, exact) && plan->most > 0 ? cadre_division_nodes(plan->most)
                                                    : find_nodes(plan, exact, NULL);
}

/* Levels below the largest node of any step, or of the whole tree of the rank. */
static int levels_of(const struct cadre_rank_plan *plan, bool exact)
{
    struct cadre_tree_node node[CADRE_TREE_NODES];
    if (has_nodes(plan, exact) && plan->most > 0)
        return cadre_division_levels(plan->most);
    int n = find_nodes(plan, exact, node), most = 0;
    if (n == 0)
        return exact ? cadre_accumulation_levels(plan->n_microbatches) : 0;
    for (int i = 0; i < n; i++)
        most = node[i].level > most ? node[i].level : most;
    return most;
}

uint64_t cadre_accumulation_bytes(const struct cadre_model *model,
                                  const struct cadre_rank_plan *plan, bool exact)
{
    int nodes = most_nodes(plan, exact);
    int buffers = levels_of(plan, exact) + (nodes > 1 ? nodes - 1 : 0);
    return (uint64_t)buffers * level_bytes(model, plan, NULL);
}

static cadre_status take_buffers(struct cadre_accumulation *accumulation,
                                 struct cadre_ledger *ledger, char **buffer, int n,
                                 struct cadre_error *err)
{
    const struct cadre_store *store = accumulation->store;
    size_t bytes = level_bytes(store->model, store->plan, accumulation->offset);
    for (int i = 0; i < n; i++) {
        buffer[i] = cadre_ledger_alloc(ledger, CADRE_SPACE_DEVICE, bytes,
                                       "exact-mode partial sums");
        if (!buffer[i])
            return cadre_no_memory(err, "%d partial sums of %zu bytes (run.exact)", n,
                                   bytes);
    }
    return CADRE_OK;
}

cadre_status cadre_accumulation_init(struct cadre_accumulation *accumulation,
                                     struct cadre_store *store,
                                     struct cadre_ledger *ledger, bool exact,
                                     struct cadre_error *err)
{
    uint32_t n_params = store->model->n_params;
    *accumulation = (struct cadre_accumulation){
        .store = store,
        .device = ledger->device,
        .n = store->plan->n_microbatches,
        .exact = exact,
        .alone = store->plan->cyclic,
        .levels = levels_of(store->plan, exact),
        .offset = cadre_calloc(n_params, sizeof *accumulation->offset),
        .seen = cadre_calloc(n_params, sizeof *accumulation->seen),
        .added = cadre_calloc(n_params, sizeof *accumulation->added),
    };
    int nodes = most_nodes(store->plan, exact);
    accumulation->n_nodes = find_nodes(store->plan, exact, accumulation->node);
    accumulation->given = cadre_calloc((size_t)nodes + 1, sizeof *accumulation->given);
    if (!accumulation->offset || !accumulation->seen || !accumulation->added ||
        !accumulation->given)
        return cadre_no_memory(err, "the accumulation table");
    level_bytes(store->model, store->plan, accumulation->offset);
    CADRE_TRY(take_buffers(accumulation, ledger, accumulation->level,
                           accumulation->levels, err));
    return take_buffers(accumulation, ledger, accumulation->node_sum, nodes - 1, err);
}

void cadre_accumulation_divide(struct cadre_accumulation *accumulation)
{
    const struct cadre_rank_plan *plan = accumulation->store->plan;
    accumulation->n = plan->n_microbatches;
    accumulation->n_nodes = find_nodes(plan, accumulation->exact, accumulation->node);
}

void cadre_accumulation_fini(struct cadre_accumulation *accumulation)
{
    free(accumulation->offset);
    free(accumulation->seen);
    free(accumulation->added);
    free(accumulation->given);
    accumulation->given = NULL;
    accumulation->added = NULL;
    accumulation->offset = NULL;
    accumulation->seen = NULL;
}

void cadre_accumulation_begin_step(struct cadre_accumulation *accumulation)
{
    uint32_t n_params = accumulation->store->model->n_params;
    memset(accumulation->seen, 0, n_params * sizeof *accumulation->seen);
    memset(accumulation->added, 0, n_params * sizeof *accumulation->added);
    for (uint32_t i = 0; i < n_params; i++)
        accumulation->store->param[i].grad_fresh = true;
}

static int lowest_zero_bit(uint32_t i)
{
    int bit = 0;
    while (i >> bit & 1u)
        bit++;
    return bit;
}

/* A leaf of the rank's tree, or of one of its nodes. */
struct leaf {
    uint32_t i; /* in its node */
    bool last; /* of its node */
    char *sum; /* where the node's sum goes */
};

static struct leaf leaf_of(const struct cadre_accumulation *accumulation,
                           uint32_t param, uint32_t i)
{
    struct leaf leaf = {
        .i = i,
        .last = (int64_t)i + 1 == accumulation->n,
        .sum = accumulation->store->param[param].grad,
    };
    for (int k = 0; k < accumulation->n_nodes; k++) {
        uint32_t size = (uint32_t)1 << accumulation->node[k].level;
        leaf.last = leaf.i + 1 == size;
        if (leaf.i < size) {
            if (k + 1 < accumulation->n_nodes)
                leaf.sum = accumulation->node_sum[k] + accumulation->offset[param];
            break;
        }
        leaf.i -= size;
    }
    return leaf;
}

/* Where contribution i of a parameter is written. */
static char *target_of(const struct cadre_accumulation *accumulation, uint32_t param,
                       uint32_t i)
{
    struct leaf leaf = leaf_of(accumulation, param, i);
    if (accumulation->exact && !accumulation->alone && !leaf.last)
        return accumulation->level[lowest_zero_bit(leaf.i)] +
               accumulation->offset[param];
    return leaf.sum;
}

void cadre_accumulation_peek(const struct cadre_accumulation *accumulation,
                             uint32_t param, void **dst, int *beta)
{
    const bool fresh = accumulation->store->param[param].grad_fresh;
    *dst = target_of(accumulation, param, accumulation->seen[param]);
    *beta = accumulation->exact || accumulation->alone || fresh ? 0 : 1;
}

cadre_status cadre_accumulation_open(struct cadre_accumulation *accumulation,
                                     uint32_t param, void **dst, int *beta)
{
    cadre_accumulation_peek(accumulation, param, dst, beta);
    accumulation->store->param[param].grad_fresh = false;
    if (*dst)
        return CADRE_OK;
    cadre_log(CADRE_LOG_ERROR, "strategy", "no gradient storage is attached to '%s'",
              accumulation->store->model->params[param].name);
    return CADRE_E_INTERNAL;
}

/* Contribution i is in target: add the tree nodes that end with it, in place. */
static cadre_status carry(const struct cadre_accumulation *accumulation, uint32_t param,
                          uint32_t i, void *target, uint64_t count)
{
    struct leaf leaf = leaf_of(accumulation, param, i);
    uint32_t bits = leaf.last ? leaf.i : leaf.i & ~(~0u << lowest_zero_bit(leaf.i));
    for (int l = 0; bits >> l; l++) {
        if (!(bits >> l & 1u))
            continue;
        CADRE_TRY(accumulation->device->ops->axpby(
            accumulation->device, accumulation->store->wide, 1,
            accumulation->level[l] + accumulation->offset[param], 1, target,
            (int64_t)count));
    }
    return CADRE_OK;
}

cadre_status cadre_accumulation_close(struct cadre_accumulation *accumulation,
                                      uint32_t param, bool *final, void **sum)
{
    uint32_t i = accumulation->seen[param]++;
    char *target = target_of(accumulation, param, i);
    bool whole = !accumulation->exact || accumulation->alone;
    *final = (int64_t)i + 1 == accumulation->n;
    *sum = *final || whole ? target : NULL;
    return whole ? CADRE_OK
                 : carry(accumulation, param, i, target,
                         accumulation->store->param[param].count);
}

const struct cadre_grad_node *
cadre_accumulation_nodes(const struct cadre_accumulation *accumulation, uint32_t param)
{
    const struct cadre_store_param *p = &accumulation->store->param[param];
    if (accumulation->n_nodes == 0)
        return NULL;
    for (int k = 0; k < accumulation->n_nodes; k++) {
        bool last = k + 1 == accumulation->n_nodes;
        accumulation->given[k] = (struct cadre_grad_node){
            .sum = {.data =
                        last ? (char *)p->grad
                             : accumulation->node_sum[k] + accumulation->offset[param],
                    .count = p->count,
                    .dtype = accumulation->store->wide},
            .index = (uint64_t)accumulation->node[k].index,
            .level = (uint32_t)accumulation->node[k].level,
        };
    }
    return accumulation->given;
}

cadre_status cadre_accumulation_add(struct cadre_accumulation *accumulation,
                                    uint32_t param, const void *part)
{
    const struct cadre_store *store = accumulation->store;
    struct cadre_device *device = accumulation->device;
    struct cadre_share own = cadre_store_share(store, param, CADRE_KIND_GRAD);
    char *sum = own.placed ? store->param[param].grad_shard : store->param[param].grad;
    uint32_t i = accumulation->added[param];
    bool last = (int64_t)i + 1 == accumulation->n;
    if (!accumulation->alone || i >= accumulation->seen[param])
        return CADRE_E_INTERNAL;
    accumulation->added[param]++;
    if (own.count == 0)
        return CADRE_OK;
    if (!accumulation->exact && i > 0)
        return device->ops->axpby(device, store->wide, 1, part, 1, sum,
                                  (int64_t)own.count);
    char *target =
        accumulation->exact && !last
            ? accumulation->level[lowest_zero_bit(i)] + accumulation->offset[param]
            : sum;
    cadre_status rc =
        device->ops->copy(device, target, part, own.count * store->wide_bytes);
    return rc == CADRE_OK && accumulation->exact
               ? carry(accumulation, param, i, target, own.count)
               : rc;
}
