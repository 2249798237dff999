/* SPDX-License-Identifier: Apache-2.0 */
/* report.html: one page without scripts that needs no other file, well-formed as XML.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/compare/report/cells.h"
#include "core/compare/report/report_private.h"
#include "core/compare/report/report_seeds.h"
#include "core/compare/report/sentences.h"
#include "core/compare/verdict/certificate.h"
#include "core/page/chart.h"
#include "core/page/page.h"

/* A paragraph a line. */
static void put_notes(struct cadre_text *out, const struct cadre_comparison *c)
{
    struct cadre_text text = {0};
    char *rest = NULL;
    cadre_report_notes(c, &text);
    for (char *line = text.data ? strtok_r(text.data, "\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\n", &rest))
        cadre_page_paragraph(out, "soft", line);
    out->failed = out->failed || text.failed;
    cadre_text_fini(&text);
}

/* ---- tables ---- */

/* What is asked for first stands first: on a narrow screen the rest is scrolled to. */
static const enum cadre_cell columns[] = {
    CADRE_CELL_RUN,      CADRE_CELL_VERDICT, CADRE_CELL_SPEEDUP,    CADRE_CELL_EQUALITY,
    CADRE_CELL_STRATEGY, CADRE_CELL_RANKS,   CADRE_CELL_EFFICIENCY, CADRE_CELL_TIME,
    CADRE_CELL_OVERHEAD, CADRE_CELL_CONTROL, CADRE_CELL_TOKENS,     CADRE_CELL_EXPOSED,
    CADRE_CELL_BUBBLE,   CADRE_CELL_JOULES,  CADRE_CELL_MFU,        CADRE_CELL_PRICE,
    CADRE_CELL_LOSS,     CADRE_CELL_VALID,   CADRE_CELL_FAIR};
enum { COLUMNS = sizeof columns / sizeof columns[0] };

/* Green is what was shown, red what is wrong. */
static const char *class_of(const struct cadre_comparison *c, size_t i,
                            enum cadre_cell cell)
{
    const struct cadre_compared_run *run = &c->run[i];
    bool text = cadre_cells_is_text(cell);
    if (cell == CADRE_CELL_VERDICT)
        return *run->failure                              ? "l bad"
               : !cadre_cells_is_shown(run)               ? "l"
               : run->speed.verdict == CADRE_SPEED_FASTER ? "l good"
                                                          : "l";
    if (cell == CADRE_CELL_EQUALITY && cadre_report_is_judged(c, i) &&
        i != c->baseline) {
        if (run->equal == CADRE_EQUAL_DIFFERS && !run->by_design)
            return "l w bad";
        return run->equal == CADRE_EQUAL_EXACT || run->equal == CADRE_EQUAL_WITHIN
                   ? "l w good"
                   : "l w";
    }
    if (cell == CADRE_CELL_FAIR && !run->fair)
        return "l bad";
    return *run->failure && cell == CADRE_CELL_EQUALITY ? "l bad" : text ? "l" : "";
}

/* Does any run have it? What no run has is no column. */
static bool is_used(const struct cadre_comparison *c, enum cadre_cell cell)
{
    for (size_t i = 0; i < c->n; i++) {
        struct cadre_cells cells;
        cadre_cells_fill(c, i, false, &cells);
        if (strcmp(cells.of[cell], "-") != 0)
            return true;
    }
    return false;
}

static void put_row(struct cadre_text *out, const struct cadre_comparison *c, size_t i,
                    const bool *used)
{
    struct cadre_cells cells;
    cadre_cells_fill(c, i, false, &cells);
    cadre_page_row_begin(out, cells.of[CADRE_CELL_RUN]);
    for (int k = 1; k < COLUMNS; k++)
        if (used[k])
            cadre_page_cell(out, class_of(c, i, columns[k]), cells.of[columns[k]]);
    cadre_page_row_end(out);
}

static void put_table(struct cadre_text *out, const struct cadre_comparison *c)
{
    struct cadre_page_column head[COLUMNS];
    bool used[COLUMNS];
    size_t n = 0;
    for (int k = 0; k < COLUMNS; k++) {
        used[k] = k == 0 || is_used(c, columns[k]);
        if (used[k])
            head[n++] = (struct cadre_page_column){cadre_cells_head(columns[k]),
                                                   cadre_cells_is_text(columns[k])};
    }
    cadre_page_table_begin(out,
                           cadre_report_is_timed(c)
                               ? "Figures against the baseline; in brackets 95 % "
                                 "intervals over the rounds"
                               : "Figures against the baseline",
                           head, n);
    for (size_t i = 0; i < c->n; i++)
        put_row(out, c, i, used);
    cadre_page_table_end(out);
}

static void put_difference(struct cadre_text *out, bool held, double difference)
{
    char text[32];
    snprintf(text, sizeof text, "%.2g", difference);
    cadre_page_cell(out, "", held ? text : "-");
}

/* Near zero a tiny difference is many units: beyond these the number says nothing. */
static const char *ulp_text(uint64_t ulp, char *out, size_t size)
{
    if (ulp > 9999)
        return "more than 9999";
    snprintf(out, size, "%" PRIu64, ulp);
    return out;
}

static void put_certificate(struct cadre_text *out,
                            const struct cadre_compared_run *run)
{
    char text[96], hex[17];
    bool held = run->limit != CADRE_LIMIT_NONE;
    cadre_page_row_begin(out, run->name);
    cadre_page_cell(out, "l", cadre_equal_name(run->equal));
    cadre_page_cell(out, "l w", run->layout);
    snprintf(text, sizeof text, "%zu", run->record.n);
    cadre_page_cell(out, "", text);
    cadre_page_cell(out, "l", cadre_hash_hex(run->chain, hex));
    cadre_page_cell(out, "l", cadre_hash_hex(run->diff.of[0].hash, hex));
    put_difference(out, held, run->loss_max_diff);
    put_difference(out, held, run->diff.of[0].max);
    cadre_page_cell(out, "",
                    held ? ulp_text(run->diff.of[0].ulp_max, text, sizeof text) : "-");
    cadre_page_cell(out, "l", cadre_limit_name(run->limit));
    cadre_page_row_end(out);
}

static void put_certificates(struct cadre_text *out, const struct cadre_comparison *c)
{
    static const struct cadre_page_column head[] = {{"run", true},
                                                    {"verdict", true},
                                                    {"layout", true},
                                                    {"steps", false},
                                                    {"hash of losses", true},
                                                    {"hash of parameters", true},
                                                    {"loss difference", false},
                                                    {"parameter difference", false},
                                                    {"ULP", false},
                                                    {"limits", true}};
    cadre_text_printf(out, "<h2>Certificates</h2>\n");
    cadre_page_table_begin(
        out, "What was compared of each run, and how far it lies from the baseline",
        head, sizeof head / sizeof head[0]);
    for (size_t i = 0; i < c->n; i++)
        if (cadre_report_is_judged(c, i))
            put_certificate(out, &c->run[i]);
    cadre_page_table_end(out);
}

/* ---- the page ---- */

static void put_sentences(struct cadre_text *out, const struct cadre_comparison *c)
{
    static const char *const classes[] = {"said", "said shown", "said bad"};
    struct cadre_sentences said = {0};
    cadre_sentences_fill(&said, c);
    for (size_t i = 0; i < said.n; i++)
        cadre_page_paragraph(out, classes[said.of[i].tone], said.of[i].text);
    out->failed = out->failed || said.failed;
    cadre_sentences_fini(&said);
}

static void put_link(struct cadre_text *out, const char *name, bool first)
{
    cadre_text_printf(out, "%s", first ? "" : ", ");
    cadre_page_link(out, name, name);
}

/* A file of the run's folder. */
static void put_run_link(struct cadre_text *out, const char *run, const char *file,
                         bool first)
{
    char *path = cadre_format("runs/%s/%s", run, file);
    cadre_text_printf(out, "%s", first ? "" : ", ");
    if (path)
        cadre_page_link(out, path, file);
    out->failed = out->failed || !path;
    free(path);
}

/* Is its folder OUT/runs/NAME, as that of every run that is made here? */
static bool lies_below(const struct cadre_compared_run *run)
{
    const char *dir = run->record.dir;
    size_t n = dir ? strlen(dir) : 0, name = strlen(run->name);
    return n > name + 5 && strcmp(dir + n - name, run->name) == 0 &&
           strncmp(dir + n - name - 5, "runs/", 5) == 0;
}

static void put_run_files(struct cadre_text *out, const struct cadre_compared_run *run)
{
    char *certificate = cadre_certificate_file(run);
    cadre_text_printf(out, "<li>");
    cadre_chart_text(out, run->name);
    cadre_text_printf(out, ": ");
    if (certificate)
        put_link(out, certificate, true);
    if (lies_below(run)) {
        if (!run->instances && !*run->failure)
            put_run_link(out, run->name, "run.html", false);
        put_run_link(out, run->name, "config.ini", false);
        put_run_link(out, run->name, "summary.json", false);
        if (!run->instances)
            put_run_link(out, run->name, "metrics.jsonl", false);
    }
    cadre_text_printf(out, "</li>\n");
    out->failed = out->failed || !certificate;
    free(certificate);
}

/* Of a run that failed, where it came so far that it has a page. */
static void put_failed_files(struct cadre_text *out,
                             const struct cadre_compared_run *run)
{
    cadre_text_printf(out, "<li>");
    cadre_chart_text(out, run->name);
    cadre_text_printf(out, " (failed): ");
    put_run_link(out, run->name, "run.html", true);
    put_run_link(out, run->name, "config.ini", false);
    put_run_link(out, run->name, "metrics.jsonl", false);
    cadre_text_printf(out, "</li>\n");
}

static void put_files(struct cadre_text *out, const struct cadre_comparison *c)
{
    cadre_text_printf(out, "<h2>Files</h2>\n<p>");
    put_link(out, "report.json", true);
    put_link(out, "report.csv", false);
    put_link(out, "report.md", false);
    if (c->n_pieces > 0)
        put_link(out, "pieces.jsonl", false);
    cadre_text_printf(out, "</p>\n<ul>\n");
    for (size_t i = 0; i < c->n; i++)
        if (!*c->run[i].failure)
            put_run_files(out, &c->run[i]);
        else if (c->run[i].failed_page)
            put_failed_files(out, &c->run[i]);
    cadre_text_printf(out, "</ul>\n");
}

static void put_foot(struct cadre_text *out, const struct cadre_comparison *c)
{
    cadre_text_printf(out, "<h2>How to read it</h2>\n<p>%s; %s; %s. %s",
                      CADRE_FORMULA_SPEEDUP, CADRE_FORMULA_EFFICIENCY,
                      CADRE_FORMULA_OVERHEAD, cadre_report_where(c));
    if (!cadre_report_is_timed(c))
        cadre_text_printf(out, " (steps %" PRId64 " to %" PRId64 ")",
                          cadre_comparison_first_step(c),
                          cadre_comparison_last_step(c));
    cadre_text_printf(out,
                      ".</p>\n<p>Control: half the middle 95 %% of what two pieces "
                      "of the same run in one round differ by. Green is what was "
                      "shown; a figure marked ! cannot be. Equal hashes: the same "
                      "bits. ULP: the largest distance of a parameter from the "
                      "baseline's in units in the last place; near zero a tiny "
                      "difference is many of them.</p>\n");
    put_notes(out, c);
    put_files(out, c);
}

void cadre_report_html(const struct cadre_comparison *c, struct cadre_text *out)
{
    char *title = cadre_format("%s: comparison", c->title);
    char *heading = cadre_format("Comparison: %s", c->title);
    if (title && heading) {
        cadre_page_begin(out, title, heading);
        put_sentences(out, c); /* what was found stands first, on a phone too */
        put_table(out, c);
        cadre_report_seeds_html(c, out);
        cadre_report_setup(c, out);
        cadre_report_where_it_went(c, out);
        cadre_text_printf(out, "<h2>Speed and losses</h2>\n");
        cadre_report_charts(c, out);
        cadre_report_pieces(c, out);
        cadre_report_instances(c, out);
        cadre_report_schedules(c, out);
        put_certificates(out, c);
        put_foot(out, c);
        cadre_page_end(out);
    } else {
        out->failed = true;
    }
    free(title);
    free(heading);
}
