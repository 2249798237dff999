/* SPDX-License-Identifier: Apache-2.0 */
/* Points over a number of ranks, and the ideal. */
#include <math.h>
#include <string.h>

#include "core/page/chart_private.h"

enum {
    LEFT = 56,
    HEIGHT = 240,
    LEGEND_ROW = 20,
    BESIDE = 9, /* between points of one x */
};

struct frame {
    double x, y; /* where the axes end; they begin at 0 */
};

static double x_at(const struct frame *f, double x)
{
    return LEFT + (WIDTH - LEFT - RIGHT) * x / f->x;
}

static double y_at(const struct frame *f, double y)
{
    return TOP + HEIGHT * (f->y - y) / f->y;
}

static bool is_drawn(const struct cadre_chart_scaling_point *point)
{
    return isfinite(point->x) && isfinite(point->y) && point->x > 0;
}

static struct frame frame_of(const struct cadre_chart_scaling *chart)
{
    struct frame f = {0, 0};
    for (size_t i = 0; i < chart->n; i++) {
        const struct cadre_chart_scaling_point *point = &chart->point[i];
        if (!is_drawn(point))
            continue;
        f.x = fmax(f.x, point->x);
        f.y = fmax(f.y, fmax(point->y, isfinite(point->high) ? point->high : 0));
    }
    f.y = fmax(f.y, f.x / chart->unit); /* the ideal ends in the picture */
    f.x = f.x > 0 ? 1.1 * f.x : 1;
    f.y = f.y > 0 ? 1.1 * f.y : 1;
    return f;
}

static void put_axes(struct cadre_text *out, const struct cadre_chart_scaling *chart,
                     const struct frame *f)
{
    double step = cadre_chart_step(f->y, 5);
    int bottom = TOP + HEIGHT;
    for (int i = 0; i * step <= f->y; i++)
        cadre_text_printf(out,
                          "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" "
                          "y2=\"%.1f\"/><text class=\"tick\" text-anchor=\"end\" "
                          "x=\"%d\" y=\"%.1f\">%.5g</text>\n",
                          LEFT, WIDTH - RIGHT, y_at(f, i * step), y_at(f, i * step),
                          LEFT - 8, y_at(f, i * step) + 4, i * step);
    step = fmax(1, cadre_chart_step(f->x, 8)); /* there are no half ranks */
    for (int i = 0; i * step <= f->x; i++)
        cadre_text_printf(out,
                          "<text class=\"tick\" text-anchor=\"middle\" x=\"%.1f\" "
                          "y=\"%d\">%.6g</text>\n",
                          x_at(f, i * step), bottom + 18, i * step);
    cadre_text_printf(out,
                      "<line class=\"axis\" x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\"/>"
                      "<text class=\"tick\" text-anchor=\"end\" x=\"%d\" y=\"%d\">",
                      LEFT, WIDTH - RIGHT, bottom, bottom, WIDTH - RIGHT, bottom + 34);
    cadre_chart_text(out, chart->x_label);
    cadre_text_printf(out, "</text><text class=\"tick\" x=\"0\" y=\"%d\">", TOP - 2);
    cadre_chart_text(out, chart->y_label);
    cadre_text_printf(out, "</text>\n");
}

/* Points of one x stand side by side, around it. */
static double x_of(const struct cadre_chart_scaling *chart, const struct frame *f,
                   size_t i)
{
    int before = 0, all = 0;
    for (size_t k = 0; k < chart->n; k++) {
        bool same =
            is_drawn(&chart->point[k]) && chart->point[k].x == chart->point[i].x;
        before += same && k < i;
        all += same;
    }
    return x_at(f, chart->point[i].x) + BESIDE * (before - (all - 1) / 2.0);
}

/* The next point of its group to the right; n: none. */
static size_t next_of(const struct cadre_chart_scaling *chart, size_t i)
{
    const struct cadre_chart_scaling_point *from = &chart->point[i];
    size_t next = chart->n;
    for (size_t k = 0; k < chart->n && from->group; k++) {
        const struct cadre_chart_scaling_point *to = &chart->point[k];
        if (is_drawn(to) && to->group && strcmp(to->group, from->group) == 0 &&
            to->x > from->x && (next == chart->n || to->x < chart->point[next].x))
            next = k;
    }
    return next;
}

static void put_point(struct cadre_text *out, const struct cadre_chart_scaling *chart,
                      const struct frame *f, size_t i)
{
    const struct cadre_chart_scaling_point *point = &chart->point[i];
    double x = x_of(chart, f, i), y = y_at(f, point->y);
    size_t next = next_of(chart, i);
    if (next < chart->n)
        cadre_text_printf(
            out, "<path class=\"thread s%zu\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n",
            i % STYLES, x, y, x_of(chart, f, next), y_at(f, chart->point[next].y));
    if (isfinite(point->low) && isfinite(point->high))
        cadre_text_printf(out, "<path class=\"whisker\" d=\"M%.1f %.1fV%.1f\"/>\n", x,
                          y_at(f, point->low), y_at(f, point->high));
    cadre_text_printf(out, "<path class=\"bar s%zu\" d=\"", i % STYLES);
    cadre_chart_shape(out, i, x, y);
    cadre_text_printf(out, "\"><title>");
    cadre_chart_text(out, point->name);
    cadre_text_printf(out, ": %.3g at %.6g</title></path>\n", point->y, point->x);
}

static void put_legend(struct cadre_text *out, const char *name, size_t i, int at,
                       int top)
{
    int x = LEFT + at % 2 * 230, y = top + at / 2 * LEGEND_ROW;
    cadre_text_printf(out, "<g><path class=\"bar s%zu\" d=\"", i % STYLES);
    cadre_chart_shape(out, i, x + 5, y);
    cadre_text_printf(out, "\"/><text x=\"%d\" y=\"%d\">", x + 16, y + 4);
    cadre_chart_put_text(out, name, NAME_CHARS);
    cadre_text_printf(out, "</text><title>");
    cadre_chart_text(out, name);
    cadre_text_printf(out, "</title></g>\n");
}

static void put_ideal(struct cadre_text *out, const struct cadre_chart_scaling *chart,
                      const struct frame *f)
{
    double end = f->x / 1.1;
    cadre_text_printf(out, "<path class=\"ideal\" d=\"M%.1f %.1fL%.1f %.1f\"><title>",
                      x_at(f, 0), y_at(f, 0), x_at(f, end), y_at(f, end / chart->unit));
    cadre_chart_text(out, chart->ideal);
    cadre_text_printf(out,
                      "</title></path><text class=\"tick\" text-anchor=\"end\" "
                      "x=\"%.1f\" y=\"%.1f\">",
                      x_at(f, end) - 12, y_at(f, end / chart->unit) + 2);
    cadre_chart_text(out, chart->ideal);
    cadre_text_printf(out, "</text>\n");
}

void cadre_chart_scaling(struct cadre_text *out,
                         const struct cadre_chart_scaling *chart)
{
    const struct frame f = frame_of(chart);
    struct cadre_text desc = {0};
    int legend = TOP + HEIGHT + 56, shown = 0;
    for (size_t i = 0; i < chart->n; i++)
        if (is_drawn(&chart->point[i]))
            cadre_text_printf(&desc, "%s%s: %.3g at %.6g", shown++ ? "; " : "",
                              chart->point[i].name, chart->point[i].y,
                              chart->point[i].x);
    const int size[] = {WIDTH, legend + (shown + 1) / 2 * LEGEND_ROW};
    cadre_chart_begin(out, chart->title, &desc, size, "chart");
    put_axes(out, chart, &f);
    put_ideal(out, chart, &f);
    shown = 0;
    for (size_t i = 0; i < chart->n; i++)
        if (is_drawn(&chart->point[i])) {
            put_point(out, chart, &f, i);
            put_legend(out, chart->point[i].name, i, shown++, legend);
        }
    cadre_chart_end(out);
}
