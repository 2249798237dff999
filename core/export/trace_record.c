/* SPDX-License-Identifier: Apache-2.0 */
#include "core/export/trace_record.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"

#define SAME_CLOCK_S 1e-3 /* wall clocks of one machine, read one after the other */

void cadre_trace_record_fini(struct cadre_trace_record *record)
{
    free(record->step);
    free(record->span);
    free(record->op);
    free(record->other);
    *record = (struct cadre_trace_record){0};
}

/* Append n elements of `size` bytes to *array, which holds *used of *room. */
static bool append(void **array, size_t *used, size_t *room, const void *from, size_t n,
                   size_t size)
{
    if (n > *room - *used) {
        size_t wanted = 2 * (*used + n);
        void *grown = cadre_realloc(*array, wanted, size);
        if (!grown)
            return false;
        *array = grown;
        *room = wanted;
    }
    if (n > 0)
        memcpy((char *)*array + *used * size, from, n * size);
    *used += n;
    return true;
}

void cadre_trace_record_step(struct cadre_trace_record *record,
                             const struct cadre_trace_step *step)
{
    void *array = record->step;
    record->failed |=
        !append(&array, &record->n_steps, &record->room_steps, step, 1, sizeof *step);
    record->step = array;
}

void cadre_trace_record_spans(struct cadre_trace_record *record,
                              const struct cadre_span *span, size_t n)
{
    void *array = record->span;
    record->failed |=
        !append(&array, &record->n_spans, &record->room_spans, span, n, sizeof *span);
    record->span = array;
}

void cadre_trace_record_ops(struct cadre_trace_record *record,
                            const struct cadre_trace_op *op, size_t n)
{
    void *array = record->op;
    record->failed |=
        !append(&array, &record->n_ops, &record->room_ops, op, n, sizeof *op);
    record->op = array;
}

void cadre_trace_record_other(struct cadre_trace_record *record,
                              const struct cadre_trace_other *other)
{
    void *array = record->other;
    record->failed |= !append(&array, &record->n_others, &record->room_others, other, 1,
                              sizeof *other);
    record->other = array;
}

/* ---- time ---- */

/* How far rank r's clock is behind rank 0's. */
static double behind(const double *clocks, int r)
{
    double s = clocks[2 * r + 1] - clocks[1];
    return fabs(s) < SAME_CLOCK_S ? 0 : s;
}

double cadre_trace_origin(const double *clocks, int ranks, int self, double *unix_s)
{
    double first = INFINITY;
    for (int r = 0; r < ranks; r++)
        first = fmin(first, clocks[2 * r] + behind(clocks, r));
    *unix_s = first + clocks[1];
    return first - behind(clocks, self);
}

cadre_status cadre_trace_record_origin(struct cadre_trace_record *record,
                                       struct cadre_rank *rank, struct cadre_error *err)
{
    int ranks = rank->mesh.ranks, self = rank->index;
    double *table = cadre_calloc(2 * (size_t)ranks, sizeof *table);
    if (!table)
        return cadre_no_memory(err, "a trace");
    table[2 * self] = record->n_steps ? record->step[0].begin : cadre_now_s();
    if (!record->simulated)
        table[2 * self + 1] = cadre_wall_clock_s() - cadre_now_s();
    cadre_status rc =
        cadre_rank_sum(rank, "begin of the trace", table, 2 * (uint64_t)ranks);
    record->origin_s = cadre_trace_origin(table, ranks, self, &record->origin_unix_s);
    free(table);
    if (rc != CADRE_OK)
        cadre_fail(err, rc, "the ranks could not agree on the begin of the trace: %s",
                   cadre_strerror(rc));
    return rc;
}

double cadre_trace_record_us(const struct cadre_trace_record *record, double s)
{
    return fmax(1e6 * (s - record->origin_s), 0);
}

/* ---- names ---- */

char *cadre_trace_unit_name(const struct cadre_rank *rank, uint32_t unit,
                            char out[CADRE_TRACE_NAME])
{
    if (unit == 0 || unit + 1 == rank->model->n_units)
        snprintf(out, CADRE_TRACE_NAME, "%s", unit == 0 ? "embedding" : "head");
    else
        snprintf(out, CADRE_TRACE_NAME, "block %u", unit - 1);
    return out;
}

const char *cadre_trace_pass_name(enum cadre_span_kind pass)
{
    static const char *const names[] = {"forward", "backward", "backward input",
                                        "backward weight"};
    return pass < CADRE_SPAN_PASSES ? names[pass] : "?";
}

char *cadre_trace_span_name(const struct cadre_rank *rank,
                            const struct cadre_span *span, char out[CADRE_TRACE_NAME])
{
    char unit[CADRE_TRACE_NAME];
    if (span->kind == CADRE_SPAN_UNIT)
        snprintf(out, CADRE_TRACE_NAME, "%s of %.32s",
                 cadre_trace_pass_name(span->pass),
                 cadre_trace_unit_name(rank, span->unit, unit));
    else if (span->kind == CADRE_SPAN_WAIT)
        snprintf(out, CADRE_TRACE_NAME, "wait %.80s", span->name);
    else if (span->kind == CADRE_SPAN_WORK)
        snprintf(out, CADRE_TRACE_NAME, "%.80s", span->name);
    else if (rank->plan.n_chunks > 1)
        snprintf(out, CADRE_TRACE_NAME, "%s of micro-batch %u, chunk %u",
                 cadre_trace_pass_name(span->kind), span->microbatch, span->chunk);
    else
        snprintf(out, CADRE_TRACE_NAME, "%s of micro-batch %u",
                 cadre_trace_pass_name(span->kind), span->microbatch);
    return out;
}

void cadre_trace_put_name(struct cadre_text *out, const char *name)
{
    for (; *name; name++) {
        bool plain = (unsigned char)*name >= 0x20 && (unsigned char)*name < 0x7f &&
                     *name != '"' && *name != '\\';
        cadre_text_append(out, plain ? name : "?", 1);
    }
}
