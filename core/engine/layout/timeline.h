/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank did in a step and when: passes, waits, the core's own work. Always
 * recorded, at two clock reads a pass or wait, since the bubble is computed from it;
 * what happens inside passes is recorded only with `detail`, for a trace.
 *
 * Bubble. The span of a group of ranks along the schedule's axis is from the begin of
 * the first pass to the end of the last, over the whole group. A rank's bubble is the
 * span less its passes, and less its waits on other axes between its own first and last
 * pass, which are exposed communication. Before a rank's first pass and after its last
 * one, all of the span is bubble and hides what the rank waits for.
 *
 * Times are of CLOCK_MONOTONIC, which the ranks of one machine share. They are right on
 * a device that computes inline, such as the CPU. [one thread: the rank's] */
#ifndef CADRE_ENGINE_LAYOUT_TIMELINE_H
#define CADRE_ENGINE_LAYOUT_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

struct cadre_rank_page;

enum cadre_span_kind {
    CADRE_SPAN_FORWARD,
    CADRE_SPAN_BACKWARD, /* both parts in one */
    CADRE_SPAN_INPUT,
    CADRE_SPAN_WEIGHT,
    CADRE_SPAN_PASSES, /* kinds before it are passes */
    CADRE_SPAN_WAIT = CADRE_SPAN_PASSES,
    CADRE_SPAN_WORK, /* the core's: optimizer, data */
    CADRE_SPAN_UNIT, /* of the model in a pass; recorded with detail */
};

struct cadre_span {
    enum cadre_span_kind kind;
    enum cadre_span_kind pass; /* of a unit: the kind of its pass */
    uint32_t chunk, microbatch; /* of passes; of units too, but for the chunk */
    uint32_t unit;
    bool inside; /* of a pass */
    const char *name; /* axis or other object of a wait; kind of work. Borrowed */
    double begin, end; /* s */
};

/* The last durations of one kind of pass of one chunk. */
enum { CADRE_TIMELINE_SAMPLES = 256 };
struct cadre_timeline_samples {
    double value[CADRE_TIMELINE_SAMPLES];
    uint64_t n; /* samples taken, including overwritten ones */
};

struct cadre_timeline {
    struct cadre_span *span; /* of the step, in order of their ends */
    size_t n, room;
    uint64_t lost; /* spans of the step that were dropped: no space */
    const char *axis; /* name of the schedule's axis, by address; NULL: none */
    struct cadre_rank_page *page; /* the rank's, for what passes tell it; NULL: none */
    bool detail;
    bool in_pass;
    double waited_s; /* all waits of the step so far, those inside passes too */
    double pass_s; /* its passes so far, less the waits inside them */
    double waited_before_s; /* waited_s at the begin of the pass */
    int n_chunks;
    struct cadre_timeline_samples *samples; /* n_chunks x CADRE_SPAN_PASSES */
    /* passes of the fastest step so far: the one with the shortest span */
    struct cadre_span *best;
    size_t n_best, room_best;
    uint64_t best_step;
    double best_begin, best_s;
};

/* Allocate for `passes` passes and more than as many other spans. Errors:
 * CADRE_E_RESOURCE. */
cadre_status cadre_timeline_init(struct cadre_timeline *timeline, int n_chunks,
                                 size_t passes, struct cadre_error *err);
/* Accepts a zeroed one. */
void cadre_timeline_fini(struct cadre_timeline *timeline);

/* Record what happens inside passes too, or do not; `more` further spans of a step have
 * room then. Without memory for them they are lost, and counted. */
void cadre_timeline_detail(struct cadre_timeline *timeline, bool on, size_t more);

/* A step begins: forget the one before. */
void cadre_timeline_begin_step(struct cadre_timeline *timeline);

/* Warm-up is over: discard the durations and the fastest step so far. */
void cadre_timeline_warm(struct cadre_timeline *timeline);

/* Around a pass; begin returns the time. All recording functions accept NULL. */
double cadre_timeline_begin_pass(struct cadre_timeline *timeline);
void cadre_timeline_end_pass(struct cadre_timeline *timeline, enum cadre_span_kind kind,
                             uint32_t chunk, uint32_t microbatch, double begin);

/* Around a unit inside a pass; nothing, not even a look at the clock, without detail.
 */
double cadre_timeline_begin_unit(const struct cadre_timeline *timeline);
void cadre_timeline_end_unit(struct cadre_timeline *timeline, enum cadre_span_kind pass,
                             uint32_t unit, uint32_t microbatch, double begin);

/* A wait or the core's work that began at `begin` ends now. */
void cadre_timeline_add(struct cadre_timeline *timeline, enum cadre_span_kind kind,
                        const char *name, double begin);

/* What a rank sends to the others after its passes; zeros for a rank without a pass. */
struct cadre_timeline_row {
    double begin, end; /* of its first and last pass */
    double used; /* passes, and exposed communication between them */
};
_Static_assert(sizeof(struct cadre_timeline_row) == 3 * sizeof(double),
               "rows are summed as numbers");
struct cadre_timeline_row cadre_timeline_row(const struct cadre_timeline *timeline);

/* The ranks of a run in groups along an axis: rank r has index r / stride % size. */
struct cadre_timeline_groups {
    int ranks, size, stride;
};

struct cadre_timeline_idle {
    double span_s, bubble_s; /* means over the ranks of groups that had a pass */
    double longest_s; /* of the spans */
    double begin, end; /* the span of rank `self`'s group */
};

/* rows (ranks): one row from every rank. */
struct cadre_timeline_idle
cadre_timeline_idle(const struct cadre_timeline_row *rows,
                    const struct cadre_timeline_groups *groups, int self);

/* Seconds of this rank's waits that lie in its bubble. */
double cadre_timeline_hidden(const struct cadre_timeline *timeline,
                             const struct cadre_timeline_idle *idle);

/* Keep the step's passes where it is the fastest so far. Every rank of a run decides
 * alike. */
void cadre_timeline_keep(struct cadre_timeline *timeline, uint64_t step,
                         const struct cadre_timeline_idle *idle);

/* Median seconds of a kind of pass of a chunk, 0 where there was none. [main] */
double cadre_timeline_median(const struct cadre_timeline *timeline, int chunk,
                             enum cadre_span_kind kind);

#endif
