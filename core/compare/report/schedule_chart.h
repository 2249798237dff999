/* SPDX-License-Identifier: Apache-2.0 */
/* A drawing of a pipeline's schedule: a row for each rank, a box for each pass. */
#ifndef CADRE_COMPARE_REPORT_SCHEDULE_CHART_H
#define CADRE_COMPARE_REPORT_SCHEDULE_CHART_H

#include <stddef.h>

#include "core/base/memory.h"
#include "core/compare/verdict/replay.h"

/* Of one chart: browsers are slow with more. */
enum { CADRE_SCHEDULE_BOXES = 8192 };

/* Passes of all its ranks. [any thread] */
size_t cadre_schedule_passes(const struct cadre_replay *schedule);

/* Passes numbered by micro-batch, at the times that they have; later chunks of a rank
 * are paler, what is empty is bubble. The title is escaped here. [any thread] */
void cadre_schedule_chart(struct cadre_text *out, const char *title,
                          const struct cadre_replay *schedule);

#endif
