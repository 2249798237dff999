/* SPDX-License-Identifier: Apache-2.0 */
/* Partitioning of a model into chunks: units [first[i], first[i + 1]) are chunk i. */
#ifndef PIPELINE_PARTITION_H
#define PIPELINE_PARTITION_H

#include <cadre/helpers.h>

/* Partitions n_units units with these costs into `pieces` contiguous, non-empty chunks,
 * 1 <= pieces <= n_units: the cost of the largest chunk is minimal, and among such
 * partitions the sum of squares is. first has pieces + 1 elements. Returns 0, or -1: no
 * memory. Dynamic programming, O(pieces n_units^2). */
int pipeline_partition_even(const double *cost, uint32_t n_units, uint32_t pieces,
                            uint32_t *first);

/* Partitions by a list of unit counts, "3 2 2 3". Returns 0; -1: not numbers of at
 * least 1 separated by spaces; or the sum of the counts and their number in *sum and *n
 * with 1 when these are not n_units and pieces. */
int pipeline_partition_counts(const char *text, uint32_t n_units, uint32_t pieces,
                              uint32_t *first, uint64_t *sum, uint32_t *n);

#endif
