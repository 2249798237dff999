/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/interval.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/median.h"
#include "core/base/memory.h"

static cadre_status take(struct cadre_intervals *out, const char *path, size_t at,
                         const int column[3], struct cadre_error *err)
{
    const char *kind = cadre_csv_at(&out->table, at, column[1]);
    const char *text = cadre_csv_at(&out->table, at, column[2]);
    char *end;
    const double error = strtod(text, &end);
    if (end == text || *end || !isfinite(error) || error <= -1)
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s:%d: error is '%s', expected a number above -1", path,
                          out->table.line[at + 1], text);
    if (strcmp(kind, "gathered") != 0 && strcmp(kind, "other") != 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s:%d: kind is '%s', expected gathered or other", path,
                          out->table.line[at + 1], kind);
    out->row[out->n++] = (struct cadre_interval_row){
        .set = cadre_csv_at(&out->table, at, column[0]),
        .gathered = strcmp(kind, "gathered") == 0,
        .off = fabs(log1p(error)),
    };
    return CADRE_OK;
}

cadre_status cadre_intervals_load(struct cadre_intervals *out, const char *path,
                                  struct cadre_error *err)
{
    static const char *const names[] = {"set", "kind", "error"};
    int column[3];
    CADRE_TRY(cadre_csv_load(&out->table, path, '\t', err));
    for (int i = 0; i < 3; i++) {
        column[i] = cadre_csv_column(&out->table, names[i]);
        if (column[i] < 0)
            return cadre_fail(err, CADRE_E_INVALID, "%s: has no column '%s'", path,
                              names[i]);
    }
    out->row = cadre_calloc(out->table.rows + 1, sizeof *out->row);
    if (!out->row)
        return cadre_no_memory(err, "the errors");
    for (size_t i = 0; i < out->table.rows; i++)
        CADRE_TRY(take(out, path, i, column, err));
    return CADRE_OK;
}

void cadre_intervals_fini(struct cadre_intervals *intervals)
{
    free(intervals->row);
    cadre_csv_fini(&intervals->table);
    *intervals = (struct cadre_intervals){0};
}

/* Errors of one kind: room for as many as there are rows. */
static size_t gather(const struct cadre_intervals *intervals, bool gathered,
                     const char *without, double *out)
{
    size_t n = 0;
    for (size_t i = 0; i < intervals->n; i++) {
        const struct cadre_interval_row *row = &intervals->row[i];
        if (row->gathered == gathered && !(without && strcmp(row->set, without) == 0))
            out[n++] = row->off;
    }
    return n;
}

struct cadre_plan_interval cadre_interval_of(const struct cadre_intervals *intervals,
                                             double seconds, bool gathered,
                                             const char *without)
{
    struct cadre_plan_interval none = {seconds, seconds, 0};
    double *off =
        intervals && intervals->n ? cadre_calloc(intervals->n, sizeof *off) : NULL;
    if (!off)
        return none;
    size_t n = gather(intervals, gathered, without, off);
    if (n == 0) /* nothing is known of this kind: that of all */
        for (n = 0; n < intervals->n; n++)
            off[n] = intervals->row[n].off;
    cadre_sort(off, n);
    const size_t place = (size_t)ceil(CADRE_INTERVAL_PART * (double)(n + 1));
    const double most = off[(place < n ? place : n) - 1];
    free(off);
    return (struct cadre_plan_interval){seconds * exp(-most), seconds * exp(most), n};
}
