/* SPDX-License-Identifier: Apache-2.0 */
#include "core/data/chat/packing.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"

/* Windows that are still filled; more pack little better. */
enum { OPEN = 64 };

struct open_windows {
    uint64_t window[OPEN];
    int64_t left[OPEN];
    int n;
};

/* The open window that has the least left of those that have enough; -1: none. */
static int best(const struct open_windows *open, int64_t length)
{
    int found = -1;
    for (int i = 0; i < open->n; i++)
        if (open->left[i] >= length && (found < 0 || open->left[i] < open->left[found]))
            found = i;
    return found;
}

/* A new window; where there are too many, in place of that with the least left. */
static int open_window(struct open_windows *open, uint64_t window, int64_t capacity)
{
    int at = 0;
    if (open->n < OPEN)
        at = open->n++;
    else
        for (int i = 1; i < OPEN; i++)
            if (open->left[i] < open->left[at])
                at = i;
    open->window[at] = window;
    open->left[at] = capacity;
    return at;
}

/* window_of (n) = each record's window. */
static uint64_t assign(const int64_t *lengths, uint64_t n, int64_t capacity,
                       uint64_t *window_of)
{
    struct open_windows open = {.n = 0};
    uint64_t windows = 0;
    for (uint64_t i = 0; i < n; i++) {
        int at = capacity > 0 ? best(&open, lengths[i]) : -1;
        if (at < 0)
            at = open_window(&open, windows++, capacity);
        open.left[at] -= lengths[i];
        window_of[i] = open.window[at];
    }
    return windows;
}

cadre_status cadre_packing_init(const int64_t *lengths, uint64_t n, int64_t capacity,
                                struct cadre_packing *out)
{
    uint64_t *window_of = cadre_calloc(n ? n : 1, sizeof *window_of);
    memset(out, 0, sizeof *out);
    if (!window_of)
        return CADRE_E_RESOURCE;
    out->windows = assign(lengths, n, capacity, window_of);
    out->first = cadre_calloc(out->windows + 2, sizeof *out->first);
    out->member = cadre_calloc(n ? n : 1, sizeof *out->member);
    if (!out->first || !out->member) {
        free(window_of);
        return CADRE_E_RESOURCE;
    }
    /* first[w + 1] counts, then begins at, then ends at window w */
    for (uint64_t i = 0; i < n; i++)
        out->first[window_of[i] + 2]++;
    for (uint64_t w = 2; w < out->windows + 2; w++)
        out->first[w] += out->first[w - 1];
    for (uint64_t i = 0; i < n; i++)
        out->member[out->first[window_of[i] + 1]++] = i;
    free(window_of);
    return CADRE_OK;
}

void cadre_packing_fini(struct cadre_packing *packing)
{
    free(packing->first);
    free(packing->member);
    *packing = (struct cadre_packing){0};
}
