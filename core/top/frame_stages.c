/* SPDX-License-Identifier: Apache-2.0 */
/* The stages of a pipeline over the last step that all ranks have done. */
#include <math.h>
#include <stdio.h>

#include "core/top/frame_private.h"

enum { NAME_WIDTH = 5, MOST_CELLS = 200 };

/* Of a step; NULL where the rank has none of it. */
static const struct cadre_rank_page_passes *passes_of(const struct cadre_top_rank *rank,
                                                      uint64_t step)
{
    for (int i = 0; rank->known && i < CADRE_RANK_PAGE_DRAWN; i++)
        if (rank->seen.passes[i].n > 0 && rank->seen.passes[i].step == step)
            return &rank->seen.passes[i];
    return NULL;
}

/* Are there passes of that step on all ranks, by one clock? Ranks of several hosts have
 * none in common. */
static bool is_complete(const struct cadre_top_snapshot *s, uint64_t step,
                        double *begin, double *end)
{
    *begin = INFINITY;
    *end = 0;
    for (int r = 0; r < s->n; r++) {
        const struct cadre_rank_page_passes *passes = passes_of(&s->rank[r], step);
        if (!passes || s->rank[r].seen.head.boot != s->rank[0].seen.head.boot)
            return false;
        *begin = fmin(*begin, passes->pass[0].begin);
        *end = fmax(*end, passes->pass[passes->n - 1].end);
    }
    return *end > *begin;
}

/* The latest such step, 0: none. */
static uint64_t find_step(const struct cadre_top_snapshot *s, double *begin,
                          double *end)
{
    const struct cadre_rank_page_passes *of = s->rank[0].seen.passes;
    const int last = of[1].step > of[0].step;
    for (int i = 0; i < CADRE_RANK_PAGE_DRAWN; i++) {
        const uint64_t step = of[i == 0 ? last : !last].step;
        if (is_complete(s, step, begin, end))
            return step;
    }
    return 0;
}

/* F and B: forward, backward; I and W: its two parts; the last digit of the micro-batch
 * where a pass has the space. */
static void draw(const struct cadre_rank_page_passes *passes, double begin,
                 double a_cell, char *cell, int n)
{
    for (int i = 0; i < n; i++)
        cell[i] = '.';
    for (size_t p = 0; p < passes->n; p++) {
        const struct cadre_rank_page_pass *pass = &passes->pass[p];
        const int from = (int)fmax((pass->begin - begin) / a_cell + 0.5, 0);
        const int to = (int)fmin((pass->end - begin) / a_cell + 0.5, n);
        for (int i = from; i < to; i++)
            cell[i] = "FBIW"[pass->kind];
        if (to - from > 1)
            cell[from + 1] = (char)('0' + pass->microbatch % 10);
    }
}

void cadre_top_frame_stages(const struct cadre_top_snapshot *snapshot,
                            struct cadre_top_line *line)
{
    double begin = 0, end = 0;
    char cell[MOST_CELLS + 1], name[16], seconds[16];
    char caption[160];
    int n = line->look->columns - NAME_WIDTH;
    n = n < MOST_CELLS ? n : MOST_CELLS;
    const uint64_t step = n < 10 ? 0 : find_step(snapshot, &begin, &end);
    if (step == 0)
        return;
    cadre_top_put_seconds(end - begin, seconds, sizeof seconds);
    snprintf(caption, sizeof caption,
             "passes of step %llu, %s: F forward, B backward (I, W its parts), "
             "micro-batch, . idle",
             (unsigned long long)step, seconds);
    cadre_top_line_words(line, 0, caption);
    for (int r = 0; r < snapshot->n; r++) {
        draw(passes_of(&snapshot->rank[r], step), begin, (end - begin) / n, cell, n);
        cell[n] = '\0';
        snprintf(name, sizeof name, "%d", r);
        cadre_top_line_put(line, name, NAME_WIDTH);
        cadre_top_line_put(line, cell, CADRE_TOP_ANY);
        cadre_top_line_end(line);
    }
}
