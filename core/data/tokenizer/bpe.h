/* SPDX-License-Identifier: Apache-2.0 */
/* The merge loop of byte-pair encoding, for any rule that says which pairs merge. */
#ifndef CADRE_DATA_TOKENIZER_BPE_H
#define CADRE_DATA_TOKENIZER_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

struct cadre_bpe_rule {
    /* Whether (left, right) merges, at what cost and into what. Pure. */
    bool (*find)(const void *context, int32_t left, int32_t right, double *cost,
                 int32_t *merged);
    const void *context;
};

struct cadre_bpe_node {
    int32_t id; /* -1: merged into the node before */
    uint32_t previous;
    uint32_t next;
};

struct cadre_bpe_pair {
    double cost;
    uint32_t at; /* node of the left id */
    int32_t left;
    int32_t right;
    int32_t merged;
};

/* Memory kept from call to call by one thread. Zero-initialised is ready. */
struct cadre_bpe_scratch {
    struct cadre_bpe_node *nodes;
    struct cadre_bpe_pair *heap;
    size_t capacity;
    size_t heap_size;
};

/* Merge ids[0, *count) in place, the cheapest pair first and the leftmost among equals,
 * until no pair merges. O(n log n). [any thread, a scratch each]
 * Errors: CADRE_E_RESOURCE; ids are then unchanged.
 * Source: Sennrich et al. 2016; the order of encoder.py of openai/gpt-2. */
cadre_status cadre_bpe_merge(const struct cadre_bpe_rule *rule,
                             struct cadre_bpe_scratch *scratch, int32_t *ids,
                             size_t *count);

void cadre_bpe_scratch_fini(struct cadre_bpe_scratch *scratch);

#endif
