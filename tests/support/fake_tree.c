/* SPDX-License-Identifier: Apache-2.0 */
/* cadre.tree of the fake host: micro-batches in ranges over the ranks, a power of two
 * of them all together. */
#include <string.h>

#include "tests/support/check_main.h"
#include "tests/support/fake_host.h"

static const struct fake_host *host_of(const struct cadre_axis *axis)
{
    const char *at = (const char *)axis - offsetof(struct fake_host, axis);
    return (const struct fake_host *)(uintptr_t)at;
}

uint32_t fake_nodes(const struct fake_host *fake, int rank,
                    struct cadre_grad_node node[FAKE_NODES])
{
    uint64_t at = fake->first[rank], end = fake->first[rank + 1];
    uint32_t n = 0;
    while (at < end) {
        uint32_t level = 0;
        while (at % (UINT64_C(2) << level) == 0 && at + (UINT64_C(2) << level) <= end)
            level++;
        ck_assert_uint_lt(n, FAKE_NODES);
        node[n++] = (struct cadre_grad_node){.index = at >> level, .level = level};
        at += UINT64_C(1) << level;
    }
    return n;
}

static uint32_t n_nodes(const struct cadre_axis *axis, int32_t rank)
{
    struct cadre_grad_node node[FAKE_NODES];
    const struct fake_host *fake = host_of(axis);
    bool divided = fake->plan.exact && fake->other_map == CADRE_MICROBATCHES_RANGES;
    ck_assert(rank >= 0 && rank < axis->size);
    return divided ? fake_nodes(fake, rank, node) : 0;
}

/* All ranks' nodes, of which some are left to be added. */
struct forest {
    struct cadre_grad_node node[FAKE_RANKS * FAKE_NODES];
    const float *part[FAKE_RANKS * FAKE_NODES]; /* of the i-th element */
    uint32_t n;
};

/* The value of a node of the tree: a part, or the sum of its two halves. */
static float value_of(const struct forest *all, uint32_t level, uint64_t index,
                      uint64_t i)
{
    for (uint32_t k = 0; k < all->n; k++)
        if (all->node[k].level == level && all->node[k].index == index)
            return all->part[k][i];
    ck_assert_uint_gt(level, 0);
    return value_of(all, level - 1, 2 * index, i) +
           value_of(all, level - 1, 2 * index + 1, i);
}

static cadre_status sum(const struct cadre_axis *axis, const struct cadre_buf *part,
                        const struct cadre_buf *out)
{
    const struct fake_host *fake = host_of(axis);
    struct forest all = {.n = 0};
    uint32_t top = 0;
    ck_assert_uint_eq(part->dtype, CADRE_F32);
    ck_assert_uint_eq(out->dtype, CADRE_F32);
    for (int r = 0; r < axis->size; r++) {
        uint32_t n = fake_nodes(fake, r, all.node + all.n);
        for (uint32_t k = 0; k < n; k++, all.n++)
            all.part[all.n] = (const float *)part->data + all.n * out->count;
    }
    ck_assert_uint_eq(part->count, all.n * out->count);
    while (UINT64_C(1) << top < fake->first[axis->size])
        top++;
    for (uint64_t i = 0; i < out->count; i++)
        ((float *)out->data)[i] = value_of(&all, top, 0, i);
    return CADRE_OK;
}

const struct cadre_tree_svc fake_tree = {
    .struct_size = sizeof fake_tree, .n_nodes = n_nodes, .sum = sum};
