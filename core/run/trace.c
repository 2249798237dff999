/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/trace.h"

#include <inttypes.h>
#include <stdlib.h>

#include "core/base/clock.h"
#include "core/run/gather.h"

enum { MOST_DONE = 16384 }; /* operations of a step */

/* [threads of communicators] */
static void note_done(void *arg, const struct cadre_comm_done *done)
{
    struct cadre_trace *trace = arg;
    pthread_mutex_lock(&trace->lock);
    if (trace->n_done < MOST_DONE)
        trace->done[trace->n_done++] = *done;
    else
        trace->n_lost++;
    pthread_mutex_unlock(&trace->lock);
}

/* Without memory the trace has no operations; that is no error. */
static void observe(struct cadre_trace *trace)
{
    if (!trace->on || !trace->rank->world)
        return;
    trace->done = cadre_calloc(MOST_DONE, sizeof *trace->done);
    if (trace->done)
        cadre_comm_observe(trace->rank->world, note_done, trace);
}

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
    };
    pthread_mutex_init(&trace->lock, NULL);
    observe(trace);
}

void cadre_trace_fini(struct cadre_trace *trace)
{
    if (trace->done)
        cadre_comm_observe(trace->rank->world, NULL, NULL);
    pthread_mutex_destroy(&trace->lock);
    free(trace->done);
    cadre_text_fini(&trace->text);
}

static bool wanted(const struct cadre_trace *trace, int64_t step)
{
    return trace->on && step >= trace->first && step <= trace->last;
}

void cadre_trace_begin(struct cadre_trace *trace, int64_t step)
{
    trace->rank->timeline.detail = wanted(trace, step);
    if (wanted(trace, step) && step > trace->first)
        return; /* operations that ended after the previous step belong to this one */
    pthread_mutex_lock(&trace->lock);
    trace->n_done = 0;
    trace->n_lost = 0;
    pthread_mutex_unlock(&trace->lock);
}

/* A name as the inside of a JSON text; what would need an escape is replaced. */
static void put_name(struct cadre_text *out, const char *name)
{
    for (; *name; name++) {
        bool plain = (unsigned char)*name >= 0x20 && (unsigned char)*name < 0x7f &&
                     *name != '"' && *name != '\\';
        cadre_text_append(out, plain ? name : "?", 1);
    }
}

/* Up to its arguments, which the caller ends with "}}". Times are microseconds. */
static void open_event(struct cadre_trace *trace, const char *name, const char *kind,
                       double begin, double end)
{
    cadre_text_printf(&trace->text, "%s{\"name\":\"", trace->text.len ? ",\n" : "");
    put_name(&trace->text, name);
    cadre_text_printf(&trace->text,
                      "\",\"cat\":\"%s\",\"ph\":\"X\",\"ts\":%.3f,"
                      "\"dur\":%.3f,\"pid\":0,\"tid\":%d,\"args\":{",
                      kind, 1e6 * begin, 1e6 * (end - begin), trace->rank->index);
}

static void put_span(struct cadre_trace *trace, int64_t step,
                     const struct cadre_span *span)
{
    static const char *const passes[] = {"forward", "backward", "backward input",
                                         "backward weight"};
    char name[64];
    if (span->kind < CADRE_SPAN_PASSES) {
        open_event(trace, passes[span->kind], "pass", span->begin, span->end);
        cadre_text_printf(&trace->text, "\"chunk\":%u,\"microbatch\":%u,", span->chunk,
                          span->microbatch);
    } else {
        bool wait = span->kind == CADRE_SPAN_WAIT;
        snprintf(name, sizeof name, "%s%s", wait ? "wait " : "", span->name);
        open_event(trace, name, wait ? "wait" : "core", span->begin, span->end);
    }
    cadre_text_printf(&trace->text, "\"step\":%" PRId64 "}}", step);
}

/* An async begin and end: operations may overlap, so they are no slices of the row. */
static void put_done(struct cadre_trace *trace, int64_t step,
                     const struct cadre_comm_done *done)
{
    int rank = trace->rank->index;
    for (int end = 0; end < 2; end++) {
        cadre_text_printf(&trace->text, ",\n{\"name\":\"%s ", done->kind);
        put_name(&trace->text, done->label);
        cadre_text_printf(&trace->text,
                          "\",\"cat\":\"comm\",\"ph\":\"%s\",\"id\":\"%d.%" PRIu64
                          "\",\"ts\":%.3f,\"pid\":0,\"tid\":%d,\"args\":{\"rank\":%d,"
                          "\"bytes\":%" PRIu64 ",\"step\":%" PRId64 "}}",
                          end ? "e" : "b", rank, trace->n_written,
                          1e6 * (end ? done->ended_s : done->posted_s), rank, rank,
                          done->bytes, step);
    }
    trace->n_written++;
}

void cadre_trace_step(struct cadre_trace *trace, int64_t step, double begin)
{
    const struct cadre_timeline *timeline = &trace->rank->timeline;
    if (!wanted(trace, step))
        return;
    open_event(trace, "step", "step", begin, cadre_now_s());
    pthread_mutex_lock(&trace->lock);
    cadre_text_printf(&trace->text,
                      "\"step\":%" PRId64 ",\"spans_lost\":%" PRIu64
                      ",\"operations_lost\":%" PRIu64 "}}",
                      step, timeline->lost, trace->n_lost);
    for (size_t i = 0; i < timeline->n; i++)
        put_span(trace, step, &timeline->span[i]);
    for (size_t i = 0; i < trace->n_done; i++)
        put_done(trace, step, &trace->done[i]);
    trace->n_done = 0;
    trace->n_lost = 0;
    pthread_mutex_unlock(&trace->lock);
}

void cadre_trace_other(struct cadre_trace *trace, int64_t step, const char *name,
                       double begin)
{
    if (!wanted(trace, step))
        return;
    open_event(trace, name, "core", begin, cadre_now_s());
    cadre_text_printf(&trace->text, "\"step\":%" PRId64 "}}", step);
}

/* The rank's row: its number and its mesh coordinates. */
static void put_row(const struct cadre_trace *trace, struct cadre_text *out)
{
    const struct cadre_mesh *mesh = &trace->rank->mesh;
    int rank = trace->rank->index;
    cadre_text_printf(out,
                      "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":0,\"tid\":%d,"
                      "\"args\":{\"name\":\"rank %d",
                      rank, rank);
    for (int a = 0; a < mesh->n; a++) {
        cadre_text_printf(out, a ? ", " : ": ");
        put_name(out, mesh->axis[a].name);
        cadre_text_printf(out, " %d", mesh->axis[a].index);
    }
    cadre_text_printf(out,
                      "\"}},\n{\"name\":\"thread_sort_index\",\"ph\":\"M\",\"pid\":0,"
                      "\"tid\":%d,\"args\":{\"sort_index\":%d}}",
                      rank, rank);
    if (trace->text.len)
        cadre_text_printf(out, ",\n");
    cadre_text_append(out, cadre_text_str(&trace->text), trace->text.len);
    out->failed = out->failed || trace->text.failed;
}

cadre_status cadre_trace_write(struct cadre_trace *trace, struct cadre_error *err)
{
    static const char *const around[2] = {
        "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
        "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":0,\"tid\":0,"
        "\"args\":{\"name\":\"cadre\"}},\n",
        "\n]}\n",
    };
    struct cadre_text mine = {0};
    if (!trace->on)
        return CADRE_OK;
    put_row(trace, &mine);
    cadre_status rc = cadre_gather_file(trace->rank, &mine, trace->spec->out,
                                        "trace.json", around, err);
    cadre_text_fini(&mine);
    return rc;
}
