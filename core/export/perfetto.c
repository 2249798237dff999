/* SPDX-License-Identifier: Apache-2.0 */
#include "core/export/perfetto.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "core/run/gather.h"

/* Up to its arguments, which the caller ends with "}}". */
static void open_event(const struct cadre_trace_record *record, struct cadre_text *out,
                       const char *name, const char *kind, double begin, double end)
{
    double from = cadre_trace_record_us(record, begin);
    cadre_text_printf(out, ",\n{\"name\":\"");
    cadre_trace_put_name(out, name);
    cadre_text_printf(out,
                      "\",\"cat\":\"%s\",\"ph\":\"X\",\"ts\":%.3f,"
                      "\"dur\":%.3f,\"pid\":0,\"tid\":%d,\"args\":{",
                      kind, from, cadre_trace_record_us(record, end) - from,
                      record->rank->index);
}

static void put_span(const struct cadre_trace_record *record, struct cadre_text *out,
                     int64_t step, const struct cadre_span *span)
{
    char name[CADRE_TRACE_NAME], unit[CADRE_TRACE_NAME];
    const char *kind = span->kind == CADRE_SPAN_UNIT   ? "unit"
                       : span->kind == CADRE_SPAN_WAIT ? "wait"
                       : span->kind == CADRE_SPAN_WORK ? "core"
                                                       : "pass";
    open_event(record, out, cadre_trace_span_name(record->rank, span, name), kind,
               span->begin, span->end);
    if (span->kind < CADRE_SPAN_PASSES)
        cadre_text_printf(out, "\"pass\":\"%s\",\"chunk\":%u,\"microbatch\":%u,",
                          cadre_trace_pass_name(span->kind), span->chunk,
                          span->microbatch);
    else if (span->kind == CADRE_SPAN_UNIT)
        cadre_text_printf(out, "\"pass\":\"%s\",\"unit\":\"%s\",\"microbatch\":%u,",
                          cadre_trace_pass_name(span->pass),
                          cadre_trace_unit_name(record->rank, span->unit, unit),
                          span->microbatch);
    cadre_text_printf(out, "\"step\":%" PRId64 "}}", step);
}

/* An async begin and end: operations may overlap, so they are no slices of the row. */
static void put_op(const struct cadre_trace_record *record, struct cadre_text *out,
                   int64_t step, size_t number)
{
    const struct cadre_trace_op *op = &record->op[number];
    int rank = record->rank->index;
    for (int end = 0; end < 2; end++) {
        cadre_text_printf(out, ",\n{\"name\":\"%s ", op->kind);
        cadre_trace_put_name(out, op->label);
        cadre_text_printf(
            out,
            "\",\"cat\":\"comm\",\"ph\":\"%s\",\"id\":\"%d.%zu"
            "\",\"ts\":%.3f,\"pid\":0,\"tid\":%d,\"args\":{\"rank\":%d,"
            "\"bytes\":%" PRIu64 ",\"queued_us\":%.3f,\"step\":%" PRId64 "}}",
            end ? "e" : "b", rank, number,
            cadre_trace_record_us(record, end ? op->ended_s : op->posted_s), rank, rank,
            op->bytes, 1e6 * (op->began_s - op->posted_s), step);
    }
}

/* A value that is not known has no point. */
static void put_counter(const struct cadre_trace_record *record, struct cadre_text *out,
                        double s, const char *name, const char *unit, double value)
{
    if (isfinite(value))
        cadre_text_printf(out,
                          ",\n{\"name\":\"%s\",\"cat\":\"counter\",\"ph\":\"C\","
                          "\"ts\":%.3f,\"pid\":0,\"args\":{\"%s\":%.17g}}",
                          name, cadre_trace_record_us(record, s), unit, value);
}

static void put_counters(const struct cadre_trace_record *record,
                         struct cadre_text *out, const struct cadre_trace_step *step)
{
    const struct cadre_run_spec *spec = record->rank->spec;
    char name[48];
    snprintf(name, sizeof name, "memory of rank %d", record->rank->index);
    put_counter(record, out, step->end, name, "bytes", (double)step->ledger_bytes);
    snprintf(name, sizeof name, "resident memory of rank %d's process",
             record->rank->index);
    if (step->resident_bytes > 0) /* else the system does not tell */
        put_counter(record, out, step->end, name, "bytes",
                    (double)step->resident_bytes);
    if (record->rank->index > 0)
        return;
    put_counter(record, out, step->end, "loss", "nats", step->loss);
    put_counter(record, out, step->end, "tokens/s", "tokens/s",
                (double)(spec->global_batch * spec->time) / step->step_s);
}

static void put_step(const struct cadre_trace_record *record, struct cadre_text *out,
                     const struct cadre_trace_step *step)
{
    open_event(record, out, "step", "step", step->begin, step->end);
    cadre_text_printf(out,
                      "\"step\":%" PRId64 ",\"spans_lost\":%" PRIu64
                      ",\"operations_lost\":%" PRIu64 "}}",
                      step->step, step->spans_lost, step->ops_lost);
    for (size_t i = 0; i < step->n_spans; i++)
        put_span(record, out, step->step, &record->span[step->span + i]);
    for (size_t i = 0; i < step->n_ops; i++)
        put_op(record, out, step->step, step->op + i);
    put_counters(record, out, step);
}

/* The rank's row: its number and its mesh coordinates. */
static void put_row(const struct cadre_rank *rank, struct cadre_text *out)
{
    const struct cadre_mesh *mesh = &rank->mesh;
    cadre_text_printf(out,
                      "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":0,\"tid\":%d,"
                      "\"args\":{\"name\":\"rank %d",
                      rank->index, rank->index);
    for (int a = 0; a < mesh->n; a++) {
        cadre_text_printf(out, a ? ", " : ": ");
        cadre_trace_put_name(out, mesh->axis[a].name);
        cadre_text_printf(out, " %d", mesh->axis[a].index);
    }
    cadre_text_printf(out,
                      "\"}},\n{\"name\":\"thread_sort_index\",\"ph\":\"M\",\"pid\":0,"
                      "\"tid\":%d,\"args\":{\"sort_index\":%d}}",
                      rank->index, rank->index);
}

cadre_status cadre_perfetto_write(const struct cadre_trace_record *record,
                                  struct cadre_rank *rank, const char *dir,
                                  const char *name, struct cadre_error *err)
{
    struct cadre_text mine = {0};
    char head[256];
    snprintf(head, sizeof head,
             "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"format\":1,%s"
             "\"begin_unix_s\":%.6f},\"traceEvents\":[\n"
             "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":0,\"tid\":0,"
             "\"args\":{\"name\":\"cadre%s\"}},\n",
             record->simulated ? "\"simulated\":true," : "", record->origin_unix_s,
             record->simulated ? ", simulated: nothing was measured" : "");
    const char *const around[2] = {head, "\n]}\n"};
    put_row(rank, &mine);
    for (size_t i = 0; i < record->n_steps; i++)
        put_step(record, &mine, &record->step[i]);
    for (size_t i = 0; i < record->n_others; i++) {
        const struct cadre_trace_other *other = &record->other[i];
        open_event(record, &mine, other->name, "core", other->begin, other->end);
        cadre_text_printf(&mine, "\"step\":%" PRId64 "}}", other->step);
    }
    cadre_status rc = cadre_gather_file(rank, &mine, dir, name, around, err);
    cadre_text_fini(&mine);
    return rc;
}
