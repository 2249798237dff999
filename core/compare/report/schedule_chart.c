/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/report/schedule_chart.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/page/chart.h"

size_t cadre_schedule_passes(const struct cadre_replay *schedule)
{
    size_t n = 0;
    for (size_t r = 0; r < schedule->n; r++)
        n += schedule->rank[r].n_passes;
    return n;
}

static size_t fill_boxes(const struct cadre_replay *schedule,
                         struct cadre_chart_box *boxes)
{
    static const char *const names[] = {"forward", "backward", "backward, input",
                                        "backward, weight"};
    static const unsigned styles[] = {0, 1, 1, 2};
    size_t n = 0;
    for (size_t r = 0; r < schedule->n; r++)
        for (size_t i = 0; i < schedule->rank[r].n_passes; i++, n++) {
            const struct cadre_replay_pass *pass = &schedule->rank[r].pass[i];
            struct cadre_chart_box *box = &boxes[n];
            *box = (struct cadre_chart_box){
                .row = r,
                .begin = pass->begin,
                .end = pass->end,
                .style = styles[pass->kind],
                .late = pass->chunk > 0,
            };
            snprintf(box->label, sizeof box->label, "%" PRIu32, pass->microbatch);
            snprintf(box->title, sizeof box->title,
                     "%s of micro-batch %" PRIu32 ", chunk %" PRIu32 ": %.3g ms",
                     names[pass->kind], pass->microbatch, pass->chunk,
                     1e3 * (pass->end - pass->begin));
        }
    return n;
}

static bool is_split(const struct cadre_replay *schedule)
{
    for (size_t r = 0; r < schedule->n; r++)
        for (size_t i = 0; i < schedule->rank[r].n_passes; i++)
            if (schedule->rank[r].pass[i].kind == CADRE_REPLAY_WEIGHT)
                return true;
    return false;
}

void cadre_schedule_chart(struct cadre_text *out, const char *title,
                          const struct cadre_replay *schedule)
{
    static const char *const whole[] = {"forward", "backward"};
    static const char *const split[] = {"forward", "backward, input",
                                        "backward, weight"};
    struct cadre_chart_box *boxes =
        cadre_calloc(cadre_schedule_passes(schedule), sizeof *boxes);
    char(*names)[24] = cadre_calloc(schedule->n, sizeof *names);
    const char **rows = cadre_calloc(schedule->n, sizeof *rows);
    if (boxes && names && rows) {
        for (size_t r = 0; r < schedule->n; r++) {
            snprintf(names[r], sizeof names[r], "rank %d", schedule->rank[r].rank);
            rows[r] = names[r];
        }
        size_t n = fill_boxes(schedule, boxes);
        bool parts = is_split(schedule);
        cadre_chart_gantt(out, title, rows, schedule->n, boxes, n,
                          parts ? split : whole, parts ? 3 : 2);
    } else {
        out->failed = true;
    }
    free(boxes);
    free(names);
    free(rows);
}
