/* SPDX-License-Identifier: Apache-2.0 */
/* The speed of the runs of a comparison, measured in rounds of pieces: a warm-up round,
 * the rounds that were planned, and disturbed ones once more at the end; then the runs
 * that are timed to a loss (targets.h). */
#ifndef CADRE_COMPARE_MEASURE_H
#define CADRE_COMPARE_MEASURE_H

#include "core/compare/task.h"
#include "core/launch/supervise.h"

/* Time the runs that can be (see timetable.h) and fill the comparison's pieces, rounds,
 * mirrored and unranked, and untimed of each run that is not. The runs were trained and
 * their records read. Where a piece fails its run is not timed any more and the others
 * go on. [main, watch open, no other threads]
 * Errors: CADRE_E_STOPPED, CADRE_E_RESOURCE, CADRE_E_IO. */
cadre_status cadre_measure(const struct cadre_task_request *request,
                           struct cadre_comparison *comparison,
                           const struct cadre_supervise_watch *watch,
                           struct cadre_error *err);

/* Seconds as "1:40" or "2:01:40"; returns out. */
const char *cadre_measure_clock(double seconds, char *out, size_t size);

#endif
