/* SPDX-License-Identifier: Apache-2.0 */
/* Where time and memory went: a stacked bar of each run. [any thread] */
#ifndef CADRE_REPORT_WHERE_CHARTS_H
#define CADRE_REPORT_WHERE_CHARTS_H

#include "core/base/memory.h"
#include "core/run/parts_of_step.h"

struct json_t;

struct cadre_where_run {
    const char *name; /* borrowed, as all of it */
    struct cadre_step_parts parts; /* s; of a step of step_s */
    double step_s;
    struct json_t *memory; /* bytes by kind, then rank, as in summary.json; or NULL */
    double peak_bytes; /* of the rank that needs most; NaN: not known */
};

/* Append a chart of the parts of a step. Returns whether any run's are known; nothing
 * is appended where not. */
bool cadre_where_step(struct cadre_text *out, const struct cadre_where_run *run,
                      size_t n);

/* Append a paragraph for each run whose parts have more than its step. */
void cadre_where_excess(struct cadre_text *out, const struct cadre_where_run *run,
                        size_t n);

/* Append a chart of the peak memory of a rank, by kind. Returns likewise. */
bool cadre_where_memory(struct cadre_text *out, const struct cadre_where_run *run,
                        size_t n);

#endif
