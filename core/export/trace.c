/* SPDX-License-Identifier: Apache-2.0 */
#include "core/export/trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/export/kineto.h"
#include "core/export/perfetto.h"

enum { MOST_DONE = 16384 }; /* operations of a step */

/* ---- communicators ---- */

/* [threads of communicators] */
static void note_done(void *arg, const struct cadre_comm_done *done)
{
    struct cadre_trace *trace = arg;
    pthread_mutex_lock(&trace->lock);
    if (trace->n_done < MOST_DONE) {
        struct cadre_trace_op *op = &trace->done[trace->n_done++];
        *op = (struct cadre_trace_op){
            .comm = done->comm,
            .kind = done->kind,
            .posted_s = done->posted_s,
            .began_s = done->began_s,
            .ended_s = done->ended_s,
            .bytes = done->bytes,
            .in_count = done->in_count,
            .out_count = done->out_count,
            .sequence = done->sequence,
            .dtype = done->dtype,
        };
        snprintf(op->label, sizeof op->label, "%s", done->label);
    } else {
        trace->n_lost++;
    }
    pthread_mutex_unlock(&trace->lock);
}

/* Without memory the trace has no operations; that is no error. */
static void observe(struct cadre_trace *trace)
{
    if (trace->done || !trace->rank->world)
        return;
    trace->done = cadre_calloc(MOST_DONE, sizeof *trace->done);
    if (trace->done)
        cadre_comm_observe(trace->rank->world, note_done, trace);
}

static void stop_observing(struct cadre_trace *trace)
{
    if (!trace->done)
        return;
    cadre_comm_observe(trace->rank->world, NULL, NULL);
    free(trace->done);
    trace->done = NULL;
}

/* ---- recording ---- */

void cadre_trace_init(struct cadre_trace *trace, struct cadre_rank *rank,
                      const struct cadre_spec *spec, int64_t first_step,
                      int64_t last_step)
{
    int64_t steps = spec->config.log.trace_steps;
    int64_t first = first_step + spec->config.compare.warmup + 1;
    if (first > last_step - steps + 1) /* a short run: its last steps */
        first = last_step - steps + 1;
    *trace = (struct cadre_trace){
        .rank = rank,
        .spec = spec,
        .on = spec->config.log.trace,
        .first = first,
        .last = first + steps - 1,
        .record = {.rank = rank},
    };
    pthread_mutex_init(&trace->lock, NULL);
}

void cadre_trace_fini(struct cadre_trace *trace)
{
    stop_observing(trace);
    cadre_trace_record_fini(&trace->record);
    pthread_mutex_destroy(&trace->lock);
}

static bool wanted(const struct cadre_trace *trace, int64_t step)
{
    return trace->on && step >= trace->first && step <= trace->last;
}

cadre_status cadre_trace_begin(struct cadre_trace *trace, int64_t step,
                               struct cadre_error *err)
{
    struct cadre_rank *rank = trace->rank;
    bool on = wanted(trace, step);
    if (on != rank->timeline.detail) /* each pass has its units, and some waits */
        cadre_timeline_detail(&rank->timeline, on,
                              rank->timeline.room_best * (rank->model->n_units + 4));
    if (on)
        observe(trace);
    else
        stop_observing(trace);
    /* the report of a step may come with the next one */
    return trace->on && step == trace->last + 2 ? cadre_trace_write(trace, err)
                                                : CADRE_OK;
}

/* The report of a step that was recorded before, or is the last one. */
static void take_report(struct cadre_trace *trace,
                        const struct cadre_step_report *report)
{
    struct cadre_trace_record *record = &trace->record;
    for (size_t i = record->n_steps; i-- > 0;) {
        struct cadre_trace_step *step = &record->step[i];
        if (step->step != (int64_t)report->step)
            continue;
        step->loss = record->simulated ? (double)NAN : report->loss;
        step->step_s = report->times.step_s;
        step->comm_s = report->times.comm_s;
        step->comm_exposed_s = report->times.comm_exposed_s;
        return;
    }
}

/* Move the operations that are done to the record. Those that ended after the previous
 * step belong to this one. */
static void take_done(struct cadre_trace *trace, struct cadre_trace_step *step)
{
    pthread_mutex_lock(&trace->lock);
    step->op = trace->record.n_ops;
    step->n_ops = trace->n_done;
    step->ops_lost = trace->n_lost;
    cadre_trace_record_ops(&trace->record, trace->done, trace->n_done);
    trace->n_done = 0;
    trace->n_lost = 0;
    pthread_mutex_unlock(&trace->lock);
}

void cadre_trace_step(struct cadre_trace *trace, int64_t step, double begin,
                      const struct cadre_step_report *report)
{
    struct cadre_rank *rank = trace->rank;
    const struct cadre_timeline *timeline = &rank->timeline;
    struct cadre_trace_record *record = &trace->record;
    if (wanted(trace, step)) {
        struct cadre_trace_step made = {
            .step = step,
            .begin = begin,
            .end = cadre_now_s(),
            .loss = NAN,
            .step_s = NAN,
            .comm_s = NAN,
            .comm_exposed_s = NAN,
            .ledger_bytes = rank->ledger.now_bytes,
            .span = record->n_spans,
            .n_spans = timeline->n,
            .spans_lost = timeline->lost,
        };
        if (!record->simulated)
            cadre_memory_resident(&made.resident_bytes, NULL);
        cadre_trace_record_spans(record, timeline->span, timeline->n);
        take_done(trace, &made);
        if (!record->failed)
            cadre_trace_record_step(record, &made);
    }
    if (trace->on && !trace->written)
        take_report(trace, report);
}

void cadre_trace_other(struct cadre_trace *trace, int64_t step, const char *name,
                       double begin)
{
    const struct cadre_trace_other other = {name, step, begin, cadre_now_s()};
    if (wanted(trace, step))
        cadre_trace_record_other(&trace->record, &other);
}

/* ---- the files ---- */

cadre_status cadre_trace_write(struct cadre_trace *trace, struct cadre_error *err)
{
    const struct cadre_spec *spec = trace->spec;
    if (!trace->on || trace->written)
        return CADRE_OK;
    trace->written = true;
    stop_observing(trace);
    if (trace->record.failed)
        return cadre_no_memory(err, "the trace; lower log.trace_steps");
    CADRE_TRY(cadre_trace_record_origin(&trace->record, trace->rank, err));
    cadre_status rc =
        spec->config.log.trace_format == CADRE_CONFIG_KINETO
            ? cadre_kineto_write(&trace->record, trace->rank, spec->out, err)
            : cadre_perfetto_write(&trace->record, trace->rank,
                                   trace->dir ? trace->dir : spec->out,
                                   trace->name ? trace->name : "trace.json", err);
    cadre_trace_record_fini(&trace->record);
    return rc;
}
