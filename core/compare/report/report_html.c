/* SPDX-License-Identifier: Apache-2.0 */
/* report.html: one page without other files or scripts, well-formed as XML. Colours are
 * Okabe and Ito's, which are distinct with any colour vision. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "core/base/hash.h"
#include "core/compare/report/chart.h"
#include "core/compare/report/report.h"
#include "core/compare/verdict/machine.h"
#include "core/run/format.h"

static const char STYLE[] =
    "<style>\n"
    ":root{color-scheme:light dark;--paper:#fff;--ink:#1a1a1a;--soft:#5c5c5c;"
    "--rule:#d9d9d9;--good:#00664a;--bad:#b00020;"
    "--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#a8457f;--c4:#8a6d00;--c5:#3a8fc4}\n"
    "@media (prefers-color-scheme:dark){:root{--paper:#16181b;--ink:#ececec;"
    "--soft:#a9adb3;--rule:#3a3e44;--good:#5fd3ae;--bad:#ff8a94;"
    "--c0:#56b4e9;--c1:#ff8c42;--c2:#2fd0a0;--c3:#e39ac7;--c4:#f0c84b;--c5:#9ecbff}}\n"
    "body{background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif;"
    "max-width:1160px;margin:2rem auto;padding:0 1rem}\n"
    "h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .5rem}\n"
    ".soft,.tick{color:var(--soft)}.tick{fill:var(--soft);font-size:12px}\n"
    ".said{font-size:1.1rem;border-left:4px solid var(--good);padding-left:.8rem}\n"
    ".said.bad{border-color:var(--bad)}\n"
    ".wide{overflow-x:auto;font-size:.9rem}table{border-collapse:collapse;width:100%}\n"
    "th,td{padding:.35rem .6rem;border-bottom:1px solid var(--rule);text-align:right;"
    "white-space:nowrap}\n"
    "th{white-space:normal;vertical-align:bottom}th.l,td.l{text-align:left}"
    "td.w{white-space:normal;min-width:9rem}td{font-variant-numeric:tabular-nums}\n"
    ".good{color:var(--good)}.bad{color:var(--bad);font-weight:600}\n"
    ".charts{display:grid;gap:1.5rem 2rem;margin:2rem 0;"
    "grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr))}\n"
    "figure{margin:0}svg{width:100%;max-width:600px;height:auto}\n"
    "svg text{fill:var(--ink);font-size:13px}svg text.tick{fill:var(--soft);"
    "font-size:12px}svg text.head{font-size:15px;font-weight:600}\n"
    ".grid{stroke:var(--rule)}.axis{stroke:var(--soft);fill:none}\n"
    ".mark{stroke:var(--ink);stroke-width:2.5;fill:none}\n"
    ".line{fill:none;stroke-width:2}\n"
    ".line.s0{stroke:var(--c0);stroke-width:5;opacity:.55}\n"
    ".line.s1{stroke:var(--c1)}.line.s2{stroke:var(--c2);stroke-dasharray:8 4}\n"
    ".line.s3{stroke:var(--c3);stroke-dasharray:3 3}\n"
    ".line.s4{stroke:var(--c4);stroke-dasharray:12 3 3 3}\n"
    ".line.s5{stroke:var(--c5);stroke-dasharray:1 4}\n"
    ".bar.s0{fill:var(--c0)}.bar.s1{fill:var(--c1)}.bar.s2{fill:var(--c2)}\n"
    ".bar.s3{fill:var(--c3)}.bar.s4{fill:var(--c4)}.bar.s5{fill:var(--c5)}\n"
    "svg.gantt{max-width:none;margin-top:1rem}.bar.late{fill-opacity:.55}\n"
    "svg text.box{fill:var(--paper);font-size:11px}svg text.box.late{fill:var(--ink)}\n"
    "</style>\n";

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

static void put_row(struct cadre_text *out, const struct cadre_comparison *c, size_t i)
{
    const struct cadre_compared_run *run = &c->run[i];
    char text[96];
    cadre_text_printf(out, "<tr>");
    put_cell(out, "l", run->name);
    put_cell(out, "l", run->strategy);
    snprintf(text, sizeof text, "%d", run->ranks);
    put_cell(out, "", text);
    put_cell(out, "", cadre_format_seconds(run->step_s, text, sizeof text));
    put_cell(out, "", cadre_format_count(run->tokens_per_s, text, sizeof text));
    snprintf(text, sizeof text, "%.2f", run->speed.speedup.value);
    put_cell(out, "", text);
    snprintf(text, sizeof text, "%.0f %%", 100 * run->efficiency.value);
    put_cell(out, "", text);
    put_cell(out, "",
             cadre_format_seconds(run->speed.overhead_s.value, text, sizeof text));
    snprintf(text, sizeof text, "%.4f", cadre_record_number(&run->record, "loss_last"));
    put_cell(out, "", text);
    cadre_report_equality(c, i, text, sizeof text);
    put_cell(out,
             run->by_design || run->equal == CADRE_EQUAL_INDEPENDENT ? "l w"
             : run->equal == CADRE_EQUAL_DIFFERS                     ? "l w bad"
                                                                     : "l w good",
             text);
    put_cell(out, run->fair ? "l" : "l bad", run->fair ? "yes" : "no: fair = false");
    cadre_text_printf(out, "</tr>\n");
}

static void put_table(struct cadre_text *out, const struct cadre_comparison *c)
{
    cadre_text_printf(
        out, "<div class=\"wide\"><table>\n<thead><tr><th class=\"l\">run</th>"
             "<th class=\"l\">strategy</th><th>ranks</th><th>time/step</th>"
             "<th>tokens/s</th><th>speedup</th><th>efficiency</th><th>overhead</th>"
             "<th>last loss</th><th class=\"l\">equality</th><th class=\"l\">fair</th>"
             "</tr></thead>\n<tbody>\n");
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
    put_cell(out, "l", run->name);
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
        out,
        "<h2>Certificates</h2>\n<div class=\"wide\"><table>\n<thead><tr>"
        "<th class=\"l\">run</th><th class=\"l\">layout</th><th>steps</th>"
        "<th class=\"l\">hash of losses</th><th class=\"l\">hash of parameters</th>"
        "<th>loss difference</th><th>parameter difference</th><th>ULP</th>"
        "<th class=\"l\">limits</th><th class=\"l\">verdict</th></tr></thead>\n"
        "<tbody>\n");
    for (size_t i = 0; i < c->n; i++)
        put_certificate(out, &c->run[i]);
    cadre_text_printf(out, "</tbody></table></div>\n");
}

/* ---- charts ---- */

/* A curve; its name and values are freed by put_losses. */
static bool draw_losses(const struct cadre_record *record, char *name,
                        struct cadre_chart_series *series)
{
    double *losses = cadre_calloc(record->n, sizeof *losses);
    for (size_t k = 0; losses && k < record->n; k++)
        losses[k] = record->step[k].loss;
    *series = (struct cadre_chart_series){name, losses, record->n};
    return name && losses;
}

/* A curve for each run, or for each of its instances. */
static void put_losses(struct cadre_text *out, const struct cadre_comparison *c)
{
    size_t most = c->n, n = 0;
    for (size_t i = 0; i < c->n; i++)
        most += c->run[i].record.n_instances;
    struct cadre_chart_series *series = cadre_calloc(most, sizeof *series);
    bool good = series != NULL;
    for (size_t i = 0; good && i < c->n; i++) {
        const struct cadre_record *record = &c->run[i].record;
        for (size_t k = 0; good && k < record->n_instances; k++)
            good = draw_losses(&record->instance[k],
                               cadre_format("%s, instance %zu", c->run[i].name, k),
                               &series[n++]);
        if (good && record->n_instances == 0)
            good = draw_losses(record, cadre_strdup(c->run[i].name), &series[n++]);
    }
    if (good)
        cadre_chart_lines(out, "Training loss: the same training draws one curve",
                          "nats", series, n);
    else
        out->failed = true;
    for (size_t i = 0; i < n; i++) {
        free((void *)(uintptr_t)series[i].name);
        free((void *)(uintptr_t)series[i].y);
    }
    free(series);
}

static void bar_speedup(const struct cadre_comparison *c, size_t i,
                        struct cadre_chart_bar *bar)
{
    const struct cadre_compared_run *run = &c->run[i];
    bar->value = run->speed.speedup.value;
    (void)c;
    bar->mark = run->N;
    snprintf(bar->label, sizeof bar->label, "%.2f of %.3g", run->speed.speedup.value,
             bar->mark);
}

static void bar_efficiency(const struct cadre_comparison *c, size_t i,
                           struct cadre_chart_bar *bar)
{
    bar->value = c->run[i].efficiency.value;
    bar->mark = 1;
    snprintf(bar->label, sizeof bar->label, "%.0f %%", 100 * bar->value);
}

static void bar_time(const struct cadre_comparison *c, size_t i,
                     struct cadre_chart_bar *bar)
{
    const struct cadre_compared_run *run = &c->run[i];
    bar->value = run->step_s;
    bar->mark = run->step_s - run->speed.overhead_s.value;
    cadre_format_seconds(bar->value, bar->label, sizeof bar->label);
}

static void bar_memory(const struct cadre_comparison *c, size_t i,
                       struct cadre_chart_bar *bar)
{
    bar->value = cadre_record_largest(&c->run[i].record, "peak_bytes");
    bar->mark = NAN;
    cadre_format_bytes(bar->value, bar->label, sizeof bar->label);
}

static void put_bars(struct cadre_text *out, const struct cadre_comparison *c)
{
    static const struct {
        const char *title, *mark;
        void (*fill)(const struct cadre_comparison *, size_t, struct cadre_chart_bar *);
    } charts[] = {
        {"Speedup against the baseline", "ideal: N", bar_speedup},
        {"Efficiency", "ideal: 100 %", bar_efficiency},
        {"Time of a step", "ideal: the baseline's / N; beyond it is overhead",
         bar_time},
        {"Memory of the fullest rank", NULL, bar_memory},
    };
    struct cadre_chart_bar *bars = cadre_calloc(c->n, sizeof *bars);
    if (!bars)
        out->failed = true;
    for (size_t k = 0; bars && k < sizeof charts / sizeof charts[0]; k++) {
        for (size_t i = 0; i < c->n; i++) {
            bars[i].name = c->run[i].name;
            charts[k].fill(c, i, &bars[i]);
            size_t used = strlen(bars[i].label);
            if (!c->run[i].fair)
                snprintf(bars[i].label + used, sizeof bars[i].label - used, ", unfair");
        }
        cadre_chart_bars(out, charts[k].title, charts[k].mark, bars, c->n);
    }
    free(bars);
}

/* ---- the page ---- */

static void put_foot(struct cadre_text *out, const struct cadre_comparison *c)
{
    char cpu[128];
    cadre_text_printf(out, "<h2>How to read it</h2>\n<p>%s; %s; %s. %s",
                      CADRE_FORMULA_SPEEDUP, CADRE_FORMULA_EFFICIENCY,
                      CADRE_FORMULA_OVERHEAD, cadre_report_where(c));
    cadre_text_printf(out, " (steps %" PRId64 " to %" PRId64 ").</p>\n",
                      cadre_comparison_first_step(c), cadre_comparison_last_step(c));
    cadre_text_printf(out, "<p>Equal hashes: the same bits. ULP: the largest distance "
                           "of a parameter from the baseline's in units in the last "
                           "place; near zero a tiny difference is many of them.</p>\n");
    put_paragraphs(out, "p", "soft", cadre_report_notes, c);
    cadre_text_printf(out, "<p class=\"soft\">" PACKAGE_STRING ", ");
    cadre_chart_text(out, cadre_machine_cpu(cpu, sizeof cpu));
    struct cadre_text libraries = {0};
    cadre_machine_libraries(&libraries);
    cadre_text_printf(out, "; ");
    cadre_chart_text(out, cadre_text_str(&libraries));
    cadre_text_fini(&libraries);
    cadre_text_printf(out, "; %d core%s.</p>\n", c->cores, c->cores == 1 ? "" : "s");
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
    cadre_text_append(out, STYLE, sizeof STYLE - 1);
    cadre_text_printf(out, "</head>\n<body>\n<h1>Comparison: ");
    cadre_chart_text(out, c->title);
    cadre_text_printf(out, "</h1>\n");
    put_paragraphs(out, "p", cadre_comparison_differing(c) ? "said bad" : "said",
                   cadre_report_sentences, c);
    put_table(out, c);
    cadre_text_printf(out, "<div class=\"charts\">\n");
    put_losses(out, c);
    put_bars(out, c);
    cadre_text_printf(out, "</div>\n");
    cadre_report_instances(c, out);
    cadre_report_schedules(c, out);
    put_certificates(out, c);
    put_foot(out, c);
    cadre_text_printf(out, "</body>\n</html>\n");
}
