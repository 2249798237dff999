/* SPDX-License-Identifier: Apache-2.0 */
/* A piece: the same steps of the same training, started fresh, and timed from barrier
 * to barrier after a warm-up. Speed is judged from pieces alone (speed.h). */
#ifndef CADRE_COMPARE_TIMING_PIECE_H
#define CADRE_COMPARE_TIMING_PIECE_H

#include <stddef.h>

#include "core/compare/timing/load.h"

struct cadre_piece {
    size_t run; /* index in the comparison */
    int round; /* 0: warm-up, never judged; then 1, 2, ... */
    int repeats_round; /* the disturbed round that this one repeats, 0: none */
    int place; /* in the order of its round, from 0 */
    int half; /* 0: the run's first piece of the round, 1: its second */
    double begin_s; /* since the first piece of the comparison began */
    double start_s; /* from its beginning to the first timed step */
    double timed_s; /* all that is timed; 0: not known, then wall_s of the load */
    double period_s; /* mean seconds a step, over whole periods; its value */
    double bubble_fraction; /* over the timed steps; NaN: no schedule */
    double comm_exposed_s; /* a step; NaN: not known */
    double joules_per_token; /* of the timed steps; NaN or 0: not known */
    struct cadre_load load;
};

#endif
