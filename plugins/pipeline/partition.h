/* SPDX-License-Identifier: Apache-2.0 */
/* Where the model is cut: units [first[i], first[i + 1]) are piece i. */
#ifndef PIPELINE_PARTITION_H
#define PIPELINE_PARTITION_H

#include <cadre/helpers.h>

/* Contiguous cuts of n_units units with these costs into `pieces`, 1 <= pieces <=
 * n_units, none empty: the largest piece is as small as it can be, and among such cuts
 * the sum of squares is least. first has pieces + 1 elements. Returns 0, or -1: no
 * memory. Dynamic programming, O(pieces n_units^2). */
int pipeline_partition_even(const double *cost, uint32_t n_units, uint32_t pieces,
                            uint32_t *first);

/* Cuts by a list of unit counts, "3 2 2 3". Returns 0; -1: not numbers of at least 1
 * separated by spaces; or the sum of the counts and their number in *sum and *n with 1
 * when these are not n_units and pieces. */
int pipeline_partition_counts(const char *text, uint32_t n_units, uint32_t pieces,
                              uint32_t *first, uint64_t *sum, uint32_t *n);

#endif
