/* SPDX-License-Identifier: Apache-2.0 */
/* What one rank did in a few steps, for the files that other programs read: the spans
 * of its timeline, the operations of its communicators, and what happened between
 * steps. Times are seconds of the rank's CLOCK_MONOTONIC. [one thread: the rank's] */
#ifndef CADRE_EXPORT_TRACE_RECORD_H
#define CADRE_EXPORT_TRACE_RECORD_H

#include "core/base/memory.h"
#include "core/engine/rank.h"

/* An operation of a communicator; the label is truncated to fit. */
struct cadre_trace_op {
    const struct cadre_comm *comm;
    const char *kind;
    char label[40];
    double posted_s, began_s, ended_s;
    uint64_t bytes, in_count, out_count, sequence;
    uint32_t dtype;
};

struct cadre_trace_step {
    int64_t step;
    double begin, end;
    /* of its report, as in metrics.jsonl but of this rank; NaN until there is one */
    double loss, step_s, comm_s, comm_exposed_s;
    uint64_t ledger_bytes, resident_bytes; /* at its end; of the rank, of the process */
    size_t span, n_spans, op, n_ops; /* in the arrays of the record */
    uint64_t spans_lost, ops_lost;
};

/* Something between steps: an evaluation, a checkpoint. */
struct cadre_trace_other {
    const char *name; /* static */
    int64_t step; /* after which it was */
    double begin, end;
};

struct cadre_trace_record {
    const struct cadre_rank *rank;
    struct cadre_trace_step *step;
    struct cadre_span *span;
    struct cadre_trace_op *op;
    struct cadre_trace_other *other;
    size_t n_steps, n_spans, n_ops, n_others;
    size_t room_steps, room_spans, room_ops, room_others;
    bool failed; /* there was no memory for some of it */
    bool simulated; /* times are of a simulated clock, which began at no date */
    double origin_s; /* time 0 of the files, the same moment on all ranks */
    double origin_unix_s; /* the same, in seconds since 1970 */
};

void cadre_trace_record_fini(struct cadre_trace_record *record);

/* Append; without memory `failed` is set. The spans of a step are the timeline's. */
void cadre_trace_record_step(struct cadre_trace_record *record,
                             const struct cadre_trace_step *step);
void cadre_trace_record_spans(struct cadre_trace_record *record,
                              const struct cadre_span *span, size_t n);
void cadre_trace_record_ops(struct cadre_trace_record *record,
                            const struct cadre_trace_op *op, size_t n);
void cadre_trace_record_other(struct cadre_trace_record *record,
                              const struct cadre_trace_other *other);

/* Time 0 by the clock of rank `self`, and in *unix_s since 1970: the first begin of
 * any. clocks (2 x ranks) has for each rank when its first step began by its own
 * clock, and how far its wall clock is ahead of that. Ranks of one machine share a
 * clock; those of several are brought together by their wall clocks, as right as those
 * are. */
double cadre_trace_origin(const double *clocks, int ranks, int self, double *unix_s);

/* [collective: world] Set the origin; of simulated ranks, whose clocks are one, it has
 * no date. Errors: the communicator's, CADRE_E_RESOURCE. */
cadre_status cadre_trace_record_origin(struct cadre_trace_record *record,
                                       struct cadre_rank *rank,
                                       struct cadre_error *err);

/* Microseconds since the origin, 0 before it. */
double cadre_trace_record_us(const struct cadre_trace_record *record, double s);

/* "embedding", "block 0", ..., "head" of a unit of the rank's model. Returns out. */
enum { CADRE_TRACE_NAME = 96 };
char *cadre_trace_unit_name(const struct cadre_rank *rank, uint32_t unit,
                            char out[CADRE_TRACE_NAME]);
/* "forward", "backward", "backward input", "backward weight". Static. */
const char *cadre_trace_pass_name(enum cadre_span_kind pass);
/* What a span is called: "forward of micro-batch 2", "forward of block 3", "wait dp",
 * "optimizer". Returns out. */
char *cadre_trace_span_name(const struct cadre_rank *rank,
                            const struct cadre_span *span, char out[CADRE_TRACE_NAME]);

/* Append a name as the inside of a JSON text; what would need an escape is replaced. */
void cadre_trace_put_name(struct cadre_text *out, const char *name);

#endif
