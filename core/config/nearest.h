/* SPDX-License-Identifier: Apache-2.0 */
/* The nearest known name to a misspelt one, for error texts. */
#ifndef CADRE_CONFIG_NEAREST_H
#define CADRE_CONFIG_NEAREST_H

#include <stddef.h>

/* Edits (insert, delete, replace, swap of neighbours) that turn a into b, over their
 * first 64 bytes; case does not count. [any thread] Source: Damerau 1964, optimal
 * string alignment. */
size_t cadre_edit_distance(const char *a, const char *b);

/* Keep track of the nearest candidate: zero-initialise, offer each, read `name`. A
 * candidate more than a third of the word's length away is no help and never kept. */
struct cadre_nearest {
    const char *name; /* borrowed from the caller; NULL while none is near */
    size_t distance;
};
void cadre_nearest_offer(struct cadre_nearest *nearest, const char *word,
                         const char *candidate);

#endif
