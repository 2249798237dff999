/* SPDX-License-Identifier: Apache-2.0 */
/* Ids are a linked list, candidate pairs a binary heap. A merge makes older pairs stale
 * rather than removing them: a pair counts only while both its ids are still in place.
 */
#include "core/data/tokenizer/bpe.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

static bool is_before(const struct cadre_bpe_pair *a, const struct cadre_bpe_pair *b)
{
    return a->cost != b->cost ? a->cost < b->cost : a->at < b->at;
}

static void push(struct cadre_bpe_scratch *sc, struct cadre_bpe_pair pair)
{
    size_t at = sc->heap_size++;
    while (at > 0 && is_before(&pair, &sc->heap[(at - 1) / 2])) {
        sc->heap[at] = sc->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    sc->heap[at] = pair;
}

static struct cadre_bpe_pair pop(struct cadre_bpe_scratch *sc)
{
    struct cadre_bpe_pair top = sc->heap[0];
    struct cadre_bpe_pair last = sc->heap[--sc->heap_size];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= sc->heap_size)
            break;
        if (child + 1 < sc->heap_size &&
            is_before(&sc->heap[child + 1], &sc->heap[child]))
            child++;
        if (!is_before(&sc->heap[child], &last))
            break;
        sc->heap[at] = sc->heap[child];
        at = child;
    }
    sc->heap[at] = last;
    return top;
}

static void offer(const struct cadre_bpe_rule *rule, struct cadre_bpe_scratch *sc,
                  uint32_t at)
{
    if (at == NONE || sc->nodes[at].next == NONE)
        return;
    struct cadre_bpe_pair pair = {
        .at = at, .left = sc->nodes[at].id, .right = sc->nodes[sc->nodes[at].next].id};
    if (rule->find(rule->context, pair.left, pair.right, &pair.cost, &pair.merged))
        push(sc, pair);
}

/* n ids give n - 1 pairs, and each of at most n - 1 merges offers two more. */
static cadre_status reserve(struct cadre_bpe_scratch *sc, size_t n)
{
    if (n <= sc->capacity)
        return CADRE_OK;
    if (n >= NONE / 4)
        return CADRE_E_RESOURCE;
    size_t capacity = n < 64 ? 64 : 2 * n;
    struct cadre_bpe_node *nodes = realloc(sc->nodes, capacity * sizeof *nodes);
    if (nodes)
        sc->nodes = nodes;
    struct cadre_bpe_pair *heap = realloc(sc->heap, 3 * capacity * sizeof *heap);
    if (heap)
        sc->heap = heap;
    if (!nodes || !heap)
        return CADRE_E_RESOURCE;
    sc->capacity = capacity;
    return CADRE_OK;
}

static void apply(struct cadre_bpe_scratch *sc, const struct cadre_bpe_pair *pair)
{
    struct cadre_bpe_node *left = &sc->nodes[pair->at];
    struct cadre_bpe_node *right = &sc->nodes[left->next];
    left->id = pair->merged;
    right->id = -1;
    left->next = right->next;
    if (left->next != NONE)
        sc->nodes[left->next].previous = pair->at;
}

cadre_status cadre_bpe_merge(const struct cadre_bpe_rule *rule,
                             struct cadre_bpe_scratch *sc, int32_t *ids, size_t *count)
{
    size_t n = *count;
    if (n < 2)
        return CADRE_OK;
    if (reserve(sc, n) != CADRE_OK)
        return CADRE_E_RESOURCE;
    for (size_t i = 0; i < n; i++)
        sc->nodes[i] = (struct cadre_bpe_node){ids[i], i > 0 ? (uint32_t)(i - 1) : NONE,
                                               i + 1 < n ? (uint32_t)(i + 1) : NONE};
    sc->heap_size = 0;
    for (uint32_t i = 0; i + 1 < n; i++)
        offer(rule, sc, i);
    while (sc->heap_size > 0) {
        struct cadre_bpe_pair pair = pop(sc);
        const struct cadre_bpe_node *left = &sc->nodes[pair.at];
        if (left->id != pair.left || left->next == NONE ||
            sc->nodes[left->next].id != pair.right)
            continue;
        apply(sc, &pair);
        offer(rule, sc, left->previous);
        offer(rule, sc, pair.at);
    }
    size_t kept = 0;
    for (uint32_t at = 0; at != NONE; at = sc->nodes[at].next)
        ids[kept++] = sc->nodes[at].id;
    *count = kept;
    return CADRE_OK;
}

void cadre_bpe_scratch_fini(struct cadre_bpe_scratch *sc)
{
    free(sc->nodes);
    free(sc->heap);
    memset(sc, 0, sizeof *sc);
}
