/* SPDX-License-Identifier: Apache-2.0 */
/* Charts as inline SVG, for a page with the style classes of style.c. Every text
 * is escaped here. Series differ in colour and in dashes. */
#ifndef CADRE_PAGE_CHART_H
#define CADRE_PAGE_CHART_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/memory.h"

/* `text` for HTML and XML: markup escaped, control bytes as '?', invalid UTF-8 as
 * U+FFFD. */
void cadre_chart_text(struct cadre_text *out, const char *text);

struct cadre_chart_series {
    const char *name;
    const double *y; /* at x = 1, 2, ... n; gaps where not finite */
    size_t n;
};

/* Curves over steps, at most some hundred points of each drawn. */
void cadre_chart_lines(struct cadre_text *out, const char *title, const char *y_label,
                       const struct cadre_chart_series *series, size_t n);

/* The same at the steps x[i], which rise, of series i; every point is drawn. */
void cadre_chart_curves(struct cadre_text *out, const char *title, const char *y_label,
                        const struct cadre_chart_series *series, const double *const *x,
                        size_t n);

struct cadre_chart_bar {
    const char *name;
    double value; /* no bar where not finite */
    double low, high; /* a whisker from one to the other; none where not finite */
    double mark; /* a tick across the row, such as the ideal; none where not finite */
    char label[64]; /* printed at the bar's end */
};

struct cadre_chart_bars {
    const char *title;
    const char *mark; /* what the ticks are; NULL: there are none */
    const char *band; /* what a shaded band across all rows is; NULL: there is none */
    double band_low, band_high;
    const struct cadre_chart_bar *bar;
    size_t n;
};

/* Horizontal bars from 0, a row each. From the seventh on colours repeat with another
 * filling. */
void cadre_chart_bars(struct cadre_text *out, const struct cadre_chart_bars *chart);

/* A part of stacked bars. Kinds without a colour of their own: rest is grey, idle time
 * hollow. */
enum { CADRE_CHART_GREY = -1, CADRE_CHART_HOLLOW = -2 };
struct cadre_chart_kind {
    const char *name;
    int style; /* from 0 a colour, as of bars; or one of the above */
};

struct cadre_chart_stack_row {
    const char *name;
    const double *value; /* (n_kinds), none below 0; NULL: not known */
    const char *label; /* at the bar's end; where nothing is known, why */
};

struct cadre_chart_stack {
    const char *title;
    const struct cadre_chart_kind *kind;
    size_t n_kinds;
    const struct cadre_chart_stack_row *row;
    size_t n;
    /* a value as text, such as "1.2 ms" */
    const char *(*format)(double value, char *out, size_t size);
};

/* A bar a row, of its parts one behind the other, on one scale from 0. Kinds that no
 * row has are not in the legend. */
void cadre_chart_stack(struct cadre_text *out, const struct cadre_chart_stack *chart);

struct cadre_chart_scaling_point {
    const char *name;
    double x, y; /* not drawn where one is not finite */
    double low, high; /* a whisker; none where not finite */
    const char
        *group; /* those of an equal one are joined, in the order of x; or NULL */
};

/* Points over a number such as ranks, both axes from 0, with the line y = x / unit. */
struct cadre_chart_scaling {
    const char *title, *x_label, *y_label, *ideal; /* ideal: what the line is */
    double unit;
    const struct cadre_chart_scaling_point *point;
    size_t n;
};
void cadre_chart_scaling(struct cadre_text *out,
                         const struct cadre_chart_scaling *chart);

struct cadre_chart_point {
    double x, y; /* not drawn where y is not finite */
    size_t series;
    bool pale;
    char title[96];
};

/* A stretch of x. */
struct cadre_chart_span {
    double begin, end;
    bool shaded;
    char name[12]; /* above it */
    char title[120];
};

struct cadre_chart_points {
    const char *title, *x_label, *y_label;
    const char *const *series; /* names */
    size_t n_series;
    const struct cadre_chart_point *point; /* of one series in the order of x */
    size_t n_points;
    const struct cadre_chart_span *span;
    size_t n_spans;
};

/* Points over x from 0, those of a series joined by a thin line; a series has a colour
 * and a shape. */
void cadre_chart_points(struct cadre_text *out, const struct cadre_chart_points *chart);

struct cadre_chart_box {
    size_t row;
    double begin, end; /* s */
    unsigned style; /* colour, and what the legend calls it */
    bool late; /* a paler shade */
    char label[12]; /* in the box, where it fits */
    char title[96];
};

/* Boxes on rows over time; what is empty is idle. kinds (n_kinds): names of styles. */
void cadre_chart_gantt(struct cadre_text *out, const char *title,
                       const char *const *rows, size_t n_rows,
                       const struct cadre_chart_box *boxes, size_t n,
                       const char *const *kinds, size_t n_kinds);

#endif
