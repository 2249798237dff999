/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/layout/timeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/median.h"
#include "core/base/memory.h"

enum { OTHER_SPANS = 4096 };

cadre_status cadre_timeline_init(struct cadre_timeline *timeline, int n_chunks,
                                 size_t passes, struct cadre_error *err)
{
    *timeline = (struct cadre_timeline){
        .room = 2 * passes + OTHER_SPANS,
        .n_chunks = n_chunks,
        .room_best = passes,
        .best_s = INFINITY,
    };
    timeline->span = cadre_calloc(timeline->room, sizeof *timeline->span);
    timeline->best = cadre_calloc(passes, sizeof *timeline->best);
    timeline->samples =
        cadre_calloc((size_t)n_chunks * CADRE_SPAN_PASSES, sizeof *timeline->samples);
    if (timeline->span && timeline->best && timeline->samples)
        return CADRE_OK;
    cadre_timeline_fini(timeline);
    return cadre_no_memory(err, "the times of %zu passes", passes);
}

void cadre_timeline_fini(struct cadre_timeline *timeline)
{
    free(timeline->span);
    free(timeline->best);
    free(timeline->samples);
    *timeline = (struct cadre_timeline){0};
}

void cadre_timeline_detail(struct cadre_timeline *timeline, bool on, size_t more)
{
    size_t room = 2 * timeline->room_best + OTHER_SPANS + more;
    timeline->detail = on;
    if (!on || room <= timeline->room)
        return;
    struct cadre_span *grown =
        cadre_realloc(timeline->span, room, sizeof *timeline->span);
    if (!grown)
        return;
    timeline->span = grown;
    timeline->room = room;
}

void cadre_timeline_begin_step(struct cadre_timeline *timeline)
{
    timeline->n = 0;
    timeline->lost = 0;
    timeline->in_pass = false;
    timeline->waited_s = timeline->pass_s = 0;
}

void cadre_timeline_warm(struct cadre_timeline *timeline)
{
    for (int i = 0; i < timeline->n_chunks * CADRE_SPAN_PASSES; i++)
        timeline->samples[i].n = 0;
    timeline->best_s = INFINITY;
    timeline->best_step = 0;
    timeline->n_best = 0;
}

/* ---- recording ---- */

static void put(struct cadre_timeline *timeline, const struct cadre_span *span)
{
    if (timeline->n < timeline->room)
        timeline->span[timeline->n++] = *span;
    else
        timeline->lost++;
}

double cadre_timeline_begin_pass(struct cadre_timeline *timeline)
{
    if (!timeline)
        return 0;
    timeline->in_pass = true;
    timeline->waited_before_s = timeline->waited_s;
    return cadre_now_s();
}

void cadre_timeline_end_pass(struct cadre_timeline *timeline, enum cadre_span_kind kind,
                             uint32_t chunk, uint32_t microbatch, double begin)
{
    if (!timeline)
        return;
    struct cadre_span span = {
        .kind = kind,
        .chunk = chunk,
        .microbatch = microbatch,
        .begin = begin,
        .end = cadre_now_s(),
    };
    struct cadre_timeline_samples *samples =
        &timeline->samples[(int)chunk * CADRE_SPAN_PASSES + (int)kind];
    samples->value[samples->n++ % CADRE_TIMELINE_SAMPLES] = span.end - begin;
    timeline->pass_s +=
        span.end - begin - (timeline->waited_s - timeline->waited_before_s);
    timeline->in_pass = false;
    put(timeline, &span);
}

double cadre_timeline_begin_unit(const struct cadre_timeline *timeline)
{
    return timeline && timeline->detail ? cadre_now_s() : 0;
}

void cadre_timeline_end_unit(struct cadre_timeline *timeline, enum cadre_span_kind pass,
                             uint32_t unit, uint32_t microbatch, double begin)
{
    if (!timeline || !timeline->detail)
        return;
    struct cadre_span span = {
        .kind = CADRE_SPAN_UNIT,
        .pass = pass,
        .unit = unit,
        .microbatch = microbatch,
        .inside = true,
        .begin = begin,
        .end = cadre_now_s(),
    };
    put(timeline, &span);
}

void cadre_timeline_add(struct cadre_timeline *timeline, enum cadre_span_kind kind,
                        const char *name, double begin)
{
    if (!timeline)
        return;
    struct cadre_span span = {
        .kind = kind,
        .inside = timeline->in_pass,
        .name = name,
        .begin = begin,
        .end = cadre_now_s(),
    };
    if (kind == CADRE_SPAN_WAIT)
        timeline->waited_s += span.end - begin;
    if (!timeline->in_pass || timeline->detail)
        put(timeline, &span);
}

/* ---- bubbles ---- */

/* Waits outside passes; waits inside one are part of the pass. */
static bool waits(const struct cadre_span *span)
{
    return span->kind == CADRE_SPAN_WAIT && !span->inside;
}

struct cadre_timeline_row cadre_timeline_row(const struct cadre_timeline *timeline)
{
    struct cadre_timeline_row row = {0};
    bool any = false;
    for (size_t i = 0; i < timeline->n; i++) {
        const struct cadre_span *span = &timeline->span[i];
        if (span->kind >= CADRE_SPAN_PASSES)
            continue;
        if (!any)
            row.begin = span->begin;
        any = true;
        row.end = span->end;
        row.used += span->end - span->begin;
    }
    for (size_t i = 0; any && i < timeline->n; i++) {
        const struct cadre_span *span = &timeline->span[i];
        if (waits(span) && span->name != timeline->axis && span->begin > row.begin &&
            span->end < row.end)
            row.used += span->end - span->begin;
    }
    return row;
}

/* The span of the group that rank r is in. */
static void group_span(const struct cadre_timeline_row *rows,
                       const struct cadre_timeline_groups *groups, int r, double *begin,
                       double *end)
{
    int first = r - r / groups->stride % groups->size * groups->stride;
    *begin = INFINITY;
    *end = 0;
    for (int i = 0; i < groups->size; i++) {
        const struct cadre_timeline_row *row = &rows[first + i * groups->stride];
        if (row->end > 0) {
            *begin = fmin(*begin, row->begin);
            *end = fmax(*end, row->end);
        }
    }
    if (*end == 0)
        *begin = 0;
}

struct cadre_timeline_idle
cadre_timeline_idle(const struct cadre_timeline_row *rows,
                    const struct cadre_timeline_groups *groups, int self)
{
    struct cadre_timeline_idle idle = {0};
    int ran = 0; /* in a simulation some groups do not */
    for (int r = 0; r < groups->ranks; r++) {
        double begin, end;
        group_span(rows, groups, r, &begin, &end);
        ran += end > 0;
        idle.span_s += end - begin;
        idle.bubble_s += fmax(end - begin - rows[r].used, 0);
        idle.longest_s = fmax(idle.longest_s, end - begin);
    }
    idle.span_s /= fmax(ran, 1);
    idle.bubble_s /= fmax(ran, 1);
    group_span(rows, groups, self, &idle.begin, &idle.end);
    return idle;
}

/* Seconds of a span inside [begin, end]. */
static double overlap(const struct cadre_span *span, double begin, double end)
{
    return fmax(fmin(span->end, end) - fmax(span->begin, begin), 0);
}

double cadre_timeline_hidden(const struct cadre_timeline *timeline,
                             const struct cadre_timeline_idle *idle)
{
    struct cadre_timeline_row row = cadre_timeline_row(timeline);
    double hidden = 0;
    for (size_t i = 0; i < timeline->n; i++) {
        const struct cadre_span *span = &timeline->span[i];
        if (!waits(span))
            continue;
        if (span->name == timeline->axis)
            hidden += overlap(span, idle->begin, idle->end);
        else
            hidden += overlap(span, idle->begin, row.begin) +
                      overlap(span, row.end, idle->end);
    }
    return hidden;
}

/* ---- what a run leaves ---- */

void cadre_timeline_keep(struct cadre_timeline *timeline, uint64_t step,
                         const struct cadre_timeline_idle *idle)
{
    if (!(idle->longest_s < timeline->best_s))
        return;
    timeline->best_s = idle->longest_s;
    timeline->best_step = step;
    timeline->best_begin = idle->begin;
    timeline->n_best = 0;
    for (size_t i = 0; i < timeline->n && timeline->n_best < timeline->room_best; i++)
        if (timeline->span[i].kind < CADRE_SPAN_PASSES)
            timeline->best[timeline->n_best++] = timeline->span[i];
}

double cadre_timeline_median(const struct cadre_timeline *timeline, int chunk,
                             enum cadre_span_kind kind)
{
    const struct cadre_timeline_samples *samples =
        &timeline->samples[chunk * CADRE_SPAN_PASSES + (int)kind];
    size_t n = samples->n < CADRE_TIMELINE_SAMPLES ? (size_t)samples->n
                                                   : CADRE_TIMELINE_SAMPLES;
    double sorted[CADRE_TIMELINE_SAMPLES];
    memcpy(sorted, samples->value, n * sizeof *sorted);
    return cadre_median(sorted, n);
}
