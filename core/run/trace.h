/* SPDX-License-Identifier: Apache-2.0 */
/* trace.json: a timeline of every rank, for Perfetto or chrome://tracing (Trace
 * Event Format). One process is the run, one row a rank. A few steps after warm-up are
 * kept (log.trace_steps), in memory until the run ends, with the evaluations and
 * checkpoints between them. Operations of the communicators are async events next to
 * the row, each from its posting to its completion.
 *
 *     struct cadre_trace trace;
 *     cadre_trace_init(&trace, rank, spec, first_step, last_step);
 *     cadre_trace_begin(&trace, step);
 *     ... the step ...
 *     cadre_trace_step(&trace, step, begin);
 *     CADRE_TRY(cadre_trace_write(&trace, &err)); */
#ifndef CADRE_RUN_TRACE_H
#define CADRE_RUN_TRACE_H

#include <pthread.h>

#include "core/base/memory.h"
#include "core/run/spec.h"

struct cadre_trace {
    struct cadre_rank *rank;
    const struct cadre_spec *spec;
    bool on;
    int64_t first, last; /* recorded steps */
    struct cadre_text text; /* events so far, ",\n" between them */
    pthread_mutex_t lock; /* of the fields below, which communicator threads write */
    struct cadre_comm_done *done; /* operations of this step; NULL: not observed */
    size_t n_done;
    uint64_t n_lost; /* operations that did not fit into `done` */
    uint64_t n_written; /* operations in the text */
};

/* With log.trace = no, only switches off. first_step: steps done before; last_step: the
 * one that the run ends with. The trace must not move until fini, which comes before
 * the rank's. */
void cadre_trace_init(struct cadre_trace *trace, struct cadre_rank *rank,
                      const struct cadre_spec *spec, int64_t first_step,
                      int64_t last_step);
void cadre_trace_fini(struct cadre_trace *trace);

/* Call before step `step`: switches recording on or off for it. */
void cadre_trace_begin(struct cadre_trace *trace, int64_t step);

/* Record the step that began at `begin` and has just ended. */
void cadre_trace_step(struct cadre_trace *trace, int64_t step, double begin);

/* Record something between steps, such as an evaluation, that began at `begin` and has
 * just ended. */
void cadre_trace_other(struct cadre_trace *trace, int64_t step, const char *name,
                       double begin);

/* [collective: world] Write DIR/trace.json, where tracing is on. Errors: those of
 * cadre_gather_file. */
cadre_status cadre_trace_write(struct cadre_trace *trace, struct cadre_error *err);

#endif
