/* SPDX-License-Identifier: Apache-2.0 */
/* A trace of every rank (log.trace): a few steps after warm-up (log.trace_steps), with
 * the evaluations and checkpoints between them, kept in memory and written by rank 0
 * before the second step after them, or at the end. In other steps nothing is recorded
 * inside of passes and no communicator is observed. log.trace_format says which file:
 * trace.json (perfetto.h) or trace/rank-N.json (kineto.h).
 *
 *     struct cadre_trace trace;
 *     cadre_trace_init(&trace, rank, spec, first_step, last_step);
 *     CADRE_TRY(cadre_trace_begin(&trace, step, &err));
 *     ... the step ...
 *     cadre_trace_step(&trace, step, begin, &report);
 *     CADRE_TRY(cadre_trace_write(&trace, &err)); */
#ifndef CADRE_EXPORT_TRACE_H
#define CADRE_EXPORT_TRACE_H

#include <pthread.h>

#include "core/export/trace_record.h"
#include "core/run/spec.h"

struct cadre_trace {
    struct cadre_rank *rank;
    const struct cadre_spec *spec;
    const char *dir, *name; /* of trace.json; NULL: spec->out, that name. The caller's,
                               who may set them, as record.simulated */
    bool on, written;
    int64_t first, last; /* recorded steps */
    struct cadre_trace_record record;
    pthread_mutex_t lock; /* of the fields below, which communicator threads write */
    struct cadre_trace_op *done; /* operations of this step; NULL: not observed */
    size_t n_done;
    uint64_t n_lost; /* operations that did not fit into `done` */
};

/* With log.trace = no, only switches off. first_step: steps done before; last_step: the
 * one that the run ends with. The trace must not move until fini, which comes before
 * the rank's. */
void cadre_trace_init(struct cadre_trace *trace, struct cadre_rank *rank,
                      const struct cadre_spec *spec, int64_t first_step,
                      int64_t last_step);
void cadre_trace_fini(struct cadre_trace *trace);

/* [collective: world] Call before step `step`: switches recording on or off for it, and
 * writes the files where all is recorded. Errors: as cadre_trace_write. */
cadre_status cadre_trace_begin(struct cadre_trace *trace, int64_t step,
                               struct cadre_error *err);

/* Record the step that began at `begin` and has just ended. The report is of it, or of
 * a step before; its step is 0 where there is none. */
void cadre_trace_step(struct cadre_trace *trace, int64_t step, double begin,
                      const struct cadre_step_report *report);

/* Record something between steps, such as an evaluation, that began at `begin` and has
 * just ended. `name` is static. */
void cadre_trace_other(struct cadre_trace *trace, int64_t step, const char *name,
                       double begin);

/* [collective: world] Write the files, where tracing is on and they are not written
 * yet. Errors: those of cadre_gather_each; CADRE_E_IO on rank 0. */
cadre_status cadre_trace_write(struct cadre_trace *trace, struct cadre_error *err);

#endif
