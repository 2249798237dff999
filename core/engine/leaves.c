/* SPDX-License-Identifier: Apache-2.0 */
/* Leaf i goes straight into the level that its carry chain ends in (the lowest zero bit
 * of i), so a level is never copied; the last leaf goes into the gradient itself. */
#include "core/engine/leaves.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/tensor/dtype.h"

static size_t padded(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Elements of a leaf that is kept: the whole gradient, or after a reduction this
 * rank's. */
static uint64_t leaf_count(const struct cadre_model *model,
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
            bytes += padded(leaf_count(model, plan, i) * size);
    }
    return bytes;
}

int cadre_leaves_levels(int64_t leaves)
{
    int levels = 0;
    while (((int64_t)1 << levels) < leaves)
        levels++;
    return levels;
}

uint64_t cadre_leaves_bytes(const struct cadre_model *model,
                            const struct cadre_rank_plan *plan, bool exact)
{
    if (!exact)
        return 0;
    return (uint64_t)cadre_leaves_levels(plan->leaves) * level_bytes(model, plan, NULL);
}

cadre_status cadre_leaves_init(struct cadre_leaves *leaves, struct cadre_store *store,
                               struct cadre_ledger *ledger, bool exact,
                               struct cadre_error *err)
{
    uint32_t n_params = store->model->n_params;
    *leaves = (struct cadre_leaves){
        .store = store,
        .device = ledger->device,
        .n = store->plan->leaves,
        .exact = exact,
        .alone = store->plan->cyclic,
        .levels = exact ? cadre_leaves_levels(store->plan->leaves) : 0,
        .offset = cadre_calloc(n_params, sizeof *leaves->offset),
        .seen = cadre_calloc(n_params, sizeof *leaves->seen),
        .added = cadre_calloc(n_params, sizeof *leaves->added),
    };
    if (!leaves->offset || !leaves->seen || !leaves->added)
        return cadre_no_memory(err, "the leaf table");
    size_t bytes = level_bytes(store->model, store->plan, leaves->offset);
    for (int l = 0; l < leaves->levels; l++) {
        leaves->level[l] =
            cadre_ledger_alloc(ledger, CADRE_SPACE_DEVICE, bytes, "exact-mode leaves");
        if (!leaves->level[l])
            return cadre_no_memory(err, "%d leaf buffers of %zu bytes (run.exact)",
                                   leaves->levels, bytes);
    }
    return CADRE_OK;
}

void cadre_leaves_fini(struct cadre_leaves *leaves)
{
    free(leaves->offset);
    free(leaves->seen);
    free(leaves->added);
    leaves->added = NULL;
    leaves->offset = NULL;
    leaves->seen = NULL;
}

void cadre_leaves_begin_step(struct cadre_leaves *leaves)
{
    uint32_t n_params = leaves->store->model->n_params;
    memset(leaves->seen, 0, n_params * sizeof *leaves->seen);
    memset(leaves->added, 0, n_params * sizeof *leaves->added);
    for (uint32_t i = 0; i < n_params; i++)
        leaves->store->param[i].grad_fresh = true;
}

static int lowest_zero_bit(uint32_t i)
{
    int bit = 0;
    while (i >> bit & 1u)
        bit++;
    return bit;
}

/* Where contribution i of a parameter is written. */
static char *target_of(const struct cadre_leaves *leaves, uint32_t param, uint32_t i)
{
    bool last = (int64_t)i + 1 == leaves->n;
    if (leaves->exact && !leaves->alone && !last)
        return leaves->level[lowest_zero_bit(i)] + leaves->offset[param];
    return leaves->store->param[param].grad;
}

cadre_status cadre_leaves_open(struct cadre_leaves *leaves, uint32_t param, void **dst,
                               int *beta)
{
    struct cadre_store_param *p = &leaves->store->param[param];
    *dst = target_of(leaves, param, leaves->seen[param]);
    *beta = leaves->exact || leaves->alone || p->grad_fresh ? 0 : 1;
    p->grad_fresh = false;
    if (*dst)
        return CADRE_OK;
    cadre_log(CADRE_LOG_ERROR, "strategy", "no gradient storage is attached to '%s'",
              leaves->store->model->params[param].name);
    return CADRE_E_INTERNAL;
}

/* Contribution i lies in target: add the nodes of the tree that end with it, in place.
 */
static cadre_status carry(const struct cadre_leaves *leaves, uint32_t param, uint32_t i,
                          void *target, uint64_t count)
{
    bool last = (int64_t)i + 1 == leaves->n;
    uint32_t bits = last ? i : i & ~(~0u << lowest_zero_bit(i));
    for (int l = 0; bits >> l; l++) {
        if (!(bits >> l & 1u))
            continue;
        cadre_status rc = leaves->device->ops->tree_add(
            leaves->device, leaves->store->wide, target,
            leaves->level[l] + leaves->offset[param], target, (int64_t)count);
        if (rc != CADRE_OK)
            return rc;
    }
    return CADRE_OK;
}

cadre_status cadre_leaves_close(struct cadre_leaves *leaves, uint32_t param,
                                bool *final, void **sum)
{
    uint32_t i = leaves->seen[param]++;
    char *target = target_of(leaves, param, i);
    bool whole = !leaves->exact || leaves->alone;
    *final = (int64_t)i + 1 == leaves->n;
    *sum = *final || whole ? target : NULL;
    return whole ? CADRE_OK
                 : carry(leaves, param, i, target, leaves->store->param[param].count);
}

cadre_status cadre_leaves_add(struct cadre_leaves *leaves, uint32_t param,
                              const void *part)
{
    const struct cadre_store *store = leaves->store;
    struct cadre_device *device = leaves->device;
    struct cadre_share own = cadre_store_share(store, param, CADRE_KIND_GRAD);
    char *sum = own.placed ? store->param[param].grad_shard : store->param[param].grad;
    uint32_t i = leaves->added[param];
    bool last = (int64_t)i + 1 == leaves->n;
    if (!leaves->alone || i >= leaves->seen[param])
        return CADRE_E_INTERNAL;
    leaves->added[param]++;
    if (own.count == 0)
        return CADRE_OK;
    if (!leaves->exact && i > 0)
        return device->ops->tree_add(device, store->wide, sum, sum, part,
                                     (int64_t)own.count);
    char *target = leaves->exact && !last
                       ? leaves->level[lowest_zero_bit(i)] + leaves->offset[param]
                       : sum;
    cadre_status rc =
        device->ops->copy(device, target, part, own.count * store->wide_bytes);
    return rc == CADRE_OK && leaves->exact ? carry(leaves, param, i, target, own.count)
                                           : rc;
}
