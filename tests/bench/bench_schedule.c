/* SPDX-License-Identifier: Apache-2.0 */
/* The pipeline's schedules replayed with even passes, as a markdown table: what cannot
 * be measured on few cores, and what inline passes cannot show (a forward and a
 * backward that overlap). All times are in forwards of a whole stage. */
#include <stdio.h>

#include "tests/plugins/schedule_replay.h"

struct row {
    const char *name;
    uint32_t schedule, chunks;
    double pair; /* F&B, in forwards of a chunk; 0: F, then B */
    const char *formula;
    double idle; /* its value over p - 1 */
};

static const struct row rows[] = {
    {"gpipe", PIPELINE_GPIPE, 1, 0, "(p-1)(F+B)", 3},
    {"1f1b", PIPELINE_1F1B, 1, 0, "(p-1)(F+B)", 3},
    {"interleaved, v = 2", PIPELINE_INTERLEAVED, 2, 0, "(p-1)(F+B)", 1.5},
    {"breadth-first, v = 2", PIPELINE_BREADTH_FIRST, 2, 0, "(p-1)(F+B)", 1.5},
    {"zb-h1", PIPELINE_ZB_H1, 1, 0, "(p-1)(F+I-W)", 1},
    {"zb-v", PIPELINE_ZB_V, 2, 0, "(p-1)F", 0.5},
    {"dualpipev, F then B", PIPELINE_DUALPIPEV, 2, 0, "(p-1)F", 0.5},
    {"dualpipev, F&B = 3 F", PIPELINE_DUALPIPEV, 2, 3, "(p-1)(F&B+B-3W)", 1},
    {"dualpipev, F&B = 2.5 F", PIPELINE_DUALPIPEV, 2, 2.5, "(p-1)(F&B+B-3W)", 0.75},
};

static int print_row(const struct row *row, uint32_t p, uint32_t m)
{
    struct schedule_replay r;
    struct pipeline_shape shape = {row->schedule, p, row->chunks, m, 0};
    if (schedule_replay_init(&r, &shape)) {
        schedule_replay_fini(&r);
        return -1;
    }
    r.pair = row->pair;
    double end = schedule_replay_run(&r), idle = schedule_replay_idle(&r, end);
    schedule_replay_fini(&r);
    if (end < 0)
        return -1;
    printf("| %s | %u | %u | %s | %.2f | %.2f | %.3f |\n", row->name, p, m,
           row->formula, row->idle * (p - 1), idle / row->chunks, idle / end);
    return 0;
}

int main(void)
{
    printf(
        "| schedule | p | m | idle time, formula | its value | replayed | of all time "
        "|\n|---|---|---|---|---|---|---|\n");
    for (uint32_t p = 4; p <= 8; p *= 2)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            if (print_row(&rows[i], p, 2 * p)) {
                fprintf(stderr, "%s: no replay\n", rows[i].name);
                return 1;
            }
    return 0;
}
