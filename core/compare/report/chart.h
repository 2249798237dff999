/* SPDX-License-Identifier: Apache-2.0 */
/* Charts as inline SVG, for a page with the style classes of report_html.c. Every text
 * is escaped here. Series differ in colour and in dashes. */
#ifndef CADRE_COMPARE_REPORT_CHART_H
#define CADRE_COMPARE_REPORT_CHART_H

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

/* Horizontal bars from 0, a row each. From the seventh on bars are hatched by a paler
 * fill with an outline. */
void cadre_chart_bars(struct cadre_text *out, const struct cadre_chart_bars *chart);

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
