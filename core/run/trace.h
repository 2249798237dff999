/* SPDX-License-Identifier: Apache-2.0 */
/* trace.json: what every rank did and when, for Perfetto or chrome://tracing (Trace
 * Event Format). One process is the run, one row a rank. A few steps after warm-up are
 * kept (log.trace_steps), in memory until the run ends, with the evaluations and
 * checkpoints that fall among them. Operations of the communicators stand beside the
 * row, each from when it was posted to when it was done.
 *
 *     struct cadre_trace trace;
 *     cadre_trace_init(&trace, rank, spec, first_step);
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
    int64_t first, last; /* steps that are kept */
    struct cadre_text text; /* events so far, ",\n" between them */
    pthread_mutex_t lock; /* what follows, which threads of communicators write */
    struct cadre_comm_done *done; /* operations of this step; NULL: not observed */
    size_t n_done;
    uint64_t n_lost; /* that found no room */
    uint64_t n_written; /* operations in the text */
};

/* Does nothing more than switch off where log.trace = no. first_step: done before. The
 * trace must not move until fini, which comes before the rank's. */
void cadre_trace_init(struct cadre_trace *trace, struct cadre_rank *rank,
                      const struct cadre_spec *spec, int64_t first_step);
void cadre_trace_fini(struct cadre_trace *trace);

/* Step `step` is about to begin: its details are wanted, or not. */
void cadre_trace_begin(struct cadre_trace *trace, int64_t step);

/* Keep the step that began at `begin` and has just ended. */
void cadre_trace_step(struct cadre_trace *trace, int64_t step, double begin);

/* Keep something between steps, such as an evaluation, that began at `begin` and has
 * just ended. */
void cadre_trace_other(struct cadre_trace *trace, int64_t step, const char *name,
                       double begin);

/* [collective: world] Write DIR/trace.json, where tracing is on. Errors: those of
 * cadre_gather_file. */
cadre_status cadre_trace_write(struct cadre_trace *trace, struct cadre_error *err);

#endif
