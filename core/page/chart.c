/* SPDX-License-Identifier: Apache-2.0 */
#include "core/page/chart.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/base/utf8.h"
#include "core/page/chart_private.h"

enum {
    LEFT = 56, /* of a curve's plot */
    PLOT_HEIGHT = 220,
    LEGEND_ROW = 20,
    POINTS = 400, /* of a curve */
    SHAPES_OF_A_CURVE = 9, /* where colours repeat */
    LABEL_CHAR = 7, /* width of a digit in a box */
};

static void put_char(struct cadre_text *out, const char *at, size_t n)
{
    if (n != 1)
        cadre_text_append(out, n ? at : "\xef\xbf\xbd", n ? n : 3);
    else if (*at == '&')
        cadre_text_printf(out, "&amp;");
    else if (*at == '<')
        cadre_text_printf(out, "&lt;");
    else if (*at == '>')
        cadre_text_printf(out, "&gt;");
    else if (*at == '"')
        cadre_text_printf(out, "&quot;");
    else if (*at == '\'')
        cadre_text_printf(out, "&#39;");
    else
        cadre_text_append(out, (unsigned char)*at < 0x20 || *at == 0x7f ? "?" : at, 1);
}

void cadre_chart_put_text(struct cadre_text *out, const char *text, size_t most)
{
    size_t left = strlen(text);
    for (size_t shown = 0; left > 0; shown++) {
        size_t n = cadre_utf8_char(text, left);
        size_t bytes = n ? n : 1;
        if (shown == most) {
            cadre_text_printf(out, "\xe2\x80\xa6");
            return;
        }
        put_char(out, text, n);
        text += bytes;
        left -= bytes;
    }
}

void cadre_chart_text(struct cadre_text *out, const char *text)
{
    cadre_chart_put_text(out, text, SIZE_MAX);
}

void cadre_chart_begin(struct cadre_text *out, const char *title,
                       struct cadre_text *desc, const int size[2], const char *class)
{
    cadre_text_printf(out,
                      "<figure>\n<svg class=\"%s\" viewBox=\"0 0 %d %d\" role=\"img\" "
                      "xmlns=\"http://www.w3.org/2000/svg\">\n<title>",
                      class, size[0], size[1]);
    cadre_chart_text(out, title);
    cadre_text_printf(out, "</title>\n<desc>");
    cadre_chart_text(out, cadre_text_str(desc));
    out->failed = out->failed || desc->failed;
    cadre_text_fini(desc);
    cadre_text_printf(out, "</desc>\n<text class=\"head\" x=\"0\" y=\"16\">");
    cadre_chart_text(out, title);
    cadre_text_printf(out, "</text>\n");
}

void cadre_chart_end(struct cadre_text *out)
{
    cadre_text_printf(out, "</svg>\n</figure>\n");
}

void cadre_chart_shape(struct cadre_text *out, size_t i, double x, double y)
{
    static const char *const shapes[] = {
        "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", /* disc */
        "m-3.5 -3.5h7v7h-7z", /* square */
        "m0 -5l4.5 8.5h-9z", /* triangle */
        "m0 -5l5 5l-5 5l-5 -5z", /* diamond */
    };
    size_t shape = (i + i / 12) % 4;
    cadre_text_printf(out, "M%.1f %.1f%s", x, y, shapes[shape]);
}

const char *cadre_chart_again(size_t i)
{
    static const char *const classes[] = {"", " again", " third", " third again"};
    return classes[i / STYLES % 4];
}

double cadre_chart_step(double span, double wanted)
{
    double raw = span / wanted;
    double power = pow(10, floor(log10(raw)));
    double digit = raw / power;
    return power * (digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10);
}

/* ---- curves ---- */

struct frame {
    double low, high; /* of y */
    double steps; /* x runs from 1 to it */
    const double *const *x; /* of each series; NULL: 1, 2, ... */
};

static double x_at(const struct frame *f, double step)
{
    double width = WIDTH - LEFT - RIGHT;
    return LEFT + width * (f->steps > 1 ? (step - 1) / (f->steps - 1) : 0.5);
}

static double y_at(const struct frame *f, double value)
{
    return TOP + PLOT_HEIGHT * (f->high - value) / (f->high - f->low);
}

/* The step of point k of series i. */
static double step_of(const struct frame *f, size_t i, size_t k)
{
    return f->x ? f->x[i][k] : (double)k + 1;
}

static struct frame frame_of(const struct cadre_chart_series *series,
                             const double *const *x, size_t n)
{
    struct frame f = {INFINITY, -INFINITY, 1, x};
    for (size_t i = 0; i < n; i++) {
        if (series[i].n > 0)
            f.steps = fmax(f.steps, step_of(&f, i, series[i].n - 1));
        for (size_t k = 0; k < series[i].n; k++) {
            if (!isfinite(series[i].y[k]))
                continue;
            f.low = fmin(f.low, series[i].y[k]);
            f.high = fmax(f.high, series[i].y[k]);
        }
    }
    if (!isfinite(f.low)) {
        f.low = 0;
        f.high = 1;
    }
    /* the ticks differ in the five digits that they have */
    const double size = fmax(fabs(f.low), fabs(f.high));
    double span = fmax(f.high - f.low, fmax(0.0125 * size, 1e-300));
    if (f.high == f.low) /* a flat curve has an axis with different numbers too */
        span = 10 * fmax(fabs(f.high), 1e-300);
    f.low -= 0.04 * span;
    f.high += 0.04 * span;
    return f;
}

static void put_y_axis(struct cadre_text *out, const struct frame *f)
{
    double step = cadre_chart_step(f->high - f->low, 5);
    for (int i = 0; i < 12; i++) {
        double value = (ceil(f->low / step) + i) * step;
        if (value > f->high)
            break;
        double y = y_at(f, value);
        cadre_text_printf(out,
                          "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" "
                          "y2=\"%.1f\"/><text class=\"tick\" text-anchor=\"end\" "
                          "x=\"%d\" y=\"%.1f\">%.5g</text>\n",
                          LEFT, WIDTH - RIGHT, y, y, LEFT - 8, y + 4,
                          fabs(value) < 1e-9 * step ? 0 : value);
    }
}

static void put_x_axis(struct cadre_text *out, const struct frame *f)
{
    double step = fmax(1, cadre_chart_step(f->steps, 6));
    int y = TOP + PLOT_HEIGHT;
    for (int i = 0; i < 12; i++) {
        double value = i == 0 ? 1 : i * step;
        if (value > f->steps || (i > 0 && value <= 1))
            continue;
        cadre_text_printf(out,
                          "<text class=\"tick\" text-anchor=\"middle\" x=\"%.1f\" "
                          "y=\"%d\">%.6g</text>\n",
                          x_at(f, value), y + 18, value);
    }
    cadre_text_printf(out,
                      "<line class=\"axis\" x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\"/>"
                      "<text class=\"tick\" text-anchor=\"end\" x=\"%d\" y=\"%d\">"
                      "step</text>\n",
                      LEFT, WIDTH - RIGHT, y, y, WIDTH - RIGHT, y + 34);
}

/* Colours and dashes repeat after STYLES curves: shapes along the later ones tell them
 * from the first. */
static void put_shapes(struct cadre_text *out, const struct frame *f,
                       const struct cadre_chart_series *series, size_t style)
{
    cadre_text_printf(out, "<path class=\"bar s%zu\" d=\"", style % STYLES);
    for (size_t k = 0; k < SHAPES_OF_A_CURVE; k++) {
        size_t at = series->n * (2 * k + 1) / (2 * SHAPES_OF_A_CURVE);
        if (at < series->n && isfinite(series->y[at]))
            cadre_chart_shape(out, style, x_at(f, step_of(f, style, at)),
                              y_at(f, series->y[at]));
    }
    cadre_text_printf(out, "\"/>\n");
}

/* A point between gaps, such as the only evaluation of a run: a line would not show. */
static void add_lonely(struct cadre_text *lonely, const struct frame *f,
                       const struct cadre_chart_series *series, size_t style, size_t k)
{
    cadre_chart_shape(lonely, style, x_at(f, step_of(f, style, k)),
                      y_at(f, series->y[k]));
}

static void put_curve(struct cadre_text *out, const struct frame *f,
                      const struct cadre_chart_series *series, size_t style)
{
    size_t every = f->x ? 1 : (series->n + POINTS - 1) / POINTS;
    size_t stroke = 0, last = 0; /* points of the line so far, the latest of them */
    struct cadre_text lonely = {0};
    cadre_text_printf(out, "<path class=\"line s%zu%s\" d=\"", style % STYLES,
                      style < STYLES ? "" : " again");
    for (size_t k = 0; k < series->n; k++) {
        if (k % every != 0 && k + 1 != series->n)
            continue;
        if (isfinite(series->y[k])) {
            cadre_text_printf(out, "%s%.1f %.1f", stroke ? "L" : "M",
                              x_at(f, step_of(f, style, k)), y_at(f, series->y[k]));
            last = k;
            stroke++;
            continue;
        }
        if (stroke == 1)
            add_lonely(&lonely, f, series, style, last);
        stroke = 0;
    }
    if (stroke == 1)
        add_lonely(&lonely, f, series, style, last);
    cadre_text_printf(out, "\"><title>");
    cadre_chart_text(out, series->name);
    cadre_text_printf(out, "</title></path>\n");
    if (lonely.len > 0)
        cadre_text_printf(out, "<path class=\"bar s%zu\" d=\"%s\"/>\n", style % STYLES,
                          cadre_text_str(&lonely));
    out->failed = out->failed || lonely.failed;
    cadre_text_fini(&lonely);
    if (style >= STYLES)
        put_shapes(out, f, series, style);
}

static void put_legend(struct cadre_text *out, const struct cadre_chart_series *series,
                       size_t i, int at, int top)
{
    int x = LEFT + at % 2 * 230, y = top + at / 2 * LEGEND_ROW;
    cadre_text_printf(out, "<g><path class=\"line s%zu%s\" d=\"M%d %dh30\"/>",
                      i % STYLES, i < STYLES ? "" : " again", x, y);
    if (i >= STYLES) {
        cadre_text_printf(out, "<path class=\"bar s%zu\" d=\"", i % STYLES);
        cadre_chart_shape(out, i, x + 15, y);
        cadre_text_printf(out, "\"/>");
    }
    cadre_text_printf(out, "<text x=\"%d\" y=\"%d\">", x + 38, y + 4);
    cadre_chart_put_text(out, series[i].name, NAME_CHARS);
    cadre_text_printf(out, "</text><title>");
    cadre_chart_text(out, series[i].name);
    cadre_text_printf(out, "</title></g>\n");
}

/* Of a curve in words. */
static void put_ends(struct cadre_text *desc, const struct cadre_chart_series *series)
{
    double first = series->y[0], last = series->y[series->n - 1];
    if (isfinite(first) && isfinite(last))
        cadre_text_printf(desc, ": from %.5g to %.5g", first, last);
}

void cadre_chart_lines(struct cadre_text *out, const char *title, const char *y_label,
                       const struct cadre_chart_series *series, size_t n)
{
    cadre_chart_curves(out, title, y_label, series, NULL, n);
}

void cadre_chart_curves(struct cadre_text *out, const char *title, const char *y_label,
                        const struct cadre_chart_series *series, const double *const *x,
                        size_t n)
{
    struct frame f = frame_of(series, x, n);
    struct cadre_text desc = {0};
    int legend = TOP + PLOT_HEIGHT + 56, shown = 0;
    for (size_t i = 0; i < n; i++)
        if (series[i].n > 0) {
            cadre_text_printf(&desc, "%s%s, %zu steps", shown++ ? "; " : "",
                              series[i].name, series[i].n);
            put_ends(&desc, &series[i]);
        }
    const int size[] = {WIDTH, legend + (shown + 1) / 2 * LEGEND_ROW};
    cadre_chart_begin(out, title, &desc, size, "chart");
    put_y_axis(out, &f);
    put_x_axis(out, &f);
    cadre_text_printf(out, "<text class=\"tick\" x=\"0\" y=\"%d\">", TOP - 2);
    cadre_chart_text(out, y_label);
    cadre_text_printf(out, "</text>\n");
    for (size_t i = 0; i < n; i++)
        if (series[i].n > 0)
            put_curve(out, &f, &series[i], i);
    for (size_t i = 0, at = 0; i < n; i++)
        if (series[i].n > 0)
            put_legend(out, series, i, (int)at++, legend);
    cadre_chart_end(out);
}

/* ---- boxes over time ---- */

static double latest(const struct cadre_chart_box *boxes, size_t n)
{
    double end = 0;
    for (size_t i = 0; i < n; i++)
        end = fmax(end, boxes[i].end);
    return end > 0 ? end : 1;
}

static void put_time_axis(struct cadre_text *out, double end, double scale, int bottom)
{
    double step = cadre_chart_step(end, 10);
    for (int i = 0; i * step <= end * (1 + 1e-9); i++) {
        double x = GANTT_LEFT + i * step * scale;
        cadre_text_printf(out,
                          "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" "
                          "y2=\"%d\"/><text class=\"tick\" text-anchor=\"middle\" "
                          "x=\"%.1f\" y=\"%d\">%.6g</text>\n",
                          x, x, TOP - 6, bottom, x, bottom + 16, 1e3 * i * step);
    }
    cadre_text_printf(out,
                      "<text class=\"tick\" text-anchor=\"end\" x=\"%d\" y=\"%d\">ms"
                      "</text>\n",
                      GANTT_LEFT - 24, bottom + 16);
}

static void put_box(struct cadre_text *out, const struct cadre_chart_box *box,
                    double scale)
{
    const char *late = box->late ? " late" : "";
    double x = GANTT_LEFT + box->begin * scale;
    double width = (box->end - box->begin) * scale;
    int y = TOP + (int)box->row * GANTT_ROW;
    cadre_text_printf(out,
                      "<g><title>%s</title><rect class=\"bar s%u%s\" x=\"%.2f\" "
                      "y=\"%d\" width=\"%.2f\" height=\"%d\"/>",
                      box->title, box->style % STYLES, late, x, y,
                      fmax(width - 0.5, 0.5), GANTT_ROW - 6);
    if (width >= (double)(strlen(box->label) * LABEL_CHAR + 2))
        cadre_text_printf(out,
                          "<text class=\"box%s\" text-anchor=\"middle\" x=\"%.1f\" "
                          "y=\"%d\">%s</text>",
                          late, x + width / 2, y + 14, box->label);
    cadre_text_printf(out, "</g>\n");
}

void cadre_chart_gantt(struct cadre_text *out, const char *title,
                       const char *const *rows, size_t n_rows,
                       const struct cadre_chart_box *boxes, size_t n,
                       const char *const *kinds, size_t n_kinds)
{
    double end_s = latest(boxes, n), scale = (GANTT_WIDTH - GANTT_LEFT - RIGHT) / end_s;
    int bottom = TOP + (int)n_rows * GANTT_ROW;
    const int size[] = {GANTT_WIDTH, bottom + 48};
    struct cadre_text desc = {0};
    cadre_text_printf(&desc, "%zu passes on %zu rows over %.3g ms", n, n_rows,
                      1e3 * end_s);
    cadre_chart_begin(out, title, &desc, size, "gantt");
    put_time_axis(out, end_s, scale, bottom);
    for (size_t i = 0; i < n_rows; i++) {
        cadre_text_printf(out, "<text text-anchor=\"end\" x=\"%d\" y=\"%d\">",
                          GANTT_LEFT - 8, TOP + (int)i * GANTT_ROW + 15);
        cadre_chart_put_text(out, rows[i], NAME_CHARS);
        cadre_text_printf(out, "</text>\n");
    }
    for (size_t i = 0; i < n; i++)
        put_box(out, &boxes[i], scale);
    for (size_t i = 0; i < n_kinds; i++) {
        int x = GANTT_LEFT + (int)i * 150;
        cadre_text_printf(out,
                          "<rect class=\"bar s%zu\" x=\"%d\" y=\"%d\" width=\"12\" "
                          "height=\"12\"/><text x=\"%d\" y=\"%d\">",
                          i % STYLES, x, bottom + 28, x + 18, bottom + 39);
        cadre_chart_text(out, kinds[i]);
        cadre_text_printf(out, "</text>\n");
    }
    cadre_chart_end(out);
}
