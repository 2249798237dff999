/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/plan_page.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/page/build.h"
#include "core/page/chart.h"
#include "core/page/page.h"
#include "core/plan/refusals.h"

#define TITLE "Cadre plan: "
enum {
    MOST_BARS = 20, /* of one chart */
    MEMORY_KINDS = 7,
};

static const double GIB = 1073741824.0;

static double there(const struct cadre_plan_page *page)
{
    return page->hw->device.memory_gib - page->hw->device.reserve_gib;
}

static size_t shown(const struct cadre_plan_page *page)
{
    return page->search->legal < page->top ? page->search->legal : page->top;
}

static void put_said(struct cadre_text *out, const char *class, char *text_take)
{
    if (text_take)
        cadre_page_paragraph(out, class, text_take);
    else
        out->failed = true;
    free(text_take);
}

/* ---- the head ---- */

static void put_best(const struct cadre_plan_page *page, struct cadre_text *out)
{
    char stack[CADRE_CANDIDATE_STACK], form[CADRE_CANDIDATE_FORM], between[96] = "";
    const struct cadre_plan_found *f = page->search->found;
    if (page->search->legal == 0) {
        cadre_page_paragraph(out, "said bad",
                             "No candidate is predicted to fit and run; the reasons "
                             "are below.");
        return;
    }
    const struct cadre_plan_interval v = cadre_interval_of(
        page->intervals, f->forecast.step, f->candidate.zero >= 3, NULL);
    cadre_candidate_stack(&f->candidate, stack, sizeof stack);
    cadre_candidate_form(&f->candidate, form, sizeof form);
    if (v.rows)
        snprintf(between, sizeof between,
                 ", between %.4g s and %.4g s for %.0f %% of "
                 "steps",
                 v.low, v.high, 100 * CADRE_INTERVAL_PART);
    put_said(
        out, "said",
        cadre_format("Predicted to be fastest: %s (%s), %.4g s a step%s. What limits "
                     "it: %s.",
                     stack, form, f->forecast.step, between,
                     cadre_plan_cause_name(cadre_forecast_limit(&f->forecast))));
}

static const char *accounting_of(const struct cadre_hardware *hw)
{
    static const char *const text[] = {
        [CADRE_ACCOUNTING_CADRE] =
            "cadre: in 16 bits 2 + 4 + 12 bytes a parameter, its "
            "gradient and states",
        [CADRE_ACCOUNTING_MEGATRON] = "megatron: 2 + 4 + 12 bytes a parameter, its "
                                      "gradient and states",
        [CADRE_ACCOUNTING_ZERO2019] = "zero2019: 2 + 2 + 12 bytes a parameter, its "
                                      "gradient and states",
    };
    return text[hw->accounting];
}

static void put_setup(const struct cadre_plan_page *page, struct cadre_text *out)
{
    const struct cadre_plan_question *q = page->question;
    const struct cadre_transformer *t = &q->transformer;
    char date[CADRE_PAGE_DATE], model[224], batch[80], ranks[128], memory[128], all[80];
    char traits[CADRE_TRANSFORMER_TRAITS];
    cadre_transformer_traits(t, traits);
    snprintf(
        model, sizeof model,
        "%.3g B parameters: %lld layers, %lld channels, %lld heads, %lld of keys%s",
        cadre_transformer_parameters(t) / 1e9, (long long)t->layers,
        (long long)t->channels, (long long)t->heads, (long long)t->kv_heads, traits);
    snprintf(batch, sizeof batch, "%lld samples of %lld tokens",
             (long long)q->from.global_batch, (long long)t->context);
    snprintf(ranks, sizeof ranks, "%lld x %s", (long long)q->ranks, page->hw->name);
    snprintf(memory, sizeof memory,
             "%.4g GiB less a reserve of %.4g: %.4g are there for a rank",
             page->hw->device.memory_gib, page->hw->device.reserve_gib, there(page));
    snprintf(all, sizeof all, "%zu can run, %zu are refused", page->search->legal,
             page->search->n - page->search->legal);
    const struct cadre_page_item items[] = {
        {"figures", "predicted, none is measured"},
        {"page written", cadre_page_date(date)},
        {"page written by", cadre_page_build()},
        {"model", model},
        {"planned file", page->conf},
        {"global batch", batch},
        {"precision", q->dtypes ? "any" : cadre_plan_dtype_name(q->from.dtype)},
        {"ranks", ranks},
        {"hardware file", page->hardware},
        {"memory of a device", memory},
        {"accounting", accounting_of(page->hw)},
        {"candidates", all},
        {"command", page->command},
    };
    cadre_page_setup(out, items, sizeof items / sizeof items[0]);
}

/* ---- tables ---- */

static void row_of(const struct cadre_plan_found *f, size_t place,
                   struct cadre_text *out)
{
    char stack[CADRE_CANDIDATE_STACK], name[CADRE_CANDIDATE_STACK + 24];
    cadre_candidate_stack(&f->candidate, stack, sizeof stack);
    snprintf(name, sizeof name, "%zu: %s", place, stack);
    cadre_page_row_begin(out, name);
}

static void put_number(struct cadre_text *out, int digits, double value)
{
    char text[32];
    if (isfinite(value))
        snprintf(text, sizeof text, "%.*g", digits, value);
    else
        snprintf(text, sizeof text, "-");
    cadre_page_cell(out, "", text);
}

static void put_candidate(const struct cadre_plan_page *page, size_t i,
                          struct cadre_text *out)
{
    const struct cadre_plan_found *f = &page->search->found[i];
    char form[CADRE_CANDIDATE_FORM], between[64] = "not known", most[40];
    const struct cadre_plan_interval v = cadre_interval_of(
        page->intervals, f->forecast.step, f->candidate.zero >= 3, NULL);
    cadre_candidate_form(&f->candidate, form, sizeof form);
    if (v.rows)
        snprintf(between, sizeof between, "%.4g to %.4g", v.low, v.high);
    row_of(f, i + 1, out);
    cadre_page_cell(out, "l w", form);
    put_number(out, 4, f->forecast.step);
    cadre_page_cell(out, "", between);
    snprintf(most, sizeof most, "%s%.4g",
             f->asked > 0 && f->asked < f->footprint.total ? "" : "at least ",
             f->footprint.total / GIB);
    cadre_page_cell(out, "", most);
    put_number(out, 4, f->asked > 0 ? f->asked / GIB : (double)NAN);
    cadre_page_cell(out, "l",
                    cadre_plan_cause_name(cadre_forecast_limit(&f->forecast)));
    cadre_page_row_end(out);
}

static void put_candidates(const struct cadre_plan_page *page, struct cadre_text *out)
{
    static const struct cadre_page_column head[] = {
        {"stack", true},
        {"form", true},
        {"predicted s a step", false},
        {"predicted interval, s", false},
        {"predicted GiB by formulas", false},
        {"predicted GiB its plugins ask for", false},
        {"predicted limit", true},
    };
    cadre_text_printf(out, "<h2>Predicted: stacks that fit, the fastest first</h2>\n");
    cadre_page_table_begin(out,
                           "Forecasts, not measurements. GiB of the rank that needs "
                           "most: by formulas without scratch and messages, and all "
                           "that its plugins plan for (-: not asked). The reserve is "
                           "in neither",
                           head, sizeof head / sizeof head[0]);
    for (size_t i = 0; i < shown(page); i++)
        put_candidate(page, i, out);
    cadre_page_table_end(out);
    if (page->search->legal > shown(page))
        put_said(out, "soft",
                 cadre_format("%zu candidates that can run are not shown; --top shows "
                              "more, --json has all.",
                              page->search->legal - shown(page)));
}

static void put_causes(const struct cadre_plan_page *page, struct cadre_text *out)
{
    struct cadre_page_column head[CADRE_PLAN_CAUSES + 1] = {{"stack", true},
                                                            {"step, predicted", false}};
    size_t n = 2;
    for (int k = 0; k < CADRE_PLAN_CAUSES; k++)
        if (k != CADRE_PLAN_CONTEXT) /* candidates do not divide it */
            head[n++] = (struct cadre_page_column){
                cadre_plan_cause_name((enum cadre_plan_cause)k), false};
    cadre_text_printf(out, "<h2>Predicted seconds of a step by cause</h2>\n");
    cadre_page_table_begin(out, "Predicted seconds; those of a row sum to its step",
                           head, n);
    for (size_t i = 0; i < shown(page); i++) {
        const struct cadre_plan_found *f = &page->search->found[i];
        row_of(f, i + 1, out);
        put_number(out, 4, f->forecast.step);
        for (int k = 0; k < CADRE_PLAN_CAUSES; k++)
            if (k != CADRE_PLAN_CONTEXT)
                put_number(out, 3, f->forecast.cause[k]);
        cadre_page_row_end(out);
    }
    cadre_page_table_end(out);
}

/* ---- bars ---- */

static const char *as_seconds(double value, char *out, size_t size)
{
    snprintf(out, size, "%.4g s", value);
    return out;
}

static const char *as_gib(double value, char *out, size_t size)
{
    snprintf(out, size, "%.4g GiB", value);
    return out;
}

/* Rows of a chart: names and labels are theirs. */
struct bars {
    size_t n;
    struct cadre_chart_stack_row row[MOST_BARS];
    char name[MOST_BARS][32], label[MOST_BARS][32];
    double gib[MOST_BARS][MEMORY_KINDS];
};

static void begin_bar(struct bars *bars, size_t i, const double *value)
{
    snprintf(bars->name[i], sizeof bars->name[i], "place %zu", i + 1);
    bars->row[i] = (struct cadre_chart_stack_row){
        .name = bars->name[i], .value = value, .label = bars->label[i]};
}

static void put_seconds(const struct cadre_plan_page *page, struct bars *bars,
                        struct cadre_text *out)
{
    struct cadre_chart_kind kind[CADRE_PLAN_CAUSES];
    int style = 0;
    for (int k = 0; k < CADRE_PLAN_CAUSES; k++)
        kind[k] =
            (struct cadre_chart_kind){cadre_plan_cause_name((enum cadre_plan_cause)k),
                                      k == CADRE_PLAN_BUBBLE     ? CADRE_CHART_HOLLOW
                                      : k == CADRE_PLAN_STRAGGLE ? CADRE_CHART_GREY
                                                                 : style++};
    for (size_t i = 0; i < bars->n; i++) {
        const struct cadre_forecast *forecast = &page->search->found[i].forecast;
        begin_bar(bars, i, forecast->cause);
        snprintf(bars->label[i], sizeof bars->label[i], "%.4g s", forecast->step);
    }
    const struct cadre_chart_stack chart = {
        .title = "Predicted time of a step, by its parts",
        .kind = kind,
        .n_kinds = CADRE_PLAN_CAUSES,
        .row = bars->row,
        .n = bars->n,
        .format = as_seconds,
    };
    cadre_chart_stack(out, &chart);
}

/* A whole bar is the device: what a rank takes, what is left of it, and the reserve. */
static void fill_memory(const struct cadre_plan_page *page,
                        const struct cadre_plan_found *f, double gib[MEMORY_KINDS])
{
    const struct cadre_footprint *b = &f->footprint;
    gib[0] = b->weights / GIB;
    gib[1] = b->gradients / GIB;
    gib[2] = b->states / GIB;
    gib[3] = b->activations / GIB;
    gib[4] = fmax(f->asked - b->total, 0) / GIB;
    gib[5] = fmax(there(page) - fmax(f->asked, b->total) / GIB, 0);
    gib[6] = page->hw->device.reserve_gib;
}

static void put_memory(const struct cadre_plan_page *page, struct bars *bars,
                       struct cadre_text *out)
{
    static const struct cadre_chart_kind kind[MEMORY_KINDS] = {
        {"weights", 0},
        {"gradients", 1},
        {"optimizer states", 2},
        {"activations", 3},
        {"more by plugins", 4},
        {"free at most", CADRE_CHART_HOLLOW},
        {"reserve", CADRE_CHART_GREY},
    };
    for (size_t i = 0; i < bars->n; i++) {
        const struct cadre_plan_found *f = &page->search->found[i];
        begin_bar(bars, i, bars->gib[i]);
        fill_memory(page, f, bars->gib[i]);
        snprintf(bars->label[i], sizeof bars->label[i], "%.4g GiB",
                 (f->asked > 0 ? f->asked : f->footprint.total) / GIB);
    }
    const struct cadre_chart_stack chart = {
        .title = "Predicted memory, at least, by its parts",
        .kind = kind,
        .n_kinds = MEMORY_KINDS,
        .row = bars->row,
        .n = bars->n,
        .format = as_gib,
    };
    cadre_chart_stack(out, &chart);
}

static void put_charts(const struct cadre_plan_page *page, struct cadre_text *out)
{
    struct bars *bars = cadre_calloc(1, sizeof *bars);
    out->failed = out->failed || !bars;
    if (bars && shown(page) > 0) {
        bars->n = shown(page) < MOST_BARS ? shown(page) : MOST_BARS;
        cadre_text_printf(out, "<div class=\"charts\">\n");
        put_seconds(page, bars, out);
        put_memory(page, bars, out);
        cadre_text_printf(out, "</div>\n");
        cadre_page_paragraph(
            out, "soft",
            "A place is that of the tables. A whole bar is the memory of the device: "
            "kinds by formulas of the rank that needs most, what its plugins ask for "
            "beyond them, such as scratch and messages in transit, what is left at "
            "most, and reserve_gib of the hardware file, which no rank is given. At a "
            "bar's end is what plugins ask for, or the sum by formulas where they were "
            "not asked.");
        if (shown(page) > bars->n)
            cadre_page_paragraph(out, "soft", "Bars are of the first 20 places.");
    }
    free(bars);
}

/* ---- what is refused ---- */

static void put_refused_stacks(const struct cadre_plan_page *page,
                               struct cadre_text *out)
{
    static const struct cadre_page_column head[] = {
        {"such as", true}, {"stacks", false}, {"reason", true}};
    struct cadre_plan_refusals *refusals = cadre_calloc(1, sizeof *refusals);
    out->failed = out->failed || !refusals;
    if (refusals)
        cadre_plan_refusals_count(refusals, page->search);
    if (refusals && refusals->n > 0) {
        cadre_text_printf(out, "<h2>Stacks of which nothing can run</h2>\n");
        cadre_page_table_begin(
            out,
            "By their first reason; where it is memory, predicted of "
            "the form that needs least",
            head, 3);
        for (size_t i = 0; i < refusals->n; i++) {
            const struct cadre_plan_reason *reason = &refusals->of[i];
            char stack[CADRE_CANDIDATE_STACK];
            cadre_candidate_stack(&page->search->found[reason->example].candidate,
                                  stack, sizeof stack);
            cadre_page_row_begin(out, stack);
            put_number(out, 9, (double)reason->stacks);
            cadre_page_cell(out, "l w", reason->why);
            cadre_page_row_end(out);
        }
        cadre_page_table_end(out);
        if (refusals->left_out)
            put_said(out, "soft",
                     cadre_format("%zu stacks have other reasons; --json has them.",
                                  refusals->left_out));
    }
    free(refusals);
}

/* Its formulas let it pass, and its plugins did not. */
static bool plugins_refused(const struct cadre_plan_page *page,
                            const struct cadre_plan_found *f)
{
    return *f->refused && f->forecast.step > 0 &&
           cadre_footprint_fits(&f->footprint, page->hw);
}

static void put_refused_by_plugins(const struct cadre_plan_page *page,
                                   struct cadre_text *out)
{
    static const struct cadre_page_column head[] = {{"stack", true},
                                                    {"form", true},
                                                    {"predicted s a step", false},
                                                    {"reason", true}};
    const struct cadre_plan_search *search = page->search;
    bool any = false;
    for (size_t i = search->legal; i < search->n; i++) {
        const struct cadre_plan_found *f = &search->found[i];
        char stack[CADRE_CANDIDATE_STACK], form[CADRE_CANDIDATE_FORM];
        if (!plugins_refused(page, f))
            continue;
        if (!any) {
            cadre_text_printf(out, "<h2>Refused by their plugins</h2>\n");
            cadre_page_table_begin(
                out, "The formulas let these pass; the plugins that would train do not",
                head, 4);
        }
        any = true;
        cadre_candidate_stack(&f->candidate, stack, sizeof stack);
        cadre_candidate_form(&f->candidate, form, sizeof form);
        cadre_page_row_begin(out, stack);
        cadre_page_cell(out, "l w", form);
        put_number(out, 4, f->forecast.step);
        cadre_page_cell(out, "l w", f->refused);
        cadre_page_row_end(out);
    }
    if (any)
        cadre_page_table_end(out);
}

/* ---- the page ---- */

static void put_drawing(const struct cadre_plan_page *page, struct cadre_text *out)
{
    if (!*page->drawing && !*page->drawing_note)
        return;
    cadre_text_printf(out, "<h2>Simulated: the fastest schedule</h2>\n");
    if (*page->drawing_note)
        cadre_page_paragraph(out, "soft", page->drawing_note);
    cadre_text_append(out, page->drawing, strlen(page->drawing));
}

static void put_notes(const struct cadre_plan_page *page, struct cadre_text *out)
{
    cadre_text_printf(out, "<h2>Notes</h2>\n");
    if (*page->own)
        cadre_page_paragraph(out, "soft", page->own);
    if (!page->asked)
        cadre_page_paragraph(out, "soft",
                             "Plugins were not asked: Cadre does not run so many ranks "
                             "today.");
    if (page->intervals && page->intervals->n)
        put_said(out, "soft",
                 cadre_format("Interval: predicted for %.0f %% of steps, by the errors "
                              "that such forecasts had of %zu published steps.",
                              100 * CADRE_INTERVAL_PART, page->intervals->n));
    cadre_page_paragraph(
        out, "soft",
        "Formulas, and where they fail: docs/planning.md. A run of the "
        "stack on the machine itself is what measures it: cadre train, "
        "cadre compare --predict.");
}

void cadre_plan_page(const struct cadre_plan_page *page, struct cadre_text *out)
{
    char *title = cadre_format(TITLE "%s on %lld x %s", page->conf,
                               (long long)page->question->ranks, page->hw->name);
    out->failed = out->failed || !title;
    if (!title)
        return;
    cadre_page_begin(out, title, title);
    free(title);
    cadre_page_paragraph(out, "said",
                         "Predicted, not measured: nothing was run. Every figure is a "
                         "forecast of formulas and a hardware file.");
    put_best(page, out);
    put_setup(page, out);
    put_candidates(page, out);
    put_charts(page, out);
    if (shown(page) > 0)
        put_causes(page, out);
    put_drawing(page, out);
    put_refused_stacks(page, out);
    put_refused_by_plugins(page, out);
    put_notes(page, out);
    cadre_page_end(out);
}

bool cadre_plan_page_is(const char *text)
{
    return strstr(text, "<title>" TITLE) != NULL;
}
