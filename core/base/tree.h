/* SPDX-License-Identifier: Apache-2.0 */
/* The one order in which values of leaves, ranks and chunks are added. */
#ifndef CADRE_BASE_TREE_H
#define CADRE_BASE_TREE_H

#include <stddef.h>

/* Pairwise sum in the tree of design "exact mode": node (l, j) = node (l-1, 2j) +
 * node (l-1, 2j+1), an absent child is skipped. 0.0 for n == 0. [any thread] */
double cadre_tree_sum(const double *values, size_t n);

#endif
