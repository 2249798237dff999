/* SPDX-License-Identifier: Apache-2.0 */
/* What is known before anything trains to end without a ranking or a decision, so that
 * it can be mended before the time is spent. [any thread] */
#ifndef CADRE_COMPARE_FOREWARN_H
#define CADRE_COMPARE_FOREWARN_H

#include "core/base/memory.h"
#include "core/compare/timetable.h"
#include "core/compare/verdict/condition.h"

/* Append a line, ended by '\n', for each such setting: too few compare.rounds to rank
 * a run, or to tell one from all others, and a condition on a run that is not timed, or
 * whose baseline is not. Of the runs, names and `untimed` are read. */
void cadre_forewarn(const struct cadre_comparison *comparison,
                    const struct cadre_timetable *timetable,
                    const struct cadre_condition *conditions, size_t n,
                    struct cadre_text *lines);

#endif
