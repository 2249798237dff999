/* SPDX-License-Identifier: Apache-2.0 */
/* The one order in which values of leaves, ranks and chunks are added. */
#ifndef CADRE_BASE_TREE_H
#define CADRE_BASE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Pairwise sum in the tree of design "exact mode": node (l, j) = node (l-1, 2j) +
 * node (l-1, 2j+1), an absent child is skipped. 0.0 for n == 0. [any thread] */
double cadre_tree_sum(const double *values, size_t n);

/* The node over leaves [index << level, (index + 1) << level). */
struct cadre_tree_node {
    int64_t index;
    int level;
};

/* A range of leaves is at most this many whole nodes. */
#define CADRE_TREE_NODES 126

/* The largest nodes that together are leaves [begin, end), in ascending order; `out`
 * (CADRE_TREE_NODES) may be NULL. Returns their number. [any thread] */
int cadre_tree_nodes(int64_t begin, int64_t end, struct cadre_tree_node *out);

/* Are a and b the left and the right child of one node? */
bool cadre_tree_siblings(const struct cadre_tree_node *a,
                         const struct cadre_tree_node *b);

#endif
