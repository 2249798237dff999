/* SPDX-License-Identifier: Apache-2.0 */
#include "core/report/where_charts.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/page/chart.h"
#include "core/page/page.h"
#include "core/run/format.h"

/* Rows of a chart, with room for their values and labels. */
struct rows {
    struct cadre_chart_stack_row *row;
    double *value; /* (n, kinds) */
    char (*label)[64];
};

static bool make_rows(struct rows *rows, const struct cadre_where_run *run, size_t n,
                      size_t kinds)
{
    rows->row = cadre_calloc(n, sizeof *rows->row);
    rows->value = cadre_calloc(n * kinds, sizeof *rows->value);
    rows->label = cadre_calloc(n, sizeof *rows->label);
    for (size_t i = 0; rows->row && rows->label && i < n; i++)
        rows->row[i] = (struct cadre_chart_stack_row){.name = run[i].name,
                                                      .label = rows->label[i]};
    return rows->row && rows->value && rows->label;
}

static void free_rows(struct rows *rows)
{
    free(rows->row);
    free(rows->value);
    free(rows->label);
}

/* ---- the parts of a step ---- */

enum { MOST_KINDS = CADRE_PARTS + CADRE_STEP_AXES + 1 };

/* Kinds of all runs, in the order in which they are stacked. */
struct step_kinds {
    struct cadre_axis_times axes; /* of any run */
    struct cadre_chart_kind kind[MOST_KINDS];
    char name[CADRE_STEP_AXES][CADRE_AXIS_CHARS + 16];
    size_t n;
};

static void add_kind(struct step_kinds *kinds, const char *name, int style)
{
    kinds->kind[kinds->n++] = (struct cadre_chart_kind){name, style};
}

/* Compute first, then what is not overlapped with it; what is left comes last. */
static void name_kinds(struct step_kinds *kinds)
{
    static const int styles[] = {1, 3, 7, 9, 13, 15, 19, 21};
    enum { STYLES_OF_AXES = sizeof styles / sizeof styles[0] };
    add_kind(kinds, "compute", 0);
    for (int a = 0; a < kinds->axes.n; a++) {
        char axis[CADRE_AXIS_CHARS];
        memcpy(axis, kinds->axes.of[a].axis, sizeof axis);
        snprintf(kinds->name[a], sizeof kinds->name[a], "exposed: %s", axis);
        add_kind(kinds, kinds->name[a], styles[a % STYLES_OF_AXES]);
    }
    add_kind(kinds, "wait for ranks", 4);
    add_kind(kinds, "bubble", CADRE_CHART_HOLLOW);
    add_kind(kinds, "data", 2);
    add_kind(kinds, "optimizer", 5);
    add_kind(kinds, "other", CADRE_CHART_GREY);
}

static void fill_values(const struct step_kinds *kinds,
                        const struct cadre_step_parts *parts, double step_s,
                        double *value)
{
    size_t k = 0;
    value[k++] = parts->part[CADRE_PART_COMPUTE];
    for (int a = 0; a < kinds->axes.n; a++, k++)
        for (int i = 0; i < parts->exposed.n; i++)
            if (strcmp(parts->exposed.of[i].axis, kinds->axes.of[a].axis) == 0)
                value[k] = parts->exposed.of[i].s;
    value[k++] = parts->part[CADRE_PART_RANKS];
    value[k++] = parts->part[CADRE_PART_BUBBLE];
    value[k++] = parts->part[CADRE_PART_DATA];
    value[k++] = parts->part[CADRE_PART_OPTIMIZER];
    value[k] = fmax(step_s - cadre_step_parts_sum(parts), 0);
}

/* The axes of all runs, but the world, or the world alone: it comes after them. */
static void add_axes(struct cadre_axis_times *axes, const struct cadre_where_run *run,
                     size_t n, bool world)
{
    for (size_t i = 0; i < n; i++)
        for (int a = 0; a < run[i].parts.exposed.n; a++)
            if ((strcmp(run[i].parts.exposed.of[a].axis, "world") == 0) == world)
                cadre_axis_times_add(axes, run[i].parts.exposed.of[a].axis, 0);
}

bool cadre_where_step(struct cadre_text *out, const struct cadre_where_run *run,
                      size_t n)
{
    struct step_kinds kinds = {0};
    struct rows rows = {0};
    bool any = false;
    for (size_t i = 0; i < n; i++)
        any = any || run[i].parts.known;
    if (!any)
        return false;
    add_axes(&kinds.axes, run, n, false);
    add_axes(&kinds.axes, run, n, true);
    name_kinds(&kinds);
    const bool good = make_rows(&rows, run, n, kinds.n);
    for (size_t i = 0; good && i < n; i++) {
        double *value = rows.value + i * kinds.n;
        if (!run[i].parts.known) {
            rows.row[i].label = "not known";
            continue;
        }
        fill_values(&kinds, &run[i].parts, run[i].step_s, value);
        rows.row[i].value = value;
        cadre_format_seconds(run[i].step_s, rows.label[i], sizeof rows.label[i]);
    }
    const struct cadre_chart_stack chart = {"Time of a step, by its parts",
                                            kinds.kind,
                                            kinds.n,
                                            rows.row,
                                            n,
                                            cadre_format_seconds};
    if (good)
        cadre_chart_stack(out, &chart);
    out->failed = out->failed || !good;
    free_rows(&rows);
    return true;
}

/* Parts are measured one by one, and a rank's bubble may begin before its step. */
void cadre_where_excess(struct cadre_text *out, const struct cadre_where_run *run,
                        size_t n)
{
    char text[128], excess[32];
    for (size_t i = 0; i < n; i++) {
        const double excess_s = cadre_step_parts_sum(&run[i].parts) - run[i].step_s;
        if (!run[i].parts.known || !(excess_s > 0.005 * run[i].step_s))
            continue;
        snprintf(
            text, sizeof text,
            "%.48s: the parts have %s more than the step, so that nothing is left.",
            run[i].name, cadre_format_seconds(excess_s, excess, sizeof excess));
        cadre_page_paragraph(out, "soft", text);
    }
}

/* ---- memory ---- */

/* The rank whose kinds have the most together. */
static size_t largest_rank(json_t *memory)
{
    const char *kind;
    json_t *ranks;
    double most = -1;
    size_t found = 0;
    for (size_t r = 0;; r++) {
        double sum = 0;
        bool there = false;
        json_object_foreach(memory, kind, ranks)
        {
            there = there || r < json_array_size(ranks);
            sum += json_number_value(json_array_get(ranks, r));
        }
        if (!there)
            return found;
        if (sum > most) {
            most = sum;
            found = r;
        }
    }
}

enum { MEMORY_KINDS = 24 }; /* as many as can be told apart; the rest is one more */

static size_t find_kind(struct cadre_chart_kind *kind, size_t *n, const char *name)
{
    size_t k = 0;
    while (k < *n && strcmp(kind[k].name, name) != 0)
        k++;
    if (k == MEMORY_KINDS)
        return k;
    if (k == *n)
        kind[(*n)++] = (struct cadre_chart_kind){name, (int)k};
    return k;
}

static bool fill_memory(const struct cadre_where_run *run, size_t runs,
                        struct rows *rows, struct cadre_chart_kind *kind)
{
    size_t n = 0;
    bool any = false;
    for (size_t i = 0; i < runs; i++) {
        const char *name;
        json_t *ranks, *memory = run[i].memory;
        double *value = rows->value + i * (MEMORY_KINDS + 1);
        size_t rank = largest_rank(memory);
        rows->row[i].label = "not known";
        json_object_foreach(memory, name, ranks)
        {
            value[find_kind(kind, &n, name)] +=
                json_number_value(json_array_get(ranks, rank));
            rows->row[i].value = value;
        }
        if (!isfinite(run[i].peak_bytes))
            continue;
        if (!rows->row[i].value) /* of an earlier build, or of several trainings */
            value[MEMORY_KINDS] = run[i].peak_bytes;
        rows->row[i].value = value;
        rows->row[i].label = cadre_format_bytes(run[i].peak_bytes, rows->label[i],
                                                sizeof rows->label[i]);
        any = true;
    }
    for (size_t k = n; k <= MEMORY_KINDS; k++)
        kind[k] = (struct cadre_chart_kind){"other kinds", CADRE_CHART_GREY};
    return any;
}

bool cadre_where_memory(struct cadre_text *out, const struct cadre_where_run *run,
                        size_t n)
{
    struct cadre_chart_kind kind[MEMORY_KINDS + 1] = {{0}};
    struct rows rows = {0};
    const bool good = make_rows(&rows, run, n, MEMORY_KINDS + 1);
    const bool any = good && fill_memory(run, n, &rows, kind);
    const struct cadre_chart_stack chart = {"Peak memory of a rank, by kind",
                                            kind,
                                            MEMORY_KINDS + 1,
                                            rows.row,
                                            n,
                                            cadre_format_bytes};
    if (any)
        cadre_chart_stack(out, &chart);
    out->failed = out->failed || !good;
    free_rows(&rows);
    return any;
}
