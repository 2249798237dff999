/* SPDX-License-Identifier: Apache-2.0 */
/* cadre.tree/1: the nodes of the reduction tree that each rank has under RANGES. */
#include "core/base/tree.h"
#include "core/engine/strategy/host_private.h"
#include "core/tensor/dtype.h"

/* Micro-batches [*begin, *end) of rank r of the axis: its own where the axis is no data
 * axis. */
static void share_of(const struct cadre_services *s, const struct cadre_axis *axis,
                     int r, int64_t *begin, int64_t *end)
{
    cadre_rank_plan_microbatches(s->plan, axis, r, begin, end);
}

static uint32_t n_nodes(const struct cadre_axis *axis, int32_t rank)
{
    int64_t begin, end;
    if (!axis || !axis->services || rank < 0 || rank >= axis->size)
        return 0;
    const struct cadre_rank_plan *plan = axis->services->plan;
    if (!plan->exact || plan->map != CADRE_MICROBATCHES_RANGES)
        return 0;
    if (plan->most > 0 && !plan->runs)
        return (uint32_t)cadre_division_nodes(plan->most);
    share_of(axis->services, axis, rank, &begin, &end);
    return (uint32_t)cadre_tree_nodes(begin, end, NULL);
}

/* Nodes that have no sibling yet, and where their sums lie. */
struct open_nodes {
    struct cadre_tree_node node[CADRE_TREE_NODES];
    char *sum[CADRE_TREE_NODES];
    int n;
};

/* The last open node is added to the one before it, which keeps its place. */
static cadre_status fold(struct cadre_device *device, struct open_nodes *open,
                         const struct cadre_buf *out)
{
    open->n--;
    char *left = open->sum[open->n - 1];
    return device->ops->tree_add(device, out->dtype, left, left, open->sum[open->n],
                                 (int64_t)out->count);
}

static cadre_status add_node(struct cadre_device *device, struct open_nodes *open,
                             struct cadre_tree_node node, char *sum,
                             const struct cadre_buf *out)
{
    open->node[open->n] = node;
    open->sum[open->n++] = sum;
    while (open->n > 1 &&
           cadre_tree_siblings(&open->node[open->n - 2], &open->node[open->n - 1])) {
        CADRE_TRY(fold(device, open, out));
        open->node[open->n - 1].index /= 2;
        open->node[open->n - 1].level++;
    }
    return CADRE_OK;
}

/* Right children that do not exist are skipped: what is left open is added from the
 * right, as in cadre_tree_sum. */
static cadre_status add_nodes(const struct cadre_axis *axis,
                              const struct cadre_buf *part, const struct cadre_buf *out)
{
    struct cadre_device *device = axis->services->device;
    const size_t bytes = out->count * cadre_dtype_bytes(out->dtype);
    struct open_nodes open = {.n = 0};
    char *next = part->data;
    for (int r = 0; r < axis->size; r++) {
        struct cadre_tree_node node[CADRE_TREE_NODES];
        int64_t begin, end;
        share_of(axis->services, axis, r, &begin, &end);
        int count = cadre_tree_nodes(begin, end, node);
        for (int i = 0; i < count; i++, next += bytes)
            CADRE_TRY(add_node(device, &open, node[i], next, out));
    }
    while (open.n > 1)
        CADRE_TRY(fold(device, &open, out));
    return device->ops->copy(device, out->data, open.sum[0], bytes);
}

static cadre_status tree_sum(const struct cadre_axis *axis,
                             const struct cadre_buf *part, const struct cadre_buf *out)
{
    static const char function[] = "sum of cadre.tree";
    struct cadre_ctx *ctx = axis && axis->services ? axis->services->inside : NULL;
    uint64_t nodes = 0;
    if (!ctx)
        return CADRE_E_INVALID;
    CADRE_TRY(cadre_guard(ctx, CADRE_AT_STEP | CADRE_AT(CADRE_IN_SYNC), function));
    CADRE_TRY(cadre_guard_buf(ctx, function, "part", part));
    CADRE_TRY(cadre_guard_buf(ctx, function, "out", out));
    for (int r = 0; r < axis->size; r++)
        nodes += n_nodes(axis, r);
    if (part->dtype != out->dtype || part->count != nodes * out->count)
        return cadre_guard_refuse(ctx, CADRE_E_INVALID, function,
                                  "part has %llu elements, expected %llu nodes of %llu",
                                  (unsigned long long)part->count,
                                  (unsigned long long)nodes,
                                  (unsigned long long)out->count);
    if (out->count == 0)
        return CADRE_OK;
    return cadre_guard_result(ctx, function, add_nodes(axis, part, out));
}

const struct cadre_tree_svc cadre_tree_service = {
    .struct_size = sizeof cadre_tree_service,
    .n_nodes = n_nodes,
    .sum = tree_sum,
};
