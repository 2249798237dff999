/* SPDX-License-Identifier: Apache-2.0 */
/* Points over time, with shaded stretches of it. */
#include <math.h>

#include "core/page/chart_private.h"

enum {
    LEFT = 62,
    PLOT_TOP = 58, /* below the title, the label and the names of stretches */
    HEIGHT = 240,
    LEGEND_COLUMNS = 5,
    LEGEND_ROW = 20,
};

struct frame {
    double end; /* of x, which begins at 0 */
    double low, high; /* of y */
};

static struct frame frame_of(const struct cadre_chart_points *chart)
{
    struct frame f = {0, INFINITY, -INFINITY};
    for (size_t i = 0; i < chart->n_points; i++) {
        f.end = fmax(f.end, chart->point[i].x);
        if (!isfinite(chart->point[i].y))
            continue;
        f.low = fmin(f.low, chart->point[i].y);
        f.high = fmax(f.high, chart->point[i].y);
    }
    for (size_t i = 0; i < chart->n_spans; i++)
        f.end = fmax(f.end, chart->span[i].end);
    if (!isfinite(f.low))
        f.low = f.high = 1;
    double span = fmax(f.high - f.low, 1e-3 * fmax(fabs(f.high), 1e-300));
    f.low -= 0.08 * span;
    f.high += 0.08 * span;
    f.end = f.end > 0 ? f.end : 1;
    return f;
}

static double x_at(const struct frame *f, double x)
{
    return LEFT + (GANTT_WIDTH - LEFT - RIGHT) * x / f->end;
}

static double y_at(const struct frame *f, double y)
{
    return PLOT_TOP + HEIGHT * (f->high - y) / (f->high - f->low);
}

static void put_spans(struct cadre_text *out, const struct cadre_chart_points *chart,
                      const struct frame *f)
{
    for (size_t i = 0; i < chart->n_spans; i++) {
        const struct cadre_chart_span *span = &chart->span[i];
        double begin = x_at(f, span->begin), end = x_at(f, span->end);
        cadre_text_printf(out,
                          "<rect class=\"%s\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" "
                          "height=\"%d\"><title>",
                          span->shaded ? "shaded" : "stretch", begin, PLOT_TOP,
                          fmax(end - begin, 0.5), HEIGHT);
        cadre_chart_text(out, span->title);
        cadre_text_printf(out,
                          "</title></rect><text class=\"tick\" text-anchor=\"middle\" "
                          "x=\"%.1f\" y=\"%d\">",
                          (begin + end) / 2, PLOT_TOP - 5);
        cadre_chart_text(out, span->name);
        cadre_text_printf(out, "</text>\n");
    }
}

static void put_axes(struct cadre_text *out, const struct cadre_chart_points *chart,
                     const struct frame *f)
{
    double step = cadre_chart_step(f->high - f->low, 5);
    int bottom = PLOT_TOP + HEIGHT;
    for (int i = 0; i < 12; i++) {
        double value = (ceil(f->low / step) + i) * step, y = y_at(f, value);
        if (value > f->high)
            break;
        cadre_text_printf(out,
                          "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" "
                          "y2=\"%.1f\"/><text class=\"tick\" text-anchor=\"end\" "
                          "x=\"%d\" y=\"%.1f\">%.5g</text>\n",
                          LEFT, GANTT_WIDTH - RIGHT, y, y, LEFT - 8, y + 4,
                          fabs(value) < 1e-9 * step ? 0 : value);
    }
    step = cadre_chart_step(f->end, 10);
    for (int i = 0; i * step <= f->end * (1 + 1e-9); i++)
        cadre_text_printf(out,
                          "<text class=\"tick\" text-anchor=\"middle\" x=\"%.1f\" "
                          "y=\"%d\">%.6g</text>\n",
                          x_at(f, i * step), bottom + 18, i * step);
    cadre_text_printf(out,
                      "<line class=\"axis\" x1=\"%d\" x2=\"%d\" y1=\"%d\" "
                      "y2=\"%d\"/><text class=\"tick\" text-anchor=\"end\" x=\"%d\" "
                      "y=\"%d\">",
                      LEFT, GANTT_WIDTH - RIGHT, bottom, bottom, GANTT_WIDTH - RIGHT,
                      bottom + 34);
    cadre_chart_text(out, chart->x_label);
    cadre_text_printf(out, "</text><text class=\"tick\" x=\"0\" y=\"%d\">", TOP);
    cadre_chart_text(out, chart->y_label);
    cadre_text_printf(out, "</text>\n");
}

static void put_series(struct cadre_text *out, const struct cadre_chart_points *chart,
                       const struct frame *f, size_t series)
{
    bool pen_down = false;
    cadre_text_printf(out, "<path class=\"thread s%zu\" d=\"", series % STYLES);
    for (size_t i = 0; i < chart->n_points; i++) {
        const struct cadre_chart_point *point = &chart->point[i];
        if (point->series != series || !isfinite(point->y))
            continue;
        cadre_text_printf(out, "%s%.1f %.1f", pen_down ? "L" : "M", x_at(f, point->x),
                          y_at(f, point->y));
        pen_down = true;
    }
    cadre_text_printf(out, "\"/>\n");
    for (size_t i = 0; i < chart->n_points; i++) {
        const struct cadre_chart_point *point = &chart->point[i];
        if (point->series != series || !isfinite(point->y))
            continue;
        cadre_text_printf(out, "<path class=\"bar s%zu%s\" d=\"", series % STYLES,
                          point->pale ? " late" : "");
        cadre_chart_shape(out, series, x_at(f, point->x), y_at(f, point->y));
        cadre_text_printf(out, "\"><title>");
        cadre_chart_text(out, point->title);
        cadre_text_printf(out, "</title></path>\n");
    }
}

static bool has_points(const struct cadre_chart_points *chart, size_t series)
{
    for (size_t i = 0; i < chart->n_points; i++)
        if (chart->point[i].series == series && isfinite(chart->point[i].y))
            return true;
    return false;
}

static void put_legend(struct cadre_text *out, const char *name, size_t i, size_t at,
                       int top)
{
    int width = (GANTT_WIDTH - LEFT) / LEGEND_COLUMNS;
    int x = LEFT + (int)(at % LEGEND_COLUMNS) * width;
    int y = top + (int)(at / LEGEND_COLUMNS) * LEGEND_ROW;
    cadre_text_printf(out, "<g><path class=\"bar s%zu\" d=\"", i % STYLES);
    cadre_chart_shape(out, i, x + 5, y);
    cadre_text_printf(out, "\"/><text x=\"%d\" y=\"%d\">", x + 16, y + 4);
    cadre_chart_put_text(out, name, NAME_CHARS);
    cadre_text_printf(out, "</text><title>");
    cadre_chart_text(out, name);
    cadre_text_printf(out, "</title></g>\n");
}

void cadre_chart_points(struct cadre_text *out, const struct cadre_chart_points *chart)
{
    struct frame f = frame_of(chart);
    int legend = PLOT_TOP + HEIGHT + 56;
    int rows = ((int)chart->n_series + LEGEND_COLUMNS - 1) / LEGEND_COLUMNS;
    const int size[] = {GANTT_WIDTH, legend + rows * LEGEND_ROW};
    struct cadre_text desc = {0};
    cadre_text_printf(&desc, "%zu points of %zu series: %s over %s", chart->n_points,
                      chart->n_series, chart->y_label, chart->x_label);
    cadre_chart_begin(out, chart->title, &desc, size, "gantt");
    put_spans(out, chart, &f);
    put_axes(out, chart, &f);
    for (size_t i = 0; i < chart->n_series; i++)
        if (has_points(chart, i))
            put_series(out, chart, &f, i);
    for (size_t i = 0, at = 0; i < chart->n_series; i++)
        if (has_points(chart, i))
            put_legend(out, chart->series[i], i, at++, legend);
    cadre_chart_end(out);
}
