/* SPDX-License-Identifier: Apache-2.0 */
/* report.html of several runs. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/path.h"
#include "core/page/build.h"
#include "core/page/chart.h"
#include "core/page/page.h"
#include "core/report/run_setup.h"
#include "core/report/runs_private.h"
#include "core/report/where_charts.h"
#include "core/run/format.h"

enum { MOST_CURVES = 24 }; /* drawn into one chart; more are no picture */

/* ---- tables ---- */

static void put_runs(const struct cadre_runs *runs, struct cadre_text *out)
{
    struct cadre_page_column column[CADRE_RUNS_COLUMNS];
    char cells[CADRE_RUNS_COLUMNS][CADRE_RUNS_CELL];
    for (int k = 0; k < CADRE_RUNS_COLUMNS; k++)
        column[k] =
            (struct cadre_page_column){cadre_runs_heads[k], cadre_runs_is_text(k)};
    cadre_page_table_begin(out,
                           "Time of a step: median of the steps after warm-up, in "
                           "brackets the middle half",
                           column, CADRE_RUNS_COLUMNS);
    for (size_t i = 0; i < runs->n; i++) {
        cadre_runs_cells(runs, i, cells);
        cadre_page_row_begin(out, cells[0]);
        for (int k = 1; k < CADRE_RUNS_COLUMNS; k++)
            cadre_page_cell(out, cadre_runs_is_text(k) ? "l w" : "", cells[k]);
        cadre_page_row_end(out);
    }
    cadre_page_table_end(out);
}

static void put_options(const struct cadre_runs *runs, struct cadre_text *out)
{
    const struct cadre_options_diff *diff = &runs->diff;
    struct cadre_page_column *column = cadre_calloc(runs->n + 1, sizeof *column);
    out->failed = out->failed || !column;
    if (column && diff->n > 0) {
        column[0] = (struct cadre_page_column){"option", true};
        for (size_t i = 0; i < runs->n; i++)
            column[i + 1] = (struct cadre_page_column){runs->name[i], true};
        cadre_text_printf(out, "<h2>What differs in the options</h2>\n");
        cadre_page_table_begin(out, "As each run's config.ini has them", column,
                               runs->n + 1);
        for (size_t k = 0; k < diff->n; k++) {
            cadre_page_row_begin(out, diff->key[k]);
            for (size_t i = 0; i < runs->n; i++)
                cadre_page_cell(out, "l w", cadre_runs_option(runs, i, diff->key[k]));
            cadre_page_row_end(out);
        }
        cadre_page_table_end(out);
    }
    free(column);
}

/* ---- curves ---- */

struct curves {
    struct cadre_chart_series series[MOST_CURVES];
    const double *at[MOST_CURVES]; /* x of each */
    double x[MOST_CURVES][CADRE_CURVE_POINTS], y[MOST_CURVES][CADRE_CURVE_POINTS];
    struct cadre_curve difference;
    size_t n;
};

/* A run without points keeps its place, and so the others their colours. */
static void add_curve(struct curves *curves, const struct cadre_curve *curve,
                      const char *name)
{
    size_t i = curves->n++;
    size_t found = cadre_curve_points(curve, curves->x[i], curves->y[i]);
    curves->series[i] = (struct cadre_chart_series){name, curves->y[i], found};
    curves->at[i] = curves->x[i];
}

static void put_chart(struct cadre_text *out, const struct curves *curves,
                      const char *title)
{
    size_t points = 0;
    for (size_t i = 0; i < curves->n; i++)
        points += curves->series[i].n;
    if (points > 0)
        cadre_chart_curves(out, title, "nats", curves->series, curves->at, curves->n);
}

/* Losses at the steps that both have. */
static void subtract(const struct cadre_run_data *run,
                     const struct cadre_run_data *base, struct cadre_curve *out)
{
    memset(out, 0, sizeof *out);
    for (size_t i = 0, k = 0; i < run->steps; i++) {
        while (k < base->steps && base->loss_step[k] < run->loss_step[i])
            k++;
        if (k < base->steps && base->loss_step[k] == run->loss_step[i])
            cadre_curve_add(out, (double)run->loss_step[i],
                            run->loss[i] - base->loss[k]);
    }
}

static void put_differences(const struct cadre_runs *runs, struct curves *curves,
                            size_t shown, struct cadre_text *out)
{
    static const struct cadre_curve none;
    size_t same = 0;
    curves->n = 0;
    for (size_t i = 0; i < shown; i++) {
        bool drawn = i > 0 && cadre_runs_same_training(runs, i);
        if (drawn)
            subtract(runs->run[i], runs->run[0], &curves->difference);
        add_curve(curves, drawn ? &curves->difference : &none, runs->name[i]);
        same += drawn;
    }
    if (same > 0)
        put_chart(out, curves,
                  "Training loss less the first run's, of the same training");
}

static void put_curves(const struct cadre_runs *runs, struct cadre_text *out)
{
    static const struct {
        const char *title;
        enum cadre_run_series series;
    } charts[] = {{"Training loss", CADRE_SERIES_LOSS},
                  {"Validation loss", CADRE_SERIES_VALID}};
    struct curves *curves = cadre_calloc(1, sizeof *curves);
    size_t shown = runs->n < MOST_CURVES ? runs->n : MOST_CURVES;
    out->failed = out->failed || !curves;
    for (size_t c = 0; curves && c < sizeof charts / sizeof charts[0]; c++) {
        curves->n = 0;
        for (size_t i = 0; i < shown; i++)
            add_curve(curves, &runs->run[i]->curve[charts[c].series], runs->name[i]);
        put_chart(out, curves, charts[c].title);
    }
    if (curves)
        put_differences(runs, curves, shown, out);
    free(curves);
}

/* ---- bars ---- */

typedef void fill_bar(const struct cadre_run_data *run, struct cadre_chart_bar *bar);

static void bar_time(const struct cadre_run_data *run, struct cadre_chart_bar *bar)
{
    bar->value = run->step_s.median;
    bar->low = run->step_s.n > 1 ? run->step_s.low : (double)NAN;
    bar->high = run->step_s.n > 1 ? run->step_s.high : (double)NAN;
    cadre_format_seconds(bar->value, bar->label, sizeof bar->label);
}

static void bar_tokens(const struct cadre_run_data *run, struct cadre_chart_bar *bar)
{
    bar->value = cadre_run_data_number(run, "tokens_per_s");
    cadre_format_count(bar->value, bar->label, sizeof bar->label);
}

static void bar_mfu(const struct cadre_run_data *run, struct cadre_chart_bar *bar)
{
    bar->value = 100 * cadre_run_data_number(run, "mfu");
    if (isfinite(bar->value))
        snprintf(bar->label, sizeof bar->label, "%.3g %%", bar->value);
}

static void bar_energy(const struct cadre_run_data *run, struct cadre_chart_bar *bar)
{
    bar->value = cadre_run_data_number_in(run, "energy", "j_per_token");
    if (isfinite(bar->value))
        snprintf(bar->label, sizeof bar->label, "%.3g J", bar->value);
}

/* A chart without a value is none. */
static void put_bars(const struct cadre_runs *runs, struct cadre_text *out)
{
    static const struct {
        const char *title;
        fill_bar *fill;
    } charts[] = {
        {"Time of a step, middle half (not ranked)", bar_time},
        {"Tokens a second (not ranked)", bar_tokens},
        {"Model FLOPs utilization (MFU)", bar_mfu},
        {"Energy a token, as far as it was read", bar_energy},
    };
    struct cadre_chart_bar *bar = cadre_calloc(runs->n, sizeof *bar);
    out->failed = out->failed || !bar;
    for (size_t c = 0; bar && c < sizeof charts / sizeof charts[0]; c++) {
        bool known = false;
        for (size_t i = 0; i < runs->n; i++) {
            bar[i] = (struct cadre_chart_bar){.name = runs->name[i],
                                              .label = "-",
                                              .low = NAN,
                                              .high = NAN,
                                              .mark = NAN};
            charts[c].fill(runs->run[i], &bar[i]);
            known = known || isfinite(bar[i].value);
        }
        const struct cadre_chart_bars chart = {
            .title = charts[c].title, .bar = bar, .n = runs->n};
        if (known)
            cadre_chart_bars(out, &chart);
    }
    free(bar);
}

/* Where time and memory went, as far as the runs say it; NULL without memory. */
static struct cadre_where_run *where_it_went(const struct cadre_runs *runs)
{
    struct cadre_where_run *row = cadre_calloc(runs->n, sizeof *row);
    for (size_t i = 0; row && i < runs->n; i++) {
        const struct cadre_run_data *run = runs->run[i];
        row[i] = (struct cadre_where_run){
            .name = runs->name[i],
            .parts = run->parts,
            .step_s = run->parts_step_s,
            .memory = json_object_get(run->summary, "memory"),
            .peak_bytes = cadre_run_data_largest(run, "peak_bytes"),
        };
    }
    return row;
}

static void put_charts(const struct cadre_runs *runs, struct cadre_text *out)
{
    struct cadre_where_run *row = where_it_went(runs);
    out->failed = out->failed || !row;
    cadre_text_printf(out, "<div class=\"charts\">\n");
    put_curves(runs, out);
    put_bars(runs, out);
    if (row) {
        cadre_where_step(out, row, runs->n);
        cadre_where_memory(out, row, runs->n);
    }
    cadre_text_printf(out, "</div>\n");
    if (row) {
        cadre_page_paragraph(out, "soft",
                             "Parts of a step: of rank 0, mean of the steps after "
                             "warm-up; exposed: waits while bytes move; other: what is "
                             "left. Memory: of the rank that needs most; kinds that "
                             "peak at different times have more than its peak.");
        cadre_where_excess(out, row, runs->n);
    }
    free(row);
}

/* ---- the page ---- */

/* Differences are the table's and the options'. */
static bool is_own(const char *name)
{
    static const char *const own[] = {"state", "failure", "folder", "train it again"};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (strcmp(name, own[i]) == 0)
            return true;
    return false;
}

/* What all runs have in common. */
static void keep_common(const struct cadre_runs *runs, struct cadre_run_setup *setup,
                        struct cadre_run_setup *other)
{
    for (size_t i = 0; i < setup->n; i++)
        if (is_own(setup->item[i].name))
            setup->item[i].value = "";
    for (size_t r = 1; r < runs->n; r++) {
        cadre_run_setup_fill(runs->run[r], other);
        for (size_t i = 0; i < setup->n; i++) {
            struct cadre_page_item *item = &setup->item[i];
            if (strcmp(item->value, cadre_run_setup_value(other, item->name)) != 0)
                item->value = "";
        }
    }
}

static void put_setup(const struct cadre_runs *runs, struct cadre_text *out)
{
    struct cadre_run_setup *setup = cadre_calloc(2, sizeof *setup);
    char date[CADRE_PAGE_DATE], count[32];
    if (!setup) {
        out->failed = true;
        return;
    }
    snprintf(count, sizeof count, "%zu", runs->n);
    cadre_run_setup_fill(runs->run[0], setup);
    keep_common(runs, setup, setup + 1);
    cadre_run_setup_add(setup, "runs", count);
    if (setup->n < CADRE_RUN_SETUP_ITEMS) /* whole, however long it is */
        setup->item[setup->n++] = (struct cadre_page_item){"command", runs->command};
    cadre_run_setup_add(setup, "page written", cadre_page_date(date));
    cadre_run_setup_add(setup, "page written by", cadre_page_build());
    cadre_page_setup(out, setup->item, setup->n);
    free(setup);
}

static void put_notes(const struct cadre_runs *runs, struct cadre_text *out)
{
    struct cadre_text notes = {0};
    char *rest = NULL;
    cadre_runs_notes(runs, &notes);
    if (notes.len > 0)
        cadre_text_printf(out, "<h2>Notes</h2>\n");
    for (char *line = notes.data ? strtok_r(notes.data, "\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\n", &rest))
        cadre_page_paragraph(out, "soft", line);
    if (runs->n > MOST_CURVES)
        cadre_page_paragraph(out, "soft", "Curves are drawn of the first 24 runs.");
    out->failed = out->failed || notes.failed;
    cadre_text_fini(&notes);
}

/* The page of each run, as seen from where this one lies. */
static void put_run_links(const struct cadre_runs *runs, struct cadre_text *out)
{
    char relative[1024];
    size_t n = 0;
    for (size_t i = 0; i < runs->n; i++) {
        char *page = cadre_path_join(runs->run[i]->dir, "run.html");
        char *there = page ? realpath(page, NULL) : NULL;
        if (there) {
            cadre_path_relative(runs->folder, there, relative, sizeof relative);
            cadre_text_printf(out, "%s", n++ ? ", " : "<p class=\"soft\">Runs: ");
            cadre_page_link(out, relative, runs->name[i]);
        }
        free(there);
        free(page);
    }
    if (n > 0)
        cadre_text_printf(out, "</p>\n");
}

/* "Runs: one, two, three": the names, as many as a line has room for. */
static void begin_page(const struct cadre_runs *runs, struct cadre_text *out)
{
    enum { WIDTH = 100 };
    struct cadre_text title = {0};
    size_t i = 0;
    for (; i < runs->n && (i == 0 || title.len + strlen(runs->name[i]) < WIDTH); i++)
        cadre_text_printf(&title, "%s%s", i ? ", " : "Runs: ", runs->name[i]);
    if (i < runs->n)
        cadre_text_printf(&title, " and %zu more", runs->n - i);
    cadre_page_begin(out, cadre_text_str(&title), cadre_text_str(&title));
    out->failed = out->failed || title.failed;
    cadre_text_fini(&title);
}

void cadre_runs_page(const struct cadre_runs *runs, struct cadre_text *out)
{
    begin_page(runs, out);
    put_setup(runs, out);
    if (runs->n > 1)
        cadre_page_paragraph(out, "said", CADRE_RUNS_NOT_RANKED ".");
    put_runs(runs, out);
    put_options(runs, out);
    put_charts(runs, out);
    put_notes(runs, out);
    cadre_page_paragraph(
        out, "soft",
        "A curve has at most 800 points: the lowest and the highest of "
        "as many stretches as half of them.");
    cadre_text_printf(out, "<p class=\"soft\">Files: ");
    cadre_page_link(out, "report.json", "report.json");
    cadre_text_printf(out, ", ");
    cadre_page_link(out, "report.csv", "report.csv");
    cadre_text_printf(out, ", ");
    cadre_page_link(out, "report.md", "report.md");
    cadre_text_printf(out, "</p>\n");
    if (runs->folder)
        put_run_links(runs, out);
    cadre_page_end(out);
}
