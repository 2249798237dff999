/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/tree.h"

/* A binary counter: partial[k] holds the node over a full run of 2^level leaves, and
 * leaf i merges as many runs as i + 1 has trailing zero bits. The runs left at the end
 * lack right siblings and are folded from the right, skipping absent siblings. */
double cadre_tree_sum(const double *values, size_t n)
{
    double partial[64];
    int top = 0;
    if (n == 0)
        return 0.0;
    for (size_t i = 0; i < n; i++) {
        partial[top++] = values[i];
        for (size_t runs = i + 1; runs % 2 == 0; runs /= 2) {
            top--;
            partial[top - 1] += partial[top];
        }
    }
    while (top > 1) {
        top--;
        partial[top - 1] += partial[top];
    }
    return partial[0];
}

int cadre_tree_nodes(int64_t begin, int64_t end, struct cadre_tree_node *out)
{
    int n = 0;
    while (begin < end) {
        int level = 0;
        while (level < 62 && begin % ((int64_t)2 << level) == 0 &&
               begin + ((int64_t)2 << level) <= end)
            level++;
        if (out)
            out[n] = (struct cadre_tree_node){begin >> level, level};
        n++;
        begin += (int64_t)1 << level;
    }
    return n;
}

bool cadre_tree_siblings(const struct cadre_tree_node *a,
                         const struct cadre_tree_node *b)
{
    return a->level == b->level && a->index % 2 == 0 && b->index == a->index + 1;
}
