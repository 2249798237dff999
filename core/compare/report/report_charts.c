/* SPDX-License-Identifier: Apache-2.0 */
/* The charts of report.html: losses, figures with their intervals, pieces over time. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/median.h"
#include "core/page/chart.h"
#include "core/compare/report/figure.h"
#include "core/compare/report/report_private.h"
#include "core/compare/verdict/seeds.h"
#include "core/run/format.h"

/* ---- curves ---- */

/* A curve, less that of `base` if there is one; its name and values are freed by
 * free_curves. */
static bool take_losses(const struct cadre_record *record,
                        const struct cadre_record *base, char *name,
                        struct cadre_chart_series *series)
{
    size_t n = base && base->n < record->n ? base->n : record->n;
    double *losses = cadre_calloc(n, sizeof *losses);
    for (size_t k = 0; losses && k < n; k++)
        losses[k] = record->step[k].loss - (base ? base->step[k].loss : 0);
    *series = (struct cadre_chart_series){name, losses, n};
    return name && losses;
}

static void free_curves(struct cadre_chart_series *series, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free((void *)(uintptr_t)series[i].name);
        free((void *)(uintptr_t)series[i].y);
    }
    free(series);
}

static bool is_equal(const struct cadre_comparison *c, size_t i)
{
    enum cadre_equal equal = c->run[i].equal;
    return cadre_report_is_judged(c, i) &&
           (cadre_seeds_baseline(c, i) == i || equal == CADRE_EQUAL_EXACT ||
            equal == CADRE_EQUAL_WITHIN);
}

/* Runs besides the baselines that trained the same. */
static size_t n_equal(const struct cadre_comparison *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++)
        n += cadre_seeds_baseline(c, i) != i && is_equal(c, i);
    return n;
}

/* A curve for each run, or for each of its instances. One that trained the same as the
 * baseline would lie on its curve, and has none: see put_differences. */
static void put_losses(struct cadre_text *out, const struct cadre_comparison *c)
{
    size_t most = c->n, n = 0;
    for (size_t i = 0; i < c->n; i++)
        most += c->run[i].record.n_instances;
    struct cadre_chart_series *series = cadre_calloc(most, sizeof *series);
    bool good = series != NULL;
    for (size_t i = 0; good && i < c->n; i++) {
        static const struct cadre_record none = {0};
        bool drawn = cadre_seeds_baseline(c, i) == i || !is_equal(c, i);
        const struct cadre_record *record = drawn ? &c->run[i].record : &none;
        for (size_t k = 0; good && k < record->n_instances; k++)
            good = take_losses(&record->instance[k], NULL,
                               cadre_format("%s, instance %zu", c->run[i].name, k),
                               &series[n++]);
        if (good && record->n_instances == 0)
            good =
                take_losses(record, NULL, cadre_strdup(c->run[i].name), &series[n++]);
    }
    if (good)
        cadre_chart_lines(out,
                          n_equal(c) ? "Training loss, once where it is the same"
                                     : "Training loss",
                          "nats", series, n);
    out->failed = out->failed || !good;
    free_curves(series, n);
}

/* Losses of the same training lie on each other; what is left of them is drawn here.
 * A run that differs would hide it, and is seen in the chart before. */
static void put_differences(struct cadre_text *out, const struct cadre_comparison *c)
{
    struct cadre_chart_series *series = cadre_calloc(c->n, sizeof *series);
    size_t n = 0;
    bool good = series != NULL;
    for (size_t i = 0; good && i < c->n; i++) {
        static const struct cadre_record none = {0};
        bool drawn = is_equal(c, i); /* others keep their place, and so their colour */
        good = take_losses(drawn ? &c->run[i].record : &none,
                           &c->run[cadre_seeds_baseline(c, i)].record,
                           cadre_strdup(c->run[i].name), &series[n++]);
    }
    if (good && n_equal(c) > 0)
        cadre_chart_lines(out,
                          "Loss less the baseline's, of runs that trained the same",
                          "nats", series, n);
    out->failed = out->failed || !good;
    free_curves(series, n);
}

/* ---- bars ---- */

typedef void fill_bar(const struct cadre_comparison *c, size_t i,
                      struct cadre_chart_bar *bar);

static void set_bar(struct cadre_chart_bar *bar, const struct cadre_interval *figure)
{
    bool has = cadre_figure_is_interval(figure);
    bar->value = figure->value;
    bar->low = has ? figure->low : (double)NAN;
    bar->high = has ? figure->high : (double)NAN;
}

static void bar_speedup(const struct cadre_comparison *c, size_t i,
                        struct cadre_chart_bar *bar)
{
    set_bar(bar, &c->run[i].speed.speedup);
    bar->mark = *c->run[i].failure ? (double)NAN : c->run[i].N;
    cadre_figure_ratio(&c->run[i].speed.speedup, bar->label, sizeof bar->label);
}

static void bar_efficiency(const struct cadre_comparison *c, size_t i,
                           struct cadre_chart_bar *bar)
{
    set_bar(bar, &c->run[i].efficiency);
    bar->mark = *c->run[i].failure ? (double)NAN : 1;
    cadre_figure_percent(&c->run[i].efficiency, bar->label, sizeof bar->label);
}

static void bar_time(const struct cadre_comparison *c, size_t i,
                     struct cadre_chart_bar *bar)
{
    const struct cadre_compared_run *run = &c->run[i];
    set_bar(bar, &run->speed.period_s);
    bar->value = cadre_report_step_s(run);
    bar->mark = bar->value - run->speed.overhead_s.value;
    cadre_format_seconds(bar->value, bar->label, sizeof bar->label);
}

static void bar_bubble(const struct cadre_comparison *c, size_t i,
                       struct cadre_chart_bar *bar)
{
    struct cadre_interval bubble = c->run[i].speed.bubble_fraction;
    bool has = c->run[i].schedule.n > 0;
    bubble.value = has ? cadre_report_bubble(&c->run[i]) : (double)NAN;
    set_bar(bar, &bubble);
    bar->mark = c->run[i].bubble_replayed;
    cadre_figure_percent(&bubble, bar->label, sizeof bar->label);
}

static void bar_exposed(const struct cadre_comparison *c, size_t i,
                        struct cadre_chart_bar *bar)
{
    struct cadre_interval exposed = c->run[i].speed.comm_exposed_s;
    exposed.value = cadre_report_exposed_s(&c->run[i]);
    set_bar(bar, &exposed);
    cadre_format_seconds(bar->value, bar->label, sizeof bar->label);
}

static bool has_schedule(const struct cadre_comparison *c)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->run[i].schedule.n > 0)
            return true;
    return false;
}

static void fill_bars(const struct cadre_comparison *c, fill_bar *fill,
                      struct cadre_chart_bar *bars)
{
    for (size_t i = 0; i < c->n; i++) {
        const struct cadre_compared_run *run = &c->run[i];
        bars[i] = (struct cadre_chart_bar){
            .name = run->name, .low = NAN, .high = NAN, .mark = NAN};
        fill(c, i, &bars[i]);
        size_t used = strlen(bars[i].label);
        snprintf(bars[i].label + used, sizeof bars[i].label - used, "%s%s",
                 *run->implausible && isfinite(bars[i].value) ? " !" : "",
                 *run->failure ? " failed"
                 : run->fair   ? ""
                               : " unfair");
    }
}

static void put_bars(struct cadre_text *out, const struct cadre_comparison *c)
{
    static const struct {
        const char *title, *mark;
        fill_bar *fill;
        bool scheduled; /* drawn where a run has a schedule */
    } charts[] = {
        {"Speedup against the baseline", "ideal: N", bar_speedup, false},
        {"Efficiency", "ideal: 100 %", bar_efficiency, false},
        {"Time of a step", "ideal: the baseline's / N; beyond it is overhead", bar_time,
         false},
        {"Bubble", "of the schedule itself, by replay", bar_bubble, true},
        {"Exposed communication a step", NULL, bar_exposed, false},
    };
    const double control = c->run[c->baseline].speed.control;
    struct cadre_chart_bar *bars = cadre_calloc(c->n, sizeof *bars);
    out->failed = out->failed || !bars;
    for (size_t k = 0; bars && k < sizeof charts / sizeof charts[0]; k++) {
        bool band = charts[k].fill == bar_speedup && control > 0;
        struct cadre_chart_bars chart = {
            .title = charts[k].title,
            .mark = charts[k].mark,
            .band = band ? "control: the baseline against itself" : NULL,
            .band_low = band ? 1 / (1 + control) : 0,
            .band_high = band ? 1 + control : 0,
            .bar = bars,
            .n = c->n,
        };
        if (charts[k].scheduled && !has_schedule(c))
            continue;
        fill_bars(c, charts[k].fill, bars);
        cadre_chart_bars(out, &chart);
    }
    free(bars);
}

void cadre_report_charts(const struct cadre_comparison *c, struct cadre_text *out)
{
    cadre_text_printf(out, "<div class=\"charts\">\n");
    put_bars(out, c);
    cadre_report_scaling(c, out);
    put_losses(out, c);
    put_differences(out, c);
    cadre_text_printf(out, "</div>\n");
}

/* ---- pieces over time ---- */

/* Median time of the run's pieces; NaN without one or without memory. */
static double median_piece(const struct cadre_comparison *c, size_t run)
{
    size_t n = 0;
    double median = NAN, *sorted = cadre_calloc(c->n_pieces, sizeof *sorted);
    for (size_t i = 0; sorted && i < c->n_pieces; i++)
        if (c->piece[i].run == run && c->piece[i].round > 0)
            sorted[n++] = c->piece[i].period_s;
    if (n > 0)
        median = cadre_median(sorted, n);
    free(sorted);
    return median;
}

static void fill_points(const struct cadre_comparison *c,
                        struct cadre_chart_point *point)
{
    char text[32];
    for (size_t r = 0; r < c->n; r++) {
        double median = median_piece(c, r);
        for (size_t i = 0; i < c->n_pieces; i++) {
            const struct cadre_piece *piece = &c->piece[i];
            if (piece->run != r)
                continue;
            point[i] = (struct cadre_chart_point){
                .x = piece->begin_s,
                .y = 100 * piece->period_s / median,
                .series = r,
                .pale = piece->round == 0,
            };
            snprintf(point[i].title, sizeof point[i].title,
                     "%.24s, round %d, place %d: %s a step", c->run[r].name,
                     piece->round, piece->place + 1,
                     cadre_format_seconds(piece->period_s, text, sizeof text));
        }
    }
}

static size_t last_of_round(const struct cadre_comparison *c, size_t first)
{
    size_t last = first;
    while (last + 1 < c->n_pieces && c->piece[last + 1].round == c->piece[first].round)
        last++;
    return last;
}

static const struct cadre_speed_round *round_of(const struct cadre_comparison *c,
                                                int round)
{
    for (size_t i = 0; i < c->speed.n_rounds; i++)
        if (c->speed.round[i].round == round)
            return &c->speed.round[i];
    return NULL;
}

/* Pieces lie in the order of time, so that a round is a stretch of them. */
static size_t fill_spans(const struct cadre_comparison *c,
                         struct cadre_chart_span *span)
{
    size_t n = 0;
    for (size_t first = 0, last; first < c->n_pieces; first = last + 1, n++) {
        last = last_of_round(c, first);
        const struct cadre_piece *end = &c->piece[last];
        int round = c->piece[first].round;
        const struct cadre_speed_round *judged = round_of(c, round);
        double wall = isfinite(end->load.wall_s) ? end->load.wall_s : 0;
        span[n] = (struct cadre_chart_span){
            .begin = c->piece[first].begin_s,
            .end = end->begin_s + wall,
            .shaded = judged && judged->disturbed,
        };
        snprintf(span[n].name, sizeof span[n].name, round ? "%d" : "warm-up", round);
        snprintf(span[n].title, sizeof span[n].title, "round %d%s%s", round,
                 span[n].shaded ? ", disturbed: " : "",
                 span[n].shaded ? judged->why : "");
    }
    return n;
}

void cadre_report_pieces(const struct cadre_comparison *c, struct cadre_text *out)
{
    if (c->n_pieces == 0)
        return;
    struct cadre_chart_point *point = cadre_calloc(c->n_pieces, sizeof *point);
    struct cadre_chart_span *span = cadre_calloc(c->n_pieces, sizeof *span);
    const char **names = cadre_calloc(c->n, sizeof *names);
    if (point && span && names) {
        for (size_t i = 0; i < c->n; i++)
            names[i] = c->run[i].name;
        fill_points(c, point);
        const struct cadre_chart_points chart = {
            .title = "Pieces in the order of time",
            .x_label = "s since the first piece",
            .y_label = "% of the run's median",
            .series = names,
            .n_series = c->n,
            .point = point,
            .n_points = c->n_pieces,
            .span = span,
            .n_spans = fill_spans(c, span),
        };
        cadre_text_printf(out,
                          "<h2>Pieces</h2>\n<p class=\"soft\">Each point is one piece: "
                          "the same steps, started fresh. The height is its time over "
                          "the median of its run, so that what all runs share is the "
                          "machine: a slope is a drift, a step is another load. "
                          "Numbers are rounds; shaded ones were disturbed.</p>\n");
        cadre_chart_points(out, &chart);
    } else {
        out->failed = true;
    }
    free(point);
    free(span);
    free(names);
}
