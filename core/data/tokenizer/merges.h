/* SPDX-License-Identifier: Apache-2.0 */
/* The merges of byte-pair encoding, as a table of pairs of ids. */
#ifndef CADRE_DATA_TOKENIZER_MERGES_H
#define CADRE_DATA_TOKENIZER_MERGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

/* One merge: (left, right) -> merged; left is -1 in a free slot. */
struct cadre_merge {
    int32_t left;
    int32_t right;
    int32_t rank;
    int32_t merged;
};

/* Open addressing; zero-initialised is empty and finds nothing. */
struct cadre_merges {
    struct cadre_merge *slots; /* (mask + 1), owned */
    uint32_t mask;
};

/* Room for `count` merges. Errors: CADRE_E_RESOURCE. */
cadre_status cadre_merges_init(struct cadre_merges *merges, size_t count);
void cadre_merges_fini(struct cadre_merges *merges);

/* The slot of a pair, which is free (left -1) where the pair has no merge. */
struct cadre_merge *cadre_merges_slot(const struct cadre_merges *merges, int32_t left,
                                      int32_t right);

/* The rule of cadre_bpe_merge: context is a struct cadre_merges; cheap is early. */
bool cadre_merges_find(const void *context, int32_t left, int32_t right, double *cost,
                       int32_t *merged);

#endif
