/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules as lists: what each rank of a pipeline runs, in order. Pure functions of
 * the shape, so that a rank knows the list of its neighbours too.
 *
 * The model is partitioned into P = stages * chunks contiguous parts in model order;
 * rank r runs part c * stages + r as its chunk c. In zb-v and dualpipev, of two chunks,
 * the second half runs back over the ranks: rank r has parts r and P - 1 - r, the first
 * rank begins and ends the model, and the last sends to itself. */
#ifndef PIPELINE_SCHEDULE_H
#define PIPELINE_SCHEDULE_H

#include <stdint.h>

#define PIPELINE_GPIPE 0u
#define PIPELINE_1F1B 1u
#define PIPELINE_INTERLEAVED 2u
#define PIPELINE_ZB_H1 3u
#define PIPELINE_BREADTH_FIRST 4u
#define PIPELINE_ZB_V 5u
#define PIPELINE_DUALPIPEV 6u
#define PIPELINE_SCHEDULES 7u /* number of them */

#define PIPELINE_FORWARD 0u
#define PIPELINE_BACKWARD 1u /* of inputs and weights at once */
#define PIPELINE_INPUT 2u
#define PIPELINE_WEIGHT 3u

struct pipeline_shape {
    uint32_t schedule;
    uint32_t stages; /* ranks along the axis */
    uint32_t chunks; /* of the model on each rank; 1, or more where it has several */
    uint32_t microbatches; /* of each rank */
    uint32_t forward; /* 1: no backward, as in a step that only evaluates */
};

struct pipeline_action {
    uint32_t kind;
    uint32_t chunk;
    uint32_t microbatch;
};

struct pipeline_list {
    struct pipeline_action *action;
    uint32_t n;
};

/* Every pass of `rank` in one step, each once, backward of a chunk ascending in
 * micro-batches. With fewer micro-batches than a schedule is made for, its passes of
 * the others are left out. Forward passes alone are in an order that needs no more
 * buffers. The list is the caller's, to be freed. Returns 0, or -1: no memory. */
int pipeline_list_init(struct pipeline_list *list, const struct pipeline_shape *shape,
                       uint32_t rank);
void pipeline_list_fini(struct pipeline_list *list);

/* Most micro-batches of `chunk` that are between their forward and the end of their
 * backward at once. */
uint32_t pipeline_list_live(const struct pipeline_list *list, uint32_t chunk);

/* Part of the model that `rank` runs as its chunk. */
uint32_t pipeline_part(const struct pipeline_shape *shape, uint32_t rank,
                       uint32_t chunk);

/* Does the schedule make INPUT and WEIGHT separately, of some micro-batches? */
int pipeline_splits(uint32_t schedule);

/* What an action sends: the activation (forward) or its gradient (backward) that the
 * neighbouring part receives. */
struct pipeline_message {
    uint32_t gradient; /* 1: sent to the part before, 0: to the part after */
    uint32_t rank; /* the other end; of two chunks of one rank: itself */
    uint32_t chunk; /* of the rank that receives it */
    uint32_t microbatch;
};

/* Does `action` of `rank` send something to another part (1) or not (0)? */
int pipeline_gives(const struct pipeline_shape *shape, uint32_t rank,
                   const struct pipeline_action *action, struct pipeline_message *out);

/* Likewise for what the action receives; out->rank is the sender. */
int pipeline_takes(const struct pipeline_shape *shape, uint32_t rank,
                   const struct pipeline_action *action, struct pipeline_message *out);

/* Messages from `from` that wait at `to` because it is still busy with its chunk
 * before: between the last rank and the first where more than `stages` micro-batches
 * run through a chunk before the next. 0 of forward passes alone, as the ranks in
 * between take what is sent meanwhile. */
uint32_t pipeline_waiting(const struct pipeline_shape *shape, uint32_t from,
                          uint32_t to);

#endif
