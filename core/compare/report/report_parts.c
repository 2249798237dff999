/* SPDX-License-Identifier: Apache-2.0 */
/* Where the time of a step went, of every run: report.json's `step_parts` and the
 * stacked bars of report.html. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/compare/report/report_private.h"
#include "core/page/chart.h"
#include "core/page/page.h"
#include "core/run/format.h"

const char *cadre_report_parts(const struct cadre_comparison *c, size_t i,
                               struct cadre_step_parts *parts)
{
    const struct cadre_compared_run *run = &c->run[i];
    *parts = (struct cadre_step_parts){0};
    if (*run->failure)
        return "it failed";
    if (run->instances)
        return "its pieces are of several trainings";
    if (run->to_target)
        return "it is timed to a loss";
    if (!cadre_report_is_timed(c) || run->n_parts == 0)
        return "no piece of it was timed";
    cadre_step_parts_median(run->parts, run->n_parts, cadre_report_step_s(run), parts);
    return parts->known ? NULL : "its device queues work, whose end is not seen";
}

void cadre_report_parts_json(struct cadre_json *json, const struct cadre_comparison *c,
                             size_t i)
{
    struct cadre_step_parts parts;
    const char *unknown = cadre_report_parts(c, i, &parts);
    cadre_json_key(json, "step_parts");
    cadre_step_parts_put(json, &parts, cadre_report_step_s(&c->run[i]));
    cadre_json_put_string(json, "step_parts_unknown", unknown);
}

/* ---- the page ---- */

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

/* Rows of a chart, with room for their values and labels. */
struct rows {
    struct cadre_chart_stack_row *row;
    double *value; /* (n, kinds) */
    char (*label)[64];
};

static bool make_rows(struct rows *rows, const struct cadre_comparison *c, size_t kinds)
{
    rows->row = cadre_calloc(c->n, sizeof *rows->row);
    rows->value = cadre_calloc(c->n * kinds, sizeof *rows->value);
    rows->label = cadre_calloc(c->n, sizeof *rows->label);
    for (size_t i = 0; rows->row && rows->label && i < c->n; i++)
        rows->row[i] = (struct cadre_chart_stack_row){.name = c->run[i].name,
                                                      .label = rows->label[i]};
    return rows->row && rows->value && rows->label;
}

static void free_rows(struct rows *rows)
{
    free(rows->row);
    free(rows->value);
    free(rows->label);
}

/* Parts are measured one by one, and a rank's bubble may begin before its step. */
static void put_excess(struct cadre_text *out, const struct cadre_compared_run *run,
                       const struct cadre_step_parts *parts)
{
    char text[128], excess[32];
    double excess_s = cadre_step_parts_sum(parts) - cadre_report_step_s(run);
    if (!parts->known || !(excess_s > 0.005 * cadre_report_step_s(run)))
        return;
    snprintf(text, sizeof text,
             "%.48s: the parts have %s more than the step, so that nothing is left.",
             run->name, cadre_format_seconds(excess_s, excess, sizeof excess));
    cadre_page_paragraph(out, "soft", text);
}

/* The axes of all runs, but the world, or the world alone: it comes after them. */
static void add_axes(struct cadre_axis_times *axes,
                     const struct cadre_step_parts *parts, size_t n, bool world)
{
    for (size_t i = 0; i < n; i++)
        for (int a = 0; a < parts[i].exposed.n; a++)
            if ((strcmp(parts[i].exposed.of[a].axis, "world") == 0) == world)
                cadre_axis_times_add(axes, parts[i].exposed.of[a].axis, 0);
}

/* Returns whether any run's parts are known. */
static bool put_step(struct cadre_text *out, const struct cadre_comparison *c,
                     struct cadre_step_parts *parts)
{
    struct step_kinds kinds = {0};
    struct rows rows = {0};
    bool any = false;
    for (size_t i = 0; i < c->n; i++) {
        cadre_report_parts(c, i, &parts[i]);
        any = any || parts[i].known;
    }
    add_axes(&kinds.axes, parts, c->n, false);
    add_axes(&kinds.axes, parts, c->n, true);
    name_kinds(&kinds);
    bool good = any && make_rows(&rows, c, kinds.n);
    for (size_t i = 0; good && i < c->n; i++) {
        double step_s = cadre_report_step_s(&c->run[i]);
        double *value = rows.value + i * kinds.n;
        if (!parts[i].known) {
            rows.row[i].label = "not known";
            continue;
        }
        fill_values(&kinds, &parts[i], step_s, value);
        rows.row[i].value = value;
        cadre_format_seconds(step_s, rows.label[i], sizeof rows.label[i]);
    }
    const struct cadre_chart_stack chart = {"Time of a step, by its parts",
                                            kinds.kind,
                                            kinds.n,
                                            rows.row,
                                            c->n,
                                            cadre_format_seconds};
    if (good)
        cadre_chart_stack(out, &chart);
    out->failed = out->failed || (any && !good);
    free_rows(&rows);
    return any;
}

/* ---- memory ---- */

static json_t *memory_of(const struct cadre_compared_run *run)
{
    return json_object_get(run->record.summary, "memory");
}

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

static bool fill_memory(const struct cadre_comparison *c, struct rows *rows,
                        struct cadre_chart_kind *kind)
{
    size_t n = 0;
    bool any = false;
    for (size_t i = 0; i < c->n; i++) {
        const char *name;
        json_t *ranks, *memory = memory_of(&c->run[i]);
        double *value = rows->value + i * (MEMORY_KINDS + 1);
        size_t rank = largest_rank(memory);
        double peak = cadre_record_largest(&c->run[i].record, "peak_bytes");
        rows->row[i].label = "not known";
        json_object_foreach(memory, name, ranks)
        {
            value[find_kind(kind, &n, name)] +=
                json_number_value(json_array_get(ranks, rank));
            rows->row[i].value = value;
        }
        if (!isfinite(peak))
            continue;
        if (!rows->row[i].value) /* of an earlier build, or of several trainings */
            value[MEMORY_KINDS] = peak;
        rows->row[i].value = value;
        rows->row[i].label =
            cadre_format_bytes(peak, rows->label[i], sizeof rows->label[i]);
        any = true;
    }
    for (size_t k = n; k <= MEMORY_KINDS; k++)
        kind[k] = (struct cadre_chart_kind){"other kinds", CADRE_CHART_GREY};
    return any;
}

/* Returns whether it is known of any run. */
static bool put_memory(struct cadre_text *out, const struct cadre_comparison *c)
{
    struct cadre_chart_kind kind[MEMORY_KINDS + 1] = {{0}};
    struct rows rows = {0};
    bool good = make_rows(&rows, c, MEMORY_KINDS + 1);
    bool any = good && fill_memory(c, &rows, kind);
    const struct cadre_chart_stack chart = {"Peak memory of a rank, by kind",
                                            kind,
                                            MEMORY_KINDS + 1,
                                            rows.row,
                                            c->n,
                                            cadre_format_bytes};
    if (any)
        cadre_chart_stack(out, &chart);
    out->failed = out->failed || !good;
    free_rows(&rows);
    return any;
}

void cadre_report_where_it_went(const struct cadre_comparison *c,
                                struct cadre_text *out)
{
    struct cadre_text charts = {0};
    struct cadre_step_parts *parts = cadre_calloc(c->n, sizeof *parts);
    bool step = parts && put_step(&charts, c, parts);
    bool memory = put_memory(&charts, c);
    out->failed = out->failed || !parts || charts.failed;
    if (step || memory) {
        cadre_text_printf(out, "<h2>Where time and memory went</h2>\n");
        cadre_page_paragraph(
            out, "soft",
            step ? "A step of the timed pieces, mean of the ranks, medians over the "
                   "pieces. Exposed: a rank waits while bytes move, by the axis that "
                   "moves them. Other is what is left of the step."
                 : "No run's time of a step is known by its parts: nothing was timed, "
                   "or on devices that queue their work.");
        for (size_t i = 0; step && i < c->n; i++)
            put_excess(out, &c->run[i], &parts[i]);
        if (memory)
            cadre_page_paragraph(out, "soft",
                                 "Memory is that of the rank that needs most, at its "
                                 "bar's end its peak: kinds that peak at different "
                                 "times have more than that together.");
        cadre_text_printf(out, "<div class=\"charts\">\n");
        cadre_text_append(out, cadre_text_str(&charts), charts.len);
        cadre_text_printf(out, "</div>\n");
    }
    cadre_text_fini(&charts);
    free(parts);
}
