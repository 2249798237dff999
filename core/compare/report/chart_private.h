/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the charts share. */
#ifndef CADRE_COMPARE_REPORT_CHART_PRIVATE_H
#define CADRE_COMPARE_REPORT_CHART_PRIVATE_H

#include "core/compare/report/chart.h"

enum {
    WIDTH = 500,
    RIGHT = 16,
    TOP = 34,
    NAME_CHARS = 16, /* shown of a name; the whole is in its title */
    GANTT_WIDTH = 1120,
    GANTT_LEFT = 90, /* room for names of rows */
    GANTT_ROW = 26,
    STYLES = 6, /* classes s0 ... s5 of the page */
};

/* At most `most` characters, escaped, then an ellipsis. */
void cadre_chart_put_text(struct cadre_text *out, const char *text, size_t most);

/* <figure> and <svg> with their title, and the end of both. */
void cadre_chart_begin(struct cadre_text *out, const char *title, int width, int height,
                       const char *class);
void cadre_chart_end(struct cadre_text *out);

/* A path's data: the shape of series i around (x, y). With the colour, i % STYLES, the
 * first 24 series differ from each other. */
void cadre_chart_shape(struct cadre_text *out, size_t i, double x, double y);

/* 1, 2 or 5 times a power of ten, so that `span` takes about `wanted` of them. */
double cadre_chart_step(double span, double wanted);

#endif
