/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules whose second chunks run back over the ranks. Sources: zb-v: Qi et al.,
 * Pipeline Parallelism with Controllable Memory, 2024 (arXiv 2405.15362), V-ZB;
 * dualpipev: DeepSeek-AI, DeepSeek-V3 Technical Report, 2024 (arXiv 2412.19437),
 * section 3.2.1, and its variant for half the ranks. Both are made for two
 * micro-batches a stage at least: with fewer, the passes of those that are missing are
 * left out. */
#include "plugins/pipeline/schedule_private.h"

/* A list that is made, and the next micro-batch of each kind and chunk. */
struct maker {
    struct pipeline_list *list;
    const struct pipeline_shape *shape;
    uint32_t next[PIPELINE_WEIGHT + 1][2];
};

static void add(struct maker *maker, uint32_t kind, uint32_t chunk)
{
    uint32_t microbatch = maker->next[kind][chunk]++;
    if (kind == PIPELINE_BACKWARD) {
        maker->next[PIPELINE_INPUT][chunk]++;
        maker->next[PIPELINE_WEIGHT][chunk]++;
    } else if (kind == PIPELINE_INPUT) {
        maker->next[PIPELINE_BACKWARD][chunk]++;
    }
    if (microbatch < maker->shape->microbatches &&
        (kind == PIPELINE_FORWARD || !maker->shape->forward))
        maker->list->action[maker->list->n++] =
            (struct pipeline_action){kind, chunk, microbatch};
}

static void add_parts(struct maker *maker, uint32_t chunk)
{
    add(maker, PIPELINE_INPUT, chunk);
    add(maker, PIPELINE_WEIGHT, chunk);
}

/* The micro-batches that a schedule is made for. */
static uint32_t at_least(uint32_t microbatches, uint32_t least)
{
    return microbatches < least ? least : microbatches;
}

/* The first micro-batch goes down and back up at once, while each rank fills its wait
 * with forwards of its first chunk. Then a rank makes F, I and W of its chunks in turn,
 * and at the end input backwards come first and weight backwards fill the rest. */
void pipeline_fill_zb_v(struct pipeline_list *list, const struct pipeline_shape *shape,
                        uint32_t rank)
{
    struct maker maker = {.list = list, .shape = shape};
    uint32_t p = shape->stages, left = p - rank;
    uint32_t m = at_least(shape->microbatches, 2 * p - 1);
    for (uint32_t i = 0; i < 2 * left - 1; i++)
        add(&maker, PIPELINE_FORWARD, 0);
    for (uint32_t i = 0; i < rank; i++) {
        add(&maker, PIPELINE_FORWARD, 1);
        add(&maker, PIPELINE_FORWARD, 0);
    }
    for (uint32_t i = 0; i < left; i++) {
        add(&maker, PIPELINE_FORWARD, 1);
        add_parts(&maker, 1);
    }
    for (uint32_t i = p; i < m; i++) {
        if (maker.next[PIPELINE_FORWARD][0] < m)
            add(&maker, PIPELINE_FORWARD, 0);
        add_parts(&maker, 0);
        add(&maker, PIPELINE_FORWARD, 1);
        add_parts(&maker, 1);
    }
    for (uint32_t i = 0; i < rank; i++) {
        add(&maker, PIPELINE_INPUT, 0);
        add(&maker, PIPELINE_INPUT, 1);
    }
    for (uint32_t i = 0; i < left; i++)
        add_parts(&maker, 0);
    for (uint32_t i = 0; i < 2 * rank; i++)
        add(&maker, PIPELINE_WEIGHT, i < rank);
}

/* A forward of one chunk is followed by the whole backward of the other: the pairs that
 * devices overlap. Only where a rank would wait is backward in parts; the weight
 * backwards that are left come in the order of their input backwards. */
void pipeline_fill_dualpipev(struct pipeline_list *list,
                             const struct pipeline_shape *shape, uint32_t rank)
{
    struct maker maker = {.list = list, .shape = shape};
    uint32_t p = shape->stages, after = p - 1 - rank;
    uint32_t m = at_least(shape->microbatches, 2 * p);
    for (uint32_t i = 0; i < 2 * after; i++)
        add(&maker, PIPELINE_FORWARD, 0);
    for (uint32_t i = 0; i < 2 * (rank + 1); i++)
        add(&maker, PIPELINE_FORWARD, i % 2);
    for (uint32_t i = 0; i < after; i++) {
        add_parts(&maker, 1);
        add(&maker, PIPELINE_FORWARD, 1);
    }
    for (uint32_t i = 0; i < m - p; i++) {
        if (maker.next[PIPELINE_FORWARD][0] < m)
            add(&maker, PIPELINE_FORWARD, 0);
        add(&maker, PIPELINE_BACKWARD, 1);
        add(&maker, PIPELINE_FORWARD, 1);
        add(&maker, PIPELINE_BACKWARD, 0);
    }
    for (uint32_t i = 0; i < 2 * (rank + 1); i++)
        add(&maker, i <= rank ? PIPELINE_BACKWARD : PIPELINE_INPUT, 1 - i % 2);
    for (uint32_t i = 0; i < p; i++) {
        add(&maker, PIPELINE_WEIGHT, i <= rank ? (i + rank) % 2 : 0);
        if (i < after)
            add(&maker, PIPELINE_INPUT, 0);
    }
}
