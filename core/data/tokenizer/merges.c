/* SPDX-License-Identifier: Apache-2.0 */
#include "core/data/tokenizer/merges.h"

#include <stdlib.h>
#include <string.h>

cadre_status cadre_merges_init(struct cadre_merges *merges, size_t count)
{
    uint32_t slots = 16;
    if (count >= UINT32_MAX / 8)
        return CADRE_E_RESOURCE;
    while (slots < count * 2 + 4)
        slots *= 2;
    merges->mask = slots - 1;
    merges->slots = malloc(slots * sizeof *merges->slots);
    if (!merges->slots)
        return CADRE_E_RESOURCE;
    memset(merges->slots, 0xff, slots * sizeof *merges->slots);
    return CADRE_OK;
}

void cadre_merges_fini(struct cadre_merges *merges)
{
    free(merges->slots);
    memset(merges, 0, sizeof *merges);
}

struct cadre_merge *cadre_merges_slot(const struct cadre_merges *merges, int32_t left,
                                      int32_t right)
{
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    uint32_t slot =
        (uint32_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & merges->mask;
    while (merges->slots[slot].left >= 0 &&
           (merges->slots[slot].left != left || merges->slots[slot].right != right))
        slot = (slot + 1) & merges->mask;
    return &merges->slots[slot];
}

bool cadre_merges_find(const void *context, int32_t left, int32_t right, double *cost,
                       int32_t *merged)
{
    const struct cadre_merges *merges = context;
    if (!merges->slots)
        return false;
    const struct cadre_merge *merge = cadre_merges_slot(merges, left, right);
    *cost = merge->rank;
    *merged = merge->merged;
    return merge->left >= 0;
}
