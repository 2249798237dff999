/* SPDX-License-Identifier: Apache-2.0 */
/* The lists of a pipeline's ranks, replayed with passes of given times where transfers
 * take none. */
#ifndef CADRE_TESTS_SCHEDULE_REPLAY_H
#define CADRE_TESTS_SCHEDULE_REPLAY_H

#include "plugins/pipeline/schedule.h"

#define MAX_STAGES 8
#define MAX_CHUNKS 4
#define MAX_MICROBATCHES 33

/* What a replay knows of a rank. */
struct player {
    struct pipeline_list list;
    uint32_t at; /* next action */
    double begin, time; /* of its first pass; when it is free */
    double busy;
    int alone; /* its first pair, which is not overlapped, is past */
    double came[2][MAX_CHUNKS][MAX_MICROBATCHES]; /* < 0: not yet */
    uint32_t sent[MAX_STAGES], taken[MAX_STAGES]; /* to and from */
};

struct schedule_replay {
    struct pipeline_shape shape;
    double cost[4]; /* by kind: 1, and 2 of a whole backward */
    double pair; /* of a forward and the backward after it, overlapped; 0: one by one */
    uint32_t buffers; /* between two ranks; 0: any number */
    int twice; /* a message was sent again */
    struct player player[MAX_STAGES];
};

/* Returns 0, or -1: no memory. */
int schedule_replay_init(struct schedule_replay *r, const struct pipeline_shape *shape);
void schedule_replay_fini(struct schedule_replay *r);

/* The time at which the last rank ends; -1: they wait for each other, or a message is
 * sent twice. */
double schedule_replay_run(struct schedule_replay *r);

/* Idle time of the rank that idles most, of a replay that took `time`. */
double schedule_replay_idle(const struct schedule_replay *r, double time);

#endif
