/* SPDX-License-Identifier: Apache-2.0 */
/* report.html: one page without scripts that needs no other file, well-formed as XML.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/compare/report/cells.h"
#include "core/compare/report/chart.h"
#include "core/compare/report/report_private.h"
#include "core/compare/report/sentences.h"
#include "core/compare/verdict/certificate.h"

static void put_paragraphs(struct cadre_text *out, const char *tag, const char *class,
                           void (*lines)(const struct cadre_comparison *,
                                         struct cadre_text *),
                           const struct cadre_comparison *c)
{
    struct cadre_text text = {0};
    char *rest = NULL;
    lines(c, &text);
    for (char *line = text.data ? strtok_r(text.data, "\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\n", &rest)) {
        cadre_text_printf(out, "<%s class=\"%s\">", tag, class);
        cadre_chart_text(out, line);
        cadre_text_printf(out, "</%s>\n", tag);
    }
    cadre_text_fini(&text);
}

static void put_cell(struct cadre_text *out, const char *class, const char *text)
{
    cadre_text_printf(out, "<td class=\"%s\">", class);
    cadre_chart_text(out, text);
    cadre_text_printf(out, "</td>");
}

/* ---- tables ---- */

/* What is asked for first stands first: on a narrow screen the rest is scrolled to. */
static const enum cadre_cell columns[] = {
    CADRE_CELL_RUN,      CADRE_CELL_VERDICT, CADRE_CELL_SPEEDUP,    CADRE_CELL_EQUALITY,
    CADRE_CELL_STRATEGY, CADRE_CELL_RANKS,   CADRE_CELL_EFFICIENCY, CADRE_CELL_TIME,
    CADRE_CELL_OVERHEAD, CADRE_CELL_CONTROL, CADRE_CELL_TOKENS,     CADRE_CELL_EXPOSED,
    CADRE_CELL_BUBBLE,   CADRE_CELL_LOSS,    CADRE_CELL_FAIR};
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

static void put_name(struct cadre_text *out, const char *name)
{
    cadre_text_printf(out, "<th class=\"l\" scope=\"row\">");
    cadre_chart_text(out, name);
    cadre_text_printf(out, "</th>");
}

static void put_row(struct cadre_text *out, const struct cadre_comparison *c, size_t i)
{
    struct cadre_cells cells;
    cadre_cells_fill(c, i, false, &cells);
    cadre_text_printf(out, "<tr>");
    put_name(out, cells.of[CADRE_CELL_RUN]);
    for (int k = 1; k < COLUMNS; k++)
        put_cell(out, class_of(c, i, columns[k]), cells.of[columns[k]]);
    cadre_text_printf(out, "</tr>\n");
}

static void put_table(struct cadre_text *out, const struct cadre_comparison *c)
{
    cadre_text_printf(
        out,
        "<div class=\"wide\"><table>\n<caption>Figures against the "
        "baseline%s</caption>\n<thead><tr>",
        cadre_report_is_timed(c) ? "; in brackets 95 % intervals over the rounds" : "");
    for (int k = 0; k < COLUMNS; k++)
        cadre_text_printf(out, "<th%s scope=\"col\">%s</th>",
                          cadre_cells_is_text(columns[k]) ? " class=\"l\"" : "",
                          cadre_cells_head(columns[k]));
    cadre_text_printf(out, "</tr></thead>\n<tbody>\n");
    for (size_t i = 0; i < c->n; i++)
        put_row(out, c, i);
    cadre_text_printf(out, "</tbody></table></div>\n");
}

static void put_difference(struct cadre_text *out, bool held, double difference)
{
    char text[32];
    snprintf(text, sizeof text, "%.2g", difference);
    put_cell(out, "", held ? text : "-");
}

static void put_certificate(struct cadre_text *out,
                            const struct cadre_compared_run *run)
{
    char text[96], hex[17];
    bool held = run->limit != CADRE_LIMIT_NONE;
    cadre_text_printf(out, "<tr>");
    put_name(out, run->name);
    put_cell(out, "l w", run->layout);
    snprintf(text, sizeof text, "%zu", run->record.n);
    put_cell(out, "", text);
    put_cell(out, "l", cadre_hash_hex(run->chain, hex));
    put_cell(out, "l", cadre_hash_hex(run->diff.of[0].hash, hex));
    put_difference(out, held, run->loss_max_diff);
    put_difference(out, held, run->diff.of[0].max);
    snprintf(text, sizeof text, "%" PRIu64, run->diff.of[0].ulp_max);
    put_cell(out, "", held ? text : "-");
    put_cell(out, "l", cadre_limit_name(run->limit));
    put_cell(out, "l", cadre_equal_name(run->equal));
    cadre_text_printf(out, "</tr>\n");
}

static void put_certificates(struct cadre_text *out, const struct cadre_comparison *c)
{
    cadre_text_printf(
        out, "<h2>Certificates</h2>\n<div class=\"wide\"><table>\n<caption>What was "
             "compared of each run, and how far it lies from the baseline</caption>\n"
             "<thead><tr><th class=\"l\" scope=\"col\">run</th>"
             "<th class=\"l\" scope=\"col\">layout</th><th scope=\"col\">steps</th>"
             "<th class=\"l\" scope=\"col\">hash of losses</th>"
             "<th class=\"l\" scope=\"col\">hash of parameters</th>"
             "<th scope=\"col\">loss difference</th>"
             "<th scope=\"col\">parameter difference</th><th scope=\"col\">ULP</th>"
             "<th class=\"l\" scope=\"col\">limits</th>"
             "<th class=\"l\" scope=\"col\">verdict</th></tr></thead>\n<tbody>\n");
    for (size_t i = 0; i < c->n; i++)
        if (cadre_report_is_judged(c, i))
            put_certificate(out, &c->run[i]);
    cadre_text_printf(out, "</tbody></table></div>\n");
}

/* ---- the page ---- */

static void put_sentences(struct cadre_text *out, const struct cadre_comparison *c)
{
    static const char *const classes[] = {"said", "said shown", "said bad"};
    struct cadre_sentences said = {0};
    cadre_sentences_fill(&said, c);
    for (size_t i = 0; i < said.n; i++) {
        cadre_text_printf(out, "<p class=\"%s\">", classes[said.of[i].tone]);
        cadre_chart_text(out, said.of[i].text);
        cadre_text_printf(out, "</p>\n");
    }
    out->failed = out->failed || said.failed;
    cadre_sentences_fini(&said);
}

/* A file beside the page; its name is one part of a path. */
static void put_link(struct cadre_text *out, const char *name, bool first)
{
    cadre_text_printf(out, "%s<a href=\"", first ? "" : ", ");
    for (const char *at = name; *at; at++)
        if (strchr("%\"#?&<>'\\:", *at) || (unsigned char)*at <= 0x20 || *at & 0x80)
            cadre_text_printf(out, "%%%02X", (unsigned)(unsigned char)*at);
        else
            cadre_text_append(out, at, 1);
    cadre_text_printf(out, "\">");
    cadre_chart_text(out, name);
    cadre_text_printf(out, "</a>");
}

static void put_files(struct cadre_text *out, const struct cadre_comparison *c)
{
    cadre_text_printf(out, "<h2>Files</h2>\n<p>");
    put_link(out, "report.json", true);
    put_link(out, "report.csv", false);
    put_link(out, "report.md", false);
    for (size_t i = 0; i < c->n; i++) {
        char *name = cadre_certificate_file(&c->run[i]);
        if (name && !*c->run[i].failure)
            put_link(out, name, false);
        out->failed = out->failed || !name;
        free(name);
    }
    cadre_text_printf(out, "</p>\n");
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
    put_paragraphs(out, "p", "soft", cadre_report_notes, c);
    put_files(out, c);
}

void cadre_report_html(const struct cadre_comparison *c, struct cadre_text *out)
{
    cadre_text_printf(out,
                      "<!DOCTYPE html>\n<html lang=\"en\" "
                      "xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n"
                      "<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" "
                      "content=\"width=device-width, initial-scale=1\"/>\n<title>");
    cadre_chart_text(out, c->title);
    cadre_text_printf(out, ": comparison</title>\n");
    cadre_report_style(out);
    cadre_text_printf(out, "</head>\n<body>\n<h1>Comparison: ");
    cadre_chart_text(out, c->title);
    cadre_text_printf(out, "</h1>\n");
    cadre_report_setup(c, out);
    put_sentences(out, c);
    put_table(out, c);
    cadre_report_charts(c, out);
    cadre_report_pieces(c, out);
    cadre_report_instances(c, out);
    cadre_report_schedules(c, out);
    put_certificates(out, c);
    put_foot(out, c);
    cadre_text_printf(out, "</body>\n</html>\n");
}
