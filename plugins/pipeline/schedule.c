/* SPDX-License-Identifier: Apache-2.0 */
/* Sources: gpipe: Huang et al., NeurIPS 2019. 1f1b: Narayanan et al., PipeDream-Flush,
 * ICML 2021, section 3.2. interleaved: Narayanan et al., SC 2021, section 2.2. zb-h1:
 * Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024, section 2.2. breadth-first:
 * Lamy-Poirier, Breadth-First Pipeline Parallelism, MLSys 2023 (arXiv 2211.05953). The
 * two that run back over the ranks are in schedule_v.c. */
#include "plugins/pipeline/schedule_private.h"

#include <stdlib.h>

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static void add(struct pipeline_list *list, uint32_t kind, uint32_t chunk,
                uint32_t microbatch)
{
    list->action[list->n++] = (struct pipeline_action){kind, chunk, microbatch};
}

static void fill_gpipe(struct pipeline_list *list, uint32_t microbatches)
{
    for (uint32_t i = 0; i < microbatches; i++)
        add(list, PIPELINE_FORWARD, 0, i);
    for (uint32_t i = 0; i < microbatches; i++)
        add(list, PIPELINE_BACKWARD, 0, i);
}

static void fill_1f1b(struct pipeline_list *list, const struct pipeline_shape *shape,
                      uint32_t rank)
{
    uint32_t m = shape->microbatches, forward = 0;
    uint32_t warm_up = least(shape->stages - 1 - rank, m);
    while (forward < warm_up)
        add(list, PIPELINE_FORWARD, 0, forward++);
    for (uint32_t backward = 0; backward < m; backward++) {
        if (forward < m)
            add(list, PIPELINE_FORWARD, 0, forward++);
        add(list, PIPELINE_BACKWARD, 0, backward);
    }
}

/* 1f1b with the weight backward delayed until as many micro-batches are kept as the
 * first stage keeps; at the end it fills the time between two input backwards. */
static void fill_zb_h1(struct pipeline_list *list, const struct pipeline_shape *shape,
                       uint32_t rank)
{
    uint32_t m = shape->microbatches, forward = 0, weight = 0;
    uint32_t warm_up = least(shape->stages - 1 - rank, m);
    while (forward < warm_up)
        add(list, PIPELINE_FORWARD, 0, forward++);
    for (uint32_t input = 0; input < m; input++) {
        if (forward < m)
            add(list, PIPELINE_FORWARD, 0, forward++);
        add(list, PIPELINE_INPUT, 0, input);
        if (forward == m || forward - weight == shape->stages)
            add(list, PIPELINE_WEIGHT, 0, weight++);
    }
    while (weight < m)
        add(list, PIPELINE_WEIGHT, 0, weight++);
}

/* The k-th of a rank's passes in interleaved order: groups of about `stages`
 * micro-batches go through all chunks in turn. Where they do not divide, the groups are
 * as even as they can be and none is smaller, as a smaller one would have to wait for
 * itself; `most` is the size of the first and largest. */
struct groups {
    uint32_t n, most;
    uint32_t larger; /* groups of `most`, the rest has one less */
};

static struct groups groups_of(const struct pipeline_shape *shape)
{
    uint32_t m = shape->microbatches;
    struct groups g = {.n = m < shape->stages ? 1 : m / shape->stages};
    g.most = (m + g.n - 1) / g.n;
    g.larger = m % g.n ? m % g.n : g.n;
    return g;
}

static void locate(const struct groups *g, uint32_t chunks, uint32_t k, uint32_t *chunk,
                   uint32_t *microbatch)
{
    uint32_t larger = g->larger * g->most; /* micro-batches in the groups of `most` */
    uint32_t first = 0, size = g->most;
    if (k >= larger * chunks) {
        k -= larger * chunks;
        first = larger;
        size--;
    }
    first += k / (size * chunks) * size;
    k %= size * chunks;
    *chunk = k / size;
    *microbatch = first + k % size;
}

static void add_forward(struct pipeline_list *list, const struct groups *g,
                        uint32_t chunks, uint32_t k)
{
    uint32_t chunk, microbatch;
    locate(g, chunks, k, &chunk, &microbatch);
    add(list, PIPELINE_FORWARD, chunk, microbatch);
}

static void fill_interleaved(struct pipeline_list *list,
                             const struct pipeline_shape *shape, uint32_t rank)
{
    struct groups g = groups_of(shape);
    uint32_t v = shape->chunks, total = shape->microbatches * v, forward = 0;
    uint32_t warm_up = least((shape->stages - 1 - rank) * 2 + (v - 1) * g.most, total);
    while (forward < warm_up)
        add_forward(list, &g, v, forward++);
    for (uint32_t k = 0; k < total; k++) {
        uint32_t chunk, microbatch;
        if (forward < total)
            add_forward(list, &g, v, forward++);
        locate(&g, v, k, &chunk, &microbatch);
        add(list, PIPELINE_BACKWARD, v - 1 - chunk, microbatch);
    }
}

/* All micro-batches of a chunk before the next chunk, so that all gradients of a chunk
 * are complete while those of the chunks before it are still made. */
static void fill_breadth_first(struct pipeline_list *list,
                               const struct pipeline_shape *shape)
{
    for (uint32_t c = 0; c < shape->chunks; c++)
        for (uint32_t i = 0; i < shape->microbatches; i++)
            add(list, PIPELINE_FORWARD, c, i);
    for (uint32_t c = shape->chunks; c-- > 0;)
        for (uint32_t i = 0; i < shape->microbatches; i++)
            add(list, PIPELINE_BACKWARD, c, i);
}

/* No pass waits for a later one, so the order of a rank's forwards is that of all. */
static void fill_forward(struct pipeline_list *list, const struct pipeline_shape *shape)
{
    struct groups g = groups_of(shape);
    for (uint32_t k = 0; k < shape->microbatches * shape->chunks; k++)
        add_forward(list, &g, shape->chunks, k);
}

/* Do chunks run back over the ranks? One rank has one chunk, whatever the schedule. */
static int turns_back(const struct pipeline_shape *shape)
{
    return shape->schedule >= PIPELINE_ZB_V && shape->chunks == 2;
}

static void fill(struct pipeline_list *list, const struct pipeline_shape *shape,
                 uint32_t rank)
{
    if (turns_back(shape) && (shape->forward || shape->schedule == PIPELINE_ZB_V))
        pipeline_fill_zb_v(list, shape, rank);
    else if (turns_back(shape))
        pipeline_fill_dualpipev(list, shape, rank);
    else if (shape->forward)
        fill_forward(list, shape);
    else if (shape->schedule == PIPELINE_GPIPE)
        fill_gpipe(list, shape->microbatches);
    else if (shape->schedule == PIPELINE_1F1B)
        fill_1f1b(list, shape, rank);
    else if (shape->schedule == PIPELINE_INTERLEAVED)
        fill_interleaved(list, shape, rank);
    else if (shape->schedule == PIPELINE_BREADTH_FIRST)
        fill_breadth_first(list, shape);
    else
        fill_zb_h1(list, shape, rank);
}

int pipeline_list_init(struct pipeline_list *list, const struct pipeline_shape *shape,
                       uint32_t rank)
{
    size_t parts = pipeline_splits(shape->schedule) ? 3 : 2;
    size_t most = parts * shape->chunks * shape->microbatches;
    *list = (struct pipeline_list){.action = calloc(most + 1, sizeof *list->action)};
    if (!list->action)
        return -1;
    fill(list, shape, rank);
    return 0;
}

void pipeline_list_fini(struct pipeline_list *list)
{
    free(list->action);
    *list = (struct pipeline_list){0};
}

uint32_t pipeline_list_live(const struct pipeline_list *list, uint32_t chunk)
{
    uint32_t live = 0, most = 0;
    for (uint32_t i = 0; i < list->n; i++) {
        const struct pipeline_action *action = &list->action[i];
        if (action->chunk != chunk)
            continue;
        live += action->kind == PIPELINE_FORWARD;
        most = live > most ? live : most;
        live -= action->kind == PIPELINE_BACKWARD || action->kind == PIPELINE_WEIGHT;
    }
    return most;
}

uint32_t pipeline_part(const struct pipeline_shape *shape, uint32_t rank,
                       uint32_t chunk)
{
    if (chunk == 1 && turns_back(shape))
        return 2 * shape->stages - 1 - rank;
    return chunk * shape->stages + rank;
}

int pipeline_splits(uint32_t schedule)
{
    return schedule == PIPELINE_ZB_H1 || schedule == PIPELINE_ZB_V ||
           schedule == PIPELINE_DUALPIPEV;
}

static int neighbour(const struct pipeline_shape *shape, uint32_t part, int up,
                     struct pipeline_message *out)
{
    if (up ? part + 1 == shape->stages * shape->chunks : part == 0)
        return 0;
    part = up ? part + 1 : part - 1;
    out->rank = part % shape->stages;
    out->chunk = part / shape->stages;
    if (out->chunk == 1 && turns_back(shape))
        out->rank = shape->stages - 1 - out->rank;
    return 1;
}

int pipeline_gives(const struct pipeline_shape *shape, uint32_t rank,
                   const struct pipeline_action *action, struct pipeline_message *out)
{
    int forward = action->kind == PIPELINE_FORWARD;
    *out = (struct pipeline_message){
        .gradient = !forward,
        .microbatch = action->microbatch,
    };
    return action->kind != PIPELINE_WEIGHT &&
           neighbour(shape, pipeline_part(shape, rank, action->chunk), forward, out);
}

int pipeline_takes(const struct pipeline_shape *shape, uint32_t rank,
                   const struct pipeline_action *action, struct pipeline_message *out)
{
    int forward = action->kind == PIPELINE_FORWARD;
    *out = (struct pipeline_message){
        .gradient = !forward,
        .microbatch = action->microbatch,
    };
    if (action->kind == PIPELINE_WEIGHT ||
        !neighbour(shape, pipeline_part(shape, rank, action->chunk), !forward, out))
        return 0;
    out->chunk = action->chunk;
    return 1;
}

uint32_t pipeline_waiting(const struct pipeline_shape *shape, uint32_t from,
                          uint32_t to)
{
    uint32_t p = shape->stages;
    int wraps = (from == p - 1 && to == 0) || (from == 0 && to == p - 1);
    uint32_t in_turn = shape->schedule == PIPELINE_BREADTH_FIRST ? shape->microbatches
                       : shape->schedule == PIPELINE_INTERLEAVED ? groups_of(shape).most
                                                                 : 0;
    return wraps && !shape->forward && in_turn > p ? in_turn - p : 0;
}
