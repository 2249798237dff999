/* SPDX-License-Identifier: Apache-2.0 */
/* Leaf i of the reduction tree is written directly to the level where its carry chain
 * ends (the lowest zero bit of i), so a level is never copied; the last leaf is written
 * to the gradient itself. */
#include "core/engine/execute/accumulation.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/memory.h"
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

uint64_t cadre_accumulation_bytes(const struct cadre_model *model,
                                  const struct cadre_rank_plan *plan, bool exact)
{
    if (!exact)
        return 0;
    return (uint64_t)cadre_accumulation_levels(plan->n_microbatches) *
           level_bytes(model, plan, NULL);
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
        .levels = exact ? cadre_accumulation_levels(store->plan->n_microbatches) : 0,
        .offset = cadre_calloc(n_params, sizeof *accumulation->offset),
        .seen = cadre_calloc(n_params, sizeof *accumulation->seen),
        .added = cadre_calloc(n_params, sizeof *accumulation->added),
    };
    if (!accumulation->offset || !accumulation->seen || !accumulation->added)
        return cadre_no_memory(err, "the accumulation table");
    size_t bytes = level_bytes(store->model, store->plan, accumulation->offset);
    for (int l = 0; l < accumulation->levels; l++) {
        accumulation->level[l] = cadre_ledger_alloc(ledger, CADRE_SPACE_DEVICE, bytes,
                                                    "exact-mode partial sums");
        if (!accumulation->level[l])
            return cadre_no_memory(err, "%d partial sums of %zu bytes (run.exact)",
                                   accumulation->levels, bytes);
    }
    return CADRE_OK;
}

void cadre_accumulation_fini(struct cadre_accumulation *accumulation)
{
    free(accumulation->offset);
    free(accumulation->seen);
    free(accumulation->added);
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

/* Where contribution i of a parameter is written. */
static char *target_of(const struct cadre_accumulation *accumulation, uint32_t param,
                       uint32_t i)
{
    bool last = (int64_t)i + 1 == accumulation->n;
    if (accumulation->exact && !accumulation->alone && !last)
        return accumulation->level[lowest_zero_bit(i)] + accumulation->offset[param];
    return accumulation->store->param[param].grad;
}

cadre_status cadre_accumulation_open(struct cadre_accumulation *accumulation,
                                     uint32_t param, void **dst, int *beta)
{
    struct cadre_store_param *p = &accumulation->store->param[param];
    *dst = target_of(accumulation, param, accumulation->seen[param]);
    *beta = accumulation->exact || accumulation->alone || p->grad_fresh ? 0 : 1;
    p->grad_fresh = false;
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
    bool last = (int64_t)i + 1 == accumulation->n;
    uint32_t bits = last ? i : i & ~(~0u << lowest_zero_bit(i));
    for (int l = 0; bits >> l; l++) {
        if (!(bits >> l & 1u))
            continue;
        CADRE_TRY(accumulation->device->ops->tree_add(
            accumulation->device, accumulation->store->wide, target,
            accumulation->level[l] + accumulation->offset[param], target,
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
        return device->ops->tree_add(device, store->wide, sum, sum, part,
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
