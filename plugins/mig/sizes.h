/* SPDX-License-Identifier: Apache-2.0 */
/* mig.sizes: parts of a machine that differ in size, and their parts of the batch. */
#ifndef CADRE_PLUGINS_MIG_SIZES_H
#define CADRE_PLUGINS_MIG_SIZES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MIG_MAX_SIZES 128u
#define MIG_MAX_SIZE 1024u

/* One size per coordinate along the axis: compute slices of MIG instances, shares of
 * the CPUs for core sets. */
struct mig_sizes {
    uint32_t n; /* 0: all alike */
    uint32_t of[MIG_MAX_SIZES];
};

/* [any] Reads "3 1" or "3, 1"; an empty text is n = 0. False: `why` (of `size` bytes)
 * says in one line what was expected. */
bool mig_sizes_read(const char *text, struct mig_sizes *out, char *why, size_t size);

/* [any] The sum of the n sizes from `first` on. */
uint64_t mig_sizes_sum(const struct mig_sizes *sizes, uint32_t first, uint32_t n);

/* [any] Divides m micro-batches, so that the part with the most of them for its size
 * has as few as possible: each goes to the part that is then done first, the first of
 * those that are alike. Part r has [first[r], first[r + 1]), at least one; `first` has
 * n + 1 entries. False: there are fewer micro-batches than parts. */
bool mig_sizes_divide(const struct mig_sizes *sizes, uint64_t m, uint64_t *first);

#endif
