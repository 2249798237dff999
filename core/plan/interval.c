/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/interval.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"

static int by_off(const void *a, const void *b)
{
    const struct cadre_interval_row *x = a, *y = b;
    return (x->off > y->off) - (x->off < y->off);
}

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
    qsort(out->row, out->n, sizeof *out->row, by_off);
    return CADRE_OK;
}

void cadre_intervals_fini(struct cadre_intervals *intervals)
{
    free(intervals->row);
    cadre_csv_fini(&intervals->table);
    *intervals = (struct cadre_intervals){0};
}

/* Which errors are looked at. */
struct kind {
    bool any, gathered;
    const char *without;
};

static bool is_of(const struct cadre_interval_row *row, const struct kind *kind)
{
    return kind->any || (row->gathered == kind->gathered &&
                         !(kind->without && strcmp(row->set, kind->without) == 0));
}

static size_t count(const struct cadre_intervals *intervals, const struct kind *kind)
{
    size_t n = 0;
    for (size_t i = 0; i < intervals->n; i++)
        n += is_of(&intervals->row[i], kind);
    return n;
}

struct cadre_plan_interval cadre_interval_of(const struct cadre_intervals *intervals,
                                             double seconds, bool gathered,
                                             const char *without)
{
    struct kind kind = {.gathered = gathered, .without = without};
    if (!intervals || intervals->n == 0)
        return (struct cadre_plan_interval){seconds, seconds, 0};
    /* nothing is known of this kind: that of all */
    kind.any = count(intervals, &kind) == 0;
    const size_t n = count(intervals, &kind);
    const size_t place = (size_t)ceil(CADRE_INTERVAL_PART * (double)(n + 1));
    const size_t wanted = place < n ? place : n;
    size_t at = 0;
    for (size_t seen = 0; (seen += is_of(&intervals->row[at], &kind)) < wanted;)
        at++;
    const double most = intervals->row[at].off;
    return (struct cadre_plan_interval){seconds * exp(-most), seconds * exp(most), n};
}
