/* SPDX-License-Identifier: Apache-2.0 */
/* Where the time of one step goes on this rank. The executor, the loader, the timeline
 * and the communicators count; here their counters at the begin of a step are kept, and
 * its times are what they grew by. [one thread: the rank's] */
#ifndef CADRE_ENGINE_STEP_CLOCK_H
#define CADRE_ENGINE_STEP_CLOCK_H

#include "core/engine/rank.h"

struct cadre_step_clock {
    double start_s, data_s;
    struct cadre_comm_stats comm;
    double charged_s[CADRE_STEP_AXES];
};

/* The step begins. */
void cadre_step_clock_begin(const struct cadre_rank *rank,
                            struct cadre_step_clock *clock);

/* The step ends: fill its times but span_s, bubble_s, optim_s and optim_wait_s, which
 * are there. Exposed communication is divided over the world and the axes by what was
 * waited for; names are the mesh's. */
void cadre_step_clock_end(const struct cadre_rank *rank,
                          const struct cadre_step_clock *clock,
                          struct cadre_step_times *times);

/* Divide total_s over communicators that were charged with part_s (n), of which that
 * of the schedule, -1 for none, is the index `schedule`: in place. What was charged
 * beyond the total lay in the bubble, where a rank waits for its schedule: it is taken
 * from the schedule's part first, then from all alike. What is missing, of
 * communicators that are not listed, goes to the first, the world's. */
void cadre_step_clock_divide(double total_s, int schedule, double *part_s, int n);

#endif
