/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the charts share. */
#ifndef CADRE_PAGE_CHART_PRIVATE_H
#define CADRE_PAGE_CHART_PRIVATE_H

#include "core/page/chart.h"

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

/* <figure> and <svg> with their title, and the end of both. desc: the figures in words,
 * for those who do not see it; escaped here, emptied. */
void cadre_chart_begin(struct cadre_text *out, const char *title,
                       struct cadre_text *desc, const int size[2], const char *class);
void cadre_chart_end(struct cadre_text *out);

/* A path's data: the shape of series i around (x, y). With the colour, i % STYLES, the
 * first 24 series differ from each other. */
void cadre_chart_shape(struct cadre_text *out, size_t i, double x, double y);

/* What is added to the class of a bar, i / STYLES, where colours repeat: no two of 24
 * bars have the same colour and filling. Static. */
const char *cadre_chart_again(size_t i);

/* 1, 2 or 5 times a power of ten, so that `span` takes about `wanted` of them. */
double cadre_chart_step(double span, double wanted);

#endif
